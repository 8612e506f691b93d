package ledger

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// Invariants 1, 5 and 7 for the calls of the market when the disk or the host's source of true
// values fails.

// smallMarket returns a ledger with ann, bob and cid on the market. ann is reserved for acme. A
// second question has a policy that releases levels by itself.
func smallMarket(t *testing.T, s kv.Store, options Options) *Ledger {
	t.Helper()
	options.Now = epoch
	l := openMemory(t, s, options)
	timed := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}))(t)
	define(t, l, vote())
	define(t, l, smoker())
	enrollUnder(t, l, "vote", market(t, "2"), "1", "ann", "bob", "cid")
	enrollUnder(t, l, "smoker", timed, "1", "ann", "bob", "cid")
	reserve(t, l, api.ReserveRequest{Key: "reserved", Order: purchase(t, "", "acme", "0.25", "ann").Order, For: time.Hour})
	return l
}

func smallMarketFile(t *testing.T) (path string) {
	t.Helper()
	path = create(t)
	_, file := openShim(t, path, Options{Now: epoch})
	closed(t, smallMarket(t, file, Options{}))
	return path
}

// marketCall is a call that changes the ledger of smallMarket, once.
type marketCall struct {
	name       string
	call       func(l *Ledger, truth api.TruthFunc) (any, error)
	needsTruth bool // for truths
	draws      int  // what it draws
}

func marketCalls(t *testing.T) []marketCall {
	ctx := t.Context()
	drawn := func(call string, d drawing, draws int) marketCall {
		d.key = "call"
		return marketCall{call, func(l *Ledger, truth api.TruthFunc) (any, error) {
			d.truth = truth
			got, err := d.by(t, l, call)
			return got.result, err
		}, true, draws}
	}
	done := func(name string, do func(l *Ledger) error) marketCall {
		return marketCall{name, func(l *Ledger, _ api.TruthFunc) (any, error) { return nil, do(l) }, false, 0}
	}
	one, two := []string{"bob"}, []string{"bob", "cid"}
	return []marketCall{
		drawn("Release", drawing{epsilon: "0.5", objects: one}, 1), drawn("Raise", drawing{epsilon: "0.5", objects: two}, 2),
		drawn("Sell", drawing{epsilon: "0.5", objects: two}, 2), drawn("Capture", drawing{reservation: 1}, 1),
		drawn("Answer", drawing{epsilon: "0.5", objects: two}, 0), drawn("Advance", drawing{question: "smoker"}, 3),
		{"Reserve", func(l *Ledger, _ api.TruthFunc) (any, error) {
			return l.Reserve(ctx, api.ReserveRequest{Key: "call", Order: purchase(t, "", "zeta", "0.5", "bob").Order, For: time.Minute})
		}, false, 0},
		done("Cancel", func(l *Ledger) error { return l.Cancel(ctx, "call", 1) }),
		done("Withdraw", func(l *Ledger) error { return l.Withdraw(ctx, api.ObjectRequest{Key: "call", Object: "bob"}) }),
		done("Forget", func(l *Ledger) error { return l.Forget(ctx, api.ObjectRequest{Key: "call", Object: "ann"}) }),
	}
}

func countDraws(log []says.Event) (n int) {
	for _, ev := range log {
		if methodOf(ev) == "raise" {
			n++
		}
	}
	return n
}

// wantDoneOnce repeats a call without true values, and checks that it was done once.
func wantDoneOnce(t *testing.T, l *Ledger, e marketCall, first any) {
	t.Helper()
	before := stats(t, l).Events
	again, err := e.call(l, mustNotAsk(t))
	check.That(t, err == nil && reflect.DeepEqual(again, first),
		"%s returned\n%+v\nthen\n%+v, %v", e.name, first, again, err)
	log := events(t, l)
	draws := countDraws(log)
	check.That(t, uint64(len(log)) == before && draws == e.draws,
		"%s: %d events after %d, %d draws, want %d", e.name, len(log), before, draws, e.draws)
	auditAll(t, l, l.engine.Store)
}

