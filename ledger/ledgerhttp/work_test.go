package ledgerhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

// waiter is a large request that waits for its turn, or has it.
type waiter struct {
	has   bool
	err   error
	leave func()
}

// wait begins to wait for a turn.
func (s *slots) wait(ctx context.Context, by principal) *waiter {
	w := &waiter{}
	go func() {
		if w.leave, w.err = s.enter(ctx, by); w.err == nil {
			w.has = true
		}
	}()
	synctest.Wait()
	return w
}

// end ends a request that has its turn.
func (w *waiter) end() {
	w.leave()
	synctest.Wait()
}

func TestTurns_OneHolderHasMany_OthersAreServedInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many, one, two := principal{roleDesk, "many"}, principal{roleBuyer, "one"}, principal{roleBuyer, "two"}
		x := newSlots(2)
		wait := func(by principal) *waiter { return x.wait(t.Context(), by) }
		crowd := []*waiter{wait(many), wait(many), wait(many)}
		check.Need(t, crowd[0].has && !crowd[1].has, "a holder has none, or more than half of two turns")
		first, second := wait(one), wait(two)
		check.Need(t, first.has && !second.has, "another holder waits while a turn is free, or three have one of two")
		crowd[0].end()
		check.Need(t, !crowd[1].has && second.has, "a holder with many requests is served again before one who waits")
		first.end()
		check.Need(t, crowd[1].has && !crowd[2].has, "a free turn is not given, or not to the one who came first")
		third := wait(one)
		second.end()
		check.Need(t, !crowd[2].has && third.has, "a holder with many requests has more than half of two turns")
		crowd[1].end()
		check.Need(t, crowd[2].has, "a free turn is not given")
		third.end()
		if crowd[2].end(); len(x.all) != 0 || len(x.queues) != 0 {
			t.Errorf("%d turns are taken, and %d holders are remembered", len(x.all), len(x.queues))
		}
		for range 2 { // an operator may have all
			check.That(t, wait(principal{roleOperator, ""}).has, "an operator has no more than half")
		}
	})
}

// However many turns a holder may have, only one of its requests waits ahead of another holder's.
func TestTurns_HolderMayHaveMany_OneOfItsRequestsWaitsAheadOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSlots(4)
		wait := func(name string) *waiter { return x.wait(t.Context(), principal{roleDesk, name}) }
		taken := []*waiter{wait("a"), wait("a"), wait("b"), wait("b")}
		crowd := []*waiter{wait("many"), wait("many")}
		other := wait("other")
		taken[0].end()
		check.Need(t, crowd[0].has, "the first is not served first")
		taken[1].end()
		check.Need(t, other.has && !crowd[1].has, "a holder is served twice before another")
		taken[2].end()
		check.Need(t, crowd[1].has, "a free turn is not given")
		for _, w := range []*waiter{taken[3], crowd[0], crowd[1], other} {
			w.end()
		}
	})
}

func TestTurns_CallerLeaves_LeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSlots(1)
		a := x.wait(t.Context(), principal{roleDesk, "a"})
		ctx, cancel := context.WithCancel(t.Context())
		gone := []*waiter{x.wait(ctx, principal{roleDesk, "a"}), x.wait(ctx, principal{roleDesk, "b"}), x.wait(ctx, principal{roleDesk, "b"})}
		c := x.wait(t.Context(), principal{roleDesk, "c"})
		cancel()
		synctest.Wait()
		for _, w := range gone {
			check.That(t, errors.Is(w.err, context.Canceled), "got the error %v", w.err)
		}
		a.end()
		check.That(t, c.has, "the turn is lost")
		if c.end(); len(x.all) != 0 || len(x.queues) != 0 {
			t.Errorf("%d turns are taken, and %d holders are remembered", len(x.all), len(x.queues))
		}
	})
}

func TestTurns_TooManyWait_IsTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSlots(1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range maxWaiting + 1 {
			check.Must(t, x.wait(ctx, principal{roleDesk, "a"}).err)
		}
		var p *api.Problem
		err := x.wait(ctx, principal{roleDesk, "a"}).err
		check.That(t, errors.As(err, &p) && p.Kind == problem.TooMany, "got the error %v", err)
		err = x.wait(ctx, principal{roleDesk, "b"}).err
		check.That(t, err == nil, "another holder may not wait: %v", err)
	})
}

