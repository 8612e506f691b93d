package market

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
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

// market is the host. It knows the true values, and opens the ledger.
type market struct {
	people    health
	offers    []*offer          // all kinds of terms
	offerOf   map[string]*offer // by person
	calendar  *calendar
	ledger    *ledger.Ledger
	quoted    []api.Quote     // Atlas's quotes of day 10
	reserved  api.Reservation // the latest
	withdrawn string          // the person who withdraws
	dir       string          // for the ledger and its backup
	keys      keys
	witness   witness
}

func newMarket(people health) (*market, error) {
	m := &market{people: people, calendar: newCalendar()}
	var err error
	if m.offers, err = allOffers(m.calendar); err != nil {
		return nil, err
	}
	m.offerOf = drawOffers(m.offers, people.People)
	m.keys, err = newKeys()
	return m, err
}

func questions() []string { return []string{insured, healthy} }

// run runs the month and reads the books. A subscriber keeps its own books concurrently.
func (m *market) run(ctx context.Context) (*books, error) {
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

// nats returns an ε in nano-nats that is known to be valid.
func nats(nano int64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(nano)
	if err != nil {
		panic(err)
	}
	return e
}

// month runs thirty days. In the morning, the levels that policies release for free are drawn.
// Orders are at noon.
func (m *market) month(ctx context.Context) error {
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

// books are the books of the ledger at the end of the month, and those of the subscriber.
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
	if b.buyers, err = api.Collect(m.ledger.Buyers(ctx)); err != nil {
		return nil, err
	}
	b.stats, err = m.ledger.Stats(ctx)
	return b, err
}

// check compares the books with each other. Nothing in them is random.
func (b *books) check() error {
	for _, check := range []func() error{b.checkMoney, b.checkBudgets, b.checkDifferences, b.checkSubscriber, b.evidence.check} {
		if err := check(); err != nil {
			return fmt.Errorf("check the books: %w", err)
		}
	}
	return nil
}

// earned returns what the sellers have earned in total.
func (b *books) earned() (sum int64) {
	for _, person := range b.people {
		sum += person.Earned
	}
	return sum
}

// invoiced returns the sum of the prices of the sales.
func (b *books) invoiced() (sum int64) {
	for _, sale := range b.sales {
		sum += sale.Price
	}
	return sum
}

// checkMoney checks that buyers pay what sellers earn, answer by answer.
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

// checkBudgets checks that no person is over budget, and that the highest levels are all that was
// spent.
func (b *books) checkBudgets() error {
	for _, person := range b.people {
		levels := int64(0)
		for _, chain := range person.Chains {
			levels += chain.Epsilon.Nano()
			if chain.Ceiling.Less(chain.Epsilon) {
				return fmt.Errorf("person %s is at ε = %s, above the ceiling %s, in %q", person.Object, chain.Epsilon, chain.Ceiling, chain.Question)
			}
		}
		if person.Cap.Less(person.Spent) || person.Spent.Nano() != levels {
			return fmt.Errorf("person %s has spent ε = %s of the cap %s, with levels of %s in total", person.Object, person.Spent, person.Cap, nats(levels))
		}
	}
	return nil
}

// holding identifies what one buyer holds of one person.
type holding struct{ buyer, question, person string }

// checkDifferences checks that each buyer has paid, in any number of steps, the price of the
// highest level held of each person.
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
					return fmt.Errorf("%s has paid %d for person %s at ε = %s, want %d", h.buyer, paid[h], h.person, level, price)
				}
			}
		}
	}
	return nil
}

