package ledger

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// tapped is a store whose reads a test observes. It calls begin for each transaction, and at its
// end the function that begin returned.
type tapped struct {
	kv.Store
	begin func() (on tap, end func())
}

// tap has the hooks for the records that are read. A nil hook does nothing.
type tap struct {
	before func()
	lend   func([]byte) []byte
}

func (s *tapped) View(fn func(kv.Reader) error) error {
	on, end := s.begin()
	defer end()
	return s.Store.View(func(r kv.Reader) error { return fn(tappedReader{r, on}) })
}

func (s *tapped) Update(fn func(kv.Writer) error) error {
	on, end := s.begin()
	defer end()
	return s.Store.Update(func(w kv.Writer) error { return fn(tappedWriter{tappedReader{w, on}, w}) })
}

type tappedReader struct {
	kv.Reader
	on tap
}

func (r tappedReader) Get(bucket string, key []byte) ([]byte, error) {
	if r.on.before != nil {
		r.on.before()
	}
	value, err := r.Reader.Get(bucket, key)
	if r.on.lend != nil {
		value = r.on.lend(value)
	}
	return value, err
}

func (r tappedReader) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	return r.Reader.Scan(bucket, from, func(key, value []byte) bool {
		if r.on.before != nil {
			r.on.before()
		}
		if r.on.lend != nil {
			key, value = r.on.lend(key), r.on.lend(value)
		}
		return visit(key, value)
	})
}

// tappedWriter reads as a tappedReader does.
type tappedWriter struct {
	tappedReader
	puts
}

// puts are the methods of a [kv.Writer] by which it writes.
type puts interface {
	Put(bucket string, key, value []byte) error
	Delete(bucket string, key []byte) error
}

// counted is a store that counts the records read from it. It calls leave before the record with
// the number at.
type counted struct {
	tapped
	reads atomic.Int64
	at    int64
	leave func()
}

func newCounted(s kv.Store) *counted {
	c := &counted{}
	read := func() {
		if c.reads.Add(1) == c.at {
			c.leave()
		}
	}
	c.tapped = tapped{s, func() (tap, func()) { return tap{before: read}, func() {} }}
	return c
}

// drained returns the error that ends a list.
func drained[T any](list iter.Seq2[T, error]) (last error) {
	for _, err := range list {
		last = err
	}
	return last
}

// panelCall is a call whose cost grows with the panel.
type panelCall struct {
	name    string
	changes bool // it records events, and completes a commit that has begun
	call    func(ctx context.Context, l *Ledger) error
}

