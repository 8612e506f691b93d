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

// tapped is a store of which a test sees what is read. Begin is called for each transaction, and
// what it returns when that ends.
type tapped struct {
	kv.Store
	begin func() (on tap, end func())
}

// tap is what happens to the records that are read; what is nil does not.
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

// counted is a store that counts the records that are read from it, and calls leave before the one
// with the number at.
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
	changes bool // it records something, which it completes once it has begun to
	call    func(ctx context.Context, l *Ledger) error
}

// panelCalls are the calls of this package whose cost grows with the panel, or with the log. In the
// ledger there are sellers of votes up to ε = 2; sale 1 was made to acme at ε = 1.
func panelCalls(t *testing.T) []panelCall {
	dear, fair := purchase(t, "k", "bolt", "2.5").Order, purchase(t, "k", "bolt", "1.5")
	named := fair
	named.All, named.Objects = false, crowd(sellersHere)
	refused := api.SellRequest{Key: "k", Order: dear, Truth: sameTruth("yes")}
	majority := api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", Epsilon: eps(t, "0.5"), All: true, Truth: sameTruth("yes"), AcceptLoss: true}
	lossy := majority
	lossy.AcceptLoss, lossy.Epsilon = false, eps(t, "1.5")
	poor := majority
	poor.Epsilon = eps(t, "100")
	everybody := crowd(sellersHere)
	type panel = func(ctx context.Context, l *Ledger) error
	reads := map[string]panel{
		"quote":               asking((*Ledger).Quote, fair.Order),
		"quote, by name":      asking((*Ledger).Quote, named.Order),
		"quote, refused":      asking((*Ledger).Quote, dear),
		"quote of an answer":  asking((*Ledger).QuoteAnswer, majority),
		"quote of a loss":     asking((*Ledger).QuoteAnswer, lossy),
		"quote of no answer":  asking((*Ledger).QuoteAnswer, poor),
		"budget":              asking((*Ledger).Budget, api.BudgetRequest{Question: "vote", All: true}),
		"budget of a buyer":   asking((*Ledger).Budget, api.BudgetRequest{Question: "vote", Objects: everybody, Buyer: "acme"}),
		"responses":           func(ctx context.Context, l *Ledger) error { return drained(l.Responses(ctx, "vote", eps(t, "1"))) },
		"deliveries":          func(ctx context.Context, l *Ledger) error { return drained(l.Deliveries(ctx, 1)) },
		"receipt":             asking((*Ledger).Receipt, 1),
		"events":              func(ctx context.Context, l *Ledger) error { return drained(l.Events(ctx, 1)) },
		"sale, left out many": asking((*Ledger).Sale, 2),
		"sales":               func(ctx context.Context, l *Ledger) error { return drained(l.Sales(ctx, "")) },
		"refusals":            func(ctx context.Context, l *Ledger) error { return drained(l.Refusals(ctx, "partial", 1)) },
		"recount":             asking((*Ledger).Estimate, api.EstimateRequest{Question: "vote", Include: func(string) bool { return true }}),
		"verify":              asking((*Ledger).Verify, api.VerifyRequest{}),
	}
	changes := map[string]panel{
		"sale":             asking((*Ledger).Sell, fair),
		"sale, refused":    asking((*Ledger).Sell, refused),
		"reserve":          asking((*Ledger).Reserve, api.ReserveRequest{Key: "k", Order: fair.Order, For: time.Hour}),
		"reserve, refused": asking((*Ledger).Reserve, api.ReserveRequest{Key: "k", Order: dear, For: time.Hour}),
		"raise":            asking((*Ledger).Raise, raiseOf(t, "k", "1.5")),
		"raise, refused":   asking((*Ledger).Raise, raiseOf(t, "k", "100")),
		"answer":           asking((*Ledger).Answer, majority),
		"answer, refused":  asking((*Ledger).Answer, poor),
		"answer, lossy":    asking((*Ledger).Answer, lossy),
		"advance":          asking((*Ledger).Advance, api.AdvanceRequest{Key: "k", Truth: sameTruth("yes")}),
		"enroll": asking((*Ledger).Enroll, api.EnrollRequest{
			Key: "k", Question: "vote", Objects: crowd(2 * sellersHere), Cap: eps(t, "10"), Policy: market(t, "2"),
		}),
		"terms": asking((*Ledger).ChangeTerms, api.ChangeTermsRequest{Key: "k", Question: "vote", Objects: everybody, Cap: eps(t, "9")}),
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

// asking is a call of a method with a request.
func asking[R, V any](method func(*Ledger, context.Context, R) (V, error), r R) func(context.Context, *Ledger) error {
	return func(ctx context.Context, l *Ledger) error { return check.Err(method(l, ctx, r)) }
}

// sellersHere is how many objects the ledger of panelCalls has.
const sellersHere = 700

// sellersLedger fills that ledger.
func sellersLedger(t *testing.T, key string) *kv.Memory {
	s := &kv.Memory{}
	beginWithKey(t, s, key)
	l := sellers(t, openMemory(t, s, Options{}), "2", "10", crowd(sellersHere)...)
	sell(t, l, purchase(t, "sold", "acme", "1"))
	sell(t, l, partialSale(purchase(t, "partial", "acme", "0.5", crowd(2*sellersHere)...)))
	return s
}

// TestPanelCall_ContextCanceled_StopsReading has the caller leave before each of many records that
// a call reads. A call that only reads never goes on; one that changes the ledger goes on only to
// complete a commit under way.
func TestPanelCall_ContextCanceled_StopsReading(t *testing.T) {
	signer, _, key := logKey(t, "panel", 1)
	from := sellersLedger(t, key)
	// What a transaction reads when it is made again without the request: the counters, and what
	// begins it.
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
				var refused *api.RefusedError // for what it has found before, without what would be possible instead
				known := c.changes && errors.As(err, &refused) && refused.Instead == nil
				stopped := (errors.Is(err, context.Canceled) || known) && after <= state.CheckEvery+again
				completed := err == nil && c.changes && changed
				check.That(t, (at != 1 || stopped) && (stopped || completed),
					"its caller left before record %d of %d: it read %d more, and returned %v", at, all, after, err)
			}
		})
	}
}

