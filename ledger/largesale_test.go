package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/rrchain"
)

// mixedMarket enrolls sellers for two parts and a few more. Some have withdrawn, and some have sold
// before, below ε=2, at it or above.
func mixedMarket(t testing.TB, l *Ledger) (names, gone []string) {
	t.Helper()
	names = crowd(2*state.PartSize + 7)
	sellers(t, l, "10", "10", names...)
	gone = []string{names[3], names[state.PartSize], names[2*state.PartSize+6]}
	for _, name := range gone {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave " + name, Object: name}))
	}
	sell(t, l, purchase(t, "below", "acme", "1", names[100:200]...))
	sell(t, l, purchase(t, "at", "bolt", "2", names[state.PartSize-50:state.PartSize-20]...))
	sell(t, l, purchase(t, "above", "acme", "3", names[state.PartSize+10:state.PartSize+30]...))
	sell(t, l, purchase(t, "around", "bolt", "1", names[state.PartSize+20:state.PartSize+40]...))
	return names, gone
}

// wantMixed checks a partial sale of mixedMarket at ε=2 to acme.
func wantMixed(t testing.TB, l *Ledger, s api.Sale, names, gone []string) {
	t.Helper()
	sold := uint64(len(names) - len(gone))
	check.That(t, s.Objects == sold && s.Draws == sold-30-20 && s.Resales == 30 && s.Degradations+s.Insertions == 20 && s.Upgrades == 100,
		"sold %+v", s.Offer)
	var left []string
	for _, r := range s.Refused {
		left = append(left, r.Object)
	}
	check.That(t, slices.Equal(left, gone), "left out %v, want %v", left, gone)
	all := check.Value(collect(l.Deliveries(t.Context(), s.Number)))(t)
	want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(gone, name) })
	truthful := 0
	for i, one := range all {
		if one.Value == "yes" {
			truthful++
		}
		check.Need(t, one.Object == want[i], "delivery %d is of %s, want %s", i, one.Object, want[i])
	}
	check.That(t, len(all) == len(want), "%d deliveries, want %d", len(all), len(want))
	n := len(all)
	check.That(t, truthful >= n/2 && truthful != n, "%d of %d answer with their truth", truthful, n)
}

// A sale of several parts delivers the recorded responses in order, and agrees with the log.
func TestSell_SeveralParts_DeliversWhatTheLogSays(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		all     bool
	}{
		"all objects":        {all: true},
		"names":              {},
		"bound to the truth": {options: Options{TruthKey: []byte("a key of sixteen")}},
	} {
		t.Run(name, func(t *testing.T) {
			store := &kv.Memory{}
			begin(t, store)
			l := openMemory(t, store, test.options)
			names, gone := mixedMarket(t, l)
			r := partialSale(purchase(t, "all", "acme", "2", names...))
			left := gone
			if test.all {
				r.Objects, r.All, left = nil, true, nil // withdrawn objects are not part of the request
			}
			s := sell(t, l, r)
			if test.all {
				names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(gone, name) })
			}
			wantMixed(t, l, s, names, left)
			sell(t, l, purchase(t, "more", "core", "2.5", names[4:50]...))
			auditStore(t, store)
		})
	}
}