func TestMarketCall_DiskFails_ChangesNothing(t *testing.T) {
	for _, e := range marketCalls(t) {
		t.Run(e.name, func(t *testing.T) {
			l, s := openShim(t, smallMarketFile(t), Options{Now: epoch})
			s.set(failing, nil)
			unchanged(t, s, func() { e.wantFailure(t, l, errDisk) })
			s.set(nil, nil)
			first := check.Value(e.call(l, sameTruth("yes")))(t) // the key is still free, and the ledger has not stopped
			wantDoneOnce(t, l, e, first)
		})
	}
}

// wantFailure makes a call, which must return these errors and no result.
func (e marketCall) wantFailure(t *testing.T, l *Ledger, want ...error) {
	t.Helper()
	got, err := e.call(l, sameTruth("yes"))
	for _, one := range want {
		wantErr(t, err, one)
	}
	check.That(t, got == nil || reflect.ValueOf(got).IsZero(), "%+v comes with the error", got)
}

// If it is unknown whether a commit is durable, the ledger stops. After it is opened again, the key
// returns the result, or executes the request if the commit was lost.
func TestMarketCall_UncertainCommit_IsSettledByItsKey(t *testing.T) {
	for _, e := range marketCalls(t) {
		for name, holds := range map[string]bool{"lost": false, "held": true} {
			t.Run(e.name+" "+name, func(t *testing.T) {
				path := smallMarketFile(t)
				l, s := openShim(t, path, Options{Now: epoch})
				if s.set(uncertain, nil); holds {
					s.set(nil, uncertain)
				}
				e.wantFailure(t, l, api.ErrStopped, kv.ErrUncertain)
				wantStopped(t, l)
				closed(t, l)
				l = open(t, path, Options{Now: epoch})
				source := sameTruth("yes")
				if holds {
					source = mustNotAsk(t)
				}
				first := check.Value(e.call(l, source))(t)
				wantDoneOnce(t, l, e, first)
			})
		}
	}
}

// Until the commit is durable, a sale is visible neither to its buyer nor to a reader, and a second
// buyer of the same waits.
func TestSell_BeforeItsCommitIsDurable_IsInvisible(t *testing.T) {
	l, s := openShim(t, smallMarketFile(t), Options{Now: epoch})
	before := stats(t, l)
	commit := s.holdCommit(t)
	first := async(func() (api.Sale, error) { return l.Sell(t.Context(), purchase(t, "1", "acme", "0.5", "bob")) })
	commit.wait(t)
	second := async(func() (api.Sale, error) { return l.Sell(t.Context(), purchase(t, "2", "zeta", "0.5", "bob")) })
	pending(t, first)
	pending(t, second)
	if o := objectOf(t, l, "bob"); o.Earned != 0 || len(o.Chains[0].Levels) != 0 || stats(t, l) != before || len(buyersOf(t, l)) != 1 {
		t.Errorf("a reader sees %+v, %+v", o, stats(t, l))
	}
	wantErr(t, firstError(l.Deliveries(t.Context(), 2)), api.ErrUnknown)
	commit.open()
	a, b := await(t, first), await(t, second)
	must(t, a.err)
	must(t, b.err)
	x, y := delivered(t, l, a.value.Number)["bob"], delivered(t, l, b.value.Number)["bob"]
	check.That(t, x.Response == y.Response && a.value.Draws+b.value.Draws == 1, "the buyers got %+v and %+v", x, y)
	auditAll(t, l, l.engine.Store)
}

