package market

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// orderBooks is the host's own database.
type orderBooks struct {
	db   *sql.DB
	hook func(step string)
}

// An amount of 0 and an empty text mean that there is none.
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

// change is one transaction. It is a step: the hook is called right before and right after the commit.
func (b *orderBooks) change(ctx context.Context, step string, do func(*sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing, once committed
	if err := do(tx); err != nil {
		return err
	}
	return around(b.hook, step, tx.Commit)
}

var errOtherOrder = errors.New("the order's id was used for another order")

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
			return fmt.Errorf("order %v: %d rows are to be decided: %w", id, n, errors.Join(err, errTwoHands))
		}
		return nil
	})
}

var errTwoHands = errors.New("somebody else is at this order")

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

// unfinished returns the orders that are to be carried on, or have a refund due.
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

// refundDue returns what of an order's charge is to be paid back, or 0.
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

// answer is what the buyer of an order is to be told.
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

// truth tells the ledger what people answered, as a [api.TruthFunc]. Of some there is no answer.
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

const data = "../../../testdata/health_insurance_1996.csv"

// One month, with every tenth person, is enough for all checks. The long form takes everybody.
func TestMonth(t *testing.T) {
	var out bytes.Buffer
	m, b, err := run(&out, data, pace.Scale(10, 1))
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log("\n" + out.String())
	for name, test := range map[string]func(*testing.T, *market, *books){
		"money": testMoney, "budgets": testBudgets, "returning buyer": testReturn, "release by time": testReleases,
		"terms": testTerms, "withdrawal": testWithdrawal, "subscriber": testSubscriber, "pool": testPool,
		"false books": testFalseBooks,
	} {
		t.Run(name, func(t *testing.T) { test(t, m, b) })
	}
	t.Run("report", func(t *testing.T) { testReport(t, out.String()) })
}

// The estimates vary from run to run; everything else in the report does not.
func testReport(t *testing.T, report string) {
	for _, want := range []string{
		fmt.Sprintf(`TERMS   %d people answer two questions`, pace.Scale(880, 8802)),
		`day  2  Atlas buys "insured" at ε = 0\.5 everywhere: \d+ people, \$\d+\.\d\d\.\n`,
		`day  3  Beacon reserves "healthy" at ε = 1 in the west for three days`,
		`day  4  Cobalt wants .* refused:\n +\d+ not-for-sale, \d+ buyer-refused, \d+ chain-ceiling\. For example\n +object "\d+": chain-ceiling: ε=1 asked`,
		`day  5  Beacon pays, and gets`,
		`day  8  Cobalt reserves .* Person (\d+) has ε = 1\.5 left\.\n`,
		`day 10  Cobalt comes to pay too late.* has ε = 2\.5 left again\.\n`,
		`day 11  The quote has lapsed: .* A new one is kept: \d+ people`,
		`day 14  Person \d+ \(open\) withdraws`,
		`day 21  The first sweep after six days .* ε = 0\.25, 0\.5 now\.\n`,
		`24 Cobalt +insured +0\.7 +0 +\d+ +0 `, // no draw, hence no ε
		`26 Atlas +insured +1 +0 +0 +\d+ `,
		`ESTIMATES`, `midwest +healthy +\d+ +\d+\.\d % +-?\d+\.\d ± \d+\.\d % +– +\d+\.\d ± \d+\.\d %\n`,
		`the pool, each person's highest`, `INVOICES`, `STATEMENTS`, `BUDGETS`,
		`revenue is \$\d+\.\d\d: the same\.`, `came to the same earnings, payments and budgets`,
		`EVIDENCE`, `With one answer altered, the receipt does not verify:\n +no\. \d+, event \d+, object "\d+": `,
		`nothing left out up to event \d+\.\n`, `: 0 problems\.\n`, `rolled back: the checkpoint is of \d+ events, the ledger has \d+\n`,
		`is forgotten: no answer is left in the file\. .*\nthe audit finds 0 problems\.\n`,
	} {
		check.That(t, regexp.MustCompile(want).MatchString(report), "the report lacks %q:\n%s", want, report)
	}
}

