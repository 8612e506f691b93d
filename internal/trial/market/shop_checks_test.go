package market

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// orderBooks is the host's own database.
type orderBooks struct {
	db   *sql.DB
	hook func(step string)
}

// An amount of 0 and an empty text mean that there is no value.
const booksSchema = `
create table if not exists people (
	id     text primary key,
	smokes text not null
) strict;
create table if not exists orders (
	id        text    primary key,
	buyer     text    not null,
	question  text    not null,
	epsilon   text    not null,
	max_price integer not null,
	card      text    not null,
	state     text    not null default 'placed' check (state in ('placed', 'sold', 'refused')),
	sale      integer not null default 0,
	price     integer not null default 0,
	refusal   text    not null default ''
) strict;
create unique index if not exists one_order_a_sale on orders (sale) where sale > 0;
create table if not exists deliveries (
	order_id text not null references orders,
	object   text not null,
	response text not null,
	primary key (order_id, object)
) strict, without rowid;
create table if not exists payments (
	order_id text    primary key references orders,
	charged  integer not null,
	refund   integer not null check (refund between 0 and charged),
	refunded integer not null default 0 -- 1 once the card company has confirmed the refund
) strict;`

func openBooks(ctx context.Context, path string, hook func(string)) (*orderBooks, error) {
	db, err := openSQLite(ctx, path, booksSchema)
	if err != nil {
		return nil, err
	}
	return &orderBooks{db, hook}, nil
}

// change runs one transaction. It is a step: the hook is called just before and just after the
// commit.
func (b *orderBooks) change(ctx context.Context, step string, do func(*sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after the commit
	if err := do(tx); err != nil {
		return err
	}
	return around(b.hook, step, tx.Commit)
}

var errOtherOrder = errors.New("place an order: its id was used for another order")

// place records an order, unless it is recorded already.
func (b *orderBooks) place(ctx context.Context, o order) error {
	return b.change(ctx, "place", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			insert into orders (id, buyer, question, epsilon, max_price, card) values (?, ?, ?, ?, ?, ?)
			on conflict (id) do nothing`,
			o.ID, o.Buyer, o.Question, o.Epsilon.String(), o.MaxPrice, o.Card)
		if err != nil {
			return err
		}
		recorded, _, err := readOrder(ctx, tx, o.ID)
		if err == nil && recorded != o {
			err = errOtherOrder
		}
		return err
	})
}

// queryer is a database or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func readOrder(ctx context.Context, q queryer, id uuid.UUID) (o order, state string, err error) {
	var epsilon string
	err = q.QueryRowContext(ctx, `select id, buyer, question, epsilon, max_price, card, state from orders where id = ?`, id).
		Scan(&o.ID, &o.Buyer, &o.Question, &epsilon, &o.MaxPrice, &o.Card, &state)
	if err == nil {
		o.Epsilon, err = privacy.ParseEpsilon(epsilon)
	}
	return o, state, err
}

// record writes the outcome of a placed order, once.
func (b *orderBooks) record(ctx context.Context, id uuid.UUID, out outcome) error {
	return b.change(ctx, "outcome", func(tx *sql.Tx) error {
		if err := deliver(ctx, tx, id, out.deliveries); err != nil {
			return err
		}
		if out.charged > 0 {
			_, err := tx.ExecContext(ctx, `insert into payments (order_id, charged, refund) values (?, ?, ?)`,
				id, out.charged, out.refund)
			if err != nil {
				return err
			}
		}
		done, err := tx.ExecContext(ctx, `
			update orders set state = ?, sale = ?, price = ?, refusal = ? where id = ? and state = 'placed'`,
			out.state, out.sale.Number, out.sale.Price, out.refusal, id)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("record the outcome of order %v: %d rows are placed, want 1: %w", id, n, errors.Join(err, errConcurrentWorker))
		}
		return nil
	})
}

var errConcurrentWorker = errors.New("another process works on this order")

func deliver(ctx context.Context, tx *sql.Tx, id uuid.UUID, all []api.Delivery) error {
	insert, err := tx.PrepareContext(ctx, `insert into deliveries (order_id, object, response) values (?, ?, ?)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, one := range all {
		if _, err := insert.ExecContext(ctx, id, one.Object, one.Value); err != nil {
			return err
		}
	}
	return nil
}

// unfinished returns the orders that are placed, or have a refund due.
func (b *orderBooks) unfinished(ctx context.Context) (ids []uuid.UUID, err error) {
	err = b.each(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `
		select id from orders where state = 'placed'
		union all
		select order_id from payments where refund > 0 and not refunded`)
	return ids, err
}

// refundDue returns the amount of an order's charge that is to be paid back, or 0.
func (b *orderBooks) refundDue(ctx context.Context, id uuid.UUID) (due int64, err error) {
	err = b.db.QueryRowContext(ctx, `select refund from payments where order_id = ? and not refunded`, id).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return due, err
}

// noteRefund records that the card company has confirmed a refund.
func (b *orderBooks) noteRefund(ctx context.Context, id uuid.UUID) error {
	return b.change(ctx, "note refund", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `update payments set refunded = 1 where order_id = ?`, id)
		return err
	})
}