func TestPurses_TakeAndSettle_CountRecordsByHolder(t *testing.T) {
	now := time.Now()
	p := newRateLimiter(100, 1000, func() time.Time { return now })
	acme, other := Holder{Name: "a", Role: roleBuyer, Whom: "acme"}, Holder{Name: "b", Role: roleBuyer, Whom: "acme"}
	wantWait := func(by Holder, records int64, want time.Duration) {
		t.Helper()
		got := p.take(by.principal(), float64(records))
		check.That(t, got == want, "%s waits %v for %d records, want %v", by.Name, got, records, want)
	}
	wantWait(acme, 900, 0)
	wantWait(other, 300, 2*time.Second) // another token of the same buyer: 100 are left
	wantWait(Holder{Role: roleBuyer, Whom: "bolt"}, 900, 0)
	now = now.Add(2 * time.Second)
	wantWait(other, 300, 0)
	p.settle(acme.principal(), -200) // it has read less
	wantWait(acme, 200, 0)
	now = now.Add(time.Hour)
	wantWait(acme, 5000, 0) // more than fits: when it is full
	wantWait(acme, 0, 10*time.Second)
	now = now.Add(10 * time.Second)
	wantWait(acme, 0, 0)
	p.settle(acme.principal(), 1e9) // a debt is bounded
	wantWait(acme, 0, 10*time.Second)
}

// An operator may read any number of records, and no other role may.
func TestPay_Operator_ReadsAnyNumber(t *testing.T) {
	f := serving(t, Options{Limits: Limits{Records: 1, RecordBurst: 1}})
	for role, want := range map[string]bool{roleOperator: true, roleDesk: false} {
		c := &call{handler: f.Handler, holder: Holder{Name: "a", Role: role}, out: newWriter(httptest.NewRecorder(), f.limits)}
		check.Must(t, c.takeRecords(1))
		c.effort.meter.Add(1e9)
		c.settleRecords()
		err := c.takeRecords(1)
		check.That(t, (err == nil) == want, "%s: %v", role, err)
	}
}

// crowded returns a ledger of n people for sale in the question vote, in a store.
func crowded(t *testing.T, s kv.Store, n int) *ledger.Ledger {
	t.Helper()
	ctx := request.WithBackend(t.Context(), request.Backend{Store: s, Created: ledgertest.Begin()})
	check.Must(t, ledger.Create(ctx, "", ledger.CreateOptions{}))
	l := check.Value(ledger.Open(ctx, "", ledger.Options{Now: ledgertest.NewClock(ledgertest.Begin()).Now}))(t)
	check.Must(t, l.DefineQuestion(t.Context(), "define", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	terms, err := policy.Market{Max: check.Eps(t, "2"), Prices: []policy.Price{{Epsilon: check.Eps(t, "2"), Amount: 300}}}.Policy()
	check.Must(t, err)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("p%05d", i)
	}
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: "vote", Objects: names, Policy: terms, Cap: check.Eps(t, "9")})
	check.Must(t, err)
	return l
}

const (
	askAll  = `{"buyer":"acme","question":"vote","epsilon":"1","all":true}`
	askOne  = `{"buyer":"acme","question":"vote","epsilon":"1","objects":["p00001"]}`
	askDear = `{"buyer":"acme","question":"vote","epsilon":"2.5","all":true}`
	askStop = `{"buyer":"acme","question":"vote","epsilon":"2.5","all":true,"stop_at_refusal":true}`
)

func TestLargeRequests_OfOneHolder_WaitAsLongAsTheirRecordsTake(t *testing.T) {
	const people = 2000
	f := servingOf(t, crowded(t, &kv.Memory{}, people), Options{Limits: Limits{Records: 1, RecordBurst: 3 * people}})
	quote := func(role, body string) (int, http.Header, string) {
		return f.ask(asked{method: "POST", target: "/v1/quotes", body: body, role: role})
	}
	// What is refused at its first object is small, if the caller wants no more.
	for range 5 {
		if status, _, body := quote("desk", askStop); status != http.StatusOK || strings.Count(body, `"object":`) != 1 {
			t.Errorf("a refused quote: %d, %.300s", status, body)
		}
	}
	if status, _, body := quote("desk", askAll); status != http.StatusOK || !strings.Contains(body, `"objects":2000`) {
		t.Fatalf("the first: %d, %.300s", status, body)
	}
	status, header, body := quote("desk", askAll)
	wantProblem(t, status, header, body, problem.TooMany)
	if after, err := strconv.Atoi(header.Get("Retry-After")); err != nil || after < people {
		t.Errorf("a record comes in each second: Retry-After is %q", header.Get("Retry-After"))
	}
	// Neither small requests nor other holders are held up, and no sale is.
	status, _, body = quote("desk", askOne)
	check.That(t, status == http.StatusOK, "one object: %d, %s", status, body)
	status, _, body = f.ask(asked{"POST", "/v1/sales", askOne[:len(askOne)-1] + `,"truths":{"p00001":"yes"}}`, "k", "desk", nil})
	check.That(t, status == http.StatusOK, "a sale: %d, %s", status, body)
	for _, role := range []string{"buyer acme", "operator", "operator"} {
		status, _, body := quote(role, askAll)
		check.That(t, status == http.StatusOK, "%s: %d, %.300s", role, status, body)
	}
	check.That(t, len(f.gates.slots.all) == 0 && len(f.gates.slots.queues) == 0,
		"%d turns are taken", len(f.gates.slots.all))
}

