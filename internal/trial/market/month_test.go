package market

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// The buyers.
const (
	atlas  = "Atlas"
	beacon = "Beacon"
	cobalt = "Cobalt"
)

// market is the host: it knows the truth, and it opens the ledger.
type market struct {
	out       io.Writer
	people    health
	offers    []*offer          // all kinds of terms
	offerOf   map[string]*offer // by person
	calendar  *calendar
	ledger    *ledger.Ledger
	purchases []purchase
	quoted    []api.Quote     // what Atlas was told on day 10
	reserved  api.Reservation // the latest
	quitter   string          // who withdraws
	dir       string          // for the ledger and its backup
	keys      keys
	witness   witness
}

func newMarket(out io.Writer, people health) (*market, error) {
	m := &market{out: out, people: people, calendar: newCalendar()}
	var err error
	if m.offers, err = allOffers(m.calendar); err != nil {
		return nil, err
	}
	m.offerOf = drawOffers(m.offers, people.People)
	m.keys, err = newKeys()
	return m, err
}

func questions() []string { return []string{insured, healthy} }

// run lets the month pass and closes the books. A subscriber keeps books of its own meanwhile.
func (m *market) run(ctx context.Context) (*books, error) {
	if err := m.printOffers(); err != nil {
		return nil, err
	}
	s := newSubscriber()
	stop := s.start(ctx, m.ledger)
	if err := errors.Join(m.month(ctx), stop()); err != nil {
		return nil, err
	}
	b, err := m.closeBooks(ctx)
	if err != nil {
		return nil, err
	}
	b.subscriber = s
	if err := s.catchUp(ctx, m.ledger, b.stats.Events); err != nil {
		return nil, err
	}
	b.evidence, err = m.prove(ctx, b)
	return b, err
}

// report checks the books and prints what they say.
func (m *market) report(b *books) error {
	if err := b.check(); err != nil {
		return err
	}
	for _, print := range []func(*books) error{
		m.printOrders, m.printEstimates, m.printPooling, m.printInvoices, m.printStatements, m.printBudgets, m.printTotals, m.printEvidence,
	} {
		if err := print(b); err != nil {
			return err
		}
	}
	return nil
}

func (m *market) table() *tabwriter.Writer {
	return tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// tell prints what happened on the day that it is.
func (m *market) tell(format string, values ...any) {
	fmt.Fprintf(m.out, "day %2d  %s\n", m.calendar.today(), fmt.Sprintf(format, values...))
}

// left pads the first column of a table, whose other columns are aligned to the right.
func left(text string) string { return fmt.Sprintf("%-18s", text) }

// money writes an amount in cents.
func money(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }

// nats makes an ε of a number of nano-nats that is one by construction.
func nats(nano int64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(nano)
	if err != nil {
		panic(err)
	}
	return e
}

// script says what happens on which day, at noon.
func (m *market) script() map[int]func(context.Context) error {
	return map[int]func(context.Context) error{
		2:  m.buyAs(wish{atlas, insured, privacy.MustEpsilon("0.5"), ""}, "buys"),
		3:  m.reserveWest,
		4:  m.refuseWest,
		5:  m.commitWest,
		8:  m.reserveSouth,
		10: m.comeTooLateAndQuote,
		11: m.honourQuote,
		12: m.backup,
		14: m.withdraw,
		22: m.buyAs(wish{beacon, insured, privacy.MustEpsilon("1"), ""}, "buys"),
		24: m.buyAs(wish{cobalt, insured, privacy.MustEpsilon("0.7"), ""}, "buys"),
		26: m.buyAs(wish{atlas, insured, privacy.MustEpsilon("1"), ""}, "comes back and buys"),
		28: m.buyAs(wish{atlas, healthy, privacy.MustEpsilon("1"), ""}, "comes back and buys"),
	}
}

// month lets thirty days pass: what policies release for free is drawn in the morning, and orders come at noon.
func (m *market) month(ctx context.Context) error {
	fmt.Fprintln(m.out, "\nTHE MONTH")
	m.calendar.set(1, 3)
	if err := m.enroll(ctx); err != nil {
		return err
	}
	script := m.script()
	for day := 1; day <= 30; day++ {
		m.calendar.set(day, 6)
		if err := m.sweep(ctx, day); err != nil {
			return err
		}
		m.calendar.set(day, 12)
		if act := script[day]; act != nil {
			if err := act(ctx); err != nil {
				return fmt.Errorf("day %d: %w", day, err)
			}
		}
	}
	return nil
}

// sweep draws what policies have released. On days 15 to 20 the host is being repaired.
func (m *market) sweep(ctx context.Context, day int) error {
	if day >= 15 && day <= 20 {
		return nil
	}
	result, err := m.ledger.Advance(ctx, api.AdvanceRequest{Key: fmt.Sprintf("sweep of day %d", day), Truth: m.people.Truth})
	if err != nil {
		return err
	}
	raised, refused := 0, []api.Refusal(nil)
	for _, q := range result.Questions {
		raised, refused = raised+q.Raised, append(refused, q.Refused...)
	}
	if len(refused) > 0 {
		return fmt.Errorf("an unexpected refusal: %s", refused[0])
	}
	if day == 21 {
		return m.tellCatchUp(ctx, raised)
	}
	return nil
}

// buyAs makes a step of the script of a purchase.
func (m *market) buyAs(w wish, verb string) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := m.buy(ctx, w)
		if err != nil {
			return err
		}
		m.tellPurchase(p, verb)
		return nil
	}
}

func (m *market) tellPurchase(p purchase, verb string) {
	sum := p.sums()
	upgrades := ""
	if sum.Upgrades > 0 {
		upgrades = fmt.Sprintf(" (%d upgrades)", sum.Upgrades)
	}
	m.tell("%s %s %s: %d people, %s%s.", p.buyer, verb, p.wish, sum.Objects, money(sum.Price), upgrades)
}

