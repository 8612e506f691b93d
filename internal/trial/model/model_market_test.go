package model

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// The model of the market.

// dealStatus is the state of a deal.
type dealStatus int

const (
	dealReserved dealStatus = iota
	dealSold
	dealCancelled
)

// modelDeal is a reservation or a sale.
type modelDeal struct {
	api.Order
	status     dealStatus
	promised   map[string]int64 // for a reservation, by object
	under      map[string]rule  // likewise, the rules whose prices were promised
	expires    time.Time
	granted    api.Reservation
	gone       int // the number of reserved objects that were forgotten
	sale       api.Sale
	deliveries []api.Delivery // without the values
}

// forget removes an object from a deal.
func (d *modelDeal) forget(name string) {
	d.sale.Refused, d.granted.Refused = withoutRefusals(d.sale.Refused, name), withoutRefusals(d.granted.Refused, name)
	for i, one := range d.deliveries {
		if one.Object == name {
			d.deliveries[i] = api.Delivery{Response: api.Response{Question: one.Question, Epsilon: one.Epsilon}, Price: one.Price, Sold: one.Sold, Sale: one.Sale, Channel: one.Channel, Erased: true}
		}
	}
	if i := slices.Index(d.Objects, name); d.granted.Number != 0 && i >= 0 {
		d.Objects = slices.Delete(slices.Clone(d.Objects), i, i+1)
		d.gone++
	}
	delete(d.promised, name)
}

func (d *modelDeal) holds(at time.Time) bool {
	return d.status == dealReserved && at.Before(d.expires)
}

// reservation returns a reserved deal as it is listed.
func (d *modelDeal) reservation(at time.Time) api.Reservation {
	r := d.granted
	switch {
	case d.status == dealSold:
		r.State, r.Refused = "captured", d.sale.Refused
	case d.status == dealCancelled:
		r.State = "cancelled"
	case !d.holds(at):
		r.State = "expired"
	}
	return r
}

// closed returns why a reservation is not open, or nil.
func (d *modelDeal) closed(at time.Time) error {
	e := &api.ReservationError{Number: d.granted.Number, State: d.reservation(at).State}
	switch e.State {
	case "open":
		return nil
	case "captured":
		e.Sale = e.Number
	case "expired":
		e.Expires = d.expires
	}
	return e
}

func (d *modelDeal) epsilon() int64 { return d.Epsilon.Nano() }

// modelTrade is an order under consideration.
type modelTrade struct {
	api.Order
	question api.Question
	reserves bool // it becomes a reservation
	lines    []modelLine
	refused  []api.Refusal
}

type modelLine struct {
	name        string
	chain       *modelChain
	verdict     verdict
	method      string
	held, price int64
}

// consent is what the buyer agrees to.
type consent struct {
	key     string
	partial bool
	most    *int64
	id      string // of a quote
	quoted  modelQuote
}

// modelQuote is the meaning of the ID of a quote: the offer, its objects, and their policies.
type modelQuote struct{ offer, people, under string }

// trade evaluates an order, a new one or one that was reserved.
func (m *model) trade(o api.Order, reserved *modelDeal) (*modelTrade, error) {
	return m.survey(&modelTrade{Order: o}, reserved)
}

// survey evaluates the objects of an order.
func (m *model) survey(t *modelTrade, reserved *modelDeal) (*modelTrade, error) {
	o := t.Order
	var err error
	if t.question, err = m.question(o.Question); err != nil {
		return nil, err
	}
	if !hasLevel(t.question, o.Epsilon.Nano()) {
		return nil, api.ErrInvalid
	}
	names := m.members(o.Question, o.Objects)
	if len(names) == 0 {
		return nil, api.ErrUnknown
	}
	for _, name := range names {
		line, refusal := m.line(t, name, reserved)
		if refusal != nil {
			t.refused = append(t.refused, *refusal)
			continue
		}
		t.lines = append(t.lines, line)
	}
	return t, nil
}