// answer returns the answer to the buyer of an order.
func (b *orderBooks) answer(ctx context.Context, id uuid.UUID) (a orderAnswer, err error) {
	a.Order = id
	err = b.db.QueryRowContext(ctx, `select state, sale, price, refusal from orders where id = ?`, id).
		Scan(&a.State, &a.Sale, &a.Price, &a.Refusal)
	if err != nil {
		return a, err
	}
	a.Responses, err = b.deliveries(ctx, id)
	return a, err
}

func (b *orderBooks) deliveries(ctx context.Context, id uuid.UUID) (map[string]string, error) {
	all := map[string]string{}
	err := b.each(ctx, func(scan func(...any) error) error {
		var object, response string
		err := scan(&object, &response)
		all[object] = response
		return err
	}, `select object, response from deliveries where order_id = ?`, id)
	return all, err
}

// truth is an [api.TruthFunc] that returns people's answers. Some people have not answered.
func (b *orderBooks) truth(ctx context.Context, _ string, objects []string) (values []string, err error) {
	list, err := json.Marshal(objects)
	if err != nil {
		return nil, err
	}
	err = b.each(ctx, func(scan func(...any) error) error {
		var value string
		err := scan(&value)
		values = append(values, value)
		return err
	}, `
		select coalesce(people.smokes, '') from json_each(?) as asked
		left join people on people.id = asked.value order by asked.key`, string(list))
	return values, err
}

// each passes the rows of a query to visit.
func (b *orderBooks) each(ctx context.Context, visit func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := b.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// totals are the totals in each of the three databases.
type totals struct {
	placed, sold, refused int   // orders, in the host's own database
	invoiced              int64 // to buyers without a card
	sales                 uint64
	revenue               int64 // in the ledger
	charged               int64 // at the card company, less refunds
}

// openForReading opens the files in a directory that no host uses, for reading only.
func openForReading(ctx context.Context, dir string, read func(*host) error) (err error) {
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

// totals returns the totals.
func (h *host) totals(ctx context.Context) (s totals, err error) {
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

// reconcile compares the three databases, order by order, and returns every difference. Unfinished
// orders are differences too, so the host must be idle.
func (h *host) reconcile(ctx context.Context) error {
	s, err := h.totals(ctx)
	if err != nil {
		return err
	}
	if s.placed != 0 || uint64(s.sold) != s.sales || s.invoiced+s.charged != s.revenue {
		err = fmt.Errorf("the totals do not agree: %+v", s)
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
	answered, err := h.books.answer(ctx, id)
	if err != nil {
		return err
	}
	paid, err := h.cards.earned(ctx, id)
	if err != nil {
		return err
	}
	if o.Card != "" && paid != answered.Price || o.Card == "" && paid != 0 {
		err = fmt.Errorf("the card was charged %d, and the price is %d", paid, answered.Price)
	}
	if answered.State != sold {
		if answered.Sale != 0 || answered.Price != 0 || len(answered.Responses) != 0 {
			err = errors.Join(err, errors.New("the order was refused, and has a sale, a price or responses"))
		}
		return err
	}
	return errors.Join(err, h.reconcileSale(ctx, o, answered))
}

// reconcileSale compares the buyer's answer with what the ledger sold.
func (h *host) reconcileSale(ctx context.Context, o order, answered orderAnswer) error {
	sale, err := h.ledger.Sale(ctx, answered.Sale)
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
	if sale.Buyer != o.Buyer || sale.Question != o.Question || sale.Epsilon != o.Epsilon || sale.Price != answered.Price {
		return fmt.Errorf("sale %d does not match the order: %+v", sale.Number, sale)
	}
	if !maps.Equal(responses, answered.Responses) {
		return fmt.Errorf("sale %d: the ledger delivered %v, the host %v", sale.Number, responses, answered.Responses)
	}
	return nil
}