// west is what Beacon reserves, and Cobalt cannot have meanwhile.
func west(buyer string) wish { return wish{buyer, healthy, privacy.MustEpsilon("1"), "west"} }

// reserveWest is for a buyer who pays by a slow bank: budget and price are held until the money is there.
func (m *market) reserveWest(ctx context.Context) (err error) {
	w := west(beacon)
	m.reserved, err = m.ledger.Reserve(ctx, api.ReserveRequest{
		Key: m.key("reservation", w, w.region), Order: m.order(w, w.region), For: 72 * time.Hour, Partial: true,
	})
	if err == nil {
		m.tell("%s reserves %s for three days: %d people, %s.", w.buyer, w, m.reserved.Objects, money(m.reserved.Price))
	}
	return err
}

func (m *market) commitWest(ctx context.Context) error {
	w := west(beacon)
	sale, err := m.ledger.Capture(ctx, api.CaptureRequest{
		Key: m.key("sale", w, w.region), Reservation: m.reserved.Number, Truth: m.people.Truth,
	})
	if err != nil {
		return err
	}
	p := purchase{w, m.calendar.today(), []api.Sale{sale}, m.reserved.Refused}
	m.purchases = append(m.purchases, p)
	m.tellPurchase(p, "pays, and gets")
	return nil
}

// refuseWest asks for everybody or nobody, and is told why it is nobody.
func (m *market) refuseWest(ctx context.Context) error {
	w := west(cobalt)
	_, err := m.ledger.Sell(ctx, api.SellRequest{Key: m.key("sale", w, w.region), Order: m.order(w, w.region), Truth: m.people.Truth})
	var refused *api.RefusedError
	if !errors.As(err, &refused) {
		return fmt.Errorf("the order should have been refused: %w", err)
	}
	counts, err := countReasons(refused.Refused)
	if err != nil {
		return err
	}
	var words []string
	for i, reason := range reasons() {
		if counts[i] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[i], reason))
		}
	}
	m.tell("%s wants %s, from all %d or not at all, and is refused:", w.buyer, w, len(m.people.Members(w.region)))
	fmt.Fprintf(m.out, "        %s. For example\n", strings.Join(words, ", "))
	i := slices.IndexFunc(refused.Refused, func(r api.Refusal) bool { return r.Reason == api.ChainCeiling })
	fmt.Fprintf(m.out, "        %s\n", refused.Refused[max(i, 0)])
	return nil
}

// reserveSouth is a reservation that nobody comes back for.
func (m *market) reserveSouth(ctx context.Context) error {
	w := wish{cobalt, healthy, privacy.MustEpsilon("1"), "south"}
	var err error
	m.reserved, err = m.ledger.Reserve(ctx, api.ReserveRequest{
		Key: m.key("reservation", w, w.region), Order: m.order(w, w.region), For: 24 * time.Hour, Partial: true,
	})
	if err != nil {
		return err
	}
	rest, err := m.leftOfSouthern(ctx)
	if err != nil {
		return err
	}
	m.tell("%s reserves %s for one day: %d people, %s. %s.", w.buyer, w, m.reserved.Objects, money(m.reserved.Price), rest)
	return nil
}

// leftOfSouthern says what budget is left of a person whose budget is reserved.
func (m *market) leftOfSouthern(ctx context.Context) (string, error) {
	person, err := m.someone("south", "open")
	if err != nil {
		return "", err
	}
	state, err := m.ledger.Object(ctx, person)
	return fmt.Sprintf("Person %s has ε = %s left", person, state.Remaining), err
}

func (m *market) comeTooLateAndQuote(ctx context.Context) error {
	_, err := m.ledger.Capture(ctx, api.CaptureRequest{
		Key: "too late", Reservation: m.reserved.Number, Truth: m.people.Truth,
	})
	if !errors.Is(err, api.ErrNotReserved) {
		return fmt.Errorf("the reservation should have expired: %w", err)
	}
	rest, err := m.leftOfSouthern(ctx)
	if err != nil {
		return err
	}
	m.tell("%s comes to pay too late, and is refused: the reservation has expired. %s again.", m.reserved.Buyer, rest)
	w := quotedWish()
	if m.quoted, err = m.quote(ctx, w); err != nil {
		return err
	}
	people, price := total(m.quoted)
	m.tell("%s asks what %s costs. The quote: %d people, %s.", w.buyer, w, people, money(price))
	return nil
}

// quotedWish is what Atlas gets quotes for before it buys.
func quotedWish() wish { return wish{atlas, healthy, privacy.MustEpsilon("0.5"), ""} }

func total(quotes []api.Quote) (people uint64, price int64) {
	for _, q := range quotes {
		people, price = people+q.Objects, price+q.Price
	}
	return people, price
}

// honourQuote tries a quote of yesterday, and then one of today, which is kept to the last cent.
func (m *market) honourQuote(ctx context.Context) error {
	w := quotedWish()
	_, err := m.buy(ctx, w, m.quoted...)
	var changed *api.QuoteError
	if !errors.As(err, &changed) {
		return fmt.Errorf("yesterday's quote should not hold: %w", err)
	}
	quotes, err := m.quote(ctx, w)
	if err != nil {
		return err
	}
	p, err := m.buy(ctx, w, quotes...)
	if err != nil {
		return err
	}
	for i, sale := range p.sales {
		if sale.Price != quotes[i].Price || sale.Objects != quotes[i].Objects {
			return fmt.Errorf("quoted were %d people for %d, and sold %d for %d", quotes[i].Objects, quotes[i].Price, sale.Objects, sale.Price)
		}
	}
	people, price := total(quotes)
	m.tell("The quote has lapsed: the patient have more for sale since midnight. A new one is kept: %d people, %s.", people, money(price))
	return nil
}