// line evaluates an order for one object. A reserved object is not checked against the terms again,
// and has priority over later reservations. An object that withdrew since is excluded.
func (m *model) line(t *modelTrade, name string, reserved *modelDeal) (n modelLine, refusal *api.Refusal) {
	e := t.Epsilon.Nano()
	if refusal = m.excluded(t.Question, name, e); refusal != nil {
		return n, refusal
	}
	c := m.chain(t.Question, name)
	n = modelLine{name: name, chain: c, held: c.heldBy(t.Buyer)}
	switch {
	case reserved == nil:
		refusal = m.terms(c, t, name)
	case !m.holdsFor(reserved, name):
		refusal = &api.Refusal{Object: name, Asked: t.Epsilon, Reason: api.Withdrawn, Remedy: "nothing"}
		if uint64(m.people[name].left) < reserved.granted.First {
			refusal.Reason = api.EpochBegun
		}
	}
	orders := t.orders(c)
	if refusal == nil {
		n.verdict, refusal = m.assess(wish{t.Question, name, e, orders, t.Buyer, reserved != nil, t.reserves})
	}
	if refusal != nil && reserved == nil {
		t.orLess(m, refusal, orders, true)
	}
	if refusal != nil {
		return n, refusal
	}
	switch {
	case n.verdict == drawn:
		n.method = "raise"
	case n.verdict == reused:
		n.method = "resale"
	case e < c.lowest():
		n.method = "degrade"
	default:
		n.method = "insert"
	}
	prices := c.rule.terms
	if reserved != nil {
		prices = reserved.under[name].terms
	}
	if prices != nil && n.held < e {
		n.price = max(0, priceOf(prices, e)-c.paidBy(t.Buyer))
	}
	return n, nil
}

// paidBy returns what a buyer has paid for the levels of a chain.
func (c *modelChain) paidBy(buyer string) (sum int64) {
	for _, l := range c.levels {
		if i := slices.Index(l.holders, buyer); i >= 0 {
			sum += l.paid[i]
		}
	}
	return sum
}

// orders returns the number of buyers of a chain, including this one.
func (t *modelTrade) orders(c *modelChain) int64 {
	if c.heldBy(t.Buyer) == 0 {
		return c.buyers() + 1
	}
	return c.buyers()
}

// heldBy returns the highest level of a chain that a buyer has bought.
func (c *modelChain) heldBy(buyer string) (top int64) {
	for e, l := range c.levels {
		if slices.Contains(l.holders, buyer) {
			top = max(top, e)
		}
	}
	return top
}

// buyers returns the number of buyers of a chain.
func (c *modelChain) buyers() int64 {
	all := map[string]bool{}
	for _, l := range c.levels {
		for _, buyer := range l.holders {
			all[buyer] = true
		}
	}
	return int64(len(all))
}

// terms returns the refusal if the terms of sale do not allow a buyer a level. A buyer may always
// have again what it holds.
func (m *model) terms(c *modelChain, t *modelTrade, name string) *api.Refusal {
	r := &api.Refusal{Object: name, Asked: t.Epsilon, Remedy: "nothing"}
	var holders []string
	if l := c.levels[t.Epsilon.Nano()]; l != nil {
		holders = l.holders
	}
	market := c.rule.terms
	switch {
	case slices.Contains(holders, t.Buyer):
		return nil
	case market == nil:
		r.Reason = api.NotForSale
	case slices.Contains(market.Barred, t.Buyer) || len(market.Buyers) > 0 && !slices.Contains(market.Buyers, t.Buyer):
		r.Reason = api.BuyerRefused
	case market.Max.Less(t.Epsilon) || !market.Stride.IsZero() && t.Epsilon.Nano()%market.Stride.Nano() != 0,
		market.Levels != nil && !slices.Contains(market.Levels, t.Epsilon):
		r.Reason, r.Ceiling, r.Spent = api.NotOnOffer, market.Max, epsilonOf(c.spent())
		r.Remaining = epsilonOf(max(0, market.Max.Nano()-c.spent()))
	case !market.From.IsZero() && m.now().Before(market.From):
		r.Reason, r.Remedy = api.SaleClosed, "waiting"
	case !market.Until.IsZero() && !m.now().Before(market.Until):
		r.Reason = api.SaleClosed // for good: the log's time does not go back
	case market.Holders > 0:
		return m.crowded(r, t, market, holders)
	default:
		return nil
	}
	return r
}

// crowded returns the refusal if the maximum number of other buyers hold a level, or have reserved
// it.
func (m *model) crowded(r *api.Refusal, t *modelTrade, market *policy.Market, holders []string) *api.Refusal {
	all := map[string]bool{}
	for _, buyer := range holders {
		all[buyer] = true
	}
	for _, d := range m.deals {
		if m.holdsFor(d, r.Object) && d.Question == t.Question && d.Epsilon == t.Epsilon && d.Buyer != t.Buyer {
			all[d.Buyer] = true
		}
	}
	if len(all) < market.Holders {
		return nil
	}
	if r.Reason = api.HoldersFull; len(holders) < market.Holders {
		r.Remedy = "waiting"
	}
	return r
}

func (t *modelTrade) price() (sum int64) {
	for _, n := range t.lines {
		sum += n.price
	}
	return sum
}