// badSources returns sources of true values that fail, each in its own way, and the errors that
// they cause. The slow ones wait.
func badSources() map[string]struct {
	truth api.TruthFunc
	want  error
	slow  bool
} {
	type source = struct {
		truth api.TruthFunc
		want  error
		slow  bool
	}
	bad := func(change func(yes []string) ([]string, error)) api.TruthFunc {
		return func(_ context.Context, _ string, objects []string) ([]string, error) {
			return change(slices.Repeat([]string{"yes"}, len(objects)))
		}
	}
	wait := func(err error) api.TruthFunc {
		return func(ctx context.Context, _ string, objects []string) ([]string, error) {
			<-ctx.Done()
			return slices.Repeat([]string{"yes"}, len(objects)), err
		}
	}
	return map[string]source{
		"failing":   {bad(func(yes []string) ([]string, error) { return yes, errDisk }), errDisk, false},
		"slow":      {wait(context.Canceled), api.ErrTruthFailed, true},
		"late":      {wait(nil), api.ErrTruthFailed, true},
		"too few":   {bad(func(yes []string) ([]string, error) { return yes[1:], nil }), api.ErrInvalid, false},
		"too many":  {bad(func(yes []string) ([]string, error) { return append(yes, "yes"), nil }), api.ErrInvalid, false},
		"nothing":   {bad(func([]string) ([]string, error) { return nil, nil }), api.ErrInvalid, false},
		"panicking": {bad(func([]string) ([]string, error) { panic(errPanicked) }), errPanicked, false},
	}
}

// wantSourceError makes a call that must end with the error of its bad source.
func wantSourceError(t *testing.T, want error, call func() error) {
	t.Helper()
	err := panicAsError(call)
	wantErr(t, err, want)
	check.That(t, errors.Is(err, api.ErrInvalid) == (want == api.ErrInvalid), "the host's failure is called an invalid request: %v", err)
}

// If the source of true values fails, nothing changes, and the key is still free.
func TestMarketCall_TruthSourceFails_ChangesNothing(t *testing.T) {
	for _, e := range marketCalls(t) {
		for kind, source := range badSources() {
			if !e.needsTruth {
				continue
			}
			t.Run(e.name+" "+kind, func(t *testing.T) {
				s := &kv.Memory{}
				begin(t, s)
				l := smallMarket(t, s, Options{})
				if source.slow {
					l.rules.Patience = time.Millisecond // what Options.TruthTimeout sets, as long as the source is bad
				}
				unchanged(t, s, func() {
					wantSourceError(t, source.want, func() error { return check.Err(e.call(l, source.truth)) })
				})
				wantNoHolds(t, l)
				l.rules.Patience = 0
				first := check.Value(e.call(l, sameTruth("yes")))(t)
				wantDoneOnce(t, l, e, first)
			})
		}
	}
}

// secondBatch is a source that works until it gets its second batch.
func secondBatch(bad api.TruthFunc) api.TruthFunc {
	n := 0
	return func(ctx context.Context, question string, objects []string) ([]string, error) {
		if n++; n == 2 {
			return bad(ctx, question, objects)
		}
		return slices.Repeat([]string{"yes"}, len(objects)), nil
	}
}

// A sale is one transaction: a source that fails in its second batch leaves nothing of the first.
func TestSell_TruthSourceFailsInSecondBatch_ChangesNothing(t *testing.T) {
	l := sellers(t, inMemory(t, Options{Now: epoch}), "1", "1", crowd(big)...)
	held := reserve(t, l, api.ReserveRequest{Key: "r", Order: purchase(t, "", "zeta", "0.5").Order, For: time.Hour})
	for i, d := range []drawing{{key: "s", epsilon: "0.25"}, {key: "c", reservation: held.Number}} { // in the order of their ε
		call := []string{"Sell", "Capture"}[i]
		for _, source := range badSources() {
			if source.slow {
				continue // that these change nothing is tested with few objects
			}
			d.truth = secondBatch(source.truth)
			unchanged(t, l.engine.Store, func() {
				wantSourceError(t, source.want, func() error { return check.Err(d.by(t, l, call)) })
			})
		}
		d.truth = sameTruth("yes")
		got := check.Value(d.by(t, l, call))(t).result.(api.Sale)
		check.That(t, got.Draws == big, "%s returned %+v", call, got)
	}
	auditStore(t, l.engine.Store)
}

// A sweep commits part by part. The parts before the failure of its source stay, and the same key
// resumes after them.
func TestAdvance_TruthSourceFails_ResumesAfterTheFirstPart(t *testing.T) {
	for kind, source := range badSources() {
		if source.slow || oneIn(3) > 1 && kind != "panicking" && kind != "too few" { // two of them under the race detector
			continue
		}
		t.Run(kind, func(t *testing.T) {
			l := sweepers(t, open(t, create(t), Options{Now: epoch}), crowd(big)...)
			wantSourceError(t, source.want, func() error {
				return check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: secondBatch(source.truth)}))
			})
			n := len(responses(t, l, "vote", eps(t, "0.5")))
			check.That(t, n == state.PartSize, "%d objects have answered, want %d", n, state.PartSize)
			wantSweptOnce(t, l)
		})
	}
}

