package market

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/privacy"
)

// world is a directory of a host's files, and its buyers.
type world struct {
	testing.TB
	buyers
	dir     string
	sockets string // for every second life of the host, which calls its ledger over HTTP
	lives   int
	deaths  int
}

func newWorld(t testing.TB) *world {
	return &world{TB: t, dir: testenv.TempDir(t), sockets: testenv.TempDir(t), buyers: buyers{answers: map[uuid.UUID]orderAnswer{}}}
}

// live runs the host once, to be killed at a boundary ("": not at all), with some orders.
func (w *world) live(boundary string, orders []order) (died bool) {
	w.Helper()
	return w.run(command(w.Context(), w.dir, boundary), orders)
}

func (w *world) run(host *exec.Cmd, orders []order) (died bool) {
	w.Helper()
	var complaints bytes.Buffer
	host.Stderr = &complaints
	if w.lives++; w.lives%2 == 0 {
		host.Env = append(host.Environ(), servedEnv+"=1", "TMPDIR="+w.sockets)
	}
	died, err := w.visit(host, orders)
	if errors.Is(err, context.DeadlineExceeded) {
		died, err = true, nil // the kill came as it ended, or before it began
	}
	check.Must(w, err)
	check.Need(w, complaints.Len() <= 0, "the host complains: %s", &complaints)
	if died {
		w.deaths++
	}
	return died
}

// settle lets the host finish, and looks at everything.
func (w *world) settle() {
	w.Helper()
	check.Need(w, !w.live("", w.orders), "the host died by itself")
	n := len(w.waiting())
	check.Need(w, n == 0, "%d orders have no answer", n)
	w.live("", w.orders) // who asks again gets the same, or note says so
	check.Must(w, look(w.Context(), w.dir, func(h *host) error {
		check.Must(w, h.reconcile(w.Context()))
		w.inspect(h)
		return nil
	}))
}

// inspect compares the ledger's log, and what each person has spent, with the answers.
func (w *world) inspect(h *host) {
	w.Helper()
	saleOf := w.salesByKey(h.ledger)
	spent := privacy.MustEpsilon("0")
	for _, o := range w.orders {
		a, key := w.answers[o.ID], o.ID.String()
		if o.Card != "" {
			key += "/commit"
		}
		want := w.fate(o)
		check.That(w, a.State == want, "order %v: %s (%s), want %s", o.ID, a.State, a.Refusal, want)
		if saleOf[key] != a.Sale {
			w.Errorf("order %v: told sale %d, the ledger has %d", o.ID, a.Sale, saleOf[key])
		}
		check.That(w, a.State != sold || len(a.Responses) == people-people/silent,
			"order %v: %d responses", o.ID, len(a.Responses))
		if a.State == sold && spent.Less(o.Epsilon) {
			spent = o.Epsilon
		}
		delete(saleOf, key)
	}
	for key, sale := range saleOf {
		w.Errorf("sale %d, by key %q, is nobody's", sale, key)
	}
	if state, err := h.ledger.Object(w.Context(), "person-01"); err != nil || state.Spent != spent {
		w.Errorf("person-01 has spent %v of at most %v: %v", state.Spent, spent, err)
	}
}

// fate is how an order must end.
func (w *world) fate(o order) string {
	if o.Card == blockedCard || o.MaxPrice < 1000 || privacy.MustEpsilon("2").Less(o.Epsilon) {
		return refused
	}
	return sold
}

// salesByKey reads from the log which request made which sale, and that nobody was drawn from, or
// delivered to a buyer, twice at an ε.
func (w *world) salesByKey(l shopLedger) map[string]uint64 {
	w.Helper()
	saleOf, drawn, current := map[string]uint64{}, map[string]bool{}, uint64(0)
	once := func(what string) {
		check.That(w, !drawn[what], "twice: %s", what)
		drawn[what] = true
	}
	for ev, err := range l.Events(w.Context(), 1) {
		check.Must(w, err)
		switch d := ev.Says.(type) {
		case says.SaleMade:
			current = d.Sale
		case says.Sold:
			once(fmt.Sprintf("sale %d of %s", d.Sale, d.Object))
			if d.Method != "resale" {
				once(fmt.Sprintf("draw at %v of %s", d.Epsilon, d.Object))
			}
		case says.Settled:
			if current != 0 {
				saleOf[d.Key], current = current, 0
			}
		}
	}
	return saleOf
}

