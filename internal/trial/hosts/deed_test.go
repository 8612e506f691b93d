package hosts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/sluicedp/sluice/ledger/api"
)

// What a request may do.
const (
	toEnroll    = "enroll"
	toWithdraw  = "withdraw"
	toRelease   = "release"
	toRaise     = "raise"
	toAdvance   = "advance"
	toSell      = "sell"
	toReserve   = "reserve"
	toCommit    = "commit"
	toCancel    = "cancel"
	toAnswer    = "answer"
	toQuote     = "quote"
	toRead      = "object"
	toReadLevel = "responses"
	toTerms     = "terms"
)

// deed is what a request did with one object, as far as anybody was told.
type deed struct {
	request
	what   string
	call   int    // the number of the request
	object string // its name
	terms  *terms
	all    bool   // the request is for all who take part
	clocks window // when it was decided
	log    [2]int64

	// What came of it.
	failed      bool         // the request was refused, because of this object or another
	unknown     bool         // ErrUnknown
	notReserved bool         // ErrNotReserved
	refusal     *api.Refusal // of this object, without its name
	first, last uint64       // the events of the request, if they were told
	shown       level        // of one response; value "" if there is none
	found       bool         // whether there is one, of a read
	method      string
	price       int64  // −1 if it is not told of this object alone
	number      uint64 // of a reservation
	expires     int64
	tally       []int // of a request for many: how many objects came out each way
	state       *api.ObjectState
}

// window are the times that a clock showed in the course of a call.
type window []int64

// String is a line of a history.
func (d *deed) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "call %d: %s %s", d.call, d.what, d.object)
	if d.epsilon > 0 {
		fmt.Fprintf(&out, " question %d ε=%s", d.question, tenths(d.epsilon))
	}
	switch d.what {
	case toSell, toReserve, toQuote:
		fmt.Fprintf(&out, " buyer %d price %d", d.buyer, d.price)
	case toCommit, toCancel:
		fmt.Fprintf(&out, " reservation %d", d.number)
	case toTerms:
		fmt.Fprintf(&out, " cap %d dearer %t agreed %t", d.cap, d.dear, d.agreed)
	case toRead:
		if d.state != nil {
			fmt.Fprintf(&out, " spent %s of %s, held %s, earned %d", d.state.Spent, d.state.Cap, d.state.Held, d.state.Earned)
			for _, c := range d.state.Chains {
				fmt.Fprintf(&out, ", %q out %t answered %s ceiling %s:", c.Question, c.Withdrawn, c.Answered, c.Ceiling)
				for _, l := range c.Levels {
					fmt.Fprintf(&out, " %s=%s@%d%v", l.Epsilon, l.Response, l.Event, l.Buyers)
				}
			}
		}
	}
	fmt.Fprintf(&out, "; clock %v log %v:", d.clocks, d.log)
	switch {
	case d.unknown:
		out.WriteString(" unknown")
	case d.notReserved:
		out.WriteString(" not reserved")
	case d.refusal != nil:
		fmt.Fprintf(&out, " %+v", *d.refusal)
	case d.failed:
		out.WriteString(" refused because of others")
	case d.shown.value != "":
		fmt.Fprintf(&out, " %q event %d %s", d.shown.value, d.shown.event, d.method)
	default:
		out.WriteString(" done")
	}
	if d.first > 0 {
		fmt.Fprintf(&out, ", events %d to %d", d.first, d.last)
	}
	if d.tally != nil {
		fmt.Fprintf(&out, ", of all %v", d.tally)
	}
	return out.String()
}

// reads tells whether a deed leaves everything as it was.
func (d *deed) reads() bool {
	switch d.what {
	case toQuote, toRead, toReadLevel:
		return true
	}
	return d.failed || d.unknown || d.notReserved
}

// next returns the states that a deed may leave, if it is done in this one and comes to what was told.
func (d *deed) next(p *person) (all []*person) {
	for _, m := range d.moments(p) {
		q, ok := d.at(p, m)
		if ok && !slices.ContainsFunc(all, q.equal) {
			all = append(all, q)
		}
	}
	return all
}

// moments are all moments in the course of a call that may make a difference.
func (d *deed) moments(p *person) (all []moment) {
	logs := []int64{d.log[0]}
	for _, h := range p.held {
		if d.log[0] < h.expires && h.expires <= d.log[1] && !slices.Contains(logs, h.expires) {
			logs = append(logs, h.expires)
		}
	}
	for _, clock := range d.clocks {
		for _, log := range logs {
			all = append(all, moment{clock, log})
		}
	}
	return all
}