// sweepers enrolls objects under a policy that has released two levels.
func sweepers(t *testing.T, l *Ledger, objects ...string) *Ledger {
	t.Helper()
	timed, err := policy.Steps(policy.Step{At: epoch().Add(-time.Hour), Ceiling: eps(t, "0.25")}, policy.Step{At: epoch(), Ceiling: eps(t, "0.5")})
	must(t, err)
	define(t, l, vote())
	enrollUnder(t, l, "vote", timed, "1", objects...)
	return l
}

// wantSweptOnce completes a sweep of the big crowd that was interrupted after its first part.
func wantSweptOnce(t *testing.T, l *Ledger) {
	t.Helper()
	var source asked
	got := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: source.truth("yes")}))(t)
	want := []api.Advanced{{Question: "vote", Raised: big}}
	check.That(t, reflect.DeepEqual([]api.Advanced(got.Questions), want), "got %+v, want %+v", got, want)
	if names := source.names(); !slices.Equal(names, crowd(big)[state.PartSize:]) {
		t.Errorf("%d objects were asked about, want the %d of the rest", len(names), big-state.PartSize)
	}
	n := countKind(events(t, l), "released")
	check.That(t, n == 2*big, "%d draws for two levels of %d objects", n, big)
	again, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: mustNotAsk(t)})
	check.That(t, err == nil && reflect.DeepEqual(again, got), "again: %+v, %v", again, err)
	next, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "next", Truth: mustNotAsk(t)})
	want = []api.Advanced{{Question: "vote", Unchanged: big}}
	check.That(t, err == nil && reflect.DeepEqual([]api.Advanced(next.Questions), want), "the next sweep returned %+v, %v", next, err)
	auditStore(t, l.engine.Store)
}

// A sweep also resumes after its context was canceled, its disk failed, or its process ended.
func TestAdvance_Interrupted_ResumesAfterTheFirstPart(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		l := sweepers(t, open(t, create(t), Options{Now: epoch}), crowd(big)...)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := l.Advance(ctx, api.AdvanceRequest{Key: "day", Truth: sameTruth("yes"), Progress: afterPart(cancel)})
		wantErr(t, err, context.Canceled)
		wantSweptOnce(t, l)
	})
	t.Run("failing", func(t *testing.T) {
		l, s := openShim(t, create(t), Options{Now: epoch})
		sweepers(t, l, crowd(big)...)
		_, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: sameTruth("yes"), Progress: afterPart(func() { s.set(failing, nil) })})
		wantErr(t, err, errDisk)
		s.set(nil, nil)
		wantSweptOnce(t, l)
	})
	t.Run("uncertain", func(t *testing.T) {
		path := create(t)
		l, s := openShim(t, path, Options{Now: epoch})
		sweepers(t, l, crowd(big)...)
		_, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: sameTruth("yes"), Progress: afterPart(func() { s.set(uncertain, nil) })})
		wantErr(t, err, api.ErrStopped)
		closed(t, l)
		wantSweptOnce(t, open(t, path, Options{Now: epoch}))
	})
}

