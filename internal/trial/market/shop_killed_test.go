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

// world is the directory of a host's files, and its buyers.
type world struct {
	testing.TB
	buyers
	dir     string
	sockets string // for every second process of the host, which calls its ledger over HTTP
	lives   int
	deaths  int
}

func newWorld(t testing.TB) *world {
	return &world{TB: t, dir: testenv.TempDir(t), sockets: testenv.TempDir(t), buyers: buyers{answers: map[uuid.UUID]orderAnswer{}}}
}

// runOnce runs the host once with some orders, to be killed at a boundary; "" for none.
func (w *world) runOnce(boundary string, orders []order) (died bool) {
	w.Helper()
	return w.run(command(w.Context(), w.dir, boundary), orders)
}

func (w *world) run(host *exec.Cmd, orders []order) (died bool) {
	w.Helper()
	var stderr bytes.Buffer
	host.Stderr = &stderr
	if w.lives++; w.lives%2 == 0 {
		host.Env = append(host.Environ(), servedEnv+"=1", "TMPDIR="+w.sockets)
	}
	died, err := w.send(host, orders)
	if errors.Is(err, context.DeadlineExceeded) {
		died, err = true, nil // it was killed when it ended, or before it began
	}
	check.Must(w, err)
	check.Need(w, stderr.Len() <= 0, "the host logs errors: %s", &stderr)
	if died {
		w.deaths++
	}
	return died
}

// settle lets the host finish all orders, and checks everything.
func (w *world) settle() {
	w.Helper()
	check.Need(w, !w.runOnce("", w.orders), "the host died without a kill")
	n := len(w.waiting())
	check.Need(w, n == 0, "%d orders have no answer", n)
	w.runOnce("", w.orders) // record checks that repeated answers are the same
	check.Must(w, openForReading(w.Context(), w.dir, func(h *host) error {
		check.Must(w, h.reconcile(w.Context()))
		w.checkLog(h)
		return nil
	}))
}

// checkLog compares the ledger's log, and what a person has spent, with the answers.
func (w *world) checkLog(h *host) {
	w.Helper()
	saleOf := w.salesByKey(h.ledger)
	spent := privacy.MustEpsilon("0")
	for _, o := range w.orders {
		a, key := w.answers[o.ID], o.ID.String()
		if o.Card != "" {
			key += "/commit"
		}
		want := w.wantState(o)
		check.That(w, a.State == want, "order %v: %s (%s), want %s", o.ID, a.State, a.Refusal, want)
		if saleOf[key] != a.Sale {
			w.Errorf("order %v: the answer has sale %d, the ledger has %d", o.ID, a.Sale, saleOf[key])
		}
		check.That(w, a.State != sold || len(a.Responses) == people-people/silent,
			"order %v: %d responses", o.ID, len(a.Responses))
		if a.State == sold && spent.Less(o.Epsilon) {
			spent = o.Epsilon
		}
		delete(saleOf, key)
	}
	for key, sale := range saleOf {
		w.Errorf("sale %d, with key %q, belongs to no order", sale, key)
	}
	if state, err := h.ledger.Object(w.Context(), "person-01"); err != nil || state.Spent != spent {
		w.Errorf("person-01 has spent %v of at most %v: %v", state.Spent, spent, err)
	}
}

// wantState returns the state in which an order must end.
func (w *world) wantState(o order) string {
	if o.Card == blockedCard || o.MaxPrice < 1000 || privacy.MustEpsilon("2").Less(o.Epsilon) {
		return refused
	}
	return sold
}

// salesByKey reads from the log which request made which sale. It checks that no response was
// drawn, or delivered to a buyer, twice at an ε.
func (w *world) salesByKey(l shopLedger) map[string]uint64 {
	w.Helper()
	saleOf, drawn, current := map[string]uint64{}, map[string]bool{}, uint64(0)
	once := func(what string) {
		check.That(w, !drawn[what], "happened twice: %s", what)
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

// Each process is killed at another boundary, in random order, and gets new orders and the
// unfinished ones. New orders reach boundaries that others cannot reach.
func TestShop_KilledAtEveryBoundary_SellsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, seed := boundaries(), rand.Uint64()
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, boundary := range all {
		w.order()
		check.That(t, w.runOnce(boundary, w.waiting()), "not killed %s", boundary)
	}
	w.settle()
}

// One order, of each kind, is killed at each boundary of its steps in turn; in the quick form at
// every second one, others in each run.
func TestShop_OneOrderKilledAtEachStep_SellsOnce(t *testing.T) {
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
					check.That(t, w.runOnce(boundary, w.orders), "not killed %s", boundary)
				}
			}
			w.settle()
		})
	}
}