func TestStream_HolderInDebt_IsTooMany(t *testing.T) {
	const people = 2000
	f := servingOf(t, crowded(t, &kv.Memory{}, people), Options{Limits: Limits{Records: 1, RecordBurst: people / 2}})
	list := asked{method: "GET", target: "/v1/events", role: "auditor", header: map[string]string{"Accept": httpapi.Lines}}
	if status, _, body := f.ask(list); status != http.StatusOK || !strings.HasSuffix(body, "{\"end\":true}\n") {
		t.Fatalf("the first: %d, %.300s", status, body)
	}
	f.refuses(problem.TooMany, list)
	status, _, body := f.ask(asked{method: "GET", target: "/v1/stats", role: "auditor"})
	check.That(t, status == http.StatusOK, "counts: %d, %s", status, body)
}

// leftStore counts the records that are read from a store, and calls leave before the one with the
// number at.
type leftStore struct {
	kv.Store
	reads, at atomic.Int64
	leave     func()
}

func (s *leftStore) View(fn func(kv.Reader) error) error {
	return s.Store.View(func(r kv.Reader) error { return fn(leftReader{r, s}) })
}

func (s *leftStore) read() {
	if s.reads.Add(1) == s.at.Load() {
		s.leave()
	}
}

type leftReader struct {
	kv.Reader
	in *leftStore
}

func (r leftReader) Get(bucket string, key []byte) ([]byte, error) {
	r.in.read()
	return r.Reader.Get(bucket, key)
}

func (r leftReader) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	return r.Reader.Scan(bucket, from, func(key, value []byte) bool {
		r.in.read()
		return visit(key, value)
	})
}

// TestRequest_ClientDisconnects_ReadsLittleMore breaks the connection of a client while its request
// is computed, and counts what is read after the server has noticed.
func TestRequest_ClientDisconnects_ReadsLittleMore(t *testing.T) {
	const people = 3000
	s := &leftStore{Store: &kv.Memory{}}
	f := servingOf(t, crowded(t, s, people), Options{})
	serving := make(chan context.Context, 1)
	ended := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving <- r.Context()
		defer func() { ended <- struct{}{} }()
		f.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, c := range []struct{ target, body, key string }{
		{"/v1/quotes", askAll, ""},
		{"/v1/quotes", askDear, ""},
		{"/v1/budgets", `{"question":"vote","all":true}`, ""},
		{"/v1/answers/quotes", `{"question":"vote","query":"majority:yes","epsilon":"100","all":true}`, ""},
		{"/v1/reservations", askDear[:len(askDear)-1] + `,"for":"15m"}`, `"r"`},
	} {
		ctx, leave := context.WithCancel(t.Context())
		s.reads.Store(0)
		s.leave = func() {
			leave()
			<-(<-serving).Done()
		}
		s.at.Store(5000)
		r := check.Value(http.NewRequestWithContext(ctx, "POST", server.URL+c.target, strings.NewReader(c.body)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Test-Role", "operator")
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		_, err := http.DefaultClient.Do(r)
		check.Need(t, errors.Is(err, context.Canceled), "%s: got the error %v", c.target, err)
		<-ended
		after := s.reads.Load() - s.at.Load()
		check.That(t, after >= 0 && after <= state.CheckEvery+16, "%s: %d more records were read", c.target, after)
		s.at.Store(-1)
	}
	if len(f.gates.slots.all) != 0 || taken(f.gates.running) != 0 {
		t.Errorf("%d turns and %d places are taken", len(f.gates.slots.all), taken(f.gates.running))
	}
}

// TestHowTo_CostsOfRoutes_AreThoseOfTheTable has each route in the table of costs, or among those
// whose cost does not grow.
func TestHowTo_CostsOfRoutes_AreThoseOfTheTable(t *testing.T) {
	page := check.Value(os.ReadFile("../../docs/howto/serve.md"))(t)
	_, section, found := strings.Cut(string(page), "\n## What requests cost\n")
	check.Need(t, found, "docs/howto/serve.md lacks the section")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, r := range routes() {
		rows := 0
		for line := range strings.SplitSeq(section, "\n") {
			if !strings.HasPrefix(line, "|") || !strings.Contains(line, "`"+r.id+"`") {
				continue
			}
			if rows++; !strings.HasSuffix(line, " | "+costOf(&r)+" |") {
				t.Errorf("%s is bounded by %q; the table says %s", r.id, costOf(&r), line)
			}
		}
		check.That(t, rows == 1, "%s has %d rows in the table of costs, want 1", r.id, rows)
	}
}

// costOf says what bounds a route whose cost grows, beside [Limits.Rate]. The cost of others is
// constant.
func costOf(r *route) string {
	switch {
	case r.copiesFile:
		return "copies"
	case r.item != nil:
		return "streams, records"
	case r.isGrowing:
		return "turns, records"
	}
	return ""
}
