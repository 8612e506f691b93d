package ledgerclient

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// Options configure how a client connects to a server. The zero value is ready for use.
type Options struct {
	Token string // sent as a bearer token; "" sends none
	// HTTP sends the requests, for example with a client certificate; nil means a client of its
	// own. For the address of a Unix socket its transport is not used.
	HTTP *http.Client
}

// Client calls a ledger that another process has open. Its methods may be called concurrently.
type Client struct {
	base  string // the address of the server, to which the paths of requests are added
	token string
	http  *http.Client
	about api.About // as Dial has read it
}

// Dial returns a client of the server at an address: https://…, http://… on this machine, or
// unix:PATH. It reads which ledger the server has, so that a wrong address or token is an error at
// once.
//
// On Linux, Dial protects against a Unix socket that another user has placed as a trap. Nothing is
// sent unless the server runs as root or as this user, or only the server's user, root and this
// user can write to the directories of the path. Otherwise the error is [api.ErrInvalid].
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	c := &Client{token: o.Token, http: &http.Client{}}
	if o.HTTP != nil {
		copied := *o.HTTP // the caller's own client is not changed
		c.http = &copied
	}
	// Redirects are not followed, because the token is for this address only.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if err := c.locate(address); err != nil {
		return nil, err
	}
	about, err := get[api.About](ctx, c, "/v1/about", nil)
	if err == nil {
		err = checkAbout(about)
	}
	if c.about = about; err != nil {
		_ = c.Close() // the caller gets no client that it could close itself
		return nil, err
	}
	return c, nil
}

// checkAbout returns an error that lists the required fields that are missing or invalid, if there
// are any. Any web server may answer with a JSON object that is not from a ledger.
func checkAbout(a api.About) error {
	var missing []string
	for name, isMissing := range map[string]bool{
		"id":       uuid.Validate(a.ID) != nil,
		"created":  a.Created.IsZero(),
		"currency": a.Currency == "",
		"origin":   a.Origin == "",
	} {
		if isMissing {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	const what = "the answer to /v1/about is not from a ledger, because it lacks %s: check the address"
	return problem.New(problem.Unreachable, what, strings.Join(missing, ", "))
}

// locate sets c.base from an address of one of the forms of [Dial]. For a Unix socket it also sets
// a transport that connects to the socket. It returns [api.ErrInvalid] for any other address.
func (c *Client) locate(address string) error {
	path, isSocket, err := httpapi.SocketPath(address)
	if err != nil {
		return err
	}
	if isSocket {
		c.base = "http://localhost" // the transport ignores this host
		c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialSocket(ctx, path)
		}}
		return nil
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: the address is not https://…, http://… on this machine, or unix:PATH", api.ErrInvalid)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%w: the address has a user, a query or a fragment", api.ErrInvalid)
	case u.Scheme == "http" && !httpapi.IsLoopback(u.Hostname()):
		return fmt.Errorf("%w: the address of another machine must begin with https://",
			api.ErrInvalid)
	}
	c.base = strings.TrimSuffix(address, "/")
	return nil
}

// Close closes idle connections. The ledger stays open in the server.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// About returns the settings that the ledger was created with, like [ledger.Ledger.About].
func (c *Client) About() api.About { return c.about }

// message is a request to the server. It is a POST if it has a body, otherwise a GET.
type message struct {
	path     string
	query    url.Values
	keyed    bool   // the request needs an idempotency key
	key      string // that key
	body     any    // nil for none
	accept   string // the media type of the answer; "" leaves the choice to the server
	most     int64  // maximum bytes of the answer or of the problem
	isStream bool   // the answer is read in parts, each with a limit of its own; most is only for the problem
}

