package ledgerhttp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// revocable is a gate that admits an auditor until it is revoked.
type revocable struct{ revoked atomic.Bool }

func (r *revocable) Admit(*http.Request) (Holder, bool) {
	return Holder{Name: "a", Role: roleAuditor}, !r.revoked.Load()
}

// A stream that waits for events, whose next sign of life is an hour away, ends when its token is
// removed, and says why.
func TestStream_TokenRemovedWhileItWaits_Ends(t *testing.T) {
	gate := &revocable{}
	f := serving(t, Options{Gate: gate.Admit, Limits: Limits{Beat: time.Hour}})
	ticks := make(chan time.Time)
	f.ticker = func() (<-chan time.Time, func()) { return ticks, func() {} }
	_, c := served(t, f)
	in := bufio.NewReader(follow(t, c, 1000000, "").Body)
	line, err := in.ReadString('\n')
	check.Need(t, err == nil && line == ":\n", "%q, %v", line, err)
	ticks <- time.Time{} // it is valid still
	ticks <- time.Time{}
	gate.revoked.Store(true)
	select {
	case ticks <- time.Time{}:
	case <-time.After(time.Second): // the second check was late, and there is no third
	}
	kind, _, data := message(t, in)
	check.That(t, kind == "problem" && strings.Contains(data, `"kind":"unauthorized"`), "%s: %s", kind, data)
	_, err = io.ReadAll(in)
	check.That(t, err != nil, "the stream ended as if it were whole")
	within(t, "it is watched still", func() bool {
		select {
		case ticks <- time.Time{}:
			return false
		default:
			return true
		}
	})
}

// Not one event that is committed after a token was removed is sent, though the stream would not
// ask the gate for an hour.
func TestStream_TokenRemoved_NoLaterEventIsSent(t *testing.T) {
	gate := &revocable{}
	f := serving(t, Options{Gate: gate.Admit, Limits: Limits{Beat: time.Hour}})
	f.ticker = func() (<-chan time.Time, func()) { return nil, func() {} } // never
	_, c := served(t, f)
	stats := check.Value(f.ledger.Stats(t.Context()))(t)
	define := func(name string) {
		check.Must(t, f.ledger.DefineQuestion(t.Context(), name, api.Question{Name: name, Values: []string{"a", "b"}}))
	}
	in := bufio.NewReader(follow(t, c, int(stats.Events)+1, "").Body)
	define("before")
	for range 2 { // a definition is two events
		kind, _, data := message(t, in)
		check.Need(t, kind == "" && !strings.Contains(data, "after"), "%s: %s", kind, data)
	}
	gate.revoked.Store(true)
	define("after")
	kind, _, data := message(t, in)
	check.That(t, kind == "problem" && strings.Contains(data, `"kind":"unauthorized"`), "%s: %s", kind, data)
}

// Lists, long answers and copies end when their token is removed in between.
func TestLongAnswer_TokenRemoved_IsBrokenOff(t *testing.T) {
	gate := &revocable{}
	f := serving(t, Options{Gate: gate.Admit})
	var watched atomic.Int64
	f.ticker = func() (<-chan time.Time, func()) {
		watched.Add(1)
		return nil, func() { watched.Add(-1) }
	}
	endless := list("endless", "/v1/endless", "Count", httpapi.Roles(), nil, func(_ *call, p page) ([]int, string, error) {
		n := p.number() + 10
		gate.revoked.Store(n > 1000)
		if n >= 1e6 {
			return make([]int, 10), "", nil
		}
		return make([]int, 10), cursor(n), nil
	})
	w := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/v1/endless", nil)
	request.Header.Set("Accept", httpapi.Lines)
	f.guarded(&endless).ServeHTTP(w, request)
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	end := httpapi.End{}
	check.Must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &end))
	if len(lines) > 1000+2*recheckItems || end.Problem == nil || end.Problem.Kind != problem.Unauthorized {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}

	for name, c := range map[string]struct {
		size  int
		parts int
	}{"long": {10 * partSize, 1}, "short": {partSize, 1}} {
		gate.revoked.Store(false)
		w := &revoking{ResponseRecorder: httptest.NewRecorder(), gate: gate}
		request := httptest.NewRequest("GET", "/v1/stats", nil)
		one := &call{handler: f.Handler, holder: Holder{Name: "a", Role: roleAuditor}, admitted: request, request: request, out: newWriter(w, f.limits), leaveRunning: func() {}}
		err := one.send(t.Context(), document{"text/plain", make([]byte, c.size)})
		if whole := w.Body.Len() == c.size; err != nil || one.out.isBroken == whole || whole != (name == "short") || w.Body.Len() < partSize {
			t.Errorf("%s: %d bytes are sent, broken: %v, %v", name, w.Body.Len(), one.out.isBroken, err)
		}
	}
	gate.revoked.Store(false)
	check.That(t, watched.Load() == 0, "answers are watched still")
}