// TestRefusedCall_ManyObjects_ListsTheFirstAndCountsAll refuses calls about many objects, of each
// of which only the first are listed. What would be possible instead counts all.
func TestRefusedCall_ManyObjects_ListsTheFirstAndCountsAll(t *testing.T) {
	_, _, key := logKey(t, "panel", 1)
	from := sellersLedger(t, key)
	untold := func(_ context.Context, _ string, objects []string) ([]string, error) {
		return make([]string, len(objects)), nil
	}
	dear := api.Order{Buyer: "bolt", Question: "vote", Epsilon: eps(t, "2.5"), All: true}
	fair := dear
	fair.Epsilon = eps(t, "1.5")
	poor := api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", Epsilon: eps(t, "100"), All: true, Truth: sameTruth("yes")}
	blind := poor
	blind.Epsilon, blind.AcceptLoss, blind.Truth = eps(t, "0.5"), true, untold
	blindRaise, tooHigh := raiseOf(t, "k", "1.5"), raiseOf(t, "k", "100")
	blindRaise.Truth = untold
	order := func(o api.Order) api.SellRequest { return api.SellRequest{Key: "k", Order: o, Truth: untold} }
	for name, call := range map[string]struct {
		do     func(l *Ledger) (api.RefusedError, error)
		reason api.Reason
	}{
		"quote": {func(l *Ledger) (api.RefusedError, error) {
			q, err := l.Quote(t.Context(), dear)
			return api.RefusedError{Refused: q.Refused, Unlisted: q.Unlisted, Sums: q.Sums, Instead: q.Instead}, err
		}, api.NotOnOffer},
		"sale":    {refusedBy(t, asking((*Ledger).Sell, order(dear))), api.NotOnOffer},
		"reserve": {refusedBy(t, asking((*Ledger).Reserve, api.ReserveRequest{Key: "k", Order: dear, For: time.Hour})), api.NotOnOffer},
		"raise":   {refusedBy(t, asking((*Ledger).Raise, tooHigh)), api.ChainCeiling},
		"answer":  {refusedBy(t, asking((*Ledger).Answer, poor)), api.ChainCeiling},
		"quote of an answer": {func(l *Ledger) (api.RefusedError, error) {
			q, err := l.QuoteAnswer(t.Context(), poor)
			return api.RefusedError{Refused: q.Refused, Unlisted: q.Unlisted, Sums: q.Sums, Instead: &api.Budget{Levels: []api.BudgetLevel{{}}}}, err
		}, api.ChainCeiling},
		"sale, without truths":   {refusedBy(t, asking((*Ledger).Sell, order(fair))), api.NoTruth},
		"raise, without truths":  {refusedBy(t, asking((*Ledger).Raise, blindRaise)), api.NoTruth},
		"answer, without truths": {refusedBy(t, asking((*Ledger).Answer, blind)), api.NoTruth},
	} {
		l := openMemory(t, from.Copy(), Options{})
		r, err := call.do(l)
		if err != nil || len(r.Refused) != request.MaxListed || r.Unlisted != sellersHere-request.MaxListed {
			t.Errorf("%s: %d refusals are listed, %d are not, want %d of %d (%v)", name, len(r.Refused), r.Unlisted, request.MaxListed, sellersHere, err)
			continue
		}
		for i, r := range r.Refused {
			check.Need(t, r.Object == crowd(i + 1)[i] && r.Reason == call.reason, "%s: refusal %d is %s", name, i, r)
		}
		check.That(t, len(r.Sums) == 1 && r.Sums[0].Reason == call.reason && r.Sums[0].Count == sellersHere,
			"%s: the sums are %+v", name, r.Sums)
		check.Equal(t, r.Instead.Levels[len(r.Instead.Levels)-1].Can, 0, "%s: objects that could answer instead", name)
	}
}