// quote returns the offer without its ID.
func (t *modelTrade) quote() api.Quote {
	q := api.Quote{Offer: api.Offer{Buyer: t.Buyer, Question: t.Question, Epsilon: t.Epsilon, Price: t.price(), Currency: "EUR", Objects: uint64(len(t.lines))}, Sums: sumsOf(t.refused)}
	q.Refused, q.Unlisted = firstListed(t.refused)
	for _, n := range t.lines {
		switch n.method {
		case "raise":
			q.Draws++
		case "resale":
			q.Resales++
		case "degrade":
			q.Degradations++
		case "insert":
			q.Insertions++
		}
		if n.held > 0 && n.held < t.Epsilon.Nano() {
			q.Upgrades++
		}
	}
	return q
}

// quoteMeaning returns the meaning of the ID of a quote.
func (m *model) quoteMeaning(t *modelTrade) (q modelQuote) {
	q.offer = t.offer()
	for _, name := range m.members(t.Question, t.Objects) {
		under := "nothing"
		if c := m.chain(t.Question, name); c != nil {
			under = c.rule.policy.String()
		}
		q.people += fmt.Sprintf("%q ", name)
		q.under += fmt.Sprintf("%q under %s ", name, under)
	}
	return q
}

// termsChanged returns whether a quote was about the same objects as the order now, under other
// policies.
func (m *model) termsChanged(c consent, t *modelTrade) bool {
	now := m.quoteMeaning(t)
	return c.id != "" && c.quoted.people == now.people && c.quoted.under != now.under
}

// offer returns the totals of an order.
func (t *modelTrade) offer() string {
	text := fmt.Sprintf("%q %q %s:", t.Buyer, t.Question, t.Epsilon)
	for _, n := range t.lines {
		text += fmt.Sprintf(" %q for %d", n.name, n.price)
	}
	for _, r := range t.refused {
		text += fmt.Sprintf(" not %q", r.Object)
	}
	return text
}

// accept returns the error if the buyer does not agree to what the order has become. Another quote
// does not help if true values are missing.
func (m *model) accept(t *modelTrade, c consent) error {
	untold := slices.DeleteFunc(slices.Clone(t.refused), func(r api.Refusal) bool { return r.Reason != api.NoTruth })
	switch {
	case len(t.refused) > 0 && !c.partial, len(t.lines) == 0:
		return refusedError(t.Question, t.refused)
	case len(untold) > 0 && c.id != "":
		return refusedError(t.Question, untold)
	case c.most != nil && *c.most < t.price():
		return &api.QuoteError{Quote: t.quote(), Expected: c.id, TermsChanged: m.termsChanged(c, t), MaxPrice: c.most, Remedy: "paying"}
	case c.id != "" && c.quoted.offer != t.offer():
		return &api.QuoteError{Quote: t.quote(), Expected: c.id, TermsChanged: m.termsChanged(c, t), MaxPrice: c.most, Remedy: "quoting"}
	}
	return nil
}

// drop refuses objects for which the host has no true value.
func (t *modelTrade) drop(untold []api.Refusal) {
	t.refused = byObject(append(t.refused, untold...))
	t.lines = slices.DeleteFunc(t.lines, func(n modelLine) bool { return isAmong(untold)(n.name) })
}

// customer returns a buyer, and adds it if it is new.
func (m *model) customer(name string) *api.BuyerState {
	i := slices.IndexFunc(m.buyers, func(b *api.BuyerState) bool { return b.Buyer == name })
	if i < 0 {
		m.write("buyer", "")
		i, m.buyers = len(m.buyers), append(m.buyers, &api.BuyerState{Buyer: name, Currency: "EUR"})
	}
	return m.buyers[i]
}

func (m *model) sell(t *modelTrade, reserved *modelDeal, c consent, h host) (*modelDeal, error) {
	before := c
	if c.partial {
		before.most = nil // objects without a true value will cost nothing
	}
	if err := m.accept(t, before); err != nil {
		return nil, err
	}
	var needy []string
	for _, n := range t.lines {
		if n.verdict == drawn {
			needy = append(needy, n.name)
		}
	}
	untold, err := m.ask(h, t.question, t.Epsilon.Nano(), needy, func(r *api.Refusal) *api.Refusal {
		if reserved != nil {
			return r
		}
		return t.orLess(m, r, 0, false)
	})
	if err != nil {
		return nil, err
	}
	t.drop(untold)
	if err := m.accept(t, c); err != nil {
		return nil, err
	}
	d, first, named := reserved, m.next(), []string(nil)
	buyer := m.customer(t.Buyer)
	m.bind(h, t.question, without(needy, untold)...)
	if d == nil {
		d, named = &modelDeal{Order: t.Order}, t.Objects
		d.sale.Number, d.sale.Ordinal = uint64(len(m.deals))+1, m.ordinal(t.Buyer)
		m.deals = append(m.deals, d)
	} else {
		d.sale.Number, d.sale.Ordinal, d.sale.Refund = d.granted.Number, d.granted.Ordinal, d.granted.Price-t.price()
	}
	m.deliver(d, t, h)
	buyer.Sales++
	buyer.Paid += t.price()
	d.sale.Key, d.sale.First, d.sale.Last = c.key, first, m.settle(named, d.sale.Refused...)
	d.sale.Refused = byObject(append(d.sale.Refused, d.granted.Refused...))
	return d, nil
}