// panelCalls returns the calls of this package whose cost grows with the panel, or with the log.
// The objects of their ledger sell votes up to ε = 2. Sale 1 was made to acme at ε = 1.
func panelCalls(t *testing.T) []panelCall {
	dear, fair := purchase(t, "k", "bolt", "2.5").Order, purchase(t, "k", "bolt", "1.5")
	named := fair
	named.All, named.Objects = false, crowd(panelObjects)
	refused := api.SellRequest{Key: "k", Order: dear, Truth: sameTruth("yes")}
	majority := api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", Epsilon: eps(t, "0.5"), All: true, Truth: sameTruth("yes"), AcceptLoss: true}
	lossy := majority
	lossy.AcceptLoss, lossy.Epsilon = false, eps(t, "1.5")
	poor := majority
	poor.Epsilon = eps(t, "100")
	names := crowd(panelObjects)
	type panel = func(ctx context.Context, l *Ledger) error
	reads := map[string]panel{
		"quote":               callOf((*Ledger).Quote, fair.Order),
		"quote, by name":      callOf((*Ledger).Quote, named.Order),
		"quote, refused":      callOf((*Ledger).Quote, dear),
		"quote of an answer":  callOf((*Ledger).QuoteAnswer, majority),
		"quote of a loss":     callOf((*Ledger).QuoteAnswer, lossy),
		"quote of no answer":  callOf((*Ledger).QuoteAnswer, poor),
		"budget":              callOf((*Ledger).Budget, api.BudgetRequest{Question: "vote", All: true}),
		"budget of a buyer":   callOf((*Ledger).Budget, api.BudgetRequest{Question: "vote", Objects: names, Buyer: "acme"}),
		"responses":           func(ctx context.Context, l *Ledger) error { return drained(l.Responses(ctx, "vote", eps(t, "1"))) },
		"deliveries":          func(ctx context.Context, l *Ledger) error { return drained(l.Deliveries(ctx, 1)) },
		"receipt":             callOf((*Ledger).Receipt, 1),
		"events":              func(ctx context.Context, l *Ledger) error { return drained(l.Events(ctx, 1)) },
		"sale, left out many": callOf((*Ledger).Sale, 2),
		"sales":               func(ctx context.Context, l *Ledger) error { return drained(l.Sales(ctx, "")) },
		"refusals":            func(ctx context.Context, l *Ledger) error { return drained(l.Refusals(ctx, "partial", 1)) },
		"recount":             callOf((*Ledger).Estimate, api.EstimateRequest{Question: "vote", Include: func(string) bool { return true }}),
		"verify":              callOf((*Ledger).Verify, api.VerifyRequest{}),
	}
	changes := map[string]panel{
		"sale":             callOf((*Ledger).Sell, fair),
		"sale, refused":    callOf((*Ledger).Sell, refused),
		"reserve":          callOf((*Ledger).Reserve, api.ReserveRequest{Key: "k", Order: fair.Order, For: time.Hour}),
		"reserve, refused": callOf((*Ledger).Reserve, api.ReserveRequest{Key: "k", Order: dear, For: time.Hour}),
		"raise":            callOf((*Ledger).Raise, raiseOf(t, "k", "1.5")),
		"raise, refused":   callOf((*Ledger).Raise, raiseOf(t, "k", "100")),
		"answer":           callOf((*Ledger).Answer, majority),
		"answer, refused":  callOf((*Ledger).Answer, poor),
		"answer, lossy":    callOf((*Ledger).Answer, lossy),
		"advance":          callOf((*Ledger).Advance, api.AdvanceRequest{Key: "k", Truth: sameTruth("yes")}),
		"enroll": callOf((*Ledger).Enroll, api.EnrollRequest{
			Key: "k", Question: "vote", Objects: crowd(2 * panelObjects), Cap: eps(t, "10"), Policy: market(t, "2"),
		}),
		"terms": callOf((*Ledger).ChangeTerms, api.ChangeTermsRequest{Key: "k", Question: "vote", Objects: names, Cap: eps(t, "9")}),
	}
	var all []panelCall
	for name, call := range reads {
		all = append(all, panelCall{name, false, call})
	}
	for name, call := range changes {
		all = append(all, panelCall{name, true, call})
	}
	return all
}

// callOf returns a call of a method with a request.
func callOf[R, V any](method func(*Ledger, context.Context, R) (V, error), r R) func(context.Context, *Ledger) error {
	return func(ctx context.Context, l *Ledger) error { return check.Err(method(l, ctx, r)) }
}

// panelObjects is the number of objects in the ledger of panelCalls.
const panelObjects = 700

// sellersLedger returns the store of that ledger.
func sellersLedger(t *testing.T, key string) *kv.Memory {
	s := &kv.Memory{}
	beginWithKey(t, s, key)
	l := sellers(t, openMemory(t, s, Options{}), "2", "10", crowd(panelObjects)...)
	sell(t, l, purchase(t, "sold", "acme", "1"))
	sell(t, l, partialSale(purchase(t, "partial", "acme", "0.5", crowd(2*panelObjects)...)))
	return s
}