// refusedBy returns what a call was refused for.
func refusedBy(t *testing.T, call func(context.Context, *Ledger) error) func(l *Ledger) (api.RefusedError, error) {
	return func(l *Ledger) (api.RefusedError, error) {
		err := call(t.Context(), l)
		if r, is := errors.AsType[*api.RefusedError](err); is {
			return *r, nil
		}
		return api.RefusedError{}, err
	}
}

// TestOrder_StopAtRefusal_ReadsNothingAfterTheFirst counts what is read of a panel of which the
// third object is refused.
func TestOrder_StopAtRefusal_ReadsNothingAfterTheFirst(t *testing.T) {
	_, _, key := logKey(t, "panel", 1)
	s := newCounted(sellersLedger(t, key))
	l := openMemory(t, s, Options{})
	names := crowd(sellersHere)
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
	// An order that is sold in part goes on, and so does one of which nobody is refused.
	partial := api.SellRequest{Key: "partial 2", Order: o, Partial: true, Truth: sameTruth("yes")}
	if got := sell(t, l, partial); got.Objects != sellersHere-1 || len(got.Refused) != 1 {
		t.Errorf("sold %d objects, and left out %d", got.Objects, len(got.Refused))
	}
	o.Objects = names[3:]
	q, err := l.Quote(t.Context(), o)
	if must(t, err); q.Objects != sellersHere-3 || q.ID == "" {
		t.Errorf("a quote for all is %+v", q)
	}
	// It is no part of what a key stands for.
	partial.StopAtRefusal = false
	check.OK(t, check.Err(l.Sell(t.Context(), partial)))
}

func stopped(t *testing.T, err error) ([]api.Refusal, int) {
	t.Helper()
	var r *api.RefusedError
	check.Need(t, errors.As(err, &r) && r.Instead == nil, "got the error %v, want a refusal and nothing instead", err)
	return r.Refused, r.Unlisted
}