// checkSubscriber checks that the subscriber has the same accounts as the ledger.
func (b *books) checkSubscriber() error {
	s := b.subscriber
	if s.last != b.stats.Events || s.revenue != b.stats.Revenue || len(s.accounts) != len(b.people) || len(s.paid) != len(b.buyers) {
		return fmt.Errorf("the subscriber has %d events and a revenue of %d, the ledger %d and %d", s.last, s.revenue, b.stats.Events, b.stats.Revenue)
	}
	for _, person := range b.people {
		if a := s.accounts[person.Object]; a.earned != person.Earned || a.spent() != person.Spent {
			return fmt.Errorf("person %s: the subscriber's account and the ledger's differ", person.Object)
		}
	}
	for _, buyer := range b.buyers {
		if s.paid[buyer.Buyer] != buyer.Paid {
			return fmt.Errorf("%s has paid %d in the ledger, and %d in the subscriber's account", buyer.Buyer, buyer.Paid, s.paid[buyer.Buyer])
		}
	}
	return nil
}

// calendar is the clock of the month. Its days count from 1, and day 1 is tomorrow, because the
// ledger's time cannot be before the creation of its file.
type calendar struct {
	first time.Time // midnight before day 1
	mu    sync.Mutex
	now   time.Time
}

func newCalendar() *calendar {
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	return &calendar{first: first, now: first}
}

// Now is the clock of the ledger.
func (c *calendar) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// set sets the clock to a full hour of a day.
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

// offer is one kind of terms: a policy for each question, and a cap for both.
type offer struct {
	name   string
	cap    privacy.Epsilon
	policy policy.Policy
}

// allOffers returns the kinds of terms. Prices are in cents, for one person.
func allOffers(c *calendar) ([]*offer, error) {
	texts := []struct{ name, cap, json string }{
		{"open", "3", `
			{"kind": "market", "max": "2", "price": [["0.5", 40], ["1", 70], ["2", 120]]}`},
		{"thrifty", "1.5", `
			{"kind": "market", "max": "1", "price": [["0.5", 30], ["1", 60]], "stride": "0.5", "floor": 45}`},
		{"patient", "2", `
			{"kind": "min", "of": [
				{"kind": "linear", "from": "0", "to": "1.5", "start": "DAY 1", "end": "DAY 31", "stride": "0.25"},
				{"kind": "market", "max": "1.5", "price": [["1.5", 90]]}]}`},
		{"one by one", "2", `
			{"kind": "min", "of": [
				{"kind": "unlock", "total": "2", "orders": 4},
				{"kind": "market", "max": "2", "price": [["2", 200]]}]}`},
		{"wary", "2", `
			{"kind": "market", "max": "1", "price": [["1", 80]], "barred": ["Cobalt"]}`},
		{"later more", "2", `
			{"kind": "min", "of": [
				{"kind": "steps", "steps": [["DAY 1", "0.5"], ["DAY 15", "1"]]},
				{"kind": "market", "max": "1", "price": [["1", 50]]}]}`},
		{"donor", "1", `
			{"kind": "steps", "steps": [["DAY 10", "0.25"], ["DAY 20", "0.5"]]}`},
	}
	var all []*offer
	for _, text := range texts {
		p, err := policy.Parse([]byte(withDates(text.json, c)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text.name, err)
		}
		all = append(all, &offer{text.name, privacy.MustEpsilon(text.cap), p})
	}
	return all, nil
}

// withDates replaces days by dates.
func withDates(text string, c *calendar) string {
	for day := 1; day <= 31; day++ {
		text = strings.ReplaceAll(text, fmt.Sprintf(`"DAY %d"`, day), c.midnight(day).Format(`"`+time.RFC3339+`"`))
	}
	return text
}

// drawOffers draws the terms of each person. The seed makes them the same in every run. They do not
// depend on any answer, so that the sellers represent all people.
func drawOffers(all []*offer, people []string) map[string]*offer {
	random := rand.New(rand.NewPCG(1996, 8802))
	drawn := make(map[string]*offer, len(people))
	for _, person := range people {
		drawn[person] = all[random.IntN(len(all))]
	}
	return drawn
}

// peopleOn returns the people with these terms.
func (m *market) peopleOn(o *offer) (people []string) {
	for _, person := range m.people.People {
		if m.offerOf[person] == o {
			people = append(people, person)
		}
	}
	return people
}

