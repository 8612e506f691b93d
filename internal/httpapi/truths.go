package httpapi

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/sluicedp/sluice/ledger/api"
)

// maxValueBytes is the maximum number of bytes that a source of true values may answer for each
// value. A value has at most 256 bytes.
const maxValueBytes = 2 << 10

// TruthsAt returns a source of true values that asks a URL. The URL comes from the host, never
// from a request, and must be https, or http on this machine. The source posts
// {"question":"vote","objects":["17","18"]}, with at most 4,096 objects. The answer must be
// {"values":["yes",""]}, in the same order; "" means that an object has no value. A token other
// than "" is sent as a bearer token. Redirects are not followed. No error contains the answer.
// TruthsAt checks the URL, but sends nothing to it.
func TruthsAt(at, token string) (api.TruthFunc, error) {
	u, err := url.Parse(at)
	switch {
	case err != nil:
		return nil, errors.New("the URL of the source of true values is malformed")
	case u.User != nil || u.Fragment != "" || u.Host == "":
		return nil, errors.New("the URL of the source of true values must have a host, and no user or fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !IsLoopback(u.Hostname())):
		return nil, errors.New("the URL of the source of true values must be https://, or http:// on this machine")
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, question string, objects []string) ([]string, error) {
		body, err := stdjson.Marshal(struct {
			Question string   `json:"question"`
			Objects  []string `json:"objects"`
		}{question, objects})
		if err != nil {
			return nil, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Content-Type", "application/json")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		return requestValues(client, request, len(objects))
	}, nil
}

// requestValues sends a request for n values, and returns them. Any answer but n values in JSON,
// with status 200, is an error.
func requestValues(client *http.Client, request *http.Request, n int) ([]string, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no answer from the source of true values: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the source of true values answered with status %d", response.StatusCode)
	}
	var answer struct {
		Values []string `json:"values"`
	}
	body := http.MaxBytesReader(nil, response.Body, int64(n+1)*maxValueBytes) // one more for the rest of the JSON
	if err := json.UnmarshalRead(body, &answer, json.RejectUnknownMembers(true)); err != nil {
		// The error of the decoder could contain a true value.
		return nil, errors.New("the answer of the source of true values is not {\"values\": […]}, or is too long")
	}
	if len(answer.Values) != n {
		return nil, fmt.Errorf("the source of true values answered with %d values for %d objects",
			len(answer.Values), n)
	}
	return answer.Values, nil
}
