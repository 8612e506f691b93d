package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// What an adversary found in the first form of Forget and its audit.

// foldedAnew writes a ledger whose log is the one given, as an operator could who has this package's source.
func foldedAnew(t testing.TB, log []event.Event) *kvtest.Memory {
	t.Helper()
	s := &kvtest.Memory{}
	must(t, replay(s, log))
	return s
}

// spent is a ledger in which ann has spent all she has, with a checkpoint of that.
func spent(t *testing.T) (log []event.Event, trusted Options) {
	t.Helper()
	signer, verifier, public := logKey(t, "sluice-test", 1)
	s := &kvtest.Memory{}
	beginWithKey(t, s, public)
	l := openMemory(t, s, Options{Signer: signer})
	voters(t, l, "1", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	trusted = Options{Checkpoint: checkpointOf(t, l), Verifiers: note.VerifierList(verifier)}
	return logOf(t, pairs(t, s)), trusted
}

// eraseReleases erases what a log says of responses, and of the requests for them.
func eraseReleases(log []event.Event) (erased uint64) {
	for i, ev := range log {
		c, alone := ev.Change.(*event.Settled)
		if ev.Change.Kind() == event.KindReleased || alone && c.Alone && c.Object == "ann" {
			log[i] = event.Entry{Event: ev}.Erase().Event
			erased++
		}
	}
	return erased
}

// audited returns the problems that an audit against a checkpoint finds, and the error of a first request.
func audited(t *testing.T, s kv.Store, trusted Options) (problems []Problem, first error) {
	t.Helper()
	read := trusted
	read.ReadOnly = true
	l := openMemory(t, s, read)
	_, err := l.Verify(t.Context(), VerifyRequest{
		Checkpoints: [][]byte{trusted.Checkpoint}, Verifiers: trusted.Verifiers, Report: func(p Problem) { problems = append(problems, p) },
	})
	must(t, err)
	_, first = openStore(s, trusted)
	return problems, first
}

func TestWhatIsErasedWithoutForgettingIsFound(t *testing.T) {
	log, trusted := spent(t)
	eraseReleases(log)
	problems, err := audited(t, foldedAnew(t, log), trusted)
	if len(problems) == 0 {
		t.Error("ann's budget is whole again, and nobody notices")
	}
	wantErr(t, err, ErrCorrupt)
}

// Somebody who was only mentioned cannot be the one whose responses were erased.
func TestAStrangerDoesNotAccountForErasedResponses(t *testing.T) {
	log, _ := spent(t)
	erased := eraseReleases(log)
	last := log[len(log)-1]
	log = append(log, event.Event{Number: last.Number + 1, Time: last.Time, Change: &event.Forgotten{Object: "nobody", Events: erased}, Salt: event.Salt{1}})
	if err := replay(&kvtest.Memory{}, log); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got the error %v, want ErrCorrupt", err)
	}
}

// A log that ends in the midst of a request is not the log of a ledger.
func TestACutLogIsFoundWhereverItIsCut(t *testing.T) {
	s := &kvtest.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{}), "5", "5", "ann", "bob")
	r := purchase(t, "s", "acme", "1", "ann", "bob", "zoe")
	r.Partial = true
	sell(t, l, r)
	log := logOf(t, pairs(t, s))
	for n := 2; n < len(log); n++ {
		switch log[n-1].Change.(type) {
		case *event.Settled, *event.Created, *event.TruthKeySet:
			continue // a shorter log, but a whole one: only a checkpoint tells
		}
		cut := openMemory(t, foldedAnew(t, log[:n]), Options{ReadOnly: true})
		found, err := cut.Verify(t.Context(), VerifyRequest{})
		must(t, err)
		if found.Problems == 0 {
			t.Errorf("cut behind event %d (%s): no problem", n, log[n-1].Change.Kind())
		}
	}
}

// The digest of a request is as good as the request to anybody who guesses.
func TestNoDigestTellsWhatWasForgotten(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "5", "5", "ann", "bob")
	release(t, l, releaseOf(t, "released", "ann", "0.7"))
	sell(t, l, purchase(t, "sold", "acme", "1.3", "ann"))
	raised := &raise{request: RaiseRequest{Question: "vote", Epsilon: eps(t, "0.7")}, panel: batch.Panel{Names: []string{"ann"}}}
	order := (&trade{order: Order{Buyer: "acme", Question: "vote", Epsilon: eps(t, "1.3")}, names: []string{"ann"}}).form("sell")
	limits{}.add(order)
	digests := [][32]byte{raised.form().Digest, order.Finish().Digest}
	where := func(digest [32]byte) (n int) {
		for _, p := range pairs(t, l.engine.Store) {
			n += bytes.Count(p.value, digest[:])
		}
		return n
	}
	for i, digest := range digests {
		if where(digest) != 2 {
			t.Errorf("digest %d stands %d times in the ledger to begin with", i, where(digest))
		}
	}
	forget(t, l, "ann")
	for i, digest := range digests {
		if where(digest) != 0 {
			t.Errorf("digest %d is still there", i)
		}
	}
	_, err := l.Sell(t.Context(), purchase(t, "sold", "acme", "1.3", "ann"))
	wantErr(t, err, ErrForgotten)
	auditStore(t, l.engine.Store)
}