// Each life is killed at another boundary, in random order, and gets new orders besides those that
// earlier lives left. A boundary that only new orders can reach is reached by those.
func TestKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, seed := boundaries(), rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, boundary := range all {
		w.order()
		check.That(t, w.live(boundary, w.waiting()), "not killed %s", boundary)
	}
	w.settle()
}

// The unluckiest order: each life is killed one boundary further on its way; in the quick form at
// every second one, which are others in each run.
func TestOneOrderKilledAtEachOfItsSteps(t *testing.T) {
	t.Parallel()
	ways := [][]string{
		{"place", "sell", "outcome", "answer"},
		{"place", "reserve", "charge", "commit", "outcome", "refund", "note refund", "answer"},
		{"place", "reserve", "charge", "cancel", "outcome", "answer"},
		{"place", "sell", "outcome", "answer"}, // refused
	}
	for i, way := range ways { // in the order of [buyers.order]
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := newWorld(t)
			w.orders = w.order()[i : i+1]
			stride := testenv.Tries(2, 1, 1)
			turn := rand.IntN(stride)
			for _, step := range way {
				for _, boundary := range []string{"before " + step, "after " + step} {
					if turn++; turn%stride != 0 {
						continue
					}
					check.That(t, w.live(boundary, w.orders), "not killed %s", boundary)
				}
			}
			w.settle()
		})
	}
}

// Kills at any instant, not only between steps. Which ones they are depends on the machine, what
// must hold does not.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	kills := testenv.Tries(12, 24, 24)
	w := newWorld(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	begun := time.Now()
	w.order()
	w.live("", w.orders)
	life := time.Since(begun) // how long one takes here
	for range kills {
		w.order()
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(life))))
		w.run(command(ctx, w.dir, ""), w.waiting()) // CommandContext kills
		cancel()
	}
	w.settle()
	t.Logf("seed %d: %d of %d lives were killed, of up to %v", seed, w.deaths, kills, life)
}

// These deaths are staged within the process: a hook panics, and the files are opened again.

type staged struct {
	*testing.T
	dir string
	now time.Time
}

func stage(t *testing.T) *staged {
	t.Parallel()
	return &staged{t, testenv.TempDir(t), time.Now()}
}

// live opens the host, lets it do something until it dies at a boundary (if ever), and closes it.
func (s *staged) live(boundary string, do func(*host)) {
	s.Helper()
	clock := func() time.Time { return s.now }
	l := check.Value(openLedger(filepath.Join(s.dir, "ledger.db"), ledger.Options{Now: clock}))(s)
	type death struct{}
	defer func() {
		if r := recover(); r != nil && r != any(death{}) {
			panic(r)
		}
	}()
	h := check.Value(newHost(s.Context(), s.dir, l, clock, func(step string) {
		if step == boundary {
			panic(death{})
		}
	}))(s)
	defer h.close()
	do(h)
	check.That(s, boundary == "", "did not die %s", boundary)
}

func (s *staged) fulfil(o order) func(*host) {
	return func(h *host) { _, _ = h.fulfil(s.Context(), o) }
}

// wants looks at an order once the host has started again.
func (s *staged) wants(o order, state, refusal string, paid int64) (told orderAnswer) {
	s.Helper()
	s.live("", func(h *host) {
		check.Must(s, h.resume(s.Context()))
		var err error
		told, err = h.fulfil(s.Context(), o)
		check.Must(s, err)
		check.Must(s, h.reconcile(s.Context()))
		if earned, err := h.cards.earned(s.Context(), o.ID); err != nil || earned != paid {
			s.Errorf("the card paid %d, want %d: %v", earned, paid, err)
		}
	})
	check.That(s, told.State == state && strings.Contains(told.Refusal, refusal), "%+v, want %s", told, state)
	return told
}