// ordinal returns the number of the next deal among those of its buyer.
func (m *model) ordinal(buyer string) (n uint64) {
	for _, d := range m.deals {
		if d.Buyer == buyer {
			n++
		}
	}
	return n + 1
}

// deliver delivers the responses.
func (m *model) deliver(d *modelDeal, t *modelTrade, h host) {
	q := t.quote()
	d.status = dealSold
	d.sale = api.Sale{Number: d.sale.Number, Ordinal: d.sale.Ordinal, Offer: q.Offer, Refund: d.sale.Refund, Refused: t.refused, Time: m.now()}
	m.write("sale", "")
	question, _ := m.question(t.Question)
	channel, _ := question.Channel(t.Epsilon)
	for _, n := range t.lines {
		ev := m.write("sold", n.name)
		if n.verdict != reused {
			m.people[n.name].take(n.chain, t.Epsilon.Nano(), ev, h.truth(t.question, n.name))
		}
		l := n.chain.levels[t.Epsilon.Nano()]
		if !slices.Contains(l.holders, t.Buyer) {
			l.holders, l.paid = append(l.holders, t.Buyer), append(l.paid, n.price)
		}
		m.people[n.name].earned += n.price
		recorded := api.Response{Object: n.name, Question: t.Question, Epsilon: t.Epsilon, Event: uint64(l.event)}
		d.deliveries = append(d.deliveries, api.Delivery{Response: recorded, Price: n.price, Method: n.method, Sold: uint64(ev), Sale: d.sale.Number, Channel: channel})
	}
}

func (m *model) reserve(o api.Order, c consent, during time.Duration) (*modelDeal, error) {
	t, err := m.survey(&modelTrade{Order: o, reserves: true}, nil)
	if err != nil {
		return nil, err
	}
	if err := m.accept(t, c); err != nil {
		return nil, err
	}
	q := t.quote()
	d := &modelDeal{Order: t.Order, status: dealReserved, promised: map[string]int64{}, under: map[string]rule{}, expires: m.now().Add(during)}
	d.granted = api.Reservation{
		Number: uint64(len(m.deals)) + 1, Ordinal: m.ordinal(t.Buyer), State: "open", Buyer: q.Buyer, Question: q.Question, Epsilon: q.Epsilon, Price: q.Price, Currency: q.Currency,
		Objects: q.Objects, Refused: t.refused, Key: c.key, Expires: d.expires, First: m.next(),
	}
	m.customer(t.Buyer)
	m.write("reserved", "")
	d.Objects, d.All = nil, false
	for _, n := range t.lines {
		d.Objects = append(d.Objects, n.name)
		d.promised[n.name], d.under[n.name] = n.price, n.chain.rule
		m.write("held", n.name)
	}
	d.granted.Last = m.settle(t.Objects, d.granted.Refused...)
	m.deals = append(m.deals, d)
	return d, nil
}

// reservation returns a reservation that was neither captured nor cancelled.
func (m *model) reservation(number uint64) (*modelDeal, error) {
	if number == 0 || number > uint64(len(m.deals)) {
		return nil, api.ErrUnknown
	}
	d := m.deals[number-1]
	if d.promised == nil {
		return nil, api.ErrUnknown
	}
	if d.status == dealReserved {
		return d, nil
	}
	return nil, d.closed(m.now())
}

func (m *model) commit(number uint64, c consent, h host) (*modelDeal, error) {
	d, err := m.reservation(number)
	if err == nil {
		err = d.closed(m.now())
	}
	if err != nil {
		return nil, err
	}
	if d.gone > 0 && (!c.partial || len(d.Objects) == 0) {
		// The names are no longer known.
		return nil, refusedError(d.Question, slices.Repeat([]api.Refusal{{Reason: api.Withdrawn, Asked: d.Epsilon, Remedy: "nothing"}}, d.gone))
	}
	t, err := m.trade(d.Order, d)
	if err != nil {
		return nil, err
	}
	return m.sell(t, d, c, h)
}

// cancel settles a reservation for good, even one that has expired.
func (m *model) cancel(number uint64) error {
	d, err := m.reservation(number)
	if err != nil {
		return err
	}
	d.status = dealCancelled
	m.write("cancelled", "")
	m.settle(nil)
	return nil
}

// Enrollment and terms in the model.