// A source of true values may call the ledger. The sale that called the source sees every change
// made there.
func TestSell_TruthSourceCallsTheLedger_SeesItsChanges(t *testing.T) {
	for name, one := range map[string]struct {
		during func(l *Ledger)
		want   func(s api.Sale, err error) bool
	}{
		"reads": {func(l *Ledger) { objectOf(t, l, "bob") }, func(s api.Sale, err error) bool { return err == nil && s.Draws == 1 }},
		"sells the same": {func(l *Ledger) { sell(t, l, purchase(t, "other", "zeta", "0.5", "bob")) },
			func(s api.Sale, err error) bool { return err == nil && s.Resales == 1 && s.Draws == 0 && s.Price == 50 }},
		"sells more": {func(l *Ledger) { sell(t, l, purchase(t, "other", "acme", "0.75", "bob")) },
			func(s api.Sale, err error) bool { return err == nil && s.Degradations == 1 && s.Price == 0 }},
		"sells it to the same buyer": {func(l *Ledger) { sell(t, l, purchase(t, "other", "acme", "0.5", "bob")) },
			func(s api.Sale, err error) bool { return err == nil && s.Resales == 1 && s.Price == 0 }},
		"withdraws it": {func(l *Ledger) { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "other", Object: "bob"})) },
			func(_ api.Sale, err error) bool { return refusals(t, err)[0].Reason == api.Withdrawn }},
		"forgets it": {func(l *Ledger) { must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "other", Object: "bob"})) },
			func(_ api.Sale, err error) bool { return refusals(t, err)[0].Reason == api.Withdrawn }},
		"forgets it, and it comes back": {func(l *Ledger) {
			sell(t, l, purchase(t, "others", "acme", "0.5", "bob"))
			must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "other", Object: "bob"}))
			_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"bob"}, Policy: market(t, "1")})
			must(t, err)
		}, func(s api.Sale, err error) bool { return err == nil && s.Draws == 1 && s.Price == 50 }},
		"spends elsewhere": {func(l *Ledger) {
			release(t, l, api.ReleaseRequest{Key: "other", Question: "smoker", Object: "bob", Epsilon: eps(t, "0.75"), Truth: sameTruth("yes")})
		}, func(_ api.Sale, err error) bool {
			r := refusals(t, err)[0]
			return r.Reason == api.ObjectCap && r.Remedy == "less"
		}},
		"reserves elsewhere": {func(l *Ledger) {
			o := api.Order{Buyer: "zeta", Question: "smoker", Epsilon: eps(t, "0.75"), Objects: []string{"bob"}}
			reserve(t, l, api.ReserveRequest{Key: "other", Order: o, For: time.Hour})
		}, func(_ api.Sale, err error) bool {
			r := refusals(t, err)[0]
			return r.Reason == api.ObjectCap && r.Remedy == "waiting"
		}},
		"uses its key": {func(l *Ledger) { sell(t, l, purchase(t, "s", "acme", "0.5", "bob")) },
			func(s api.Sale, err error) bool { return err == nil && s.Draws == 1 && s.Price == 50 }},
		"uses its key for another": {func(l *Ledger) { sell(t, l, purchase(t, "s", "acme", "0.25", "bob")) },
			func(_ api.Sale, err error) bool { return errors.Is(err, &api.KeyConflictError{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := sellers(t, inMemory(t, Options{Now: epoch}), "1", "1", "bob")
			define(t, l, smoker())
			enrollUnder(t, l, "smoker", market(t, "1"), "1", "bob")
			first := true
			r := purchase(t, "s", "acme", "0.5", "bob")
			r.Truth = func(context.Context, string, []string) ([]string, error) {
				if first {
					first = false
					one.during(l)
				}
				return []string{"yes"}, nil
			}
			s, err := l.Sell(t.Context(), r)
			check.That(t, one.want(s, err), "got %+v, %v", s, err)
			auditAll(t, l, l.engine.Store)
		})
	}
}