func (m *market) withdraw(ctx context.Context) (err error) {
	if m.quitter, err = m.someone("midwest", "open"); err != nil {
		return err
	}
	if err := m.ledger.Withdraw(ctx, "withdrawal of "+m.quitter, m.quitter); err != nil {
		return err
	}
	m.tell("Person %s (open) withdraws: what was sold stays sold, and nothing more will be.", m.quitter)
	return nil
}

// tellCatchUp tells of a late sweep, which leaves the levels that daily ones would have left.
func (m *market) tellCatchUp(ctx context.Context, raised int) error {
	person, err := m.someone("midwest", "donor")
	if err != nil {
		return err
	}
	state, err := m.ledger.Object(ctx, person)
	if err != nil {
		return err
	}
	var levels []string
	for _, level := range state.Chains[0].Levels {
		levels = append(levels, level.Epsilon.String())
	}
	m.tell("The first sweep after six days raises %d chains: person %s (donor) is at ε = %s now.", raised, person, strings.Join(levels, ", "))
	return nil
}

// books is what the ledger says at the end of the month, and what the subscriber says beside it.
type books struct {
	stats      api.Stats
	people     []api.ObjectState // in the order of the survey
	sales      []api.Sale
	deliveries map[uint64][]api.Delivery // by sale
	buyers     []api.BuyerState
	subscriber *subscriber
	evidence   *proofs
}

// closeBooks reads the books of the ledger.
func (m *market) closeBooks(ctx context.Context) (*books, error) {
	b := &books{deliveries: map[uint64][]api.Delivery{}}
	for _, person := range m.people.People {
		state, err := m.ledger.Object(ctx, person)
		if err != nil {
			return nil, err
		}
		b.people = append(b.people, state)
	}
	for sale, err := range m.ledger.Sales(ctx, "") {
		if err != nil {
			return nil, err
		}
		b.sales = append(b.sales, sale)
		for delivery, err := range m.ledger.Deliveries(ctx, sale.Number) {
			if err != nil {
				return nil, err
			}
			b.deliveries[sale.Number] = append(b.deliveries[sale.Number], delivery)
		}
	}
	var err error
	if b.buyers, err = m.ledger.Buyers(ctx); err != nil {
		return nil, err
	}
	b.stats, err = m.ledger.Stats(ctx)
	return b, err
}

// check holds the books against each other. Nothing in them is a matter of chance.
func (b *books) check() error {
	for _, check := range []func() error{b.checkMoney, b.checkBudgets, b.checkDifferences, b.checkSubscriber, b.evidence.check} {
		if err := check(); err != nil {
			return fmt.Errorf("the books are wrong: %w", err)
		}
	}
	return nil
}

// earned is what the sellers have earned in all.
func (b *books) earned() (sum int64) {
	for _, person := range b.people {
		sum += person.Earned
	}
	return sum
}

// invoiced is what the sales come to.
func (b *books) invoiced() (sum int64) {
	for _, sale := range b.sales {
		sum += sale.Price
	}
	return sum
}

// checkMoney checks that what buyers pay is what sellers earn, answer by answer.
func (b *books) checkMoney() error {
	delivered, paid := int64(0), int64(0)
	for _, sale := range b.sales {
		for _, one := range b.deliveries[sale.Number] {
			delivered += one.Price
		}
	}
	for _, buyer := range b.buyers {
		paid += buyer.Paid
	}
	if sums := []int64{b.stats.Revenue, b.earned(), b.invoiced(), delivered, paid}; len(slices.Compact(sums)) != 1 {
		return fmt.Errorf("revenue, earnings, invoices, deliveries and payments are %d", sums)
	}
	return nil
}

// checkBudgets checks that nobody is over budget, and that the highest levels are all that was spent.
func (b *books) checkBudgets() error {
	for _, person := range b.people {
		levels := int64(0)
		for _, chain := range person.Chains {
			levels += chain.Epsilon.Nano()
			if chain.Ceiling.Less(chain.Epsilon) {
				return fmt.Errorf("person %s is at ε = %s of %s in %q", person.Object, chain.Epsilon, chain.Ceiling, chain.Question)
			}
		}
		if person.Cap.Less(person.Spent) || person.Spent.Nano() != levels {
			return fmt.Errorf("person %s has spent ε = %s of %s, with levels of %s", person.Object, person.Spent, person.Cap, nats(levels))
		}
	}
	return nil
}

// holding names what one buyer has of one person.
type holding struct{ buyer, question, person string }

// checkDifferences checks that each buyer has paid, in however many steps, the price of the highest level
// held of each person.
func (b *books) checkDifferences() error {
	paid, highest := map[holding]int64{}, map[holding]privacy.Epsilon{}
	for _, sale := range b.sales {
		for _, one := range b.deliveries[sale.Number] {
			h := holding{sale.Buyer, sale.Question, one.Object}
			paid[h] += one.Price
			if highest[h].Less(sale.Epsilon) {
				highest[h] = sale.Epsilon
			}
		}
	}
	for _, person := range b.people {
		for _, chain := range person.Chains {
			for _, buyer := range b.buyers {
				h := holding{buyer.Buyer, chain.Question, person.Object}
				level := highest[h]
				if level.IsZero() {
					continue
				}
				if price := chain.Policy.Terms().Price(level); paid[h] != price {
					return fmt.Errorf("%s has paid %d for person %s at ε = %s, which costs %d", h.buyer, paid[h], h.person, level, price)
				}
			}
		}
	}
	return nil
}

