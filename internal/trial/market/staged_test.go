package market

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// These deaths are staged within the process: a hook panics, and the files are opened again.

type staged struct {
	*testing.T
	dir string
	now time.Time
}

func stage(t *testing.T) *staged {
	t.Parallel()
	return &staged{t, pace.Scratch(t), time.Now()}
}

func (s *staged) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// live opens the host, lets it do something until it dies at a boundary (if ever), and closes it.
func (s *staged) live(boundary string, do func(*host)) {
	s.Helper()
	clock := func() time.Time { return s.now }
	l, err := openLedger(filepath.Join(s.dir, "ledger.db"), ledger.Options{Now: clock})
	s.must(err)
	type death struct{}
	defer func() {
		if r := recover(); r != nil && r != any(death{}) {
			panic(r)
		}
	}()
	h, err := newHost(s.Context(), s.dir, l, clock, func(step string) {
		if step == boundary {
			panic(death{})
		}
	})
	s.must(err)
	defer h.close()
	do(h)
	if boundary != "" {
		s.Errorf("did not die %s", boundary)
	}
}

func (s *staged) fulfil(o order) func(*host) {
	return func(h *host) { _, _ = h.fulfil(s.Context(), o) }
}

// wants looks at an order once the host has started again.
func (s *staged) wants(o order, state, refusal string, paid int64) (told orderAnswer) {
	s.Helper()
	s.live("", func(h *host) {
		s.must(h.resume(s.Context()))
		var err error
		told, err = h.fulfil(s.Context(), o)
		s.must(err)
		s.must(h.reconcile(s.Context()))
		if earned, err := h.cards.earned(s.Context(), o.ID); err != nil || earned != paid {
			s.Errorf("the card paid %d, want %d: %v", earned, paid, err)
		}
	})
	if told.State != state || !strings.Contains(told.Refusal, refusal) {
		s.Errorf("%+v, want %s", told, state)
	}
	return told
}

func anOrder(card string) order {
	return order{ID: uuid.New(), Buyer: "Ana", Question: question, Epsilon: constEpsilon("1"), MaxPrice: 10_000, Card: card}
}

// tooLate is for reservations of which nothing is left.
const tooLate = time.Hour