func testMoney(t *testing.T, m *market, b *books) {
	earned, invoiced, paid := int64(0), int64(0), int64(0)
	for _, person := range b.people {
		earned += person.Earned
	}
	for _, buyer := range b.buyers {
		paid += buyer.Paid
		for _, one := range m.invoice(b, buyer.Buyer) {
			invoiced += one.difference
		}
	}
	if earned == 0 || invoiced != earned || paid != earned || b.stats.Revenue != earned {
		t.Errorf("earned %d, invoiced %d, paid %d, revenue %d", earned, invoiced, paid, b.stats.Revenue)
	}
	if len(b.buyers) != 3 {
		t.Errorf("buyers %v", b.buyers)
	}
}

func testBudgets(t *testing.T, m *market, b *books) {
	full := 0
	for _, person := range b.people {
		limit := m.offerOf[person.Object].cap
		check.That(t, person.Cap == limit && !limit.Less(person.Spent),
			"person %s has spent %s of %s", person.Object, person.Spent, limit)
		check.That(t, person.Held.IsZero(), "%s of person %s is still reserved", person.Held, person.Object)
		if person.Spent == limit {
			full++
		}
	}
	check.That(t, full != 0, "no budget is spent: none was put to the test")
}

// A buyer who comes back has paid, in both steps together, the price of the higher level.
func testReturn(t *testing.T, m *market, b *books) {
	paid := map[string]int64{}
	for _, sale := range b.sales {
		if sale.Buyer == atlas && sale.Question == insured {
			for _, one := range b.deliveries[sale.Number] {
				paid[one.Object] += one.Price
			}
		}
	}
	held := b.held(insured, atlas)
	check.Need(t, len(held) != 0 && len(held) == len(paid), "%d held, %d paid for", len(held), len(paid))
	for person, one := range held {
		if price := m.offerOf[person].policy.Terms().Price(one.epsilon); paid[person] != price {
			t.Errorf("person %s (%s) at ε = %s: %d paid, the price is %d", person, m.offerOf[person].name, one.epsilon, paid[person], price)
		}
	}
}

// After the pause, the sweeps have left every level that time has released and the budget allows.
func testReleases(t *testing.T, m *market, b *books) {
	want := map[string][]string{"donor": {"0.25", "0.5"}}
	for _, person := range b.people {
		for _, chain := range person.Chains {
			var levels []string
			for _, level := range chain.Levels {
				levels = append(levels, level.Epsilon.String())
			}
			name := m.offerOf[person.Object].name
			for _, level := range want[name] {
				check.That(t, slices.Contains(levels, level),
					"person %s (%s) has levels %v of %q", person.Object, name, levels, chain.Question)
			}
			check.That(t, name != "donor" || len(levels) == 2, "donor %s has levels %v", person.Object, levels)
		}
	}
}

// Nobody gets what the terms do not allow.
func testTerms(t *testing.T, m *market, b *books) {
	names := map[string]map[string]bool{}
	for _, question := range questions() {
		for _, buyer := range b.buyers {
			if names[buyer.Buyer] == nil {
				names[buyer.Buyer] = map[string]bool{}
			}
			for person := range b.held(question, buyer.Buyer) {
				names[buyer.Buyer][m.offerOf[person].name] = true
			}
		}
	}
	for buyer, none := range map[string][]string{atlas: {"donor"}, beacon: {"donor"}, cobalt: {"donor", "wary", "thrifty"}} {
		for _, o := range m.offers {
			if names[buyer][o.name] == slices.Contains(none, o.name) {
				t.Errorf("%s and people on the terms %q: %v", buyer, o.name, names[buyer][o.name])
			}
		}
	}
}

func testWithdrawal(t *testing.T, m *market, b *books) {
	for _, line := range b.subscriber.accounts[m.quitter].lines {
		if day := m.calendar.day(line.at); day > 14 {
			t.Errorf("an answer on day %d, after the withdrawal", day)
		}
	}
	if state := b.person(m.quitter); state.Earned == 0 || !state.Chains[0].Withdrawn || !state.Chains[1].Withdrawn {
		t.Errorf("state %+v", state)
	}
}

func testSubscriber(t *testing.T, _ *market, b *books) {
	if s := b.subscriber; s.last != b.stats.Events || s.revenue != b.stats.Revenue {
		t.Errorf("%d events of %d, revenue %d of %d", s.last, b.stats.Events, s.revenue, b.stats.Revenue)
	}
	for _, person := range b.people {
		if a := b.subscriber.accounts[person.Object]; a.earned != person.Earned || a.spent() != person.Spent {
			t.Errorf("person %s: earned %d of %d, spent %s of %s", person.Object, a.earned, person.Earned, a.spent(), person.Spent)
		}
	}
}