// checkSubscriber checks that the subscriber came to the same accounts.
func (b *books) checkSubscriber() error {
	s := b.subscriber
	if s.last != b.stats.Events || s.revenue != b.stats.Revenue || len(s.accounts) != len(b.people) || len(s.paid) != len(b.buyers) {
		return fmt.Errorf("the subscriber saw %d events and revenues of %d, the ledger %d and %d", s.last, s.revenue, b.stats.Events, b.stats.Revenue)
	}
	for _, person := range b.people {
		if a := s.accounts[person.Object]; a.earned != person.Earned || a.spent() != person.Spent {
			return fmt.Errorf("person %s: the subscriber's account and the ledger's differ", person.Object)
		}
	}
	for _, buyer := range b.buyers {
		if s.paid[buyer.Buyer] != buyer.Paid {
			return fmt.Errorf("%s has paid %d, and %d by the subscriber's account", buyer.Buyer, buyer.Paid, s.paid[buyer.Buyer])
		}
	}
	return nil
}

// steps are all that a host does that outlives it. It can be killed before and after each.
var steps = []string{
	"enrol", "place", "sell", "reserve", "charge", "commit", "cancel", "outcome", "refund", "note refund", "answer",
}

// boundaries are the instants between steps.
func boundaries() (all []string) {
	for _, step := range steps {
		all = append(all, "before "+step, "after "+step)
	}
	return all
}

// demonstrate kills a host at each boundary. Each of its lives begins with what the last one left, and
// gets some new orders.
func demonstrate(ctx context.Context, dir string, out io.Writer) error {
	fmt.Fprintf(out, "%-20s| %-22s| %-15s | %s\n", "THE HOST", "ITS OWN DATABASE", "LEDGER", "MONEY, USD")
	fmt.Fprintf(out, "%-20s| %6s %6s %7s | %6s %8s | %8s %8s\n",
		"was killed", "placed", "sold", "refused", "sales", "revenue", "invoiced", "by card")
	b := &buyers{answers: map[uuid.UUID]orderAnswer{}}
	for _, boundary := range append(boundaries(), "") {
		if boundary != "" {
			b.order()
		}
		died, err := b.visit(command(ctx, dir, boundary), b.waiting())
		if err != nil {
			return err
		}
		if died != (boundary != "") {
			return fmt.Errorf("host to be killed %s: died: %t", boundary, died)
		}
		if err := report(ctx, out, dir, boundary); err != nil {
			return err
		}
	}
	if err := look(ctx, dir, func(h *host) error { return h.reconcile(ctx) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nAll %d orders are answered, and the three agree on every sale, response and cent.\n", len(b.answers))
	return nil
}

func report(ctx context.Context, out io.Writer, dir, boundary string) error {
	if boundary == "" {
		boundary = "(not killed)"
	}
	return look(ctx, dir, func(h *host) error {
		s, err := h.standing(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%-20s| %6d %6d %7d | %6d %8s | %8s %8s\n", boundary,
			s.placed, s.sold, s.refused, s.sales, shopMoney(s.revenue), shopMoney(s.invoiced), shopMoney(s.charged))
		return err
	})
}

func shopMoney(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// command is a life of the host: this program, by [TestMain].
func command(ctx context.Context, dir, kill string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, program, dir, kill)
	cmd.Stderr = os.Stderr
	return cmd
}

// buyers are those outside, who outlive the host and ask until they are answered.
type buyers struct {
	orders  []order
	answers map[uuid.UUID]orderAnswer
}

// order adds orders that end in all ways there are. Each has a buyer of its own: who has bought an ε
// gets it again for nothing.
func (b *buyers) order() []order {
	n := len(b.orders)
	want := func(epsilon string, maxPrice int64, card string) {
		b.orders = append(b.orders, order{
			ID: uuid.New(), Buyer: fmt.Sprintf("buyer %d", len(b.orders)+1),
			Question: question, Epsilon: privacy.MustEpsilon(epsilon), MaxPrice: maxPrice, Card: card,
		})
	}
	levels := []string{"0.5", "1", "0.25", "1.5", "0.75", "2"}
	want(levels[n%len(levels)], 10_000, "")
	want(levels[(n+1)%len(levels)], 10_000, "good")
	want("1", 10_000, blockedCard)
	want("1", 1, "")     // too dear
	want("3", 1, "good") // not on offer
	return b.orders[n:]
}

// waiting are the orders without an answer.
func (b *buyers) waiting() (orders []order) {
	for _, o := range b.orders {
		if _, answered := b.answers[o.ID]; !answered {
			orders = append(orders, o)
		}
	}
	return orders
}

// visit sends orders to a life of the host and notes the answers. It tells whether the host died.
func (b *buyers) visit(host *exec.Cmd, orders []order) (died bool, err error) {
	var in, out bytes.Buffer
	write := lines(&in)
	for _, o := range orders {
		if err := write(o); err != nil {
			return false, err
		}
	}
	host.Stdin, host.Stdout = &in, &out
	err = host.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	return exit != nil, b.note(&out)
}

// note reads answers. What was cut off is no answer; whoever has one already must get the same again.
func (b *buyers) note(out *bytes.Buffer) error {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var a orderAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("the host says %q: %w", line, err)
		}
		if a.Error != "" {
			return fmt.Errorf("order %v: %s", a.Order, a.Error)
		}
		if before, again := b.answers[a.Order]; again && !reflect.DeepEqual(a, before) {
			return fmt.Errorf("order %v was answered with %+v, and now with %+v", a.Order, before, a)
		}
		b.answers[a.Order] = a
	}
}

// calendar is the clock of the month. Its days are counted from 1, and it begins tomorrow, because the
// ledger's time cannot go back behind the creation of its file.
type calendar struct {
	first time.Time // midnight before day 1
	mu    sync.Mutex
	now   time.Time
}

func newCalendar() *calendar {
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	return &calendar{first: first, now: first}
}

// Now is the clock that the ledger goes by.
func (c *calendar) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// set puts the clock to a full hour of a day.
func (c *calendar) set(day, hour int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.midnight(day).Add(time.Duration(hour) * time.Hour)
}

