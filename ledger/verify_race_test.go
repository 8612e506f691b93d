package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
)

// Verify reads a ledger to which other goroutines write, and of which they forget objects, at every
// instant. It never finds anything.
func TestVerify_ConcurrentWrites_FindsNothing(t *testing.T) {
	wanted := uint64(tests.Tries(1500, 12_000, 12_000))
	if hurried() {
		wanted = 800
	}
	signer, _, key := logKey(t, "sluice-test", 1)
	l := signedLedger(t, key, Options{Signer: signer, TruthKey: truthKey()})
	crowd := crowd(40)
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "900"), "900", crowd[:20]...)
	enroll(t, l, "vote", "900", crowd[20:30]...) // the rest are strangers
	ctx, cancel := context.WithCancel(t.Context())
	var allowed atomic.Uint64 // how many events there may be: in each round some come, or the audit would never catch up
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			w := &disturber{t: t, l: l, random: rand.New(rand.NewPCG(1, uint64(i))), names: crowd, id: i}
			for ctx.Err() == nil {
				if stats(t, l).Events < allowed.Load() {
					w.act(ctx)
				} else {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	pause := api.VerifyRequest{Progress: func(uint64, uint64) { time.Sleep(time.Millisecond) }} // so that many commits come between two snapshots
	times := 0
	for i := 0; stats(t, l).Events < wanted; i++ {
		times++
		allowed.Store(stats(t, l).Events + 150)
		at := slow()
		at.Events, at.Records, at.Batch, at.Problems = 30+17*i, 20+11*i, 1+i%9, 1000
		found, done := verified(t, l, pause, at)
		for _, p := range found {
			t.Errorf("round %d, %d events: %+v", i, done.Events, p)
		}
		if t.Failed() {
			break
		}
	}
	cancel()
	writers.Wait()
	wantClean(t, l, api.VerifyRequest{})
	auditStore(t, l.engine.Store)
	t.Logf("verified %d times; in the end there are %d events, %d of them erased", times, stats(t, l).Events, countErased(t, l))
}

// disturber makes random requests of a ledger. Refusals are accepted.
type disturber struct {
	t      *testing.T
	l      *Ledger
	random *rand.Rand
	names  []string
	id, n  int
}

func (w *disturber) act(ctx context.Context) {
	name := w.names[w.random.IntN(len(w.names))]
	w.n++
	key := fmt.Sprintf("%d/%d", w.id, w.n)
	epsilon := nano(w.t, int64(1+w.random.IntN(60))*100_000_000)
	some := []string{name}
	for _, other := range w.names {
		if other != name && w.random.IntN(8) == 0 {
			some = append(some, other)
		}
	}
	if w.random.IntN(300) == 0 {
		if err := w.l.Compact(ctx, nil); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	}
	var err error
	switch w.random.IntN(12) {
	case 0, 1:
		_, err = w.l.Release(ctx, api.ReleaseRequest{Key: key, Question: "vote", Object: name, Epsilon: epsilon, Truth: sameTruth("yes")})
	case 2, 3:
		_, err = w.l.Raise(ctx, api.RaiseRequest{Key: key, Question: "vote", Epsilon: epsilon, Objects: some, Partial: true, Truth: sameTruth("yes")})
	case 4, 5:
		r := api.SellRequest{Key: key, Order: api.Order{Buyer: fmt.Sprint("buyer ", w.n%3), Question: "vote", Epsilon: epsilon, Objects: some}, Partial: true, Truth: sameTruth("yes")}
		_, err = w.l.Sell(ctx, r)
	case 6:
		var r api.Reservation
		r, err = w.l.Reserve(ctx, api.ReserveRequest{Key: key, Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: epsilon, Objects: some}, For: time.Hour, Partial: true})
		if err == nil && w.random.IntN(3) > 0 {
			_, err = w.l.Capture(ctx, api.CaptureRequest{Key: key + "c", Reservation: r.Number, Partial: true, Truth: sameTruth("yes")})
		}
	case 7:
		_, err = w.l.Answer(ctx, api.AnswerRequest{Key: key, Question: "vote", Query: "majority:yes", Epsilon: epsilon, Objects: some, Partial: true, AcceptLoss: true, Truth: sameTruth("yes")})
	case 8:
		err = w.l.Withdraw(ctx, api.ObjectRequest{Key: key, Object: name})
	case 9, 10:
		err = w.l.Forget(ctx, api.ObjectRequest{Key: key, Object: name})
	case 11:
		if _, err = w.l.Statement(ctx, api.ObjectRequest{Key: key, Object: name}); errors.Is(err, api.ErrUnknown) {
			_, err = w.l.Enroll(ctx, api.EnrollRequest{Key: key + "e", Question: "vote", Objects: some, Cap: nano(w.t, 900e9), Policy: market(w.t, "900")})
		}
	}
	if w.random.IntN(3) == 0 { // come back
		_, _ = w.l.Enroll(ctx, api.EnrollRequest{Key: key + "e", Question: "vote", Objects: []string{name}, Cap: nano(w.t, 900e9), Policy: market(w.t, "900")})
	}
	for _, fine := range []error{context.Canceled, api.ErrUnknown, api.ErrForgotten, &api.ReservationError{}, api.ErrPartlyDone, nil} {
		if errors.Is(err, fine) {
			return
		}
	}
	refused := (*api.RefusedError)(nil)
	check.That(w.t, errors.As(err, &refused), "request %s: %v", key, err)
}

// signedLedger is a new ledger file whose log has a key.
func signedLedger(t testing.TB, key string, options Options) *Ledger {
	t.Helper()
	path := filepath.Join(tests.TempDir(t), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: key}))
	return open(t, path, options)
}

func countErased(t testing.TB, l *Ledger) (n int) {
	t.Helper()
	for _, ev := range events(t, l) {
		if ev.Erased {
			n++
		}
	}
	return n
}