// agreement is what is wanted for an object.
type agreement struct {
	under   rule
	keeps   bool // keep the current policy
	cap     int64
	was     int64 // if not 0: if the cap is no longer this, it stays
	consent string
}

func (m *model) enrol(r api.EnrollRequest, of func(string) agreement) (out api.EnrollResult, err error) {
	q, err := m.question(r.Question)
	if err != nil {
		return out, err
	}
	names := m.members("", r.Objects)
	var refusals []api.Refusal
	var fresh []string
	for _, name := range names {
		p, c, want := m.people[name], m.chain(r.Question, name), of(name)
		switch {
		case p == nil && want.cap == 0:
			return out, api.ErrNoCap
		case p != nil && want.cap != 0 && want.cap != p.cap:
			refusals = append(refusals, api.Refusal{Object: name, Reason: api.CapDiffers, Ceiling: epsilonOf(p.cap), Spent: epsilonOf(p.spent), Asked: epsilonOf(want.cap), Remedy: "terms"})
		case c != nil && !c.rule.policy.Equal(want.under.policy):
			refusals = append(refusals, api.Refusal{Object: name, Reason: api.PolicyDiffers, Spent: epsilonOf(c.current()), Remedy: "terms"})
		case c == nil:
			if _, err := m.noiseOf(q); err != nil {
				return out, err
			}
			fresh = append(fresh, name)
		case c.withdrawn:
			fresh = append(fresh, name)
		}
	}
	if len(refusals) > 0 && !r.Partial {
		return out, refusedError(r.Question, refusals)
	}
	out = api.EnrollResult{Enrolled: len(fresh), Already: len(names) - len(fresh) - len(refusals), Refused: refusals, First: m.next()}
	for _, name := range fresh {
		m.definePolicy(of(name).under)
	}
	for _, name := range fresh {
		m.begin(q, name, of(name))
	}
	out.Last = m.settleList(r.Objects, refusals...)
	return out, nil
}

// definePolicy adds a policy to the log, if it is new.
func (m *model) definePolicy(of rule) {
	if text := of.policy.String(); text != "" && !m.policies[text] {
		m.policies[text] = true
		m.write("policy", "")
	}
}

// begin enrolls one object, or lets it return with everything it has spent.
func (m *model) begin(q api.Question, name string, want agreement) {
	if m.people[name] == nil {
		m.people[name] = &person{cap: want.cap, chains: map[string]*modelChain{}}
	}
	c := m.chain(q.Name, name)
	if c == nil {
		c = &modelChain{rule: want.under, levels: map[int64]*modelLevel{}}
		c.noise, _ = m.noiseOf(q)
		m.people[name].chains[q.Name] = c
	}
	c.withdrawn = false
	m.write("enrolled", name)
}

// orAll returns a policy whose zero value means that only the cap limits.
func orAll(p policy.Policy) policy.Policy {
	if p.IsZero() {
		return policy.Fixed(privacy.MaxEpsilon())
	}
	return p
}

// more returns what other terms may allow beyond the current ones, "" if nothing.
func (m *model) more(now, to rule, limit, cap int64) string {
	var texts []string
	if limit < cap {
		texts = append(texts, fmt.Sprintf("the cap would be ε=%s, and is ε=%s", epsilonOf(cap), epsilonOf(limit)))
	}
	err := orAll(to.policy).AtMost(orAll(now.policy), m.clock)
	if err != nil && orAll(to.policy).Equal(policy.Fixed(privacy.MaxEpsilon())) {
		texts = append(texts, "the policy may allow more: without a policy only the cap binds")
	} else if err != nil {
		texts = append(texts, err.Error())
	} else if at, orders, is := higher(to, now, m.clock); is {
		panic(fmt.Sprintf("%s is proven to allow no more than %s from %v on, and does at %v after %d buyers", to.policy, now.policy, m.clock, at, orders))
	}
	return strings.Join(texts, "; ")
}

// higher finds an instant, from one on, and a number of buyers at which a ceiling is above another.
func higher(to, now rule, from time.Time) (at time.Time, orders int64, is bool) {
	for _, at := range append(append([]time.Time{from, doomsday()}, to.turns...), now.turns...) {
		for orders := range int64(5) {
			if !at.Before(from) && to.ceiling(at, orders) > now.ceiling(at, orders) {
				return at, orders, true
			}
		}
	}
	return at, 0, false
}

