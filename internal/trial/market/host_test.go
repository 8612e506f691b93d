package market

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// host is the backend: it brings orders to their end.
type host struct {
	ledger shopLedger
	books  *orderBooks
	cards  *cards
	hold   time.Duration     // for how long a reservation waits for the card
	hook   func(step string) // called right before and after each step; it may not return
	log    zerolog.Logger    // silent unless set
	hands  hands
}

// shopLedger is what the host has of the ledger: open, or over HTTP.
type shopLedger interface {
	Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error)
	Buyers(ctx context.Context) ([]api.BuyerState, error)
	Cancel(ctx context.Context, key string, reservation uint64) error
	Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error)
	Close() error
	DefineQuestion(ctx context.Context, key string, q api.Question) error
	Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error]
	Events(ctx context.Context, from uint64) iter.Seq2[event.Event, error]
	Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error)
	Forget(ctx context.Context, key, object string) error
	Object(ctx context.Context, name string) (api.ObjectState, error)
	Quote(ctx context.Context, o api.Order) (api.Quote, error)
	Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error)
	Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error)
	Sale(ctx context.Context, number uint64) (api.Sale, error)
	Sales(ctx context.Context, buyer string) iter.Seq2[api.Sale, error]
	Sell(ctx context.Context, r api.SellRequest) (api.Sale, error)
	Statement(ctx context.Context, key, object string) (evidence.Statement, error)
	Stats(ctx context.Context) (api.Stats, error)
	Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error)
	Withdraw(ctx context.Context, key, object string) error
}

// open opens the host's files in a directory, and makes them if need be. The ledger comes first: its
// file can be open in one process only, which so has all orders to itself.
func open(ctx context.Context, dir string, hook func(string)) (*host, error) {
	l, err := openLedger(filepath.Join(dir, "ledger.db"), ledger.Options{})
	if err != nil {
		return nil, err
	}
	var m shopLedger = l
	if os.Getenv(servedEnv) != "" {
		if m, err = overHTTP(ctx, l); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	h, err := newHost(ctx, dir, m, time.Now, hook)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return h, nil
}

func newHost(ctx context.Context, dir string, l shopLedger, now func() time.Time, hook func(string)) (*host, error) {
	b, err := openBooks(ctx, filepath.Join(dir, "host.db"), hook)
	if err != nil {
		return nil, err
	}
	c, err := openCards(ctx, filepath.Join(dir, "cards.db"), now)
	if err != nil {
		return nil, errors.Join(err, b.db.Close())
	}
	h := &host{ledger: l, books: b, cards: c, hold: 15 * time.Minute, hook: hook}
	if err := h.enrol(ctx); err != nil {
		return nil, errors.Join(err, b.db.Close(), c.db.Close())
	}
	return h, nil
}

func (h *host) close() error {
	return errors.Join(h.ledger.Close(), h.books.db.Close(), h.cards.db.Close())
}

// around carries out a step between two calls of the hook.
func around(hook func(string), step string, do func() error) error {
	hook("before " + step)
	err := do()
	hook("after " + step)
	return err
}

func (h *host) step(name string, do func() error) error { return around(h.hook, name, do) }

// resume finishes what earlier lives of the process have left. An order that cannot be finished now
// does not keep the others from it.
func (h *host) resume(ctx context.Context) error {
	ids, err := h.books.unfinished(ctx)
	for _, id := range ids {
		if failed := h.finish(ctx, id); failed != nil {
			err = errors.Join(err, fmt.Errorf("order %v: %w", id, failed))
		}
	}
	return err
}

// fulfil takes an order to its answer. It may be called again at any time, after any failure.
func (h *host) fulfil(ctx context.Context, o order) (orderAnswer, error) {
	if err := h.books.place(ctx, o); err != nil {
		return orderAnswer{}, err
	}
	if err := h.finish(ctx, o.ID); err != nil {
		return orderAnswer{}, err
	}
	return h.books.answer(ctx, o.ID)
}

// finish brings a recorded order to its end, from wherever it is. With an error it is not there yet.
func (h *host) finish(ctx context.Context, id uuid.UUID) error {
	defer h.hands.take(id)()
	o, state, err := readOrder(ctx, h.books.db, id)
	if err != nil {
		return err
	}
	if state == placed {
		out, err := h.trade(ctx, o)
		if err != nil {
			return err
		}
		if err := h.books.record(ctx, id, out); err != nil {
			return err
		}
	}
	return h.payBack(ctx, id)
}

// trade has the ledger carry an order out, or finds what it did before.
func (h *host) trade(ctx context.Context, o order) (outcome, error) {
	if o.Card == "" {
		return h.sell(ctx, o)
	}
	return h.sellByCard(ctx, o)
}

// hands holds the orders that somebody is at. The zero value is ready.
type hands struct{ busy sync.Map }

// take waits until nobody is at an order, and takes it. The caller must call release.
func (h *hands) take(id uuid.UUID) (release func()) {
	mine := make(chan struct{})
	for {
		other, taken := h.busy.LoadOrStore(id, mine)
		if !taken {
			return func() {
				h.busy.Delete(id)
				close(mine)
			}
		}
		<-other.(chan struct{})
	}
}