// The context is canceled before each of many reads of a call. A call that only reads stops. A call
// that changes the ledger continues only to complete a commit in progress.
func TestPanelCall_ContextCanceled_StopsReading(t *testing.T) {
	signer, _, key := logKey(t, "panel", 1)
	from := sellersLedger(t, key)
	// A transaction that is retried without the request reads this much: the counters, and the
	// records at its start.
	const again = 16
	for _, c := range panelCalls(t) {
		t.Run(c.name, func(t *testing.T) {
			run := func(at int64) (after int64, changed bool, err error) {
				s := newCounted(from.Copy())
				l := openMemory(t, s, Options{Signer: signer})
				before := stats(t, l).Events
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				s.reads.Store(0)
				s.at, s.leave = at, leave
				err = c.call(ctx, l)
				after = s.reads.Load() - at
				return after, stats(t, l).Events > before, err
			}
			all, _, err := run(-1)
			if all++; all < 10*state.CheckEvery {
				t.Fatalf("it reads %d records in all (%v): too few to see", all, err)
			}
			for at := int64(1); at < all-state.CheckEvery-again; at += all / 40 {
				after, changed, err := run(at)
				var refused *api.RefusedError // for what it found before, without alternatives
				known := c.changes && errors.As(err, &refused) && refused.Instead == nil
				stopped := (errors.Is(err, context.Canceled) || known) && after <= state.CheckEvery+again
				completed := err == nil && c.changes && changed
				check.That(t, (at != 1 || stopped) && (stopped || completed),
					"it was canceled before record %d of %d, read %d more, and returned %v", at, all, after, err)
			}
		})
	}
}

// Calls about many objects are refused. Only the first refusals are listed, and the alternatives
// count all objects.
func TestRefusedCall_ManyObjects_ListsTheFirstAndCountsAll(t *testing.T) {
	_, _, key := logKey(t, "panel", 1)
	from := sellersLedger(t, key)
	noTruths := func(_ context.Context, _ string, objects []string) ([]string, error) {
		return make([]string, len(objects)), nil
	}
	dear := api.Order{Buyer: "bolt", Question: "vote", Epsilon: eps(t, "2.5"), All: true}
	fair := dear
	fair.Epsilon = eps(t, "1.5")
	poor := api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", Epsilon: eps(t, "100"), All: true, Truth: sameTruth("yes")}
	blind := poor
	blind.Epsilon, blind.AcceptLoss, blind.Truth = eps(t, "0.5"), true, noTruths
	blindRaise, tooHigh := raiseOf(t, "k", "1.5"), raiseOf(t, "k", "100")
	blindRaise.Truth = noTruths
	order := func(o api.Order) api.SellRequest { return api.SellRequest{Key: "k", Order: o, Truth: noTruths} }
	for name, call := range map[string]struct {
		do     func(l *Ledger) (api.RefusedError, error)
		reason api.Reason
	}{
		"quote": {func(l *Ledger) (api.RefusedError, error) {
			q, err := l.Quote(t.Context(), dear)
			return api.RefusedError{Refused: q.Refused, Unlisted: q.Unlisted, Sums: q.Sums, Instead: q.Instead}, err
		}, api.NotOnOffer},
		"sale":    {refusedBy(t, callOf((*Ledger).Sell, order(dear))), api.NotOnOffer},
		"reserve": {refusedBy(t, callOf((*Ledger).Reserve, api.ReserveRequest{Key: "k", Order: dear, For: time.Hour})), api.NotOnOffer},
		"raise":   {refusedBy(t, callOf((*Ledger).Raise, tooHigh)), api.ChainCeiling},
		"answer":  {refusedBy(t, callOf((*Ledger).Answer, poor)), api.ChainCeiling},
		"quote of an answer": {func(l *Ledger) (api.RefusedError, error) {
			q, err := l.QuoteAnswer(t.Context(), poor)
			return api.RefusedError{Refused: q.Refused, Unlisted: q.Unlisted, Sums: q.Sums, Instead: &api.Budget{Levels: []api.BudgetLevel{{}}}}, err
		}, api.ChainCeiling},
		"sale, without truths":   {refusedBy(t, callOf((*Ledger).Sell, order(fair))), api.NoTruth},
		"raise, without truths":  {refusedBy(t, callOf((*Ledger).Raise, blindRaise)), api.NoTruth},
		"answer, without truths": {refusedBy(t, callOf((*Ledger).Answer, blind)), api.NoTruth},
	} {
		l := openMemory(t, from.Copy(), Options{})
		r, err := call.do(l)
		if err != nil || len(r.Refused) != request.MaxListed || r.Unlisted != panelObjects-request.MaxListed {
			t.Errorf("%s: %d refusals are listed, %d are not, want %d of %d (%v)", name, len(r.Refused), r.Unlisted, request.MaxListed, panelObjects, err)
			continue
		}
		for i, r := range r.Refused {
			check.Need(t, r.Object == crowd(i + 1)[i] && r.Reason == call.reason, "%s: refusal %d is %s", name, i, r)
		}
		check.That(t, len(r.Sums) == 1 && r.Sums[0].Reason == call.reason && r.Sums[0].Count == panelObjects,
			"%s: the sums are %+v", name, r.Sums)
		check.Equal(t, r.Instead.Levels[len(r.Instead.Levels)-1].Can, 0, "%s: objects that could answer instead", name)
	}
}