// termsOf returns what an agreement changes of a chain: nothing, something, or the refusal.
func (m *model) termsOf(name string, c *modelChain, limit int64, want agreement) (to rule, cap int64, changes bool, refusal *api.Refusal) {
	to, cap = c.rule, limit
	if !want.keeps {
		to = want.under
	}
	if want.cap != 0 && (want.was == 0 || want.was == limit) {
		cap = want.cap
	}
	if to.policy.Equal(c.rule.policy) && cap == limit {
		return to, cap, false, nil
	}
	if why := m.more(c.rule, to, limit, cap); why != "" && want.consent == "" {
		r := &api.Refusal{Object: name, Reason: api.NeedsConsent, Remedy: "consent", Why: why}
		if limit < cap {
			r.Ceiling, r.Asked = epsilonOf(limit), epsilonOf(cap)
		}
		return to, cap, false, r
	}
	return to, cap, true, nil
}

func (m *model) changeTerms(r api.ChangeTermsRequest, of func(string) agreement) (out api.ChangeTermsResult, err error) {
	if _, err := m.question(r.Question); err != nil {
		return out, err
	}
	names := m.members("", r.Objects)
	var refusals []api.Refusal
	var changed []string
	for _, name := range names {
		c := m.chain(r.Question, name)
		if c == nil {
			refusals = append(refusals, api.Refusal{Object: name, Reason: api.NotEnrolled, Remedy: "enrolling"})
			continue
		}
		_, _, changes, refusal := m.termsOf(name, c, m.people[name].cap, of(name))
		if refusal != nil {
			refusals = append(refusals, *refusal)
		} else if changes {
			changed = append(changed, name)
		}
	}
	if len(refusals) > 0 && !r.Partial {
		return out, refusedError(r.Question, refusals)
	}
	out = api.ChangeTermsResult{Changed: len(changed), Unchanged: len(names) - len(changed) - len(refusals), Refused: refusals, First: m.next()}
	for _, name := range changed {
		if want := of(name); !want.keeps {
			m.definePolicy(want.under)
		}
	}
	for _, name := range changed {
		c, p := m.chain(r.Question, name), m.people[name]
		c.rule, p.cap, _, _ = m.termsOf(name, c, p.cap, of(name))
		m.write("terms", name)
	}
	out.Last = m.settleList(r.Objects, refusals...)
	return out, nil
}

// The moves.

func (one moveReturn) play(g *game) {
	if c := g.model.chain(one.Question, one.Object); c != nil {
		g.enrol(api.EnrollRequest{Key: g.key(), Question: one.Question, Objects: []string{one.Object}, Policy: c.rule.policy}, func(string) agreement { return agreement{under: c.rule} })
	}
}

func (one moveEnroll) play(g *game) {
	r := api.EnrollRequest{Key: g.key(), Question: one.Question, Objects: one.Objects, Partial: one.Partial}
	of := func(string) agreement { return agreement{under: allRules()[one.Rule], cap: one.Cap} }
	if one.Other == 0 {
		r.Policy, r.Cap = allRules()[one.Rule].policy, epsilonOf(one.Cap)
	} else {
		of = func(name string) agreement {
			return agreement{under: allRules()[[]int{one.Rule, one.Other}[len(name)%2]], cap: one.Cap}
		}
		r.Terms = func(name string) (policy.Policy, privacy.Epsilon) {
			want := of(name)
			return want.under.policy, epsilonOf(want.cap)
		}
	}
	g.enrol(r, of)
}

func (g *game) enrol(r api.EnrollRequest, of func(string) agreement) {
	want, refused := g.model.enrol(r, of)
	checkRequest(g, r, LedgerAPI.Enroll, want, refused,
		func(r *api.EnrollRequest) {
			if r.Cap = epsilonOf(7 + r.Cap.Nano()%7); r.Terms != nil {
				given, limit := r.Terms, r.Cap
				r.Cap = privacy.Epsilon{}
				r.Terms = func(name string) (policy.Policy, privacy.Epsilon) {
					p, _ := given(name)
					return p, limit
				}
			}
		},
		func(r *api.EnrollRequest) { r.Objects = append([]string{"zoe"}, r.Objects...) },
		func(r *api.EnrollRequest) { r.Terms, r.Policy = nil, fixedRule(7).policy },
		func(r *api.EnrollRequest) { r.Partial = !r.Partial })
}

func (one moveTerms) play(g *game) {
	r := api.ChangeTermsRequest{Key: g.key(), Question: one.Question, Objects: one.Objects, Cap: epsilonOf(one.Cap), Consent: one.Consent, Partial: one.Partial}
	want := agreement{keeps: one.Rule == 0, cap: one.Cap, consent: one.Consent}
	if !want.keeps {
		want.under = allRules()[one.Rule-1]
		r.Policy = &want.under.policy
	}
	if want.keeps && one.Cap == 0 {
		g.wantError(check.Err(g.ledger.ChangeTerms(g.Context(), r)), api.ErrInvalid)
		return
	}
	result, refused := g.model.changeTerms(r, func(string) agreement { return want })
	checkRequest(g, r, LedgerAPI.ChangeTerms, result, refused,
		func(r *api.ChangeTermsRequest) { r.Cap = epsilonOf(7 + r.Cap.Nano()%7) },
		func(r *api.ChangeTermsRequest) { r.Objects = append([]string{"zoe"}, r.Objects...) },
		func(r *api.ChangeTermsRequest) { r.Policy = new(fixedRule(7).policy) },
		func(r *api.ChangeTermsRequest) { r.Consent += "!" },
		func(r *api.ChangeTermsRequest) { r.Partial = !r.Partial })
	if g.closed == nil {
		g.compareObjects()
	}
}