// midnight returns the beginning of a day.
func (c *calendar) midnight(day int) time.Time { return c.first.AddDate(0, 0, day-1) }

// day returns the day of an instant.
func (c *calendar) day(at time.Time) int { return int(at.Sub(c.first)/(24*time.Hour)) + 1 }

func (c *calendar) today() int { return c.day(c.Now()) }

// cards stands in for the card company, whose books nobody else can commit to. What matters is that
// it honours idempotency keys, as real ones do.
type cards struct {
	db  *sql.DB
	now func() time.Time
}

// blockedCard is a card that is always declined.
const blockedCard = "blocked"

const cardsSchema = `
create table if not exists charges (
	key      text    primary key,
	card     text    not null,
	amount   integer not null,
	declined text    not null, -- why, or '' for a charge that was paid
	refunded integer not null default 0 check (refunded between 0 and amount)
) strict;`

func openCards(ctx context.Context, path string, now func() time.Time) (*cards, error) {
	db, err := openSQLite(ctx, path, cardsSchema)
	if err != nil {
		return nil, err
	}
	return &cards{db, now}, nil
}

// charge is a request to the card company.
type charge struct {
	Key    uuid.UUID
	Card   string
	Amount int64
	Before time.Time // decline it if it comes later
}

// charge takes money from a card, or declines. The first request with a key decides; others with the
// same key learn what it came to.
func (c *cards) charge(ctx context.Context, r charge) (declined string, err error) {
	switch {
	case r.Card == blockedCard:
		declined = "the card is blocked"
	case !c.now().Before(r.Before):
		declined = "it is too late"
	}
	_, err = c.db.ExecContext(ctx, `
		insert into charges (key, card, amount, declined) values (?, ?, ?, ?)
		on conflict (key) do nothing`, r.Key, r.Card, r.Amount, declined)
	if err != nil {
		return "", err
	}
	first := charge{Key: r.Key, Before: r.Before}
	err = c.db.QueryRowContext(ctx, `select card, amount, declined from charges where key = ?`, r.Key).
		Scan(&first.Card, &first.Amount, &declined)
	if err == nil && first != r {
		err = errors.New("card company: the key was used for another charge")
	}
	return declined, err
}

// refund pays back a part of a charge, or all, once: there is one refund to a charge, however often it is
// asked for. It cannot be undone.
func (c *cards) refund(ctx context.Context, key uuid.UUID, amount int64) error {
	done, err := c.db.ExecContext(ctx, `
		update charges set refunded = ?1 where key = ?2 and declined = '' and refunded in (0, ?1)`, amount, key)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("card company: no charge %v of which to refund that much: %w", key, errors.Join(err, sql.ErrNoRows))
	}
	return nil
}

// earned is what the host got from a charge; 0 if there is none.
func (c *cards) earned(ctx context.Context, key uuid.UUID) (amount int64, err error) {
	err = c.db.QueryRowContext(ctx, `
		select coalesce(sum(amount - refunded), 0) from charges where key = ? and declined = ''`, key).Scan(&amount)
	return amount, err
}

// total is what the host got from all charges.
func (c *cards) total(ctx context.Context) (amount int64, err error) {
	err = c.db.QueryRowContext(ctx, `select coalesce(sum(amount - refunded), 0) from charges where declined = ''`).Scan(&amount)
	return amount, err
}

// offer is one kind of terms on which people take part: a policy for each question, and a cap over both.
type offer struct {
	name, words string
	cap         privacy.Epsilon
	policy      policy.Policy
}

// sold tells whether anybody can buy on these terms.
func (o *offer) sold() bool { return o.policy.Terms() != nil }

// allOffers lists the kinds of terms. Prices are in cents, for one person.
func allOffers(c *calendar) ([]*offer, error) {
	texts := []struct{ name, cap, words, json string }{
		{"open", "3", "up to ε = 2: 40¢ at 0.5, 70¢ at 1, $1.20 at 2", `
			{"kind": "market", "max": "2", "price": [["0.5", 40], ["1", 70], ["2", 120]]}`},
		{"thrifty", "1.5", "ε = 0.5 or 1 only, never below 45¢: 45¢ at 0.5, 60¢ at 1", `
			{"kind": "market", "max": "1", "price": [["0.5", 30], ["1", 60]], "stride": "0.5", "floor": 45}`},
		{"patient", "2", "0.25 more for sale on days 6, 11, 16, 21 and 26: 60¢ per unit of ε", `
			{"kind": "min", "of": [
				{"kind": "linear", "from": "0", "to": "1.5", "start": "DAY 1", "end": "DAY 31", "stride": "0.25"},
				{"kind": "market", "max": "1.5", "price": [["1.5", 90]]}]}`},
		{"one by one", "2", "each buyer unlocks 0.5 more, up to ε = 2: $1.00 per unit of ε", `
			{"kind": "min", "of": [
				{"kind": "unlock", "total": "2", "orders": 4},
				{"kind": "market", "max": "2", "price": [["2", 200]]}]}`},
		{"wary", "2", "up to ε = 1, but never to Cobalt: 80¢ per unit of ε", `
			{"kind": "market", "max": "1", "price": [["1", 80]], "barred": ["Cobalt"]}`},
		{"later more", "2", "ε = 0.5, and up to 1 from day 15: 50¢ per unit of ε", `
			{"kind": "min", "of": [
				{"kind": "steps", "steps": [["DAY 1", "0.5"], ["DAY 15", "1"]]},
				{"kind": "market", "max": "1", "price": [["1", 50]]}]}`},
		{"donor", "1", "not for sale: ε = 0.25 on day 10 and 0.5 on day 20, for free", `
			{"kind": "steps", "steps": [["DAY 10", "0.25"], ["DAY 20", "0.5"]]}`},
	}
	var all []*offer
	for _, text := range texts {
		p, err := policy.Parse([]byte(withDates(text.json, c)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text.name, err)
		}
		all = append(all, &offer{text.name, text.words, privacy.MustEpsilon(text.cap), p})
	}
	return all, nil
}

