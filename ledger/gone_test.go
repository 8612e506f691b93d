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

// leftStore is a store that counts the records that are read from it, and calls leave before the one with the number at.
type leftStore struct {
	kv.Store
	reads atomic.Int64
	at    int64
	leave func()
}

func (c *leftStore) View(fn func(kv.Reader) error) error {
	return c.Store.View(func(r kv.Reader) error { return fn(leftReader{r, c}) })
}

func (c *leftStore) Update(fn func(kv.Writer) error) error {
	return c.Store.Update(func(w kv.Writer) error { return fn(leftWriter{w, leftReader{w, c}}) })
}

func (c *leftStore) read() {
	if c.reads.Add(1) == c.at {
		c.leave()
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

type leftWriter struct {
	kv.Writer
	leftReader
}

func (w leftWriter) Get(bucket string, key []byte) ([]byte, error) {
	return w.leftReader.Get(bucket, key)
}

func (w leftWriter) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	return w.leftReader.Scan(bucket, from, visit)
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

// panelCalls are the calls of this package whose cost grows with the panel, or with the log. In the ledger there are sellers of votes up
// to ε = 2; sale 1 was made to acme at ε = 1.
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
	reads := map[string]func(ctx context.Context, l *Ledger) error{
		"quote":              func(ctx context.Context, l *Ledger) error { return check.Err(l.Quote(ctx, fair.Order)) },
		"quote, by name":     func(ctx context.Context, l *Ledger) error { return check.Err(l.Quote(ctx, named.Order)) },
		"quote, refused":     func(ctx context.Context, l *Ledger) error { return check.Err(l.Quote(ctx, dear)) },
		"quote of an answer": func(ctx context.Context, l *Ledger) error { return check.Err(l.QuoteAnswer(ctx, majority)) },
		"quote of a loss":    func(ctx context.Context, l *Ledger) error { return check.Err(l.QuoteAnswer(ctx, lossy)) },
		"quote of no answer": func(ctx context.Context, l *Ledger) error { return check.Err(l.QuoteAnswer(ctx, poor)) },
		"budget": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.Budget(ctx, api.BudgetRequest{Question: "vote", All: true}))
		},
		"budget of a buyer": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.Budget(ctx, api.BudgetRequest{Question: "vote", Objects: everybody, Buyer: "acme"}))
		},
		"responses":           func(ctx context.Context, l *Ledger) error { return drained(l.Responses(ctx, "vote", eps(t, "1"))) },
		"deliveries":          func(ctx context.Context, l *Ledger) error { return drained(l.Deliveries(ctx, 1)) },
		"receipt":             func(ctx context.Context, l *Ledger) error { return check.Err(l.Receipt(ctx, 1)) },
		"events":              func(ctx context.Context, l *Ledger) error { return drained(l.Events(ctx, 1)) },
		"sale, left out many": func(ctx context.Context, l *Ledger) error { return check.Err(l.Sale(ctx, 2)) },
		"sales":               func(ctx context.Context, l *Ledger) error { return drained(l.Sales(ctx, "")) },
		"refusals":            func(ctx context.Context, l *Ledger) error { return drained(l.Refusals(ctx, "partial", 1)) },
		"recount": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.Estimate(ctx, api.EstimateRequest{Question: "vote", Include: func(string) bool { return true }}))
		},
		"verify": func(ctx context.Context, l *Ledger) error { return check.Err(l.Verify(ctx, api.VerifyRequest{})) },
	}
	changes := map[string]func(ctx context.Context, l *Ledger) error{
		"sale":          func(ctx context.Context, l *Ledger) error { return check.Err(l.Sell(ctx, fair)) },
		"sale, refused": func(ctx context.Context, l *Ledger) error { return check.Err(l.Sell(ctx, refused)) },
		"reserve": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.Reserve(ctx, api.ReserveRequest{Key: "k", Order: fair.Order, For: time.Hour}))
		},
		"reserve, refused": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.Reserve(ctx, api.ReserveRequest{Key: "k", Order: dear, For: time.Hour}))
		},
		"raise":           func(ctx context.Context, l *Ledger) error { return check.Err(l.Raise(ctx, order(t, "k", "1.5"))) },
		"raise, refused":  func(ctx context.Context, l *Ledger) error { return check.Err(l.Raise(ctx, order(t, "k", "100"))) },
		"answer":          func(ctx context.Context, l *Ledger) error { return check.Err(l.Answer(ctx, majority)) },
		"answer, refused": func(ctx context.Context, l *Ledger) error { return check.Err(l.Answer(ctx, poor)) },
		"answer, lossy":   func(ctx context.Context, l *Ledger) error { return check.Err(l.Answer(ctx, lossy)) },
		"advance": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.Advance(ctx, api.AdvanceRequest{Key: "k", Truth: sameTruth("yes")}))
		},
		"enroll": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: "k", Question: "vote", Objects: crowd(2 * sellersHere), Cap: eps(t, "10"), Policy: market(t, "2")}))
		},
		"terms": func(ctx context.Context, l *Ledger) error {
			return check.Err(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: "k", Question: "vote", Objects: everybody, Cap: eps(t, "9")}))
		},
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

// sellersHere is how many objects the ledger of panelCalls has.
const sellersHere = 700

