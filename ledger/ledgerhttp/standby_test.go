package ledgerhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// A standby answers reads with the number of their last event, and names the leader to callers that
// want a change. After a takeover it is the ledger, and the previous host has stopped.
func TestHandler_Standby_ReadsAndNamesTheLeader(t *testing.T) {
	a, b := couple(t)
	var lost error // of finding out who has the ledger
	f := servingOf(t, b, Options{Leader: func(context.Context) (string, error) { return "host a", lost }})
	release := asked{"POST", "/v1/releases", `{"question":"vote","object":"17","epsilon":"1","truths":{"17":"yes"}}`, "k", "operator", nil}
	stats := check.Value(a.Stats(t.Context()))(t)
	if status, _, body := f.ask(asked{method: "GET", target: "/v1/object?object=17", role: "auditor"}); status != http.StatusOK || !strings.Contains(body, fmt.Sprintf(`"event":%d`, stats.Events)) {
		t.Errorf("%d: %s", status, body)
	}
	for _, r := range routes() {
		if !r.needsKey {
			continue
		}
		status, header, body := f.ask(r.request("operator"))
		if r.id == "capture" || r.id == "cancel" { // what there is not
			status, header, body = f.ask(asked{"POST", "/v1/withdrawals", `{"object":"17"}`, "k", "operator", nil})
		}
		if p := wantProblem(t, status, header, body, problem.ReadOnly); p.Leader != "host a" || !strings.Contains(p.Detail, "standby") || !strings.Contains(p.Detail, `"host a" has the ledger`) {
			t.Errorf("%s: %s", r.id, body)
		}
	}
	lost = errors.New("password=secret")
	status, header, body := f.ask(release)
	if p := wantProblem(t, status, header, body, problem.ReadOnly); p.Leader != "" || !strings.Contains(p.Detail, "is not known now") || strings.Contains(body, "secret") {
		t.Errorf("%s", body)
	}

	for _, role := range []string{"desk", "auditor", "metrics", "buyer acme", "person 17"} {
		f.refuses(problem.Forbidden, asked{"POST", "/v1/takeovers", `{}`, "", role, nil})
	}
	if status, _, body := f.ask(asked{"POST", "/v1/takeovers", `{}`, "", "operator", nil}); status != http.StatusOK || body != fmt.Sprintf("{\"events\":%d}\n", stats.Events) {
		t.Fatalf("%d: %s", status, body)
	}
	err := a.Withdraw(t.Context(), api.ObjectRequest{Key: "late", Object: "18"})
	check.That(t, errors.Is(err, api.ErrStopped), "who was taken over from: %v", err)
	_, err = b.Stats(t.Context())
	check.That(t, errors.Is(err, api.ErrClosed) && f.Ledger() != b, "the standby is there still: %v", err)
	f.answers(release)
	f.refuses(problem.Invalid, asked{"POST", "/v1/takeovers", `{}`, "", "operator", nil})
}

// A takeover completes even if the caller disconnects, so that no ledger is left without a host.
func TestTakeOver_CallerDisconnects_Completes(t *testing.T) {
	_, b := couple(t)
	f := servingOf(t, b, Options{Leader: func(context.Context) (string, error) { return "a", nil }})
	var route route
	for _, r := range routes() {
		if r.id == "takeOver" {
			route = r
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request := check.Value(http.NewRequestWithContext(ctx, http.MethodPost, "http://ledger.test/v1/takeovers", nil))(t)
	_, err := takeOver(&call{handler: f.Handler, route: &route, request: request}, struct{}{})
	check.Need(t, err == nil, "%v", err)
	check.That(t, f.Ledger() != b, "no host has the ledger")
}

// A read-only ledger that is not a standby names no other host.
func TestTakeOver_NotAStandby_IsInvalid(t *testing.T) {
	f := servingOf(t, marketLedger(t, false), Options{})
	status, header, body := f.ask(asked{"POST", "/v1/takeovers", `{}`, "", "operator", nil})
	p := wantProblem(t, status, header, body, problem.Invalid)
	check.That(t, strings.Contains(p.Detail, "this ledger is not a standby"), "%v", body)
}