// refusedBy returns a function that makes a call and returns its refusal.
func refusedBy(t *testing.T, call func(context.Context, *Ledger) error) func(l *Ledger) (api.RefusedError, error) {
	return func(l *Ledger) (api.RefusedError, error) {
		err := call(t.Context(), l)
		if r, is := errors.AsType[*api.RefusedError](err); is {
			return *r, nil
		}
		return api.RefusedError{}, err
	}
}

// The third object of a panel is refused: the call reads few records, and not the whole panel.
func TestOrder_StopAtRefusal_ReadsNothingAfterTheFirst(t *testing.T) {
	_, _, key := logKey(t, "panel", 1)
	s := newCounted(sellersLedger(t, key))
	l := openMemory(t, s, Options{})
	names := crowd(panelObjects)
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave", Object: names[2]}))
	o := api.Order{Buyer: "bolt", Question: "vote", Epsilon: eps(t, "1.5"), Objects: names, StopAtRefusal: true}
	const few = 100
	for name, call := range map[string]func() (listed []api.Refusal, unlisted int){
		"quote": func() ([]api.Refusal, int) {
			q, err := l.Quote(t.Context(), o)
			if must(t, err); q.ID != "" || q.Price != 0 || q.Objects != 0 || q.Draws != 0 || q.Instead != nil || q.Buyer != "bolt" || q.Currency != "EUR" || q.Event == 0 {
				t.Errorf("a quote that stopped is %+v", q)
			}
			return q.Refused, q.Unlisted
		},
		"sale": func() ([]api.Refusal, int) {
			_, err := l.Sell(t.Context(), api.SellRequest{Key: "k", Order: o, Truth: sameTruth("yes")})
			return stopped(t, err)
		},
		"reserve": func() ([]api.Refusal, int) {
			_, err := l.Reserve(t.Context(), api.ReserveRequest{Key: "k", Order: o, For: time.Hour})
			return stopped(t, err)
		},
	} {
		s.reads.Store(0)
		listed, unlisted := call()
		if n := s.reads.Load(); n > few || len(listed) != 1 || unlisted != 0 || listed[0].Object != names[2] || listed[0].Reason != api.Withdrawn {
			t.Errorf("%s: %d records are read; refused %+v and %d more, want the third object alone", name, n, listed, unlisted)
		}
	}
	// A partial order continues, and so does an order without refusals.
	partial := api.SellRequest{Key: "partial 2", Order: o, Partial: true, Truth: sameTruth("yes")}
	if got := sell(t, l, partial); got.Objects != panelObjects-1 || len(got.Refused) != 1 {
		t.Errorf("sold %d objects, and left out %d", got.Objects, len(got.Refused))
	}
	o.Objects = names[3:]
	q, err := l.Quote(t.Context(), o)
	if must(t, err); q.Objects != panelObjects-3 || q.ID == "" {
		t.Errorf("a quote for all is %+v", q)
	}
	// StopAtRefusal is not part of the identity of a request.
	partial.StopAtRefusal = false
	check.OK(t, check.Err(l.Sell(t.Context(), partial)))
}

func stopped(t *testing.T, err error) ([]api.Refusal, int) {
	t.Helper()
	var r *api.RefusedError
	check.Need(t, errors.As(err, &r) && r.Instead == nil, "got the error %v, want a refusal and nothing instead", err)
	return r.Refused, r.Unlisted
}