// table yields the rows of the host's table.
func (one moveReconcile) table() iter.Seq2[api.Member, error] {
	return func(yield func(api.Member, error) bool) {
		for _, r := range one.Rows {
			if !yield(api.Member{Object: r.Object, Question: r.Question, Policy: allRules()[r.Rule].policy, Cap: epsilonOf(r.Cap), Consent: r.Consent}, nil) {
				return
			}
		}
	}
}

func (one moveReconcile) play(g *game) {
	r := api.ReconcileRequest{Members: one.table(), Withdraw: one.Withdraw, DryRun: one.Dry}
	kept := g.model
	if one.Dry {
		g.model = kept.clone()
	}
	expected := -1
	if one.Expected {
		expected = len(g.model.missing(one))
		r.Gone = expected
	}
	want, refused := g.model.reconcile(one, expected)
	if one.Dry {
		g.model = kept
	}
	got, err := g.ledger.Reconcile(g.Context(), r)
	var gone, goneOnPaper *api.GoneError
	switch {
	case errors.As(refused, &goneOnPaper) && errors.As(err, &gone):
		gone.Expected = goneOnPaper.Expected
		g.same("the refusal", gone, goneOnPaper)
		return
	case one.Dry && refused == nil && err == nil:
		g.same("the dry run", got, want)
		return
	case one.Dry:
		g.wantError(err, refused)
		return
	}
	if refused == nil && err == nil && leavesAll(want) { // nothing is written, even with a wrong clock
		g.same("the reconciliation", got, want)
		return
	}
	if g.failed(err, refused) {
		return
	}
	g.same("the reconciliation", got, want)
	again, err := g.ledger.Reconcile(g.Context(), r) // nothing is left to do
	check.Must(g, err)
	for _, q := range again.Questions {
		check.Need(g, q.New.Count+q.Changed.Count+again.Withdrawn == 0,
			"a second time there is still to do: %s", asJSON(again))
	}
	if g.closed == nil {
		g.compareObjects()
	}
}

// leavesAll returns whether there is nothing to do.
func leavesAll(r api.ReconcileResult) bool {
	n := r.Withdrawn
	for _, q := range r.Questions {
		n += q.New.Count + q.Changed.Count
	}
	return n == 0
}

// rowsAbout returns the rows about an object, in the order of questions.
func (one moveReconcile) rowsAbout(m *model, name string) (all []row) {
	for _, q := range m.questions {
		for _, r := range one.Rows {
			if r.Object == name && r.Question == q.Name {
				all = append(all, r)
			}
		}
	}
	return all
}

func (p *person) takesPart() bool {
	for _, c := range p.chains {
		if !c.withdrawn {
			return true
		}
	}
	return false
}

// missing returns the objects that take part and have no row, in order.
func (m *model) missing(one moveReconcile) (names []string) {
	for _, name := range SortedKeys(m.people) {
		if m.people[name].takesPart() && len(one.rowsAbout(m, name)) == 0 {
			names = append(names, name)
		}
	}
	return names
}

func named(l *api.NameList, name string) { l.Count, l.First = l.Count+1, append(l.First, name) }

// reconcile changes the model to match a table.
func (m *model) reconcile(one moveReconcile, expected int) (out api.ReconcileResult, err error) {
	gone, present := m.missing(one), 0
	for _, p := range m.people {
		if p.takesPart() {
			present++
		}
	}
	results := map[string]*api.Reconciled{}
	in := func(question string) *api.Reconciled {
		if results[question] == nil {
			results[question] = &api.Reconciled{Question: question}
		}
		return results[question]
	}
	todo := newReconciling()
	all := map[string]bool{}
	for name := range m.people {
		all[name] = true
	}
	for _, r := range one.Rows {
		all[r.Object] = true
	}
	for _, name := range SortedKeys(all) {
		if err := m.compareRows(name, one.rowsAbout(m, name), in, todo); err != nil {
			return out, err
		}
	}
	for _, name := range gone {
		named(&out.Gone, name)
	}
	if one.Withdraw && len(gone)*100 > present && len(gone) != max(0, expected) {
		return out, &api.GoneError{Gone: len(gone), Of: present, Expected: max(0, expected)}
	}
	if one.Withdraw {
		out.Withdrawn = len(gone)
	}
	for _, q := range m.questions {
		if results[q.Name] != nil {
			out.Questions = append(out.Questions, *results[q.Name])
		}
	}
	if err := m.execute(todo); err != nil {
		return out, err
	}
	if one.Withdraw && len(gone) > 0 {
		for _, name := range gone {
			m.leave(name)
		}
		m.settle(gone)
	}
	return out, nil
}