// The host is killed at any instant, not only between steps. The instants depend on the machine,
// the checks do not.
func TestShop_KilledAtRandom_SellsOnce(t *testing.T) {
	t.Parallel()
	kills := testenv.Tries(12, 24, 24)
	w := newWorld(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	begun := time.Now()
	w.order()
	w.runOnce("", w.orders)
	life := time.Since(begun) // how long one takes here
	for range kills {
		w.order()
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(life))))
		w.run(command(ctx, w.dir, ""), w.waiting()) // CommandContext kills
		cancel()
	}
	w.settle()
	t.Logf("seed %d: %d of %d processes were killed, of up to %v", seed, w.deaths, kills, life)
}

// These deaths are simulated within the process: a hook panics, and the files are opened again.

type hostTest struct {
	*testing.T
	dir string
	now time.Time
}

func newHostTest(t *testing.T) *hostTest {
	t.Parallel()
	return &hostTest{t, testenv.TempDir(t), time.Now()}
}

// runOnce opens the host, lets it do something until it dies at a boundary (if any), and closes it.
func (s *hostTest) runOnce(boundary string, do func(*host)) {
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
	check.That(s, boundary == "", "the host did not reach the boundary %q", boundary)
}

func (s *hostTest) fulfil(o order) func(*host) {
	return func(h *host) { _, _ = h.fulfil(s.Context(), o) }
}

// wantAnswer checks the result of an order after the host has started again.
func (s *hostTest) wantAnswer(o order, state, refusal string, paid int64) (answered orderAnswer) {
	s.Helper()
	s.runOnce("", func(h *host) {
		check.Must(s, h.resume(s.Context()))
		var err error
		answered, err = h.fulfil(s.Context(), o)
		check.Must(s, err)
		check.Must(s, h.reconcile(s.Context()))
		if earned, err := h.cards.earned(s.Context(), o.ID); err != nil || earned != paid {
			s.Errorf("the card was charged %d, want %d: %v", earned, paid, err)
		}
	})
	check.That(s, answered.State == state && strings.Contains(answered.Refusal, refusal), "%+v, want %s", answered, state)
	return answered
}

func newOrder(card string) order {
	return order{ID: uuid.New(), Buyer: "Ana", Question: question, Epsilon: privacy.MustEpsilon("1"), MaxPrice: 10_000, Card: card}
}

// tooLate is longer than a reservation is valid.
const tooLate = time.Hour