// sellersLedger fills that ledger.
func sellersLedger(t *testing.T, key string) *kv.Memory {
	s := &kv.Memory{}
	beginWithKey(t, s, key)
	l := sellers(t, openMemory(t, s, Options{}), "2", "10", crowd(sellersHere)...)
	sell(t, l, purchase(t, "sold", "acme", "1"))
	partial := purchase(t, "partial", "acme", "0.5", crowd(2*sellersHere)...)
	partial.Partial = true
	sell(t, l, partial)
	return s
}

// TestPanelCall_CallerLeaves_ReadsLittleMore has the caller leave before each of many records that a call reads. A call that only
// reads never goes on; one that changes the ledger goes on only to complete a commit under way.
func TestPanelCall_CallerLeaves_ReadsLittleMore(t *testing.T) {
	signer, _, key := logKey(t, "panel", 1)
	from := sellersLedger(t, key)
	// What a transaction reads when it is made again without the request: the counters, and what begins it.
	const again = 16
	for _, c := range panelCalls(t) {
		t.Run(c.name, func(t *testing.T) {
			run := func(at int64) (after int64, changed bool, err error) {
				s := &leftStore{Store: from.Copy()}
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

// TestRefusedCall_ManyObjects_ListsTheFirstAndCountsAll refuses calls about many objects, of each of which only the first are
// listed. What would be possible instead counts all.
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
	blindRaise := order(t, "k", "1.5")
	blindRaise.Truth = untold
	for name, call := range map[string]struct {
		do     func(l *Ledger) (listed []api.Refusal, unlisted int, sums []api.RefusalSum, instead *api.Budget, err error)
		reason api.Reason
		can    uint64 // at the ε of the request
	}{
		"quote": {func(l *Ledger) ([]api.Refusal, int, []api.RefusalSum, *api.Budget, error) {
			q, err := l.Quote(t.Context(), dear)
			return q.Refused, q.Unlisted, q.Sums, q.Instead, err
		}, api.NotOnOffer, 0},
		"sale": {refusedBy(func(l *Ledger) error {
			return check.Err(l.Sell(t.Context(), api.SellRequest{Key: "k", Order: dear, Truth: untold}))
		}), api.NotOnOffer, 0},
		"reserve": {refusedBy(func(l *Ledger) error {
			return check.Err(l.Reserve(t.Context(), api.ReserveRequest{Key: "k", Order: dear, For: time.Hour}))
		}), api.NotOnOffer, 0},
		"raise":  {refusedBy(func(l *Ledger) error { return check.Err(l.Raise(t.Context(), order(t, "k", "100"))) }), api.ChainCeiling, 0},
		"answer": {refusedBy(func(l *Ledger) error { return check.Err(l.Answer(t.Context(), poor)) }), api.ChainCeiling, 0},
		"quote of an answer": {func(l *Ledger) ([]api.Refusal, int, []api.RefusalSum, *api.Budget, error) {
			q, err := l.QuoteAnswer(t.Context(), poor)
			return q.Refused, q.Unlisted, q.Sums, &api.Budget{Levels: []api.BudgetLevel{{}}}, err
		}, api.ChainCeiling, 0},
		"sale, without truths": {refusedBy(func(l *Ledger) error {
			return check.Err(l.Sell(t.Context(), api.SellRequest{Key: "k", Order: fair, Truth: untold}))
		}), api.NoTruth, 0},
		"raise, without truths":  {refusedBy(func(l *Ledger) error { return check.Err(l.Raise(t.Context(), blindRaise)) }), api.NoTruth, 0},
		"answer, without truths": {refusedBy(func(l *Ledger) error { return check.Err(l.Answer(t.Context(), blind)) }), api.NoTruth, 0},
	} {
		l := openMemory(t, from.Copy(), Options{})
		listed, unlisted, sums, instead, err := call.do(l)
		if err != nil || len(listed) != request.MaxListed || unlisted != sellersHere-request.MaxListed {
			t.Errorf("%s: %d refusals are listed, %d are not, want %d of %d (%v)", name, len(listed), unlisted, request.MaxListed, sellersHere, err)
			continue
		}
		for i, r := range listed {
			check.Need(t, r.Object == crowd(i + 1)[i] && r.Reason == call.reason, "%s: refusal %d is %s", name, i, r)
		}
		check.That(t, len(sums) == 1 && sums[0].Reason == call.reason && sums[0].Count == sellersHere,
			"%s: the sums are %+v", name, sums)
		top := instead.Levels[len(instead.Levels)-1]
		check.That(t, top.Can == call.can, "%s: %d could be had, it says, want %d", name, top.Can, call.can)
	}
}

// refusedBy returns what a call was refused for.
func refusedBy(call func(l *Ledger) error) func(l *Ledger) ([]api.Refusal, int, []api.RefusalSum, *api.Budget, error) {
	return func(l *Ledger) ([]api.Refusal, int, []api.RefusalSum, *api.Budget, error) {
		err := call(l)
		var r *api.RefusedError
		if !errors.As(err, &r) {
			return nil, 0, nil, nil, err
		}
		return r.Refused, r.Unlisted, r.Sums, r.Instead, nil
	}
}

// TestOrder_StopAtRefusal_ReadsNothingAfterTheFirst counts what is read of a panel of which the third object is refused.
func TestOrder_StopAtRefusal_ReadsNothingAfterTheFirst(t *testing.T) {
	_, _, key := logKey(t, "panel", 1)
	s := &leftStore{Store: sellersLedger(t, key)}
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
