package ledgerhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/observe"
)

func healthOf(t *testing.T, f *fixture, role string) (h httpapi.Health) {
	t.Helper()
	body := f.answers(asked{method: "GET", target: "/v1/health", role: role})
	check.Must(t, json.Unmarshal([]byte(body), &h))
	types := schemas()
	wantValid(t, types, operation(routeOf("health"), types).Responses["200"].Content["application/json"].Schema, "health", body)
	return h
}

func routeOf(id string) *route {
	for _, r := range routes() {
		if r.id == id {
			return &r
		}
	}
	return nil
}

// The health of two hosts says which of them has the ledger. A ledger that was taken over from
// answers this route although it has stopped, with the reason: the name of the other host is in its
// text for an operator only.
func TestHealth_TwoHosts_AndOneThatWasTakenOverFrom(t *testing.T) {
	a, b := couple(t)
	leader, standby := servingOf(t, a, Options{}), servingOf(t, b, Options{Leader: func(context.Context) (string, error) { return "a", nil }})
	if h := healthOf(t, leader, "metrics"); h.Host.Role != "leader" || h.Host.Leader != "a" || h.Host.Fenced || h.Stopped != nil || h.Events == 0 {
		t.Errorf("the leader: %+v", h)
	}
	if h := healthOf(t, standby, "auditor"); h.Host.Role != "standby" || h.Host.Leader != "a" || h.Host.Term != 1 || !h.Host.Answered {
		t.Errorf("the standby: %+v", h)
	}
	if status, _, body := standby.ask(asked{"POST", "/v1/takeovers", `{}`, "", "operator", nil}); status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	for role, named := range map[string]bool{"operator": true, "metrics": false} {
		h := healthOf(t, leader, role)
		check.Need(t, h.Host == (observe.Host{Role: "leader", Fenced: true, Answered: true, Leader: "b", Term: 2}) &&
			h.Stopped != nil, "who was taken over from: %+v", h)
		check.That(t, h.Stopped.Kind == problem.Stopped && h.Stopped.Hint == problem.TakenOver &&
			strings.Contains(h.Stopped.Detail, "another term") == named, "%s reads %+v", role, h.Stopped)
	}
	status, header, body := leader.ask(asked{method: "GET", target: "/v1/stats", role: "operator"})
	wantProblem(t, status, header, body, problem.Stopped)
	h := healthOf(t, standby, "operator")
	check.That(t, h.Host.Role == "leader" && h.Host.Leader == "b" && h.Host.Term == 2, "who has taken over: %+v", h)
}

// damaged is a handle of a journal that turns out to be damaged. It does not say which host has the
// journal.
type damaged struct {
	journal.Follower
	found chan struct{}
}

func (d damaged) Await(ctx context.Context, after journal.Position) error {
	select {
	case <-d.found:
		return journal.ErrForked
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (damaged) Head(context.Context) (journal.Head, error) {
	return journal.Head{}, errors.New("it does not say")
}

// A standby that has stopped says so: its health and its metrics do not depend on an event as of
// which it answers.
func TestHealth_StandbyHasStopped_SaysWhy(t *testing.T) {
	found := make(chan struct{})
	_, b := coupleBy(t, func(f journal.Follower) journal.Journal { return damaged{f, found} })
	f := servingOf(t, b, Options{Leader: func(context.Context) (string, error) { return "a", nil }})
	if h := healthOf(t, f, "operator"); h.Host != (observe.Host{Role: "standby"}) || h.Stopped != nil {
		t.Errorf("before: %+v", h)
	}
	close(found)
	for range b.Watch(t.Context(), 1<<40) { // until it stops
	}
	h := healthOf(t, f, "auditor")
	check.That(t, h.Host.Role == "standby" && !h.Host.Fenced && h.Stopped != nil && h.Stopped.Kind == problem.Corrupt,
		"a standby that has stopped: %+v", h)
	if status, _, body := f.ask(asked{method: "GET", target: "/metrics", role: "metrics"}); status != http.StatusOK {
		t.Errorf("its metrics: %d, %s", status, body)
	}
	f.refuses(problem.Corrupt, asked{method: "GET", target: "/v1/stats", role: "metrics"})
	for _, role := range []string{"buyer acme", "person 17", "desk"} {
		f.refuses(problem.Forbidden, asked{method: "GET", target: "/v1/health", role: role})
	}
}
