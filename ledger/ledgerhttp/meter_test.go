package ledgerhttp

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
)

// counting is a meter that remembers what it was told, but for the time that it took.
type counting struct {
	mu  sync.Mutex
	all []Answer
	l   *ledger.Ledger // that was shown last
}

func (c *counting) Answered(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Duration <= 0 {
		a.Route += " in no time"
	}
	a.Duration = 0
	c.all = append(c.all, a)
}

func (c *counting) ServeMetrics(w http.ResponseWriter, _ *http.Request, l *ledger.Ledger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.l = l
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "answered %d\n", len(c.all))
}

// Each request to a route is counted once, with how it ended, also if it was not let in; the meter is shown the ledger that is served.
func TestAMeterIsToldOfRequests(t *testing.T) {
	m := &counting{}
	f := serving(t, Options{Meter: m})
	for _, a := range []asked{
		{method: "GET", target: "/v1/about", role: "buyer acme"},
		{method: "GET", target: "/v1/about"},
		{method: "POST", target: "/v1/releases", body: `{}`, key: "k", role: "auditor"},
		{method: "GET", target: "/v1/sales/99", role: "operator"},
		{method: "GET", target: "/v1/sales", role: "operator"},
		{method: "GET", target: "/nowhere", role: "operator"},
		{method: "PUT", target: "/v1/about", role: "operator"},
		{method: "GET", target: "/healthz"},
	} {
		f.ask(a)
	}
	want := []Answer{{Route: "about", Status: 200}, {Route: "about", Status: 401}, {Route: "release", Status: 403}, {Route: "sale", Status: 404}, {Route: "sales", Status: 200}}
	if !slices.Equal(m.all, want) {
		t.Errorf("told was %+v", m.all)
	}
	status, header, body := f.ask(asked{method: "GET", target: "/metrics", role: "metrics"})
	if status != http.StatusOK || body != "answered 5\n" || header.Get("Content-Type") != "text/plain" || m.l != f.ledger {
		t.Errorf("%d, %v: %q", status, header, body)
	}
}

// A host that counts nothing has nothing at /metrics, and says so to those who may ask.
func TestWithoutAMeter(t *testing.T) {
	h, err := New(marketLedger(t, false), Options{Gate: byHeader{}})
	must(t, err)
	t.Cleanup(func() { _ = h.Ledger().Close() })
	f := &fixture{Handler: h, t: t}
	status, header, body := f.ask(asked{method: "GET", target: "/metrics", role: "metrics"})
	wantProblem(t, status, header, body, problem.NoRoute)
	status, header, body = f.ask(asked{method: "GET", target: "/metrics", role: "buyer acme"})
	wantProblem(t, status, header, body, problem.Forbidden)
}