// do sends a request and returns an answer with the status 200. It returns the problem of any other
// answer, or that there is no answer, as an error. The caller closes the body of the answer. Unless
// the answer is a stream, reading more than m.most bytes of its body is an error.
func (c *Client) do(ctx context.Context, m message) (*http.Response, error) {
	request, err := c.request(ctx, m)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	noteEvent(ctx, response.Header)
	if response.StatusCode != http.StatusOK || !m.isStream {
		response.Body = bound(response.Body, m.most)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, problemOf(ctx, response)
}

// request returns the HTTP request of a message. It returns [api.ErrInvalid] if the body cannot be
// sent as JSON, or if the idempotency key is needed and empty.
func (c *Client) request(ctx context.Context, m message) (*http.Request, error) {
	at := c.base + m.path
	if len(m.query) > 0 {
		at += "?" + m.query.Encode()
	}
	var body io.Reader
	method := http.MethodGet
	if m.body != nil {
		method = http.MethodPost
		// This marshaler refuses text that is not UTF-8, which encoding/json would change. A nil
		// list becomes null, because an empty list, such as one of no output names, is a different
		// request.
		text, err := json.Marshal(m.body, json.FormatNilSliceAsNull(true))
		if err != nil {
			return nil, fmt.Errorf("%w: the request has a text that is not UTF-8, or a number that JSON does not have",
				api.ErrInvalid)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	if m.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if m.keyed {
		if m.key == "" {
			return nil, fmt.Errorf("%w: the idempotency key is empty", api.ErrInvalid)
		}
		request.Header.Set(httpapi.KeyHeader, httpapi.QuotedKey(m.key))
	}
	if m.accept != "" {
		request.Header.Set("Accept", m.accept)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// unreachable returns the error for a server that did not answer, or whose answer broke off or
// cannot be decoded. If ctx has ended, that is the error of ctx. If the server at a socket is not
// trusted, it is the [*serverError]. Otherwise it is a problem of the kind "unreachable".
func unreachable(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	if untrusted, is := errors.AsType[*serverError](err); is {
		return untrusted
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // omit the URL, which contains names of people
	}
	return problem.New(problem.Unreachable, "no answer from the server: %v", err)
}

// problemOf returns the problem in a server's answer as an error. An answer that is too long, or is
// not a problem, results in a problem of the kind "unreachable". If ctx has ended, the result for
// an answer that is not a problem is the error of ctx.
func problemOf(ctx context.Context, response *http.Response) error {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	p := &api.Problem{}
	err := stdjson.NewDecoder(response.Body).Decode(p)
	if errors.As(err, new(*api.Problem)) {
		return err // the answer exceeds its limit
	}
	if media != problem.ContentType || err != nil || p.Kind == "" {
		if cause := ctx.Err(); cause != nil {
			return cause
		}
		const what = "status %d, and the answer is not from a ledger: check the address"
		return problem.New(problem.Unreachable, what, response.StatusCode)
	}
	return problem.Restore(p)
}

// call sends a request, and decodes the answer, which is JSON, into the value that out points to.
// It sets m.most.
func (c *Client) call(ctx context.Context, m message, out any) error {
	m.most = limitOf(m.body, out)
	text, err := c.readAll(ctx, m)
	if err != nil {
		return err
	}
	if err := stdjson.Unmarshal(text, out); err != nil {
		return unreachable(ctx, fmt.Errorf("the answer cannot be decoded: %w", err))
	}
	return nil
}

// ask sends a request and returns the decoded answer. After an error the result means nothing.
func ask[Out any](ctx context.Context, c *Client, m message) (out Out, err error) {
	err = c.call(ctx, m, &out)
	return out, err
}

// query returns query parameters from alternating names and values. It omits parameters whose
// value is false, "" or the zero time.
func query(pairs ...any) url.Values {
	out := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		text := fmt.Sprint(pairs[i+1])
		switch v := pairs[i+1].(type) {
		case bool:
			text = strings.TrimPrefix(text, "false")
		case time.Time:
			text = ""
			if !v.IsZero() {
				text = v.UTC().Format(time.RFC3339Nano)
			}
		}
		if text != "" {
			out.Set(pairs[i].(string), text)
		}
	}
	return out
}

func get[Out any](ctx context.Context, c *Client, path string, query url.Values) (Out, error) {
	return ask[Out](ctx, c, message{path: path, query: query})
}

func post[Out any](ctx context.Context, c *Client, path string, in any) (Out, error) {
	return ask[Out](ctx, c, message{path: path, body: in})
}

// change sends a request with an idempotency key.
func change[Out any](ctx context.Context, c *Client, path, key string, in any) (Out, error) {
	return ask[Out](ctx, c, message{path: path, keyed: true, key: key, body: in})
}

// changeOnly is change for a request that has no result.
func (c *Client) changeOnly(ctx context.Context, path, key string, in any) error {
	_, err := change[httpapi.Done](ctx, c, path, key, in)
	return err
}

// readAll sends a request, and returns the whole answer, which has at most m.most bytes. It returns
// a problem of the kind "unreachable" if the answer is longer, or ends before its Content-Length.
func (c *Client) readAll(ctx context.Context, m message) ([]byte, error) {
	response, err := c.do(ctx, m)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	switch {
	case errors.As(err, new(*api.Problem)):
		return nil, err // the answer exceeds its limit
	case err == nil && response.ContentLength >= 0 && int64(len(text)) != response.ContentLength:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	return text, nil
}
