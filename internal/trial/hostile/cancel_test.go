package hostile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/journal"
)

// quitter is a context that ends when it has been looked at so often: by Err, or by Done.
type quitter struct {
	context.Context
	mu    sync.Mutex
	looks int // that are left
	done  chan struct{}
}

func quitAfter(looks int) *quitter {
	return &quitter{Context: context.Background(), looks: looks, done: make(chan struct{})}
}

func (q *quitter) look() (ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.looks--; q.looks == 0 {
		close(q.done)
	}
	return q.looks <= 0
}

func (q *quitter) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.looks <= 0
}

func (q *quitter) Done() <-chan struct{} {
	q.look()
	return q.done
}

func (q *quitter) Err() error {
	if q.look() {
		return context.Canceled
	}
	return nil
}

// mostLooks is how often a call looks at its context at most, among twice as many people. It looks every 64 records that it
// reads. The call that reads most is a sweep: six records of each person with one chain, three times.
const mostLooks = 200

// errand is a call that somebody may give up. It is made for the n-th time.
type errand struct {
	name string
	call func(ctx context.Context, l *ledger.Ledger, n int) (any, error)
	// writes: it changes the ledger, and has a key.
	writes bool
}

func errands(t testing.TB) []errand {
	_, calendar := offer(t)
	key := func(n int) string { return fmt.Sprint("errand ", n) }
	person := func(n int) []string { return []string{fmt.Sprintf("person %08d", n)} }
	// truths gives up where the caller does, as a source should.
	truths := func(ctx context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i := range values {
			values[i] = "yes"
		}
		return values, ctx.Err()
	}
	order := func(n int) api.Order {
		return api.Order{Buyer: "acme", Question: "vote", Epsilon: tenths(5), Objects: append(person(n), person(n+mostLooks)...)}
	}
	none := func(err error) (any, error) { return nil, err }
	return []errand{
		{"DefineQuestion", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return none(l.DefineQuestion(ctx, key(n), api.Question{Name: key(n), Values: []string{"a", "b"}}))
		}, true},
		{"Enroll", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Enroll(ctx, api.EnrollRequest{Key: key(n), Question: "vote", Objects: []string{key(n)}, Policy: calendar, Cap: boundless()})
		}, true},
		{"Release", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Release(ctx, api.ReleaseRequest{Key: key(n), Question: "vote", Object: person(n)[0], Epsilon: tenths(5), Truth: truths})
		}, true},
		{"Raise", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Raise(ctx, api.RaiseRequest{Key: key(n), Question: "vote", Objects: order(n).Objects, Epsilon: tenths(5), Truth: truths})
		}, true},
		{"Raise all", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Raise(ctx, api.RaiseRequest{Key: key(n), Question: "vote", All: true, Epsilon: tenths(n%20 + 1), Truth: truths})
		}, true},
		{"Answer", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Answer(ctx, api.AnswerRequest{Key: key(n), Question: "vote", Query: "majority:yes", Objects: order(n).Objects, Epsilon: tenths(5), AcceptLoss: true, Truth: truths})
		}, true},
		{"Sell", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Sell(ctx, api.SellRequest{Key: key(n), Order: order(n), Truth: truths})
		}, true},
		{"Reserve", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Reserve(ctx, api.ReserveRequest{Key: key(n), Order: order(n), For: time.Hour})
		}, true},
		{"Commit", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			number, err := reserved(l, api.ReserveRequest{Key: "for " + key(n), Order: order(n), For: time.Hour})
			if err != nil {
				return nil, err
			}
			return l.Capture(ctx, api.CaptureRequest{Key: key(n), Reservation: number, Truth: truths})
		}, true},
		{"Cancel", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			number, err := reserved(l, api.ReserveRequest{Key: "for " + key(n), Order: order(n), For: time.Hour})
			if err != nil {
				return nil, err
			}
			return none(l.Cancel(ctx, key(n), number))
		}, true},
		{"Advance", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			if _, err := l.Enroll(context.Background(), api.EnrollRequest{Key: "for " + key(n), Question: "vote", Objects: []string{key(n)}, Policy: calendar, Cap: boundless()}); err != nil {
				return nil, err
			}
			return l.Advance(ctx, api.AdvanceRequest{Key: key(n), Truth: truths})
		}, true},
		{"ChangeTerms", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: key(n), Question: "vote", Objects: person(n), Cap: tenths(n%20 + 100), Consent: "agreed"})
		}, true},
		{"Withdraw", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return none(l.Withdraw(ctx, key(n), person(n)[0]))
		}, true},
		{"Forget", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return none(l.Forget(ctx, key(n), person(n)[0]))
		}, true},
		{"Statement", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			s, err := l.Statement(ctx, key(n), person(n)[0])
			s.Checkpoint = "" // signatures differ
			return s, err
		}, true},
		{"Quote", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			q, err := l.Quote(ctx, order(n))
			return q, err
		}, false},
		{"Object", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) { return l.Object(ctx, person(n)[0]) }, false},
		{"Questions", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) { return l.Questions(ctx) }, false},
		{"Levels", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) { return l.Levels(ctx, "vote") }, false},
		{"Events", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) {
			for _, err := range l.Events(ctx, 1) {
				if err != nil {
					return nil, err
				}
			}
			return nil, nil
		}, false},
		{"Checkpoint", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) { return l.Checkpoint(ctx) }, false},
		{"Verify", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) {
			return l.Verify(ctx, api.VerifyRequest{})
		}, false},
		{"Backup", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Backup(ctx, filepath.Join(pace.Scratch(t), key(n)), nil)
		}, false},
		{"Compact", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) { return none(l.Compact(ctx, nil)) }, false},
	}
}

