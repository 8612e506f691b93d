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

// maxTold is how much a source of true values may answer for each value, in bytes: a value has at
// most 256.
const maxTold = 2 << 10

// TruthsAt returns a source of true values at a URL, which no request chooses: https, or http on
// this machine. It is posted {"question":"vote","objects":["17","18"]}, with at most 4,096 objects,
// and must answer {"values":["yes",""]}, in the same order; "" is for an object without a value. A
// token, unless "", is sent as a bearer. Redirections are not followed. No error contains the
// answer.
func TruthsAt(at, token string) (api.TruthFunc, error) {
	u, err := url.Parse(at)
	switch {
	case err != nil:
		return nil, errors.New("the URL of the true values is none")
	case u.User != nil || u.Fragment != "" || u.Host == "":
		return nil, errors.New("the URL of the true values must have a host, and neither a user nor a fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !IsLoopback(u.Hostname())):
		return nil, errors.New("the URL of the true values must be https://, or http:// on this machine")
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
		return told(client, request, len(objects))
	}, nil
}

// told asks for n values.
func told(client *http.Client, request *http.Request, n int) ([]string, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the source of true values does not answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the source of true values answers with status %d", response.StatusCode)
	}
	var answer struct {
		Values []string `json:"values"`
	}
	body := http.MaxBytesReader(nil, response.Body, int64(n+1)*maxTold)
	if err := json.UnmarshalRead(body, &answer, json.RejectUnknownMembers(true)); err != nil {
		// The error could have a value in it.
		return nil, errors.New("the source of true values answers with something else")
	}
	if len(answer.Values) != n {
		return nil, fmt.Errorf("the source of true values answers with %d values for %d objects", len(answer.Values), n)
	}
	return answer.Values, nil
}