// A host that was down for longer than a reservation lasts: before the charge it is not made any more.
func TestReservationLapsedBeforeTheCharge(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("after reserve", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	s.wants(o, refused, "expired", 0)
}

// After the charge, all of it goes back, also if the process dies again on that way.
func TestReservationLapsedAfterTheCharge(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("after charge", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	for _, boundary := range []string{"after cancel", "after outcome", "after refund"} {
		s.live(boundary, func(h *host) { s.must(h.resume(t.Context())) })
		if boundary == "after outcome" {
			s.now = s.now.Add(-tooLate) // a clock that was wrong and is put right changes nothing any more
		}
	}
	s.wants(o, refused, "not open: cancelled", 0)
}

// Until the lapse is settled by a cancellation, another life may decide otherwise; here because a clock
// that was wrong is put right. So nothing may have been paid back before.
func TestLapseBeforeTheCancellationMayBecomeASale(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("after charge", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	s.live("before cancel", func(h *host) { s.must(h.resume(t.Context())) })
	s.now = s.now.Add(-tooLate)
	s.wants(o, sold, "", 3600)
}

// After the commit, the sale stands, however late it is.
func TestSaleOutlivesItsReservation(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("after commit", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	s.wants(o, sold, "", 3600)
}

// Who were reserved have no answers in the host's database any more: nothing is sold, all is refunded.
// Answers that come back in between do not bring the order back.
func TestNobodyCanAnswerAnyMore(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("after charge", s.fulfil(o))
	s.live("after outcome", func(h *host) {
		_, err := h.books.db.Exec(`delete from people`) // the next start writes them again
		s.must(err)
		s.must(h.resume(t.Context()))
	})
	s.wants(o, refused, "no-truth", 0)
}

// A refusal that nobody was told of may become a sale.
func TestRefusalBeforeTheOutcomeMayBecomeASale(t *testing.T) {
	s, o := stage(t), anOrder("")
	forget := func(h *host) {
		_, err := h.books.db.Exec(`delete from people`)
		s.must(err)
		s.fulfil(o)(h)
	}
	s.live("before outcome", forget)
	s.wants(o, sold, "", 0)
	s.wants(o, sold, "", 0)
}

// One that was recorded stays.
func TestRefusalAfterTheOutcomeStays(t *testing.T) {
	s, o := stage(t), anOrder("")
	s.live("after outcome", func(h *host) {
		_, err := h.books.db.Exec(`delete from people`)
		s.must(err)
		s.fulfil(o)(h)
	})
	s.wants(o, refused, "no-truth", 0)
}

// A failure that decides nothing leaves the order for later.
func TestFailureLeavesTheOrderPlaced(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("", func(h *host) {
		ctx, cancel := context.WithCancel(t.Context())
		h.hook = func(step string) {
			if step == "after reserve" {
				cancel()
			}
		}
		if _, err := h.fulfil(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if _, state, err := readOrder(t.Context(), h.books.db, o.ID); err != nil || state != placed {
			t.Errorf("it is %s, %v", state, err)
		}
	})
	s.wants(o, sold, "", 3600)
}

// A buyer who is impatient sends the order many times at once.
func TestTheSameOrderManyTimesAtOnce(t *testing.T) {
	s := stage(t)
	for _, o := range []order{anOrder("good"), anOrder("")} {
		s.live("", func(h *host) {
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					if a, err := h.fulfil(t.Context(), o); err != nil || a.State != sold {
						t.Errorf("%+v, %v", a, err)
					}
				})
			}
			wg.Wait()
			s.must(h.reconcile(t.Context()))
		})
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	s := stage(t)
	s.live("", func(h *host) {
		o := anOrder("")
		other := o
		other.Buyer = "Ben"
		s.fulfil(o)(h)
		if _, err := h.fulfil(t.Context(), other); !errors.Is(err, errOtherOrder) {
			t.Errorf("an id used twice: %v", err)
		}
		nobody := anOrder("")
		nobody.Question = "no such question"
		if a, err := h.fulfil(t.Context(), nobody); err != nil || a.State != refused {
			t.Errorf("%+v, %v", a, err)
		}
		var out strings.Builder
		s.must(h.serve(t.Context(), strings.NewReader("{\n{}\n"), &out))
		if n := strings.Count(out.String(), "not an order"); n != 2 {
			t.Errorf("answers %s", &out)
		}
	})
}

// The database must be as durable as the ledger.
func TestSQLiteSettings(t *testing.T) {
	t.Parallel()
	// A file name that is no good URL.
	db, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "100 % #? ü.db"), booksSchema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "busy_timeout": "30000", "foreign_keys": "1",
	} {
		var value string
		if err := db.QueryRow("pragma " + pragma).Scan(&value); err != nil || value != want {
			t.Errorf("%s is %q, want %q: %v", pragma, value, want, err)
		}
	}
}

// Reconcile must see what is wrong.
func TestReconcileSeesDifferences(t *testing.T) {
	for _, wrong := range []string{
		`delete from deliveries where object = 'person-01'`,
		`update deliveries set response = 'maybe' where object = 'person-02'`,
		`update orders set price = price + 1`,
		`update orders set sale = 7`,
		`update orders set state = 'placed'`,
		`update orders set buyer = 'Ben'`,
	} {
		t.Run(wrong, func(t *testing.T) { seesDifference(t, func(h *host) *sql.DB { return h.books.db }, wrong) })
	}
	t.Run("a card", func(t *testing.T) {
		seesDifference(t, func(h *host) *sql.DB { return h.cards.db }, `update charges set refunded = refunded + 1`)
	})
}

func seesDifference(t *testing.T, db func(*host) *sql.DB, wrong string) {
	s := stage(t)
	s.live("", func(h *host) {
		s.fulfil(anOrder("good"))(h)
		s.must(h.reconcile(t.Context()))
		_, err := db(h).Exec(wrong)
		s.must(err)
		if err := h.reconcile(t.Context()); err == nil {
			t.Error("no difference seen")
		}
	})
}

// A ledger that has stopped ends this life, though orders might still come; the buyer gets no answer, and asks
// the next one. Everything else is answered, and the desk stays open.
func TestAStoppedLedgerEndsTheLife(t *testing.T) {
	in, orders := io.Pipe()
	defer orders.Close()
	fails := []error{errors.New("no truth today"), fmt.Errorf("sell: %w", api.ErrStopped)}
	var mu sync.Mutex
	var told []orderAnswer
	d := desk{
		fulfil: func(_ context.Context, o order) (orderAnswer, error) {
			if o.Buyer == "stop" {
				return orderAnswer{}, fails[1]
			}
			return orderAnswer{}, fails[0]
		},
		reply:   func(a orderAnswer) { mu.Lock(); defer mu.Unlock(); told = append(told, a) },
		stopped: make(chan error, 1),
	}
	ended := make(chan error, 1)
	go func() { ended <- d.serve(t.Context(), in) }()
	for _, buyer := range []string{"wait", "stop"} {
		o := anOrder("")
		o.Buyer = buyer
		line, err := json.Marshal(o)
		if err == nil {
			_, err = orders.Write(append(line, '\n'))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; !errors.Is(err, api.ErrStopped) {
		t.Errorf("it ended with %v", err)
	}
	if len(told) != 1 || told[0].Error != "not decided yet, please ask again" {
		t.Errorf("the buyers were told %+v", told)
	}
}