// revoking removes the token with the first part that is sent.
type revoking struct {
	*httptest.ResponseRecorder
	gate *revocable
}

func (r *revoking) Write(p []byte) (int, error) {
	r.gate.revoked.Store(true)
	return r.ResponseRecorder.Write(p)
}

// An answer whose reader has stopped reading gets a second to end when its token is removed.
func TestWatch_ReaderThatDoesNotRead_GetsADeadline(t *testing.T) {
	gate := &revocable{}
	f := serving(t, Options{Gate: gate.Admit})
	ticks := make(chan time.Time)
	f.ticker = func() (<-chan time.Time, func()) { return ticks, func() {} }
	w := &clocked{ResponseRecorder: httptest.NewRecorder()}
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &call{handler: f.Handler, holder: Holder{Name: "a", Role: roleAuditor}, admitted: httptest.NewRequest("GET", "/v1/events", nil), out: newWriter(w, f.limits)}
	done := c.watch(cancel)
	ticks <- time.Time{}
	ticks <- time.Time{} // after the first check
	check.Need(t, ctx.Err() == nil, "it ends although its token is valid")
	gate.revoked.Store(true)
	select {
	case ticks <- time.Time{}:
	case <-ctx.Done(): // the second check was late
	}
	<-ctx.Done()
	done()
	if !isRevoked(context.Cause(ctx)) || w.deadline.IsZero() || time.Until(w.deadline) > lingerTime {
		t.Errorf("%v, the deadline is %v", context.Cause(ctx), w.deadline)
	}
	w.deadline = time.Time{}
	c.watch(cancel)()
	select {
	case ticks <- time.Time{}:
		t.Error("a call is checked that has ended")
	default:
	}
	check.That(t, w.deadline.IsZero(), "a connection is touched that may serve another request")
	check.That(t, !isRevoked(errors.New("x")) && !isRevoked(nil), "anything is a removed token")
}

// A token that is removed from its file, or whose role is another, ends its streams by the file
// alone.
func TestTokens_Removed_PermitsNoMore(t *testing.T) {
	a := newTokensAt(t)
	f := serving(t, Options{Gate: a.admit})
	request := httptest.NewRequest("GET", "/v1/events", nil)
	request.Header.Set("Authorization", "Bearer "+a.token)
	c := &call{handler: f.Handler, holder: Holder{Name: "a", Role: roleAuditor}, admitted: request}
	check.Must(t, c.permitted())
	for _, text := range []string{a.other(), strings.Replace(a.file, `"auditor"`, `"buyer","whom":"acme"`, 1), "no JSON"} {
		check.Must(t, os.WriteFile(a.path, []byte(text), 0o600))
		err := c.permitted()
		check.That(t, isRevoked(err), "%s: %v", text, err)
		check.Must(t, os.WriteFile(a.path, []byte(a.file), 0o600))
		check.Must(t, c.permitted())
	}
}