// at does a deed at a moment, and tells whether it comes to what was told.
func (d *deed) at(p *person, m moment) (*person, bool) {
	switch d.what {
	case toEnroll:
		return d.enroll(p)
	case toTerms:
		return d.changeTerms(p)
	case toWithdraw:
		return d.withdraw(p)
	case toAdvance:
		return d.advance(p, m)
	case toCancel:
		return d.cancel(p)
	case toRead:
		return d.read(p, m)
	case toReadLevel:
		return d.readLevel(p)
	}
	if d.what == toRaise && d.all && !p.in[d.question] {
		return p, d.refusal == nil && !d.failed
	}
	if d.notReserved && (d.what == toCommit || d.what == toReserve) {
		return p, !slices.ContainsFunc(p.held, func(h holding) bool { return h.number == d.number && m.log < h.expires })
	}
	if !d.isRefusal(d.refusalOf(p, m)) || !d.follows(p) {
		return p, false
	}
	q, ok := *p, true
	switch {
	case d.failed:
		return p, true
	case d.refusal != nil:
		if d.what == toCommit {
			q.settle(d.number)
		}
	default:
		ok = d.carryOut(&q)
	}
	q.last = max(q.last, d.last)
	return &q, ok
}

// follows tells whether the events of a deed come behind those before it.
func (d *deed) follows(p *person) bool { return d.first == 0 || d.first > p.last }

func (d *deed) refusalOf(p *person, m moment) *api.Refusal {
	switch d.what {
	case toSell, toReserve, toQuote:
		return p.unsaleable(d.terms, m, d.request)
	case toCommit:
		return p.gone(d.terms, d.number, d.request)
	case toAnswer:
		return p.unanswerable(d.terms, m, d.request)
	}
	return p.undrawable(d.terms, m, d.request)
}

func (d *deed) isRefusal(want *api.Refusal) bool {
	if want == nil || d.refusal == nil {
		return want == d.refusal
	}
	told := *d.refusal
	if told.Why != "" && told.Reason == api.NeedsConsent {
		told.Why = "" // for people
	}
	return *want == told
}

// carryOut does what nobody refuses.
func (d *deed) carryOut(p *person) bool {
	switch d.what {
	case toRelease:
		return d.respond(p)
	case toRaise:
		return d.raise(p)
	case toAnswer:
		return d.answer(p)
	case toQuote:
		return d.price < 0 || d.price == d.owed(p, p.dear)
	case toReserve:
		p.held = append(slices.Clone(p.held), holding{number: d.number, buyer: d.buyer, epsilon: d.epsilon, expires: d.expires, dear: p.dear})
		return d.price < 0 || d.price == d.owed(p, p.dear)
	case toCommit:
		at := slices.IndexFunc(p.held, func(h holding) bool { return h.number == d.number })
		if at < 0 {
			return false
		}
		promised := p.held[at].dear
		return p.settle(d.number) && d.sell(p, promised)
	}
	return d.sell(p, p.dear)
}

func (d *deed) respond(p *person) (ok bool) {
	p.levels[d.question], ok = show(p.levels[d.question], d.shown, p.last)
	p.last = max(p.last, d.shown.event)
	return ok
}

// raise draws a response without telling which. tally is how many were drawn, recorded and derived.
func (d *deed) raise(p *person) bool {
	way := 2
	switch method(p.levels[d.question], d.epsilon) {
	case "raise":
		way = 0
	case "resale":
		way = 1
	}
	return d.tally[way] > 0 && d.respond(p)
}

// answer answers for a panel. price is the ε charged.
func (d *deed) answer(p *person) (ok bool) {
	cost := rest(d.epsilon, top(p.answers))
	p.answers, ok = show(p.answers, d.shown, p.last)
	p.last = max(p.last, d.shown.event)
	return ok && d.price == int64(cost)
}

// owed is the price of an order, by one of the two policies: nobody pays twice.
func (d *deed) owed(p *person, dear bool) int64 {
	if d.epsilon <= p.heldBy(d.buyer) {
		return 0
	}
	perTenth := int64(7)
	if dear {
		perTenth = 9
	}
	return max(0, max(10, perTenth*int64(d.epsilon))-p.paid[d.buyer])
}

func (d *deed) sell(p *person, dear bool) bool {
	if d.price != d.owed(p, dear) || d.method != method(p.levels[vote], d.epsilon) {
		return false
	}
	if p.heldBy(d.buyer) == 0 {
		p.buyers++
	}
	p.earned += d.price
	p.paid[d.buyer] += d.price
	if !d.respond(p) {
		return false
	}
	p.levels[vote] = slices.Clone(p.levels[vote])
	at, _ := find(p.levels[vote], d.epsilon)
	p.levels[vote][at].buyers |= 1 << d.buyer
	return true
}

// settle ends a reservation.
func (p *person) settle(number uint64) bool {
	kept := slices.DeleteFunc(slices.Clone(p.held), func(h holding) bool { return h.number == number })
	found := len(kept) < len(p.held)
	p.held = kept
	return found
}

// enroll takes somebody in. tally is how many are new and how many were there before.
func (d *deed) enroll(p *person) (*person, bool) {
	if !d.isRefusal(p.otherwise(d.question)) {
		return p, false
	}
	if d.failed || d.refusal != nil {
		return p, true
	}
	q, way := *p, 0
	if p.in[d.question] {
		way = 1
	}
	q.was[d.question], q.in[d.question] = true, true
	q.last = max(q.last, d.last)
	return &q, d.tally[way] > 0 && d.follows(p)
}