// firstPerson returns the first person of a region with the terms of that name.
func (m *market) firstPerson(region, terms string) (string, error) {
	for _, person := range m.people.Members(region) {
		if m.offerOf[person].name == terms {
			return person, nil
		}
	}
	return "", fmt.Errorf("no person in the %s has the terms %q: take more people", region, terms)
}

// enroll enrolls every person in both questions.
func (m *market) enroll(ctx context.Context) error {
	for _, question := range questions() {
		if err := m.ledger.DefineQuestion(ctx, "define "+question, api.Question{Name: question, Values: values()}); err != nil {
			return err
		}
		for _, o := range m.offers {
			_, err := m.ledger.Enroll(ctx, api.EnrollRequest{
				Key: "enroll " + question + " " + o.name, Question: question, Objects: m.peopleOn(o), Policy: o.policy, Cap: o.cap,
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// values returns the answers to both questions, in the order in which they are counted.
func values() []string { return []string{yes, no} }

// answer is what a buyer holds of one person.
type answer struct {
	epsilon privacy.Epsilon
	value   string
}

// answers are what one buyer, or several who pool, hold for a question, by person. Only the highest
// level of each person is kept: lower levels add no information.
type answers map[string]answer

func (a answers) add(person string, one answer) {
	if a[person].epsilon.Less(one.epsilon) {
		a[person] = one
	}
}

// held returns what some buyers hold together for a question.
func (b *books) held(question string, buyers ...string) answers {
	all := answers{}
	for _, sale := range b.sales {
		if sale.Question == question && slices.Contains(buyers, sale.Buyer) {
			all.addSale(b, sale.Number)
		}
	}
	return all
}

// addSale adds the deliveries of a sale.
func (a answers) addSale(b *books, sale uint64) {
	for _, one := range b.deliveries[sale] {
		a.add(one.Object, answer{one.Epsilon, one.Value})
	}
}

// of returns the answers of some people.
func (a answers) of(people []string) answers {
	some := answers{}
	for _, person := range people {
		if one, held := a[person]; held {
			some[person] = one
		}
	}
	return some
}

// people returns the people with an answer.
func (a answers) people() []string { return slices.Sorted(maps.Keys(a)) }

// share estimates the share of "yes" among the people with an answer.
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

// The questions of [health]. Their answers are [yes] and [no].
const (
	insured = "insured"
	healthy = "healthy"
)

// The answers to the questions of [health].
const (
	yes = "yes"
	no  = "no"
)

// health is the survey of health insurance in the United States of 1996, as the host knows it.
// People are named by the number of their row.
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
		return h, fmt.Errorf("read %s: the columns are %v, want region, insurance and health among them", path, rows[0])
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
				return h, fmt.Errorf("read %s: row %d: %q is not an answer to %q", path, i+1, answer, question)
			}
		}
	}
	if len(h.People) == 0 {
		return h, fmt.Errorf("read %s: no person is selected", path)
	}
	return h, nil
}

// Truth returns true values to the ledger.
func (h health) Truth(_ context.Context, question string, people []string) ([]string, error) {
	answers := make([]string, len(people))
	for i, person := range people {
		answers[i] = h.answer[question][person]
	}
	return answers, nil
}

// Regions returns the regions in alphabetical order.
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

// Counts returns the true numbers of [yes] and [no] among some people.
func (h health) Counts(question string, people []string) []int64 {
	count := int64(0)
	for _, person := range people {
		if h.answer[question][person] == yes {
			count++
		}
	}
	return []int64{count, int64(len(people)) - count}
}

// The survey has the numbers of testdata/README.md.
func TestReadHealth_HasTheNumbersOfTheSurvey(t *testing.T) {
	all := check.Value(readHealth(data, 1))(t)
	for question, want := range map[string][]int64{insured: {7052, 1750}, healthy: {8173, 629}} {
		got := all.Counts(question, all.People)
		check.That(t, slices.Equal(got, want), "%s: got %v, want %v", question, got, want)
	}
	for region, want := range map[string]int{"midwest": 2023, "northeast": 1682, "south": 3075, "west": 2022} {
		if got := len(all.Members(region)); got != want {
			t.Errorf("%s: got %d people, want %d", region, got, want)
		}
	}
	if got := all.Regions(); len(got) != 4 || !slices.IsSorted(got) {
		t.Errorf("regions %v", got)
	}
}

// wish is what a buyer wants to buy in one region, or in each.
type wish struct {
	buyer, question string
	epsilon         privacy.Epsilon
	region          string // "" for all regions
}

// order returns the order of a wish in one region.
func (m *market) order(w wish, region string) api.Order {
	return api.Order{Buyer: w.buyer, Question: w.question, Epsilon: w.epsilon, Objects: m.people.Members(region)}
}

// regions returns the regions of a wish.
func (m *market) regions(w wish) []string {
	if w.region != "" {
		return []string{w.region}
	}
	return m.people.Regions()
}

// key returns the idempotency key of today's request for a wish in a region.
func (m *market) key(what string, w wish, region string) string {
	return fmt.Sprintf("day %d: %s for %s, %s in the %s at %s", m.calendar.today(), what, w.buyer, w.question, region, w.epsilon)
}

// quote returns quotes for a wish, region by region.
func (m *market) quote(ctx context.Context, w wish) (quotes []api.Quote, err error) {
	for _, region := range m.regions(w) {
		q, err := m.ledger.Quote(ctx, m.order(w, region))
		if err != nil {
			return nil, err
		}
		quotes = append(quotes, q)
	}
	return quotes, nil
}

const data = "../../../testdata/health_insurance_1996.csv"

// After the pause, there is every level that time has released and the budget allows.
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

// No buyer gets what the terms do not allow.
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
			check.That(t, names[buyer][o.name] != slices.Contains(none, o.name),
				"%s has answers of people with the terms %q: %v", buyer, o.name, names[buyer][o.name])
		}
	}
}