// Before a large sale, in its transaction, one object withdraws and one is sold at ε=1.5. After it
// some of the same objects are sold again. Each request sees those before it.
func TestSell_SeveralPartsInSharedCommit_SeesEarlierRequests(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	names, gone := mixedMarket(t, l)
	closed(t, l)
	l, s := openShim(t, path, Options{})
	g := s.holdCommit(t)
	leaver, early := names[2*state.PartSize], names[state.PartSize+500]
	var group sync.WaitGroup
	group.Go(func() { sell(t, l, purchase(t, "first", "core", "1", names[20])) })
	g.wait(t)
	s.set(nil, nil)
	group.Go(func() { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave", Object: leaver})) })
	waitQueued(t, l, 1)
	group.Go(func() { sell(t, l, purchase(t, "early", "acme", "1.5", early)) })
	waitQueued(t, l, 2)
	var made api.Sale
	group.Go(func() {
		made = sell(t, l, partialSale(purchase(t, "all", "acme", "2", names...)))
	})
	waitQueued(t, l, 3)
	group.Go(func() {
		s := sell(t, l, purchase(t, "late", "bolt", "2", append(slices.Clone(names[50:90]), early)...))
		check.That(t, s.Resales == 41, "sold after it: %+v", s.Offer)
	})
	waitQueued(t, l, 4)
	before := s.commits.Load()
	g.open()
	group.Wait()
	if n := s.commits.Load() - before; n != 2 { // that of the first, and one for all others
		t.Errorf("%d commits", n)
	}
	check.That(t, made.Draws == uint64(len(names)-len(gone)-1-30-20) && len(made.Refused) == len(gone)+1 && made.Upgrades == 101,
		"sold %+v, and left out %d", made.Offer, len(made.Refused))
	check.Equal(t, objectOf(t, l, early).Spent, eps(t, "2"), "%s has spent", early)
	wantClean(t, l, api.VerifyRequest{})
}

// A large sale that fails leaves no record and charges no object, and can be made again.
func TestSell_LargeAndFailing_ChangesNothing(t *testing.T) {
	names := crowd(2*state.PartSize + 100)
	u := &kv.Memory{}
	begin(t, u)
	key := []byte("a key of sixteen")
	l := openMemory(t, u, Options{TruthKey: key})
	sellers(t, l, "10", "10", names...)
	changed := names[state.PartSize+50]
	sell(t, l, purchase(t, "one", "core", "1", changed))
	whole := purchase(t, "all", "acme", "2", names...)

	for name, test := range map[string]struct {
		change func(*api.SellRequest)
		want   error // nil for a refusal
		truth  []string
	}{
		"context canceled": {func(r *api.SellRequest) {}, context.Canceled, nil},
		"a truth has changed": {func(r *api.SellRequest) {
			r.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
				values, err := sameTruth("yes")(ctx, q, objects)
				if i, found := slices.BinarySearch(objects, changed); found {
					values[i] = "no"
				}
				return values, err
			}
		}, nil, []string{changed}},
		"an object not enrolled": {func(r *api.SellRequest) { r.Objects = append(slices.Clone(names), "person-04200x") }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.want == context.Canceled {
				pages := 0
				l.engine.Chances.Values = &rrchain.Sampler{Random: exact.ReplayBits(func(p []byte) {
					if pages++; pages == 3 {
						cancel()
					}
					_, _ = rand.Read(p)
				})}
			}
			r := whole
			test.change(&r)
			unchanged(t, u, func() {
				_, err := l.Sell(ctx, r)
				var refused *api.RefusedError
				if test.want != nil {
					wantErr(t, err, test.want)
				} else if !errors.As(err, &refused) || !slices.Equal(refused.TruthChanged, test.truth) {
					t.Errorf("got %v", err)
				}
			})
			l.engine.Chances.Values = new(rrchain.Sampler)
		})
	}
	s := sell(t, l, whole)
	check.That(t, s.Draws == uint64(len(names)) && s.Upgrades == 0, "sold %+v", s.Offer)
	again := sell(t, l, whole)
	check.That(t, again.Number == 2, "asked again: %+v", again)
	auditStore(t, u)
}

// A large sale of unary responses delivers the rows of bits that are recorded.
func TestSell_LargeUnary_DeliversTheRecordedRows(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{})
	names := crowd(state.PartSize + 20)
	q := api.Question{Name: "vote", Values: append(vote().Values, "perhaps"), Encoding: "unary"}
	define(t, l, q)
	enrollUnder(t, l, "vote", market(t, "10"), "10", names...)
	sell(t, l, purchase(t, "some", "core", "3", names[10:state.PartSize+10]...))
	made := sell(t, l, purchase(t, "all", "acme", "2"))
	check.That(t, made.Draws == 20 && made.Degradations == state.PartSize, "sold %+v", made.Offer)
	auditStore(t, s)
	all := check.Value(collect(l.Deliveries(t.Context(), made.Number)))(t)
	different := map[string]bool{}
	for i, one := range all {
		if different[one.Value] = true; i%100 != 0 {
			continue
		}
		response, err := l.Release(t.Context(), releaseOf(t, "read "+one.Object, one.Object, "2"))
		if must(t, err); one.Value != response.Value || one.Object != names[i] {
			t.Fatalf("delivery %d of %s: %+v, recorded %s", i, names[i], one, response.Value)
		}
	}
	check.That(t, len(different) >= 4, "only %d different rows among %d", len(different), len(all))
}

// The transaction finds damage that the survey did not. The sale fails, and its goroutines end.
func TestSell_DamageFoundInTransaction_IsCorruptAndEnds(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{})
	names := crowd(6 * state.PartSize)
	sellers(t, l, "10", "10", names...)
	r := purchase(t, "all", "acme", "1", names...)
	r.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		if objects[0] == names[0] { // once it is surveyed
			must(t, s.Update(func(w kv.Writer) error { return w.Delete(state.BucketObjects, state.ObjectKey(names[7])) }))
		}
		return sameTruth("yes")(ctx, q, objects)
	}
	before := runtime.NumGoroutine()
	wantErr(t, check.Err(l.Sell(t.Context(), r)), api.ErrCorrupt)
	eventually(t, func() bool { return runtime.NumGoroutine() <= before }, "more than the %d goroutines before", before)
}

