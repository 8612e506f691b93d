package ledgerhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
)

// A standby says with each answer, also a problem, as of which event it answers; the host that has
// the ledger does not. What is asked about an event that a standby does not have yet is answered
// with 503.
func TestStandby_Answers_SayAsOfWhichEvent(t *testing.T) {
	a, b := couple(t)
	f := servingOf(t, b, Options{Leader: func(context.Context) (string, error) { return "a", nil }})
	stats := check.Value(b.Stats(t.Context()))(t)
	now := fmt.Sprint(stats.Events)
	for _, ask := range []asked{
		{method: "GET", target: "/v1/stats", role: "operator"},
		{method: "GET", target: "/v1/questions", role: "auditor"},
		{method: "GET", target: "/v1/events", role: "auditor"},
		{method: "GET", target: "/v1/sales/99", role: "operator"},
		{method: "GET", target: "/v1/head?events=" + now, role: "metrics"},
		{method: "POST", target: "/v1/budgets", body: `{"question":"vote","all":true}`, role: "desk"},
	} {
		if _, header, body := f.ask(ask); header.Get(httpapi.EventHeader) != now {
			t.Errorf("%s: as of event %q, want %s: %s", ask.target, header.Get(httpapi.EventHeader), now, body)
		}
	}
	for _, target := range []string{fmt.Sprintf("/v1/head?events=%d", stats.Events+1), fmt.Sprintf("/v1/consistency?from=1&to=%d", stats.Events+1)} {
		status, header, body := f.ask(asked{method: "GET", target: target, role: "auditor"})
		wantProblem(t, status, header, body, problem.Behind)
		check.That(t, status == http.StatusServiceUnavailable && header.Get("Retry-After") != "",
			"%s: %d, Retry-After %q", target, status, header.Get("Retry-After"))
	}
	leader := servingOf(t, a, Options{})
	status, header, body := leader.ask(asked{method: "GET", target: "/v1/head?events=1000", role: "auditor"})
	wantProblem(t, status, header, body, problem.Invalid)
	event := header.Get(httpapi.EventHeader)
	check.That(t, event == "", "the host that has the ledger answers as of event %q", event)
	f.answers(asked{"POST", "/v1/takeovers", `{}`, "", "operator", nil})
	if _, header, _ := f.ask(asked{method: "GET", target: "/v1/stats", role: "operator"}); header.Get(httpapi.EventHeader) != "" {
		t.Errorf("once it has taken over: as of event %q", header.Get(httpapi.EventHeader))
	}
}

// A standby that has stopped because the journal was trimmed has the kind `behind`, and is not
// reported as damaged.
func TestFail_JournalWasTrimmed_KindIsNotCorrupt(t *testing.T) {
	f := serving(t, Options{})
	for _, c := range []struct {
		err    error
		kind   string
		status int
		retry  bool
	}{
		{fmt.Errorf("%w: it cannot follow: %w", api.ErrStopped, journal.ErrTrimmed), problem.Behind, 503, true},
		{fmt.Errorf("%w: %w", api.ErrJournal, journal.ErrTrimmed), problem.Journal, 500, false},
		{fmt.Errorf("%w: %w", api.ErrStopped, journal.ErrLost), problem.Corrupt, 500, false},
		{api.ErrClosed, problem.Closed, 503, true},
	} {
		r := get("failing", "/v1/failing", "Fail", httpapi.Roles(), nil, func(*call) (api.Stats, error) { return api.Stats{}, c.err })
		w, request := httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/failing", nil)
		request.Header.Set("Test-Role", "operator")
		f.guarded(&r).ServeHTTP(w, request)
		status, header, body := w.Code, w.Header(), w.Body.String()
		p := wantProblem(t, status, header, body, c.kind)
		check.That(t, status == c.status && (header.Get("Retry-After") != "") == c.retry,
			"%v: %d, Retry-After %q", c.err, status, header.Get("Retry-After"))
		check.That(t, !errors.Is(c.err, api.ErrStopped) || errors.Is(&p, api.ErrStopped),
			"%v: it does not say that the ledger has stopped: %s", c.err, body)
	}
}