func testWithdrawal(t *testing.T, m *market, b *books) {
	for _, line := range b.subscriber.accounts[m.withdrawn].lines {
		day := m.calendar.day(line.at)
		check.That(t, day <= 14, "an answer of the person was sold on day %d, after the withdrawal", day)
	}
	state := b.person(m.withdrawn)
	check.That(t, state.Earned != 0 && state.Chains[0].Withdrawn && state.Chains[1].Withdrawn, "state %+v", state)
}

// The checks of the books find wrong numbers.
func testFalseBooks(t *testing.T, m *market, b *books) {
	top := b.topEarner()
	i := slices.IndexFunc(b.people, func(s api.ObjectState) bool { return s.Object == top })
	sale := b.sales[0].Number
	for name, number := range map[string]*int64{
		"a seller's earnings": &b.people[i].Earned, "a payment": &b.buyers[0].Paid, "the revenue": &b.stats.Revenue,
		"an invoice": &b.sales[0].Price, "a delivery": &b.deliveries[sale][0].Price, "the subscriber": &b.subscriber.revenue,
	} {
		check.Must(t, b.check())
		*number++
		check.That(t, b.check() != nil, "the checks do not find that %s is off by a cent", name)
		*number--
	}
}

// script returns what happens at noon of each day.
func (m *market) script() map[int]func(context.Context) error {
	buys := func(buyer, question, epsilon string, isAsExpected func(api.Sale) bool) func(context.Context) error {
		return func(ctx context.Context) error {
			sales, err := m.buy(ctx, wish{buyer, question, privacy.MustEpsilon(epsilon), ""})
			for _, sale := range sales {
				if sale.Objects == 0 || isAsExpected != nil && !isAsExpected(sale) {
					return fmt.Errorf("unexpected sale: %+v", sale)
				}
			}
			return err
		}
	}
	isDerived := func(s api.Sale) bool { return s.Draws == 0 && s.Resales == 0 }
	isResold := func(s api.Sale) bool { return s.Draws == 0 && s.Resales == s.Objects && s.Upgrades > 0 }
	return map[int]func(context.Context) error{
		2:  buys(atlas, insured, "0.5", nil),
		3:  m.reserveWest,
		4:  m.refuseWest,
		5:  m.commitWest,
		8:  m.reserveSouth,
		10: m.captureTooLateAndQuote,
		11: m.buyWithQuotes,
		12: m.backup,
		14: m.withdraw,
		22: buys(beacon, insured, "1", nil),
		24: buys(cobalt, insured, "0.7", isDerived),
		26: buys(atlas, insured, "1", isResold),
		28: buys(atlas, healthy, "1", nil),
	}
}