// changeTerms puts somebody under other terms. tally is how many changed, and how many were under these.
func (d *deed) changeTerms(p *person) (*person, bool) {
	if !d.isRefusal(p.unwilling(d.request)) {
		return p, false
	}
	if d.failed || d.refusal != nil {
		return p, true
	}
	q, way := *p, 0
	if q.cap == d.cap && q.dear == d.dear {
		way = 1
	}
	q.cap, q.dear, q.last = d.cap, d.dear, max(q.last, d.last)
	return &q, d.tally[way] > 0 && d.follows(p)
}

func (d *deed) withdraw(p *person) (*person, bool) {
	if known := p.was[vote] || p.was[diary]; d.unknown || !known {
		return p, d.unknown != known
	}
	q := *p
	q.in = [questions]bool{}
	q.held = slices.Clone(q.held)
	for i := range q.held {
		q.held[i].out = true
	}
	return &q, true
}

// advance draws what the policy releases. tally is how many rose, stayed and were refused.
func (d *deed) advance(p *person, m moment) (*person, bool) {
	if !p.in[d.question] {
		return p, d.refusal == nil
	}
	q, way := *p, 1
	var refusal *api.Refusal
	for _, step := range d.terms[d.question].Releases(minute(m.clock), 0) {
		r := request{question: d.question, epsilon: inTenths(step.Ceiling)}
		if _, found := find(q.levels[d.question], r.epsilon); found {
			continue
		}
		if refusal = q.undrawable(d.terms, m, r); refusal != nil {
			way = 2
			break
		}
		q.levels[d.question], _ = show(q.levels[d.question], level{epsilon: r.epsilon}, p.last)
		way = 0
	}
	q.last = max(q.last, d.last)
	return &q, d.isRefusal(refusal) && d.tally[way] > 0 && d.follows(p)
}

func (d *deed) cancel(p *person) (*person, bool) {
	q := *p
	return &q, q.settle(d.number) != d.notReserved
}

// readLevel compares the response at one ε, or that there is none.
func (d *deed) readLevel(p *person) (*person, bool) {
	if _, found := find(p.levels[d.question], d.epsilon); !found || !d.found {
		return p, found == d.found
	}
	q := *p
	return &q, d.respond(&q)
}

// read compares everything that is known of an object.
func (d *deed) read(p *person, m moment) (*person, bool) {
	if known := p.was[vote] || p.was[diary]; d.unknown || !known {
		return p, d.unknown != known
	}
	held := 0
	for _, h := range p.held {
		if h.holds(m) {
			held = max(held, rest(h.epsilon, top(p.levels[vote])))
		}
	}
	s := d.state
	if s.Cap != tenths(p.cap) || s.Spent != tenths(p.spent()) || s.Earned != p.earned ||
		s.Held != tenths(held) || s.Remaining != tenths(rest(p.cap, p.spent()+held)) {
		return p, false
	}
	q, chains := *p, s.Chains
	for question := range questions {
		if !p.was[question] {
			continue
		}
		if len(chains) == 0 || !d.readChain(&q, m, question, chains[0]) {
			return p, false
		}
		chains = chains[1:]
	}
	return &q, len(chains) == 0
}

func (d *deed) readChain(p *person, m moment, question int, c api.ChainState) bool {
	levels := p.levels[question]
	answered := p.spentOn(question) - top(levels)
	if c.Withdrawn == p.in[question] || c.Epsilon != tenths(top(levels)) || c.Answered != tenths(answered) || len(c.Levels) != len(levels) {
		return false
	}
	if c.Ceiling != p.under(d.terms, question).Ceiling(minute(m.clock), 0) || question == vote && c.Buyers != p.buyers {
		return false
	}
	var paid [3]int64
	for i, read := range c.Levels {
		for j, buyer := range read.Buyers {
			paid[slices.Index(buyers(), buyer)] += read.Paid[j]
		}
		if read.Epsilon != tenths(levels[i].epsilon) || bits(read.Buyers) != levels[i].buyers {
			return false
		}
		var same bool
		levels, same = show(levels, level{epsilon: levels[i].epsilon, value: read.Response, event: read.Event}, p.last)
		if !same {
			return false
		}
	}
	p.levels[question] = levels
	return question != vote || paid == p.paid
}

// model is the sequential ledger of one object, for the checker.
func model() porcupine.Model {
	many := porcupine.NondeterministicModel{
		Init: func() []any { return []any{newPerson()} },
		Step: func(state, input, _ any) (all []any) {
			for _, p := range input.(*deed).next(state.(*person)) {
				all = append(all, p)
			}
			return all
		},
		Equal: func(a, b any) bool { return a.(*person).equal(b.(*person)) },
		Hash:  func(a any) uint64 { return a.(*person).hash() },
	}
	return many.ToModel()
}