// Any other request with a used key is a conflict, and changes nothing.
func TestIdempotencyKey_OtherMarketRequest_IsConflict(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := smallMarket(t, s, Options{})
	r := purchase(t, "k", "acme", "0.5", "bob")
	sell(t, l, r)
	price := int64(50)
	with := func(change func(*api.SellRequest)) func() error {
		return func() error {
			other := purchase(t, "k", "acme", "0.5", "bob")
			change(&other)
			return check.Err(l.Sell(t.Context(), other))
		}
	}
	held := func(change func(*api.ReserveRequest)) func() error {
		return func() error {
			other := api.ReserveRequest{Key: "reserved", Order: purchase(t, "", "acme", "0.25", "ann").Order, For: time.Hour}
			change(&other)
			return check.Err(l.Reserve(t.Context(), other))
		}
	}
	must(t, with(func(*api.SellRequest) {})())
	must(t, held(func(*api.ReserveRequest) {})())
	unchanged(t, s, func() {
		for name, call := range map[string]func() error{
			"another buyer":     with(func(r *api.SellRequest) { r.Buyer = "zeta" }),
			"another ε":         with(func(r *api.SellRequest) { r.Epsilon = eps(t, "0.4") }),
			"another object":    with(func(r *api.SellRequest) { r.Objects = []string{"cid"} }),
			"one more":          with(func(r *api.SellRequest) { r.Objects = []string{"bob", "cid"} }),
			"all":               with(func(r *api.SellRequest) { r.Objects, r.All = nil, true }),
			"partial":           with(func(r *api.SellRequest) { r.Partial = true }),
			"with a quote":      with(func(r *api.SellRequest) { r.QuoteID = "x" }),
			"with a price":      with(func(r *api.SellRequest) { r.MaxPrice = &price }),
			"held for longer":   held(func(r *api.ReserveRequest) { r.For++ }),
			"held for another":  held(func(r *api.ReserveRequest) { r.Buyer = "zeta" }),
			"held with a price": held(func(r *api.ReserveRequest) { r.MaxPrice = &price }),
			"held in part":      held(func(r *api.ReserveRequest) { r.Partial = true }),
			"reserved":          held(func(r *api.ReserveRequest) { r.Key = "k" }),
			"sold":              with(func(r *api.SellRequest) { r.Key = "reserved" }),
			"committed": func() error {
				return check.Err(l.Capture(t.Context(), api.CaptureRequest{Key: "reserved", Reservation: 1}))
			},
			"cancelled":           func() error { return l.Cancel(t.Context(), "k", 1) },
			"withdrawn":           func() error { return l.Withdraw(t.Context(), api.ObjectRequest{Key: "k", Object: "bob"}) },
			"forgotten":           func() error { return l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "bob"}) },
			"swept":               func() error { return check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "k"})) },
			"the key of a define": with(func(r *api.SellRequest) { r.Key = "define vote" }),
		} {
			err := call()
			check.That(t, errors.Is(err, &api.KeyConflictError{}), "%s: got the error %v", name, err)
		}
	})
}

// A reservation stays valid if the clock goes back between the reservation and its capture.
func TestCapture_ClockSetBack_HonorsTheReservation(t *testing.T) {
	clock := newClock(epoch())
	l := inMemory(t, Options{Now: clock.read})
	define(t, l, vote())
	steps := check.Value(policy.Steps(policy.Step{At: epoch().Add(time.Hour), Ceiling: eps(t, "1")}))(t)
	p := check.Value(policy.Min(steps, market(t, "2")))(t)
	enrollUnder(t, l, "vote", p, "9", "ann")
	clock.set(epoch().Add(2 * time.Hour))
	r := reserve(t, l, api.ReserveRequest{Key: "r", Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: eps(t, "1"), Objects: []string{"ann"}}, For: time.Hour})
	clock.set(epoch())
	s := capture(t, l, "c", r.Number)
	check.That(t, s.Draws == 1 && s.Price == r.Price, "%+v of %+v", s, r)
	auditStore(t, l.engine.Store)
}

// The option ends the wait for a source. Without it, only the caller's context does.
func TestSell_TruthTimeout_EndsTheWaitForTheSource(t *testing.T) {
	wait := func(ctx context.Context, _ string, _ []string) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }
	l := sellers(t, inMemory(t, Options{TruthTimeout: time.Millisecond}), "1", "1", "ann")
	r := purchase(t, "1", "acme", "0.5", "ann")
	r.Truth = wait
	_, err := l.Sell(t.Context(), r)
	wantErr(t, err, api.ErrTruthFailed)
	check.That(t, !errors.Is(err, context.DeadlineExceeded),
		"the deadline of the source reads as the caller's: %v", err)
	l = sellers(t, inMemory(t, Options{}), "1", "1", "ann")
	r.Truth = func(ctx context.Context, _ string, _ []string) ([]string, error) {
		_, limited := ctx.Deadline()
		check.That(t, !limited, "the source has a deadline without the option")
		return []string{"yes"}, nil
	}
	sell(t, l, r)
}