// withDates puts dates for days.
func withDates(text string, c *calendar) string {
	for day := 1; day <= 31; day++ {
		text = strings.ReplaceAll(text, fmt.Sprintf(`"DAY %d"`, day), c.midnight(day).Format(`"`+time.RFC3339+`"`))
	}
	return text
}

// drawOffers draws the terms of each person. The seed makes them the same in every run; they depend on
// nobody's answer, so that those who sell stand for all.
func drawOffers(all []*offer, people []string) map[string]*offer {
	random := rand.New(rand.NewPCG(1996, 8802))
	drawn := make(map[string]*offer, len(people))
	for _, person := range people {
		drawn[person] = all[random.IntN(len(all))]
	}
	return drawn
}

// on returns the people with some terms.
func (m *market) on(o *offer) (people []string) {
	for _, person := range m.people.People {
		if m.offerOf[person] == o {
			people = append(people, person)
		}
	}
	return people
}

// someone returns the first person of a region with the terms of that name.
func (m *market) someone(region, terms string) (string, error) {
	for _, person := range m.people.Members(region) {
		if m.offerOf[person].name == terms {
			return person, nil
		}
	}
	return "", fmt.Errorf("nobody in the %s has the terms %q: there are too few people", region, terms)
}

// enroll enrols everybody in both questions.
func (m *market) enroll(ctx context.Context) error {
	for _, question := range questions() {
		if err := m.ledger.DefineQuestion(ctx, "define "+question, api.Question{Name: question, Values: values()}); err != nil {
			return err
		}
		for _, o := range m.offers {
			_, err := m.ledger.Enroll(ctx, api.EnrollRequest{
				Key: "enroll " + question + " " + o.name, Question: question, Objects: m.on(o), Policy: o.policy, Cap: o.cap,
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *market) printOffers() error {
	fmt.Fprintf(m.out, "TERMS   %d people answer two questions: \"insured\", do you have health insurance, and \"healthy\", is your\n", len(m.people.People))
	fmt.Fprintln(m.out, "health good. Each holds a budget for both together, and sells each answer on one of these terms.")
	table := m.table()
	fmt.Fprintln(table, left("terms")+"\tpeople\tbudget\t   for each question")
	for _, o := range m.offers {
		fmt.Fprintf(table, "%s\t%d\tε = %s\t   %s\n", left(o.name), len(m.on(o)), o.cap, o.words)
	}
	return table.Flush()
}

// values are the answers to both questions, in the order in which they are counted.
func values() []string { return []string{yes, no} }

// answer is what a buyer holds of one person.
type answer struct {
	epsilon privacy.Epsilon
	value   string
}

// answers is what one buyer, or several who pool, hold about a question, by person. Of each person only
// the highest level is kept: the lower ones say nothing that it does not say.
type answers map[string]answer

func (a answers) add(person string, one answer) {
	if a[person].epsilon.Less(one.epsilon) {
		a[person] = one
	}
}

// held returns what some buyers hold about a question, together.
func (b *books) held(question string, buyers ...string) answers {
	all := answers{}
	for _, sale := range b.sales {
		if sale.Question == question && slices.Contains(buyers, sale.Buyer) {
			all.addSale(b, sale.Number)
		}
	}
	return all
}

// addSale adds what was delivered in a sale.
func (a answers) addSale(b *books, sale uint64) {
	for _, one := range b.deliveries[sale] {
		a.add(one.Object, answer{one.Epsilon, one.Value})
	}
}

// of keeps the answers of some people.
func (a answers) of(people []string) answers {
	some := answers{}
	for _, person := range people {
		if one, held := a[person]; held {
			some[person] = one
		}
	}
	return some
}

// people returns those who answered.
func (a answers) people() []string { return slices.Sorted(maps.Keys(a)) }

// share estimates the share of "yes" among those who answered.
func (a answers) share() (estimate.Frequency, error) {
	byLevel := map[privacy.Epsilon][]int64{}
	for _, one := range a {
		if byLevel[one.epsilon] == nil {
			byLevel[one.epsilon] = make([]int64, len(values()))
		}
		byLevel[one.epsilon][slices.Index(values(), one.value)]++
	}
	var counts []estimate.Counts
	for _, level := range slices.SortedFunc(maps.Keys(byLevel), privacy.Epsilon.Compare) {
		counts = append(counts, estimate.Counts{Epsilon: level, ByValue: byLevel[level]})
	}
	shares, err := estimate.Frequencies(estimate.Options{Confidence: 0.95}, counts...)
	if err != nil {
		return estimate.Frequency{}, err
	}
	return shares[0], nil
}

// shareAmong estimates the share of "yes" among more people than answered. Who sells was drawn at random,
// which adds the variance of a sample of that size.
func (a answers) shareAmong(people int) (share, margin float64, err error) {
	f, err := a.share()
	if err != nil {
		return 0, 0, err
	}
	p := min(max(f.Estimate, 0), 1)
	sampling := p * (1 - p) * (1/float64(len(a)) - 1/float64(people))
	return f.Estimate, 1.96 * math.Sqrt(f.StdErr*f.StdErr+sampling), nil
}

// printEstimates shows what three purchases tell about each region.
func (m *market) printEstimates(b *books) error {
	fmt.Fprintln(m.out, "\nESTIMATES   The share of \"yes\" as buyers estimate it, with a 95 % interval for the noise in the answers and")
	fmt.Fprintln(m.out, "the chance of who sells, beside the real share. To be unbiased, an estimate may pass 100 %.")
	columns := []wish{{buyer: atlas, epsilon: privacy.MustEpsilon("0.5")}, {buyer: cobalt, epsilon: privacy.MustEpsilon("0.7")}, {buyer: atlas, epsilon: privacy.MustEpsilon("1")}}
	table := m.table()
	fmt.Fprint(table, left("region")+"\tquestion\tpeople\treal share\t")
	for _, c := range columns {
		fmt.Fprintf(table, "%s at ε = %s\t", c.buyer, c.epsilon)
	}
	fmt.Fprintln(table)
	for _, question := range questions() {
		for _, region := range m.people.Regions() {
			people := m.people.Members(region)
			fmt.Fprintf(table, "%s\t%s\t%d\t%.1f %%\t", left(region), question, len(people), 100*m.realShare(question, people))
			for _, c := range columns {
				cell, err := m.estimate(b, wish{c.buyer, question, c.epsilon, region})
				if err != nil {
					return err
				}
				fmt.Fprintf(table, "%s\t", cell)
			}
			fmt.Fprintln(table)
		}
	}
	return table.Flush()
}

// realShare returns the real share of "yes".
func (m *market) realShare(question string, people []string) float64 {
	return float64(m.people.Counts(question, people)[0]) / float64(len(people))
}

// estimate says what a purchase tells about a region; "" if it was not made.
func (m *market) estimate(b *books, w wish) (string, error) {
	all := answers{}
	for _, p := range m.purchases {
		if p.buyer == w.buyer && p.question == w.question && p.epsilon == w.epsilon {
			for _, sale := range p.sales {
				all.addSale(b, sale.Number)
			}
		}
	}
	people := m.people.Members(w.region)
	some := all.of(people)
	if len(some) == 0 {
		return "–", nil
	}
	share, margin, err := some.shareAmong(len(people))
	return fmt.Sprintf("%.1f ± %.1f %%", 100*share, 100*margin), err
}

// The questions of [health]. Both are answered by [yes] or [no].
const (
	insured = "insured"
	healthy = "healthy"
)

// The answers to the questions of [health].
const (
	yes = "yes"
	no  = "no"
)

// health is what the host of the survey of health insurance in the United States of 1996 knows. People
// are named by the number of their row.
type health struct {
	People []string                     // in the order of the file
	Region map[string]string            // by person
	answer map[string]map[string]string // by question and person
}

// readHealth reads every n-th person of the survey from a CSV file.
func readHealth(path string, n int) (health, error) {
	h := health{Region: map[string]string{}, answer: map[string]map[string]string{insured: {}, healthy: {}}}
	text, err := os.ReadFile(path)
	if err != nil {
		return h, err
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		return h, fmt.Errorf("%s: %d rows: %w", path, len(rows), err)
	}
	places := []int{slices.Index(rows[0], "region"), slices.Index(rows[0], "insurance"), slices.Index(rows[0], "health")}
	if slices.Contains(places, -1) {
		return h, fmt.Errorf("%s: the columns are %v", path, rows[0])
	}
	for i, row := range rows[1:] {
		if (i+1)%n != 0 {
			continue
		}
		person := strconv.Itoa(i + 1)
		h.People = append(h.People, person)
		h.Region[person], h.answer[insured][person], h.answer[healthy][person] = row[places[0]], row[places[1]], row[places[2]]
		for question, answers := range h.answer {
			if answer := answers[person]; answer != yes && answer != no {
				return h, fmt.Errorf("%s: row %d: %q is no answer to %q", path, i+1, answer, question)
			}
		}
	}
	if len(h.People) == 0 {
		return h, fmt.Errorf("%s has nobody in it", path)
	}
	return h, nil
}

// Truth is the only way from the survey into the ledger.
func (h health) Truth(_ context.Context, question string, people []string) ([]string, error) {
	answers := make([]string, len(people))
	for i, person := range people {
		answers[i] = h.answer[question][person]
	}
	return answers, nil
}

// Regions returns the regions in the order of the alphabet.
func (h health) Regions() []string {
	var all []string
	for _, person := range h.People {
		if region := h.Region[person]; !slices.Contains(all, region) {
			all = append(all, region)
		}
	}
	slices.Sort(all)
	return all
}

// Members returns the people of a region.
func (h health) Members(region string) (people []string) {
	for _, person := range h.People {
		if h.Region[person] == region {
			people = append(people, person)
		}
	}
	return people
}

// Counts returns how many of some people really answer a question with [yes], and with [no].
func (h health) Counts(question string, people []string) []int64 {
	count := int64(0)
	for _, person := range people {
		if h.answer[question][person] == yes {
			count++
		}
	}
	return []int64{count, int64(len(people)) - count}
}

// The numbers are those of testdata/README.md.
func TestHealth(t *testing.T) {
	all := check.Value(readHealth(data, 1))(t)
	for question, want := range map[string][]int64{insured: {7052, 1750}, healthy: {8173, 629}} {
		if got := all.Counts(question, all.People); !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", question, got, want)
		}
	}
	for region, want := range map[string]int{"midwest": 2023, "northeast": 1682, "south": 3075, "west": 2022} {
		if got := len(all.Members(region)); got != want {
			t.Errorf("%s: %d people, not %d", region, got, want)
		}
	}
	if got := all.Regions(); len(got) != 4 || !slices.IsSorted(got) {
		t.Errorf("regions %v", got)
	}
}

const question = "smokes"

const (
	people = 40
	silent = 10 // one in so many is enrolled but has not answered yet: the host has no truth of them
)

// openLedger opens the ledger and makes it first if there is none. Create leaves a whole file or none,
// so a process that died here has done no harm.
func openLedger(path string, options ledger.Options) (*ledger.Ledger, error) {
	if err := ledger.Create(context.Background(), path, ledger.CreateOptions{Currency: "USD"}); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return ledger.Open(context.Background(), path, options)
}

// enrol tells both sides who there is. Every start repeats it: the keys are always the same.
func (h *host) enrol(ctx context.Context) error {
	names := make([]string, people)
	for i := range names {
		names[i] = fmt.Sprintf("person-%02d", i+1)
	}
	if err := h.books.enrol(ctx, names); err != nil {
		return err
	}
	err := h.ledger.DefineQuestion(ctx, "setup/question", api.Question{Name: question, Values: []string{"yes", "no"}})
	if err != nil {
		return err
	}
	terms, err := policy.Market{Max: privacy.MustEpsilon("2"), Prices: []policy.Price{
		{Epsilon: privacy.MustEpsilon("1"), Amount: 100}, {Epsilon: privacy.MustEpsilon("2"), Amount: 180},
	}}.Policy()
	if err != nil {
		return err
	}
	_, err = h.ledger.Enroll(ctx, api.EnrollRequest{Key: "setup/people", Question: question, Objects: names, Policy: terms, Cap: privacy.MustEpsilon("2")})
	return err
}

func (b *orderBooks) enrol(ctx context.Context, names []string) error {
	return b.change(ctx, "enrol", func(tx *sql.Tx) error {
		for i, name := range names {
			smokes := "no"
			switch {
			case i%silent == silent-1:
				continue
			case i%3 == 0:
				smokes = "yes"
			}
			_, err := tx.ExecContext(ctx, `insert into people (id, smokes) values (?, ?) on conflict do nothing`, name, smokes)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// pool is two buyers' answers to one question, put together.
type pool struct {
	people int // in the pool
	// Of those whom both buyers hold: what either holds, each at one level, and the pool of it.
	low, high, both answers
	lowAt, highAt   privacy.Epsilon
	// The exact variances of the estimates of "yes" from either.
	lowVar, highVar float64
}

// newPool pools what Cobalt and Beacon hold about "insured".
func (m *market) newPool(b *books) (pool, error) {
	p := pool{lowAt: privacy.MustEpsilon("0.7"), highAt: privacy.MustEpsilon("1")}
	low, high := b.held(insured, cobalt), b.held(insured, beacon)
	both := b.held(insured, cobalt, beacon)
	if !maps.Equal(both, high) {
		return p, fmt.Errorf("the pool of %s and %s is not what %s holds", cobalt, beacon, beacon)
	}
	p.people = len(both)
	p.low, p.high = low.of(high.people()), high.of(low.people())
	p.both = both.of(p.low.people())
	for person := range p.high {
		if p.low[person].epsilon != p.lowAt || p.high[person].epsilon != p.highAt {
			return p, fmt.Errorf("person %s was sold at other levels than the pool is about", person)
		}
	}
	truth := m.people.Counts(insured, p.high.people())
	var err error
	if p.lowVar, err = variance(p.lowAt, truth); err != nil {
		return p, err
	}
	p.highVar, err = variance(p.highAt, truth)
	return p, err
}

func variance(at privacy.Epsilon, truth []int64) (float64, error) {
	all, err := estimate.Variance(estimate.Counts{Epsilon: at, ByValue: truth})
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// averaged is the variance of w·low + (1−w)·high. Given the higher answer, the lower one is that answer
// with noise and has nothing to do with the truth (pan2024 Lemma 3.1), so that on average over this noise
// the lower estimate is the higher one, and their covariance is the variance of the higher one:
// w²·lowVar + (1−w)²·highVar + 2w(1−w)·highVar.
func (p pool) averaged(w float64) float64 { return p.highVar + w*w*(p.lowVar-p.highVar) }

// afresh is the least variance of an average, had the two answers been drawn independently.
func (p pool) afresh() float64 { return 1 / (1/p.lowVar + 1/p.highVar) }

func (m *market) printPooling(b *books) error {
	p, err := m.newPool(b)
	if err != nil {
		return err
	}
	var shares []float64
	for _, held := range []answers{p.low, p.high, p.both} {
		share, err := held.share()
		if err != nil {
			return err
		}
		shares = append(shares, share.Estimate)
	}
	low, high, both := shares[0], shares[1], shares[2]
	fmt.Fprintf(m.out, "\nPOOLING   %s and %s put together all they hold about \"insured\": %d people, %d of them twice.\n",
		cobalt, beacon, p.people, len(p.both))
	fmt.Fprintf(m.out, "Of these %d, %.2f %% are really insured. The standard errors are exact, from the real answers.\n",
		len(p.both), 100*m.realShare(insured, p.both.people()))
	table := m.table()
	fmt.Fprintf(table, "%-37s\testimate\tstandard error\tcosts each person\t\n", "from")
	row := func(what string, share, variance float64, cost privacy.Epsilon) {
		fmt.Fprintf(table, "%-37s\t%.2f %%\t%.3f %%\tε = %s\t\n", what, 100*share, 100*math.Sqrt(variance), cost)
	}
	row(fmt.Sprintf("%s's answers, at ε = %s", cobalt, p.lowAt), low, p.lowVar, p.lowAt)
	row(fmt.Sprintf("%s's answers, at ε = %s", beacon, p.highAt), high, p.highVar, p.highAt)
	row("the pool, each person's highest", both, p.averaged(0), p.highAt)
	row("the pool, the mean of the two", (low+high)/2, p.averaged(0.5), p.highAt)
	fmt.Fprintf(table, "%-37s\t\t%.3f %%\tε = %s\t\n", "both, had each been drawn afresh", 100*math.Sqrt(p.afresh()), nats(p.lowAt.Nano()+p.highAt.Nano()))
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(m.out, "In law %s's answers are %s's with noise added, so that any weight on them only adds noise. The highest\n", cobalt, beacon)
	_, err = fmt.Fprintf(m.out, "answer of each person says all that the pool can say, and %s alone has it: pooling brings nothing.\n", beacon)
	return err
}