// reconciling is what is to be done: names by question, with what is wanted for each.
type reconciling struct {
	change, enrol, then map[string][]string
	changed, enrolled   map[[2]string]agreement
}

func newReconciling() *reconciling {
	return &reconciling{map[string][]string{}, map[string][]string{}, map[string][]string{}, map[[2]string]agreement{}, map[[2]string]agreement{}}
}

// compareRows compares an object with its rows.
func (m *model) compareRows(name string, rows []row, in func(string) *api.Reconciled, todo *reconciling) error {
	p, limit := m.people[name], int64(0)
	if p != nil {
		limit = p.cap
	}
	agreed := false // to a higher cap, in some row
	for _, r := range rows {
		c := m.chain(r.Question, name)
		agreed = agreed || p != nil && r.Cap > limit && r.Consent != "" && (c == nil || !c.withdrawn)
	}
	for _, r := range rows {
		if agreed && r.Consent == "" {
			r.Cap = 0
		}
		id, want := [2]string{r.Question, name}, agreement{under: allRules()[r.Rule], cap: r.Cap, was: limit, consent: r.Consent}
		c := m.chain(r.Question, name)
		switch {
		case c != nil && c.withdrawn, c == nil && p != nil && !p.takesPart():
			named(&in(r.Question).Left, name)
		case c != nil:
			_, cap, changes, refusal := m.termsOf(name, c, limit, want)
			switch {
			case refusal != nil:
				in(r.Question).Refused = append(in(r.Question).Refused, *refusal)
			case changes:
				named(&in(r.Question).Changed, name)
				todo.change[r.Question], todo.changed[id], limit = append(todo.change[r.Question], name), want, cap
			default:
				in(r.Question).Same++
			}
		case !m.hasNoise(r.Question):
			return api.ErrNoiseKey
		case p == nil && r.Cap == 0:
			return api.ErrNoCap
		case p != nil && r.Cap > limit && r.Consent == "":
			why := fmt.Sprintf("the cap would be ε=%s, and is ε=%s", epsilonOf(r.Cap), epsilonOf(limit))
			in(r.Question).Refused = append(in(r.Question).Refused, api.Refusal{Object: name, Reason: api.NeedsConsent, Ceiling: epsilonOf(limit), Asked: epsilonOf(r.Cap), Remedy: "consent", Why: why})
		default:
			named(&in(r.Question).New, name)
			todo.enrol[r.Question] = append(todo.enrol[r.Question], name)
			if p != nil && r.Cap != 0 && r.Cap != limit {
				todo.then[r.Question] = append(todo.then[r.Question], name)
				todo.changed[id], limit = agreement{keeps: true, cap: r.Cap, was: limit, consent: r.Consent}, r.Cap
			}
			if p != nil {
				want.cap = 0
			}
			todo.enrolled[id] = want
		}
	}
	for _, q := range m.questions {
		has := slices.ContainsFunc(rows, func(r row) bool { return r.Question == q.Name })
		if c := m.chain(q.Name, name); c != nil && !c.withdrawn && !has && len(rows) > 0 {
			named(&in(q.Name).Dropped, name)
		}
	}
	return nil
}

// hasNoise returns whether chains of a question can begin.
func (m *model) hasNoise(question string) bool {
	q, _ := m.question(question)
	_, err := m.noiseOf(q)
	return err == nil
}

// execute does what is to be done, in one part.
func (m *model) execute(todo *reconciling) error {
	for _, step := range []func(q string) error{
		func(q string) error { return m.changeAll(q, todo.change[q], todo) },
		func(q string) error {
			if len(todo.enrol[q]) == 0 {
				return nil
			}
			return check.Err(m.enrol(api.EnrollRequest{Question: q, Objects: todo.enrol[q], Partial: true}, func(name string) agreement { return todo.enrolled[[2]string{q, name}] }))
		},
		func(q string) error { return m.changeAll(q, todo.then[q], todo) },
	} {
		for _, q := range m.questions {
			if err := step(q.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *model) changeAll(q string, names []string, todo *reconciling) error {
	if len(names) == 0 {
		return nil
	}
	return check.Err(m.changeTerms(api.ChangeTermsRequest{Question: q, Objects: names, Partial: true}, func(name string) agreement { return todo.changed[[2]string{q, name}] }))
}
