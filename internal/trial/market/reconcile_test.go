package market

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger"
)

// standing is what each of the three says there is.
type standing struct {
	placed, sold, refused int   // orders, by the host's own database
	invoiced              int64 // to buyers without a card
	sales                 uint64
	revenue               int64 // by the ledger
	charged               int64 // by the card company, without what was paid back
}

// look opens a directory that no host is at work in, only to read it.
func look(ctx context.Context, dir string, read func(*host) error) (err error) {
	l, err := ledger.Open(ctx, filepath.Join(dir, "ledger.db"), ledger.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	b, err := openBooks(ctx, filepath.Join(dir, "host.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.db.Close()) }()
	c, err := openCards(ctx, filepath.Join(dir, "cards.db"), time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.db.Close()) }()
	return read(&host{ledger: l, books: b, cards: c})
}

// standing counts.
func (h *host) standing(ctx context.Context) (s standing, err error) {
	err = h.books.db.QueryRowContext(ctx, `
		select count(*) filter (where state = 'placed'), count(*) filter (where state = 'sold'),
			count(*) filter (where state = 'refused'), coalesce(sum(price) filter (where card = ''), 0)
		from orders`).Scan(&s.placed, &s.sold, &s.refused, &s.invoiced)
	if err != nil {
		return s, err
	}
	if s.charged, err = h.cards.total(ctx); err != nil {
		return s, err
	}
	stats, err := h.ledger.Stats(ctx)
	s.sales, s.revenue = stats.Sales, stats.Revenue
	return s, err
}

// reconcile compares the three, order by order, and returns every difference. Orders that are not
// finished are differences too, so it is for a host at rest.
func (h *host) reconcile(ctx context.Context) error {
	s, err := h.standing(ctx)
	if err != nil {
		return err
	}
	if s.placed != 0 || uint64(s.sold) != s.sales || s.invoiced+s.charged != s.revenue {
		err = fmt.Errorf("the books do not agree: %+v", s)
	}
	var ids []uuid.UUID
	err = errors.Join(err, h.books.each(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `select id from orders`))
	for _, id := range ids {
		if different := h.reconcileOrder(ctx, id); different != nil {
			err = errors.Join(err, fmt.Errorf("order %v: %w", id, different))
		}
	}
	return err
}

func (h *host) reconcileOrder(ctx context.Context, id uuid.UUID) error {
	o, _, err := readOrder(ctx, h.books.db, id)
	if err != nil {
		return err
	}
	told, err := h.books.answer(ctx, id)
	if err != nil {
		return err
	}
	paid, err := h.cards.earned(ctx, id)
	if err != nil {
		return err
	}
	if o.Card != "" && paid != told.Price || o.Card == "" && paid != 0 {
		err = fmt.Errorf("the card was charged %d for what costs %d", paid, told.Price)
	}
	if told.State != sold {
		if told.Sale != 0 || told.Price != 0 || len(told.Responses) != 0 {
			err = errors.Join(err, errors.New("it was refused, and something was sold"))
		}
		return err
	}
	return errors.Join(err, h.reconcileSale(ctx, o, told))
}

// reconcileSale compares what the buyer was told with what the ledger sold.
func (h *host) reconcileSale(ctx context.Context, o order, told orderAnswer) error {
	sale, err := h.ledger.Sale(ctx, told.Sale)
	if err != nil {
		return err
	}
	responses := map[string]string{}
	for one, err := range h.ledger.Deliveries(ctx, sale.Number) {
		if err != nil {
			return err
		}
		responses[one.Object] = one.Value
	}
	if sale.Buyer != o.Buyer || sale.Question != o.Question || sale.Epsilon != o.Epsilon || sale.Price != told.Price {
		return fmt.Errorf("sale %d is another: %+v", sale.Number, sale)
	}
	if !maps.Equal(responses, told.Responses) {
		return fmt.Errorf("sale %d: the ledger delivered %v, the host %v", sale.Number, responses, told.Responses)
	}
	return nil
}