func testPool(t *testing.T, m *market, b *books) {
	p := check.Value(m.newPool(b))(t)
	check.Need(t, len(p.both) != 0 && len(p.low) == len(p.both) && len(p.high) == len(p.both),
		"%d, %d and %d answers", len(p.low), len(p.high), len(p.both))
	alone := check.Value(p.high.share())(t)
	pooled := check.Value(p.both.share())(t)
	check.That(t, alone == pooled, "%s alone estimates %+v, the pool %+v", beacon, alone, pooled)
	for w := 0.0; w <= 1; w += 0.05 {
		if p.averaged(w) < p.highVar {
			t.Errorf("at weight %v the pool's variance is %v, below %v", w, p.averaged(w), p.highVar)
		}
	}
}

// The checks that the host makes find books that were tampered with.
func testFalseBooks(t *testing.T, m *market, b *books) {
	top, _ := m.earners(b)
	i := slices.IndexFunc(b.people, func(s api.ObjectState) bool { return s.Object == top })
	sale := b.sales[0].Number
	for name, number := range map[string]*int64{
		"a seller's earnings": &b.people[i].Earned, "a payment": &b.buyers[0].Paid, "the revenue": &b.stats.Revenue,
		"an invoice": &b.sales[0].Price, "a delivery": &b.deliveries[sale][0].Price, "the subscriber": &b.subscriber.revenue,
	} {
		check.Must(t, b.check())
		*number++
		check.That(t, b.check() != nil, "nobody notices that %s is off by a cent", name)
		*number--
	}
}

// The variance of a mean of both answers, by all outcomes of the chain, is the one that the host
// prints, and no weight makes it smaller than that of the higher answer alone.
func TestPooledVariance(t *testing.T) {
	for _, levels := range [][2]string{{"0.7", "1"}, {"0.5", "2"}, {"0.1", "0.2"}} {
		p := pool{lowAt: privacy.MustEpsilon(levels[0]), highAt: privacy.MustEpsilon(levels[1])}
		var err error
		if p.lowVar, err = variance(p.lowAt, []int64{1, 0}); err != nil {
			t.Fatal(err)
		}
		if p.highVar, err = variance(p.highAt, []int64{1, 0}); err != nil {
			t.Fatal(err)
		}
		for w := 0.0; w <= 1; w += 0.125 {
			got, want := enumerate(t, p, w), p.averaged(w)
			check.That(t, !(math.Abs(got-want) > 1e-9*want),
				"levels %v, weight %v: variance %v, by enumeration %v", levels, w, want, got)
			check.That(t, !(got < p.highVar*(1-1e-12)),
				"levels %v, weight %v: variance %v, below %v", levels, w, got, p.highVar)
		}
	}
}

// enumerate computes the variance of w·low + (1−w)·high for one person whose truth is "yes".
func enumerate(t *testing.T, p pool, w float64) float64 {
	t.Helper()
	kernel := check.Value(rrchain.NewKernel(2, p.lowAt, p.highAt))(t)
	low, high := truthful(p.lowAt), truthful(p.highAt)
	mean, square := 0.0, 0.0
	for _, outcome := range []struct{ first, second, probability float64 }{
		{1, 1, low * kernel.PAA}, {1, 0, low * kernel.OneMinusPAA}, {0, 1, (1 - low) * kernel.PBA}, {0, 0, (1 - low) * kernel.PBB},
	} {
		estimate := w*(outcome.first-1+low)/(2*low-1) + (1-w)*(outcome.second-1+high)/(2*high-1)
		mean += outcome.probability * estimate
		square += outcome.probability * estimate * estimate
	}
	return square - mean*mean
}

// truthful is the probability of a true answer to a question of two values.
func truthful(at privacy.Epsilon) float64 { return 1 / (1 + math.Exp(-at.Float64())) }

func TestMissingData(t *testing.T) {
	if _, _, err := run(new(bytes.Buffer), "nowhere.csv", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestEveryIsChecked(t *testing.T) {
	for _, every := range []int{-1, 0, 100000} {
		if _, _, err := run(new(bytes.Buffer), data, every); err == nil {
			t.Errorf("every %d is accepted", every)
		}
	}
}

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