// linearPolicy raises the ceiling from 0 to 1 over ten days.
func linearPolicy(t *testing.T, stride string) policy.Policy {
	t.Helper()
	return check.Value(policy.Linear(eps(t, "0"), eps(t, "1"), epoch(), epoch().Add(10*24*time.Hour), eps(t, stride)))(t)
}

func onDay(day int) time.Time { return epoch().Add(time.Duration(day) * 24 * time.Hour) }

// A sale is one transaction, even if a raise of the same objects has several parts. A reservation
// is not captured in part by default. What cannot be delivered is refunded, and nothing else.
func TestSell_LargeOrReserved_IsOneCommit(t *testing.T) {
	l, s := openShim(t, create(t), Options{})
	define(t, l, vote())
	names := crowd(state.PartSize + 1)
	enrollUnder(t, l, "vote", market(t, "2"), "9", names...)
	o := purchase(t, "", "acme", "0.5", names...)
	before := s.commits.Load()
	r := reserve(t, l, api.ReserveRequest{Key: "r", Order: o.Order, For: time.Hour})
	n := s.commits.Load() - before
	check.That(t, n == 1 && r.Objects == uint64(len(names)), "%d commits for a reservation of %d objects", n, r.Objects)
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: names[7]}))
	before = s.commits.Load()
	_, err := l.Capture(t.Context(), api.CaptureRequest{Key: "whole", Reservation: r.Number, Truth: sameTruth("yes")})
	got := refusals(t, err)
	check.That(t, len(got) == 1 && got[0].Object == names[7] && got[0].Reason == api.Withdrawn, "got the error %v", err)
	sold := check.Value(l.Capture(t.Context(), api.CaptureRequest{Key: "part", Reservation: r.Number, Partial: true, Truth: sameTruth("yes")}))(t)
	each := r.Price / int64(len(names))
	if n := s.commits.Load() - before; n != 1 || sold.Objects != r.Objects-1 || sold.Price != r.Price-each || sold.Refund != each {
		t.Errorf("%d commits for %+v", n, sold)
	}
	before = s.commits.Load()
	again := purchase(t, "again", "zeta", "0.25", names...)
	again.Partial, again.Truth = true, mustNotAsk(t)
	if made := sell(t, l, again); s.commits.Load()-before != 1 || made.Degradations != sold.Objects || made.Refund != 0 {
		t.Errorf("%d commits for %+v", s.commits.Load()-before, made)
	}
	auditStore(t, l.engine.Store)
}

// A quote or sale of more objects than one part leaves out the withdrawn ones in every part. It is
// the same for all objects as for a list of their names.
func TestQuoteAndSell_LargePanel_AgreeByNameAndForAll(t *testing.T) {
	const some = 2*state.PartSize + 5
	names := crowd(some)
	l := sellers(t, newLedger(t), "10", "10", names...)
	spent, gone := names[state.PartSize], []string{names[0], names[state.PartSize-1], names[some-1]}
	for _, name := range gone {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraw " + name, Object: name}))
	}
	sell(t, l, purchase(t, "before", "zeta", "4", spent))
	all := purchase(t, "all", "acme", "2")
	quote := check.Value(l.Quote(t.Context(), all.Order))(t)
	check.That(t, quote.Objects == some-3 && quote.Draws == some-4 && quote.Degradations == 1 && len(quote.Refused) == 0,
		"a quote for %d objects, of them %d draws and %d degradations; %d refused", quote.Objects, quote.Draws, quote.Degradations, len(quote.Refused))
	named := partialSale(purchase(t, "named", "acme", "2", names...))
	partial := check.Value(l.Quote(t.Context(), named.Order))(t)
	check.That(t, partial.Objects == some-3 && len(partial.Refused) == 3 && partial.Price == quote.Price,
		"by name, %d objects at %d, and %d are refused; for all, it is %d", partial.Objects, partial.Price, len(partial.Refused), quote.Price)
	for i, r := range partial.Refused {
		check.That(t, r.Object == gone[i], "refused: %s, want %s", r.Object, gone[i])
	}
	if first := sell(t, l, all); first.Objects != some-3 || first.Price != quote.Price {
		t.Errorf("%d objects were sold at %d", first.Objects, first.Price)
	}
	if second := sell(t, l, named); second.Objects != some-3 || second.Price != 0 || second.Resales != some-3 {
		t.Errorf("%d objects were sold again at %d, %d as they were", second.Objects, second.Price, second.Resales)
	}
	check.Equal(t, check.Value(l.Reserve(t.Context(), api.ReserveRequest{Key: "reserve", Order: api.Order{Buyer: "hooli", Question: "vote", Epsilon: eps(t, "3"), All: true}, For: time.Hour}))(t).Objects, some-3, "reserved objects")
	wantClean(t, l, api.VerifyRequest{})
}