func anOrder(card string) order {
	return order{ID: uuid.New(), Buyer: "Ana", Question: question, Epsilon: privacy.MustEpsilon("1"), MaxPrice: 10_000, Card: card}
}

// tooLate is for reservations of which nothing is left.
const tooLate = time.Hour

// A host that was down for longer than a reservation lasts: before the charge it is not made any
// more.
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
		s.live(boundary, func(h *host) { check.Must(s, h.resume(t.Context())) })
		if boundary == "after outcome" {
			s.now = s.now.Add(-tooLate) // a clock that was wrong and is put right changes nothing any more
		}
	}
	s.wants(o, refused, "not open: cancelled", 0)
}

// Until the lapse is settled by a cancellation, another life may decide otherwise; here because a
// clock that was wrong is put right. So nothing may have been paid back before.
func TestLapseBeforeTheCancellationMayBecomeASale(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("after charge", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	s.live("before cancel", func(h *host) { check.Must(s, h.resume(t.Context())) })
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

// Who were reserved have no answers in the host's database any more: nothing is sold, all is
// refunded. Answers that come back in between do not bring the order back.
func TestNobodyCanAnswerAnyMore(t *testing.T) {
	s, o := stage(t), anOrder("good")
	s.live("after charge", s.fulfil(o))
	s.live("after outcome", func(h *host) {
		_ = check.Value(h.books.db.Exec(`delete from people`))(s) // the next start writes them again
		check.Must(s, h.resume(t.Context()))
	})
	s.wants(o, refused, "no-truth", 0)
}

// A refusal that nobody was told of may become a sale.
func TestRefusalBeforeTheOutcomeMayBecomeASale(t *testing.T) {
	s, o := stage(t), anOrder("")
	forget := func(h *host) {
		check.Must(s, check.Err(h.books.db.Exec(`delete from people`)))
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
		check.Must(s, check.Err(h.books.db.Exec(`delete from people`)))
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
		check.Is(t, check.Err(h.fulfil(ctx, o)), context.Canceled)
		_, state, err := readOrder(t.Context(), h.books.db, o.ID)
		check.That(t, err == nil && state == placed, "it is %s, %v", state, err)
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
					a, err := h.fulfil(t.Context(), o)
					check.That(t, err == nil && a.State == sold, "%+v, %v", a, err)
				})
			}
			wg.Wait()
			check.Must(s, h.reconcile(t.Context()))
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
		_, err := h.fulfil(t.Context(), other)
		check.That(t, errors.Is(err, errOtherOrder), "an id used twice: %v", err)
		nobody := anOrder("")
		nobody.Question = "no such question"
		if a, err := h.fulfil(t.Context(), nobody); err != nil || a.State != refused {
			t.Errorf("%+v, %v", a, err)
		}
		var out strings.Builder
		check.Must(s, h.serve(t.Context(), strings.NewReader("{\n{}\n"), &out))
		n := strings.Count(out.String(), "not an order")
		check.That(t, n == 2, "answers %s", &out)
	})
}

// The database must be as durable as the ledger.
func TestSQLiteSettings(t *testing.T) {
	t.Parallel()
	// A file name that is no good URL.
	db := check.Value(openSQLite(t.Context(), filepath.Join(t.TempDir(), "100 % #? ü.db"), booksSchema))(t)
	defer db.Close()
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "busy_timeout": "30000", "foreign_keys": "1",
	} {
		var value string
		err := db.QueryRow("pragma " + pragma).Scan(&value)
		check.That(t, err == nil && value == want, "%s is %q, want %q: %v", pragma, value, want, err)
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
		check.Must(s, h.reconcile(t.Context()))
		check.Must(s, check.Err(db(h).Exec(wrong)))
		err := h.reconcile(t.Context())
		check.That(t, err != nil, "no difference seen")
	})
}

// A ledger that has stopped ends this life, though orders might still come; the buyer gets no
// answer, and asks the next one. Everything else is answered, and the desk stays open.
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
		check.Must(t, err)
	}
	check.Is(t, <-ended, api.ErrStopped)
	check.That(t, len(told) == 1 && told[0].Error == "not decided yet, please ask again",
		"the buyers were told %+v", told)
}
