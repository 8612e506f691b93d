package market

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
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
	return &world{TB: t, dir: pace.Scratch(t), sockets: pace.Scratch(t), buyers: buyers{answers: map[uuid.UUID]orderAnswer{}}}
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
	if n := len(w.waiting()); n != 0 {
		w.Fatalf("%d orders have no answer", n)
	}
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
		if want := w.fate(o); a.State != want {
			w.Errorf("order %v: %s (%s), want %s", o.ID, a.State, a.Refusal, want)
		}
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

// The unluckiest order: each life is killed one boundary further on its way; in the quick form at every second one, which are others
// in each run.
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
			stride := pace.Tries(2, 1, 1)
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

// Kills at any instant, not only between steps. Which ones they are depends on the machine, what must
// hold does not.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	kills := pace.Tries(12, 24, 24)
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

// How far the three come apart when the backend is killed, and that they agree in the end.
func TestTheThreeAgreeAfterAllDeaths(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := demonstrate(t.Context(), pace.Scratch(t), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log("\n" + out.String())
	for _, want := range []string{"\nafter sell ", "\nafter note refund ", "\n(not killed) ", "All 110 orders are answered"} {
		check.That(t, strings.Contains(out.String(), want), "the output lacks %q:\n%s", want, &out)
	}
}