// buy sells to a buyer, region by region, without the people whom terms or budgets exclude. Quotes,
// if any, must hold.
func (m *market) buy(ctx context.Context, w wish, quotes ...api.Quote) (sales []api.Sale, err error) {
	for i, region := range m.regions(w) {
		r := api.SellRequest{Key: m.key("sale", w, region), Order: m.order(w, region), Partial: true, Truth: m.people.Truth}
		if len(quotes) > 0 {
			r.QuoteID = quotes[i].ID
		}
		sale, err := m.ledger.Sell(ctx, r)
		if err == nil {
			_, err = reasonsOf(sale.Refused)
		}
		if err != nil {
			return nil, err
		}
		sales = append(sales, sale)
	}
	return sales, nil
}

// reasonsOf counts refusals by their reasons. Other reasons than those expected here are an error.
func reasonsOf(refused []api.Refusal) (map[api.Reason]int, error) {
	n := map[api.Reason]int{}
	for _, r := range refused {
		switch n[r.Reason]++; r.Reason {
		case api.NotForSale, api.BuyerRefused, api.NotOnOffer, api.ChainCeiling, api.ObjectCap, api.Withdrawn:
		default:
			return nil, fmt.Errorf("unexpected refusal: %s", r)
		}
	}
	return n, nil
}

// sweep draws what policies have released. On days 15 to 20 the host pauses. The first sweep after
// that draws the levels that daily sweeps would have drawn.
func (m *market) sweep(ctx context.Context, day int) error {
	if day >= 15 && day <= 20 {
		return nil
	}
	result, err := m.ledger.Advance(ctx, api.AdvanceRequest{Key: fmt.Sprintf("sweep of day %d", day), Truth: m.people.Truth})
	if err != nil {
		return err
	}
	for _, q := range result.Questions {
		if len(q.Refused) > 0 {
			return fmt.Errorf("unexpected refusal: %s", q.Refused[0])
		}
	}
	if day != 21 {
		return nil
	}
	state, err := m.stateOf(ctx, "midwest", "donor")
	if err == nil && state.Chains[0].Epsilon != privacy.MustEpsilon("0.5") {
		err = fmt.Errorf("after the pause, a donor should be at ε = 0.5: %+v", state)
	}
	return err
}

// west is what Beacon reserves, so that Cobalt cannot buy it at the same time.
func west(buyer string) wish { return wish{buyer, healthy, privacy.MustEpsilon("1"), "west"} }

// reserve holds budget and price for a time.
func (m *market) reserve(ctx context.Context, w wish, during time.Duration) (err error) {
	m.reserved, err = m.ledger.Reserve(ctx, api.ReserveRequest{
		Key: m.key("reservation", w, w.region), Order: m.order(w, w.region), For: during, Partial: true,
	})
	return err
}

// reserveWest reserves for a buyer whose payment takes days.
func (m *market) reserveWest(ctx context.Context) error {
	return m.reserve(ctx, west(beacon), 72*time.Hour)
}