// The host was down for longer than a reservation is valid. Before the charge, no charge is made.
func TestShop_ReservationExpiredBeforeCharge_ChargesNothing(t *testing.T) {
	s, o := newHostTest(t), newOrder("good")
	s.runOnce("after reserve", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	s.wantAnswer(o, refused, "expired", 0)
}

// After the charge, all of it is refunded, also if the process dies again during that.
func TestShop_ReservationExpiredAfterCharge_Refunds(t *testing.T) {
	s, o := newHostTest(t), newOrder("good")
	s.runOnce("after charge", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	for _, boundary := range []string{"after cancel", "after outcome", "after refund"} {
		s.runOnce(boundary, func(h *host) { check.Must(s, h.resume(t.Context())) })
		if boundary == "after outcome" {
			s.now = s.now.Add(-tooLate) // a corrected clock changes nothing any more
		}
	}
	s.wantAnswer(o, refused, "not open: cancelled", 0)
}

// Until the expiry is settled by a cancellation, another process may decide otherwise, here because
// a wrong clock is corrected. So nothing may be paid back before.
func TestShop_ExpiryBeforeCancellation_MayBecomeASale(t *testing.T) {
	s, o := newHostTest(t), newOrder("good")
	s.runOnce("after charge", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	s.runOnce("before cancel", func(h *host) { check.Must(s, h.resume(t.Context())) })
	s.now = s.now.Add(-tooLate)
	s.wantAnswer(o, sold, "", 3600)
}

// After the capture, the sale is final, however late it is.
func TestShop_ReservationExpiredAfterCapture_KeepsTheSale(t *testing.T) {
	s, o := newHostTest(t), newOrder("good")
	s.runOnce("after commit", s.fulfil(o))
	s.now = s.now.Add(tooLate)
	s.wantAnswer(o, sold, "", 3600)
}

// The host's database no longer has answers of the reserved people: nothing is sold, and all is
// refunded. Answers that return later do not change that.
func TestShop_NoAnswersLeft_RefundsAll(t *testing.T) {
	s, o := newHostTest(t), newOrder("good")
	s.runOnce("after charge", s.fulfil(o))
	s.runOnce("after outcome", func(h *host) {
		_ = check.Value(h.books.db.Exec(`delete from people`))(s) // the next start writes them again
		check.Must(s, h.resume(t.Context()))
	})
	s.wantAnswer(o, refused, "no-truth", 0)
}

// A refusal that no buyer has got may become a sale.
func TestShop_UnrecordedRefusal_MayBecomeASale(t *testing.T) {
	s, o := newHostTest(t), newOrder("")
	forget := func(h *host) {
		check.Must(s, check.Err(h.books.db.Exec(`delete from people`)))
		s.fulfil(o)(h)
	}
	s.runOnce("before outcome", forget)
	s.wantAnswer(o, sold, "", 0)
	s.wantAnswer(o, sold, "", 0)
}

// A recorded refusal stays.
func TestShop_RecordedRefusal_Stays(t *testing.T) {
	s, o := newHostTest(t), newOrder("")
	s.runOnce("after outcome", func(h *host) {
		check.Must(s, check.Err(h.books.db.Exec(`delete from people`)))
		s.fulfil(o)(h)
	})
	s.wantAnswer(o, refused, "no-truth", 0)
}

// An error that decides nothing leaves the order placed.
func TestFulfil_Canceled_LeavesTheOrderPlaced(t *testing.T) {
	s, o := newHostTest(t), newOrder("good")
	s.runOnce("", func(h *host) {
		ctx, cancel := context.WithCancel(t.Context())
		h.hook = func(step string) {
			if step == "after reserve" {
				cancel()
			}
		}
		check.Is(t, check.Err(h.fulfil(ctx, o)), context.Canceled)
		_, state, err := readOrder(t.Context(), h.books.db, o.ID)
		check.That(t, err == nil && state == placed, "the order is %s, %v", state, err)
	})
	s.wantAnswer(o, sold, "", 3600)
}

// A buyer sends the same order many times concurrently.
func TestShop_SameOrderConcurrently_SellsOnce(t *testing.T) {
	s := newHostTest(t)
	for _, o := range []order{newOrder("good"), newOrder("")} {
		s.runOnce("", func(h *host) {
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

func TestShop_InvalidRequests_AreRefused(t *testing.T) {
	s := newHostTest(t)
	s.runOnce("", func(h *host) {
		o := newOrder("")
		other := o
		other.Buyer = "Ben"
		s.fulfil(o)(h)
		_, err := h.fulfil(t.Context(), other)
		check.That(t, errors.Is(err, errOtherOrder), "two orders with one id: %v", err)
		unknown := newOrder("")
		unknown.Question = "no such question"
		if a, err := h.fulfil(t.Context(), unknown); err != nil || a.State != refused {
			t.Errorf("%+v, %v", a, err)
		}
		var out strings.Builder
		check.Must(s, h.serve(t.Context(), strings.NewReader("{\n{}\n"), &out))
		n := strings.Count(out.String(), "not an order")
		check.That(t, n == 2, "requests that are no orders get the answers %s", &out)
	})
}

// The database is as durable as the ledger.
func TestOpenSQLite_SettingsAreDurable(t *testing.T) {
	t.Parallel()
	// A file name that must be escaped in a URL.
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

// Reconcile finds each difference between the databases.
func TestReconcile_FindsDifferences(t *testing.T) {
	for _, wrong := range []string{
		`delete from deliveries where object = 'person-01'`,
		`update deliveries set response = 'maybe' where object = 'person-02'`,
		`update orders set price = price + 1`,
		`update orders set sale = 7`,
		`update orders set state = 'placed'`,
		`update orders set buyer = 'Ben'`,
	} {
		t.Run(wrong, func(t *testing.T) { wantDifference(t, func(h *host) *sql.DB { return h.books.db }, wrong) })
	}
	t.Run("a card", func(t *testing.T) {
		wantDifference(t, func(h *host) *sql.DB { return h.cards.db }, `update charges set refunded = refunded + 1`)
	})
}

func wantDifference(t *testing.T, db func(*host) *sql.DB, wrong string) {
	s := newHostTest(t)
	s.runOnce("", func(h *host) {
		s.fulfil(newOrder("good"))(h)
		check.Must(s, h.reconcile(t.Context()))
		check.Must(s, check.Err(db(h).Exec(wrong)))
		err := h.reconcile(t.Context())
		check.That(t, err != nil, "reconcile finds no difference")
	})
}

// A ledger that has stopped ends this process, although more orders might come. The buyer gets no
// answer, and asks the next process. All other errors are answered, and the process continues.
func TestServe_LedgerStopped_EndsTheProcess(t *testing.T) {
	in, orders := io.Pipe()
	defer orders.Close()
	fails := []error{errors.New("no true values today"), fmt.Errorf("sell: %w", api.ErrStopped)}
	var mu sync.Mutex
	var answered []orderAnswer
	d := dispatcher{
		fulfil: func(_ context.Context, o order) (orderAnswer, error) {
			if o.Buyer == "stop" {
				return orderAnswer{}, fails[1]
			}
			return orderAnswer{}, fails[0]
		},
		reply:   func(a orderAnswer) { mu.Lock(); defer mu.Unlock(); answered = append(answered, a) },
		stopped: make(chan error, 1),
	}
	ended := make(chan error, 1)
	go func() { ended <- d.serve(t.Context(), in) }()
	for _, buyer := range []string{"wait", "stop"} {
		o := newOrder("")
		o.Buyer = buyer
		line, err := json.Marshal(o)
		if err == nil {
			_, err = orders.Write(append(line, '\n'))
		}
		check.Must(t, err)
	}
	check.Is(t, <-ended, api.ErrStopped)
	check.That(t, len(answered) == 1 && answered[0].Error == "not decided yet, please ask again",
		"the buyers got %+v", answered)
}