// TestACallerMayGiveUpAtAnyMoment ends the context of each call at every moment when anybody looks at it. The call either
// says so, and then nothing has happened, and the same key does all of it later; or it is done. Who forgets may also hear that it is done, but that not
// all bytes are destroyed yet.
func TestACallerMayGiveUpAtAnyMoment(t *testing.T) {
	for _, e := range errands(t) {
		t.Run(e.name, func(t *testing.T) {
			l, _ := market(t, crowd(2*mostLooks)...)
			given := 0
			for n := 1; ; n++ {
				if n == mostLooks {
					t.Fatalf("after %d looks the call still is not done", n)
				}
				ctx := quitAfter(n)
				before := events(t, l)
				first, err := e.call(ctx, l, n)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Fatalf("given up at look %d: %v", n, err)
				}
				held, late := errors.AsType[*journal.HeldError](err)
				switch {
				case late && (e.name != "Forget" || held.Through.Events >= held.Wanted.Events):
					t.Fatalf("given up at look %d: %v", n, err)
				case late:
					given++
				case err != nil:
					given++
					e.wantNothing(t, l, n, before)
				}
				quit := ctx.ended()
				again, fault := e.call(context.Background(), l, n)
				if fault != nil && !errors.Is(fault, api.ErrForgotten) {
					t.Fatalf("given up at look %d, and called again: %v", n, fault)
				}
				if err == nil && e.writes && fault == nil && !reflect.DeepEqual(first, again) {
					t.Fatalf("given up at look %d it came to %+v, and then to %+v", n, first, again)
				}
				e.wantOnce(t, l, n, again)
				if !quit {
					break
				}
			}
			if given == 0 {
				t.Error("the call never looks at its context")
			}
			wantClean(t, l)
		})
	}
}

// wantNothing checks that a call that was given up left nothing but what comes before it.
func (e errand) wantNothing(t *testing.T, l *ledger.Ledger, n int, before uint64) {
	t.Helper()
	after := events(t, l)
	if e.name == "Commit" || e.name == "Cancel" || e.name == "Advance" {
		// What it needs was made before, by a call that nobody gave up. That is the only one to have settled anything.
		for ev, err := range l.Events(context.Background(), before+1) {
			must(t, err)
			settled, is := ev.Says.(says.Settled)
			if is && settled.Key != fmt.Sprint("for errand ", n) || ev.Kind() == "released" || ev.Kind() == "sold" {
				t.Errorf("given up at look %d: %+v", n, ev)
			}
		}
		return
	}
	if after != before {
		t.Errorf("given up at look %d: %d events after %d", n, after, before)
	}
}