func (m *market) commitWest(ctx context.Context) error {
	w := west(beacon)
	sale, err := m.ledger.Capture(ctx, api.CaptureRequest{
		Key: m.key("sale", w, w.region), Reservation: m.reserved.Number, Truth: m.people.Truth,
	})
	if err == nil && (sale.Objects != m.reserved.Objects || sale.Price != m.reserved.Price) {
		err = fmt.Errorf("reserved %+v, and sold %+v", m.reserved, sale)
	}
	return err
}

// refuseWest orders all people or none, and must get the reasons why it is none.
func (m *market) refuseWest(ctx context.Context) error {
	w := west(cobalt)
	_, err := m.ledger.Sell(ctx, api.SellRequest{Key: m.key("sale", w, w.region), Order: m.order(w, w.region), Truth: m.people.Truth})
	var refused *api.RefusedError
	if !errors.As(err, &refused) {
		return fmt.Errorf("order people that are reserved: want a refusal, got %w", err)
	}
	n, err := reasonsOf(refused.Refused)
	if err == nil && (len(n) != 3 || n[api.NotForSale] == 0 || n[api.BuyerRefused] == 0 || n[api.ChainCeiling] == 0) {
		err = fmt.Errorf("order people that are reserved: refused for other reasons: %v", n)
	}
	return err
}

// reserveSouth makes a reservation that expires.
func (m *market) reserveSouth(ctx context.Context) error {
	return errors.Join(m.reserve(ctx, wish{cobalt, healthy, privacy.MustEpsilon("1"), "south"}, 24*time.Hour), m.wantLeft(ctx, "1.5"))
}

// wantLeft checks the remaining budget of a person in the south.
func (m *market) wantLeft(ctx context.Context, want string) error {
	state, err := m.stateOf(ctx, "south", "open")
	if err == nil && state.Remaining != privacy.MustEpsilon(want) {
		err = fmt.Errorf("person %s has ε = %s left, want %s", state.Object, state.Remaining, want)
	}
	return err
}

// captureTooLateAndQuote pays after the reservation has expired, which frees the budget.
func (m *market) captureTooLateAndQuote(ctx context.Context) error {
	_, err := m.ledger.Capture(ctx, api.CaptureRequest{Key: "too late", Reservation: m.reserved.Number, Truth: m.people.Truth})
	if !errors.Is(err, &api.ReservationError{}) {
		return fmt.Errorf("capture an expired reservation: want a refusal, got %w", err)
	}
	m.quoted, err = m.quote(ctx, quotedWish())
	return errors.Join(err, m.wantLeft(ctx, "2.5"))
}

// quotedWish is what Atlas gets quotes for before it buys.
func quotedWish() wish { return wish{atlas, healthy, privacy.MustEpsilon("0.5"), ""} }

// buyWithQuotes tries yesterday's quotes, which no longer hold because more is for sale, and then
// today's, which hold to the last cent.
func (m *market) buyWithQuotes(ctx context.Context) error {
	_, err := m.buy(ctx, quotedWish(), m.quoted...)
	var changed *api.QuoteError
	if !errors.As(err, &changed) {
		return fmt.Errorf("buy with yesterday's quote: want a refusal, got %w", err)
	}
	quotes, err := m.quote(ctx, quotedWish())
	if err != nil {
		return err
	}
	sales, err := m.buy(ctx, quotedWish(), quotes...)
	for i, sale := range sales {
		if sale.Price != quotes[i].Price || sale.Objects != quotes[i].Objects {
			return fmt.Errorf("quoted %d people for %d, and sold %d for %d", quotes[i].Objects, quotes[i].Price, sale.Objects, sale.Price)
		}
	}
	return err
}

func (m *market) withdraw(ctx context.Context) (err error) {
	if m.withdrawn, err = m.firstPerson("midwest", "open"); err != nil {
		return err
	}
	return m.ledger.Withdraw(ctx, api.ObjectRequest{Key: "withdrawal of " + m.withdrawn, Object: m.withdrawn})
}

