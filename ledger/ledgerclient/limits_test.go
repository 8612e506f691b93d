package ledgerclient

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// endless answers /v1/about, and everything else with the beginning of an answer and then spaces or
// letters, until the client hangs up.
type endless struct {
	begin  string // of the answer
	status int
	sent   atomic.Int64
}

func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/about" {
		_, _ = io.WriteString(w, `{"id":"11111111-1111-4111-8111-111111111111","created":"2026-01-01T00:00:00Z","currency":"EUR","origin":"x"}`)
		return
	}
	if e.status != http.StatusOK {
		w.Header().Set("Content-Type", problem.ContentType)
		w.WriteHeader(e.status)
	}
	_, err := io.WriteString(w, e.begin)
	for more := strings.Repeat("a", 64<<10); err == nil; {
		var n int
		n, err = io.WriteString(w, more)
		e.sent.Add(int64(n))
	}
}

func TestClient_EndlessAnswer_IsRefusedAfterItsLimit(t *testing.T) {
	calls := map[string]func(*Client) error{
		"a result": func(c *Client) error { return c.Withdraw(t.Context(), api.ObjectRequest{Key: "1", Object: "ann"}) },
		"stats":    func(c *Client) error { return check.Err(c.Stats(t.Context())) },
		"an order of one": func(c *Client) error {
			return check.Err(c.Quote(t.Context(), api.Order{Buyer: "acme", Question: "q", Objects: []string{"ann"}}))
		},
		"a release":    func(c *Client) error { return check.Err(c.Release(t.Context(), api.ReleaseRequest{Key: "1"})) },
		"a checkpoint": func(c *Client) error { return check.Err(c.Checkpoint(t.Context())) },
		"a proof":      func(c *Client) error { return check.Err(c.Consistency(t.Context(), 1, 2)) },
		"deliveries": func(c *Client) error {
			for _, err := range c.Deliveries(t.Context(), 1) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		for _, status := range []int{http.StatusOK, http.StatusConflict} {
			server := &endless{begin: `{"x":"`, status: status}
			s := httptest.NewServer(server)
			c := check.Value(Dial(t.Context(), s.URL, Options{}))(t)
			err := call(c)
			var p *api.Problem
			check.That(t, errors.As(err, &p) && p.Kind == problem.Unreachable &&
				strings.Contains(p.Detail, "bytes, the most that an answer to this request can have"), "%s, status %d: %v", name, status, err)
			_ = c.Close()
			s.CloseClientConnections()
			s.Close()
			const slack = 16 << 20 // what is in buffers of the two hosts
			sent := server.sent.Load()
			check.That(t, sent <= smallAnswer+perObject+slack, "%s, status %d: %d bytes were taken", name, status, sent)
		}
	}
}

func TestClient_CopyOfUnknownLength_IsRefused(t *testing.T) {
	s := httptest.NewServer(&endless{status: http.StatusOK})
	defer s.Close()
	c := check.Value(Dial(t.Context(), s.URL, Options{}))(t)
	defer func() { _ = c.Close() }()
	_, err := c.Backup(t.Context(), t.TempDir()+"/copy.db", nil)
	if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Kind != problem.Unreachable || !strings.Contains(p.Detail, "the size of the copy") {
		t.Error(err)
	}
	s.CloseClientConnections()
}

// The limit follows from what the caller has asked about.
func TestLimitOf_GrowsWithTheObjectsOfTheRequest(t *testing.T) {
	objects := func(n int) []string { return make([]string, n) }
	for name, test := range map[string]struct {
		in, out any
		most    int64
	}{
		"one result":         {&api.ObjectRequest{}, &httpapi.Done{}, smallAnswer},
		"statistics":         {nil, &api.Stats{}, smallAnswer},
		"a budget":           {&api.BudgetRequest{All: true}, &api.Budget{}, smallAnswer},
		"ten objects":        {&httpapi.Raise{RaiseRequest: api.RaiseRequest{Objects: objects(10)}}, &httpapi.Raised{}, smallAnswer + 10*perObject},
		"an enrolment":       {&httpapi.Enrolment{EnrollRequest: api.EnrollRequest{Objects: objects(3)}}, &api.EnrollResult{}, smallAnswer + 3*perObject},
		"all":                {&httpapi.Sell{SellRequest: api.SellRequest{Order: api.Order{All: true}}}, &httpapi.Sold{}, largeAnswer},
		"the largest":        {&api.Order{Objects: objects(api.MaxPanel)}, &api.Quote{}, largeAnswer},
		"a reservation":      {&httpapi.Capture{}, &httpapi.Sold{}, largeAnswer},
		"questions":          {nil, &httpapi.Questions{}, largeAnswer},
		"a person's account": {nil, &api.ObjectState{}, largeAnswer},
	} {
		got := limitOf(test.in, test.out)
		check.That(t, got == test.most, "%s: %d bytes, want %d", name, got, test.most)
	}
}

func TestReadLine_AtTheLimit(t *testing.T) {
	text := strings.Repeat("x", 9999) + "\n"
	in := bufio.NewReader(strings.NewReader(text + text + "cut"))
	line, err := readLine(in, 10_000)
	check.That(t, string(line) == text && err == nil, "%d bytes, %v", len(line), err)
	_, err = readLine(in, 9999)
	check.That(t, errors.As(err, new(*api.Problem)), "a line over the limit: %v", err)
	_, err = readLine(bufio.NewReader(strings.NewReader("cut")), 10)
	check.That(t, errors.Is(err, io.ErrUnexpectedEOF), "a line without an end: %v", err)
}

func TestBounded_AtTheLimit(t *testing.T) {
	read := func(n, most int64) error {
		got, err := io.ReadAll(bound(io.NopCloser(strings.NewReader(strings.Repeat("x", int(n)))), most))
		check.That(t, err != nil || int64(len(got)) == n, "%d of %d bytes", len(got), n)
		return err
	}
	check.OK(t, read(100_000, 100_000))
	err := read(100_001, 100_000)
	check.That(t, errors.As(err, new(*api.Problem)), "%v", err)
}