// cutShort runs a request until its first part is done.
func cutShort(t *testing.T, run func(context.Context, Progress) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if err := run(ctx, func(int, int) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("the request was not cut short: %v", err)
	}
}

// A request that names its objects goes on behind the last one it has dealt with, whoever was forgotten.
func TestARepeatedEnrolmentBringsNobodyBack(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	names := crowd(state.PartSize + 10)
	r := EnrollRequest{Key: "e", Question: "vote", Objects: names, Cap: eps(t, "5")}
	cutShort(t, func(ctx context.Context, p Progress) error {
		r := r
		r.Progress = p
		_, err := l.Enroll(ctx, r)
		return err
	})
	must(t, l.Withdraw(t.Context(), "w", names[0]))
	must(t, l.Forget(t.Context(), "f", names[1]))
	must(t, l.Forget(t.Context(), "g", names[state.PartSize-1]))
	got, err := l.Enroll(t.Context(), r)
	must(t, err)
	if got.Enrolled != len(names) || got.Already != 0 {
		t.Errorf("%+v of %d", got, len(names))
	}
	for _, i := range []int{0, 1, state.PartSize - 1} {
		if !objectOf(t, l, names[i]).Chains[0].Withdrawn {
			t.Errorf("%s had left, and is back without being asked", names[i])
		}
	}
	auditStore(t, l.engine.Store)
}

func TestARepeatedRaiseChargesNobodyTwice(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint("all ", all), func(t *testing.T) {
			names := crowd(state.PartSize + 10)
			l := voters(t, newLedger(t), "5", names...)
			r := order(t, "r", "1", names...)
			if all {
				r = order(t, "r", "1")
			}
			cutShort(t, func(ctx context.Context, p Progress) error {
				r := r
				r.Progress = p
				_, err := l.Raise(ctx, r)
				return err
			})
			gone := names[state.PartSize-2 : state.PartSize]
			for i, name := range gone {
				must(t, l.Forget(t.Context(), fmt.Sprint("f", i), name))
			}
			_, err := l.Enroll(t.Context(), EnrollRequest{Key: "back", Question: "vote", Objects: gone})
			must(t, err)
			if got := carryOut(t, l, r); got.Drawn != len(names) || got.Reused != 0 {
				t.Errorf("%+v of %d", got, len(names))
			}
			for _, name := range gone {
				if o := objectOf(t, l, name); o.Spent != eps(t, "1") {
					t.Errorf("one raise to ε=1 cost %s %s", name, o.Spent)
				}
			}
			auditStore(t, l.engine.Store)
		})
	}
}

// A number in a record is not how much memory to take.
func TestASaleOfAbsurdlyManyIsRefused(t *testing.T) {
	for name, call := range map[string]func(*Ledger) error{
		"sale":    func(l *Ledger) error { _, err := l.Sale(t.Context(), 1); return err },
		"receipt": func(l *Ledger) error { _, err := l.Receipt(t.Context(), 1); return err },
		"commit": func(l *Ledger) error {
			_, err := l.Capture(t.Context(), CaptureRequest{Key: "c", Reservation: 2, Truth: TruthOf("yes")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, options := witnessed(t, "bob")
			l := open(t, path, options)
			enrollUnder(t, l, "vote", market(t, "5"), "5", "ann")
			sell(t, l, purchase(t, "k", "acme", "1", "ann"))
			reserve(t, l, ReserveRequest{Key: "r", Order: purchase(t, "", "acme", "2", "ann").Order, For: time.Hour})
			for n := uint64(1); n <= 2; n++ {
				var r state.Sale
				must(t, l.engine.View(t.Context(), func(s *state.State) (err error) { r, err = s.Sale(n); return err }))
				r.Objects = 1 << 60
				putRecord(t, l.engine.Store, state.BucketSales, state.EventKey(n), r.Encode())
			}
			wantErr(t, call(l), ErrCorrupt)
		})
	}
}