// backup copies the ledger, on day 12.
func (m *market) backup(ctx context.Context) error {
	return check.Err(m.ledger.Backup(ctx, m.backupFile(), nil))
}

// stateOf returns the state of the first person of a region with the terms of that name.
func (m *market) stateOf(ctx context.Context, region, terms string) (api.ObjectState, error) {
	person, err := m.firstPerson(region, terms)
	if err != nil {
		return api.ObjectState{}, err
	}
	return m.ledger.Object(ctx, person)
}

// run runs a month with every n-th person. It returns the market and its books, which have been
// checked.
func run(t *testing.T, every int) (*market, *books) {
	t.Helper()
	m := check.Value(newMarket(check.Value(readHealth(data, every))(t)))(t)
	m.dir = t.TempDir()
	file := filepath.Join(m.dir, "market.db")
	check.Must(t, ledger.Create(t.Context(), file, ledger.CreateOptions{Currency: "USD", LogKey: m.keys.public}))
	m.ledger = check.Value(ledger.Open(t.Context(), file, ledger.Options{
		Now: m.calendar.Now, Signer: m.keys.signer, Publish: ledger.Publishing{To: m.witness.keep, Events: 5_000},
	}))(t)
	b, err := m.run(t.Context())
	check.Must(t, errors.Join(err, m.ledger.Close()))
	check.Must(t, b.check())
	return m, b
}

// A month of the market with many buyers, refusals and withdrawals balances. The quick form takes
// every tenth person, the long form all.
func TestMonth_BooksBalance(t *testing.T) {
	m, b := run(t, testenv.Scale(10, 1))
	for name, test := range map[string]func(*testing.T, *market, *books){
		"budgets": testBudgets, "release by time": testReleases, "terms": testTerms, "withdrawal": testWithdrawal, "pool": testPool,
		"false books": testFalseBooks,
	} {
		t.Run(name, func(t *testing.T) { test(t, m, b) })
	}
}

func testBudgets(t *testing.T, m *market, b *books) {
	full := 0
	for _, person := range b.people {
		check.That(t, person.Cap == m.offerOf[person.Object].cap, "the cap of person %s is %s", person.Object, person.Cap)
		check.That(t, person.Held.IsZero(), "%s of person %s is still reserved", person.Held, person.Object)
		if person.Spent == person.Cap {
			full++
		}
	}
	check.That(t, full != 0, "no person has reached the cap, so caps are not tested")
	check.That(t, b.stats.Revenue > 0 && len(b.buyers) == 3, "%d buyers paid %d", len(b.buyers), b.stats.Revenue)
}

// Cobalt's answers at ε = 0.7 are derived from Beacon's at ε = 1. So pooling them adds no
// information.
func testPool(t *testing.T, _ *market, b *books) {
	low, high, both := b.held(insured, cobalt), b.held(insured, beacon), b.held(insured, cobalt, beacon)
	check.That(t, maps.Equal(both, high), "the pool of %s and %s is not what %s holds", cobalt, beacon, beacon)
	low, high = low.of(high.people()), high.of(low.people())
	check.Need(t, len(low) != 0 && len(low) == len(high), "%d and %d answers", len(low), len(high))
	for person := range high {
		check.That(t, low[person].epsilon == privacy.MustEpsilon("0.7") && high[person].epsilon == privacy.MustEpsilon("1"),
			"person %s was sold at unexpected levels", person)
	}
	alone, pooled := check.Value(high.share())(t), check.Value(both.of(low.people()).share())(t)
	check.That(t, alone == pooled, "%s alone estimates %+v, the pool %+v", beacon, alone, pooled)
}

// topEarner returns the person who earned most.
func (b *books) topEarner() string {
	return slices.MaxFunc(b.people, func(x, y api.ObjectState) int { return cmp.Compare(x.Earned, y.Earned) }).Object
}
