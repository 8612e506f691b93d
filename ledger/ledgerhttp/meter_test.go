package ledgerhttp

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
)

// answered is how a request was answered.
type answered struct {
	route  string
	status int
}

// counting remembers how requests were answered.
type counting struct {
	mu  sync.Mutex
	all []answered
	l   *ledger.Ledger // that was shown last
}

func (c *counting) note(route string, status int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took <= 0 {
		route += " in no time"
	}
	c.all = append(c.all, answered{route, status})
}

func (c *counting) serve(w http.ResponseWriter, _ *http.Request, l *ledger.Ledger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.l = l
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "answered %d\n", len(c.all))
}

// Each request to a route is reported once, also if it was not admitted. Metrics are of the ledger
// that is served.
func TestOptions_Answered_IsCalledForEachRequest(t *testing.T) {
	m := &counting{}
	f := serving(t, Options{Answered: m.note, Metrics: m.serve})
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
	want := []answered{{"about", 200}, {"about", 401}, {"release", 403}, {"sale", 404}, {"sales", 200}}
	check.That(t, slices.Equal(m.all, want), "Answered was called with %+v", m.all)
	status, header, body := f.ask(asked{method: "GET", target: "/metrics", role: "metrics"})
	check.That(t, status == http.StatusOK && body == "answered 5\n" && header.Get("Content-Type") == "text/plain" &&
		m.l == f.ledger, "%d, %v: %q", status, header, body)
}

// Without Options.Metrics there is nothing at /metrics, and only roles that may read it learn that.
func TestOptions_WithoutMetrics_NothingIsThere(t *testing.T) {
	h := check.Value(New(marketLedger(t, false), Options{Gate: byHeader}))(t)
	t.Cleanup(func() { _ = h.Ledger().Close() })
	f := &fixture{Handler: h, t: t}
	f.refuses(problem.NoRoute, asked{method: "GET", target: "/metrics", role: "metrics"})
	status, header, body := f.ask(asked{method: "GET", target: "/metrics", role: "buyer acme"})
	wantProblem(t, status, header, body, problem.Forbidden)
}