// wantOnce checks that a call that was carried out is not carried out again.
func (e errand) wantOnce(t *testing.T, l *ledger.Ledger, n int, was any) {
	t.Helper()
	if !e.writes {
		return
	}
	before := events(t, l)
	again, err := e.call(context.Background(), l, n)
	if err != nil && !errors.Is(err, api.ErrForgotten) || err == nil && !reflect.DeepEqual(again, was) {
		t.Errorf("call %d came to %+v, and then to %+v, %v", n, was, again, err)
	}
	if now := events(t, l); now != before {
		t.Errorf("call %d, repeated, makes %d events", n, now-before)
	}
}

// TestACrowdsCallerMayGiveUp does so to requests that are carried out in parts. What is done stays done, and the same
// key does the rest: everybody gets one response. The quick form tries a third of the moments, others in each run.
func TestACrowdsCallerMayGiveUp(t *testing.T) {
	names := crowd(9_000) // three parts
	truths := sameTruth("yes")
	sale, _ := offer(t)
	calls := func(l *ledger.Ledger) []func(context.Context) (any, error) {
		return []func(context.Context) (any, error){
			func(ctx context.Context) (any, error) {
				return l.Enroll(ctx, api.EnrollRequest{Key: "enroll", Question: "vote", Objects: names, Policy: sale, Cap: boundless()})
			},
			func(ctx context.Context) (any, error) {
				return l.Raise(ctx, api.RaiseRequest{Key: "raise", Question: "vote", All: true, Epsilon: tenths(5), Truth: truths})
			},
		}
	}
	// How often each looks at its context, if it is not given up.
	var all []int
	whole, _ := market(t)
	for _, call := range calls(whole) {
		patient := quitAfter(math.MaxInt)
		_, err := call(patient)
		must(t, err)
		all = append(all, math.MaxInt-patient.looks)
	}
	// The first moments, before anything is done, and others all the way to the end.
	const first, rest = 8, 12
	stride := pace.Tries(3, 1, 1)
	inMidst := uint64(0) // events of requests that were given up
	for i := rand.IntN(stride); i < first+rest; i += stride {
		l, _ := market(t)
		for c, call := range calls(l) {
			looks := i + 1
			if i >= first {
				looks = first + 1 + (i-first)*(all[c]-first-1)/(rest-1)
			}
			begun := events(t, l)
			_, err := call(quitAfter(looks))
			if !errors.Is(err, context.Canceled) && (err != nil || looks < all[c]) {
				t.Fatalf("given up at look %d of %d: %v", looks, all[c], err)
			}
			if err != nil {
				inMidst += events(t, l) - begun
			}
			first, err := call(context.Background())
			must(t, err)
			before := events(t, l)
			again, err := call(context.Background())
			if err != nil || !reflect.DeepEqual(first, again) || events(t, l) != before {
				t.Errorf("given up at look %d it came to %+v, and then to %+v, %v", looks, first, again, err)
			}
		}
		levels, err := l.Levels(t.Context(), "vote")
		if err != nil || len(levels) != 1 || levels[0].N != int64(len(names)) {
			t.Errorf("given up at moment %d: %+v, %v", i, levels, err)
		}
		wantClean(t, l)
	}
	if inMidst == 0 {
		t.Errorf("of %d looks, none was between two parts", all)
	}
}

// reserved returns the number of a reservation, whatever has become of it since.
func reserved(l *ledger.Ledger, r api.ReserveRequest) (uint64, error) {
	made, err := l.Reserve(context.Background(), r)
	var closed *api.ReservationError
	if errors.As(err, &closed) {
		return closed.Number, nil
	}
	return made.Number, err
}
