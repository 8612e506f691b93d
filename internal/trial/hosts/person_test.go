package hosts

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// The sequential ledger, as far as one object goes. ε is counted in tenths, time in minutes since the opening.

// The questions of each cohort: one for sale, one that comes by itself.
const (
	vote = iota
	diary
	questions
)

const (
	most    = 25 // ε that an object may spend
	forSale = 20 // the highest ε for sale
	holders = 2  // how many buyers may hold the same level
	written = 15 // the highest ε of a diary
)

func opening() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

func minute(n int64) time.Time { return opening().Add(time.Duration(n) * time.Minute) }

func tenths(n int) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(n) * 100_000_000)
	if err != nil {
		panic(err) // a constant of the tests
	}
	return e
}

func inTenths(e privacy.Epsilon) int { return int(e.Nano() / 100_000_000) }

// What the sellers of a cohort may change their minds to: a lower cap, and a policy of the vote that sells less, for more.
const (
	lessInAll   = 18 // ε that an object may spend
	lessForSale = 14 // the highest ε for sale
	dearer      = questions
)

// terms are the policies of a cohort's questions, and the dearer one of the vote. What they mean is for the tests of package policy.
type terms [questions + 1]policy.Policy

func newTerms(start, end int64) (t terms, err error) {
	for place, m := range map[int]struct{ max, price int }{vote: {forSale, 7}, dearer: {lessForSale, 9}} {
		t[place], err = policy.Market{
			Max: tenths(m.max), Stride: tenths(1), Floor: 10, Holders: holders,
			Prices: []policy.Price{{Epsilon: tenths(5), Amount: 5 * int64(m.price)}, {Epsilon: tenths(forSale), Amount: int64(m.price * forSale)}},
		}.Policy()

		if err != nil {
			return t, err
		}
	}
	t[diary], err = policy.Linear(tenths(2), tenths(written), minute(start), minute(end), tenths(1))
	return t, err
}

// level is a response, or an answer. Who draws for many is not told what, so value and event may not be known yet.
type level struct {
	epsilon int
	value   string
	event   uint64
	buyers  uint8 // a bit for each who holds it
}

// holding is a reservation that is neither carried out nor cancelled.
type holding struct {
	number  uint64
	buyer   int
	epsilon int
	expires int64
	out     bool // the object has withdrawn since
	dear    bool // it was promised by the dearer policy
}

// person is the state of one object. It is never changed; its next state is another.
type person struct {
	last    uint64 // the last event known to be about it
	was, in [questions]bool
	levels  [questions][]level // by rising ε
	answers []level            // of its panel, to the one query there is about it
	buyers  uint64             // of vote
	earned  int64
	held    []holding
	cap     int
	dear    bool     // the vote is sold by the dearer policy
	paid    [3]int64 // by each buyer, for the vote
}

// newPerson is one whom the ledger does not know.
func newPerson() *person { return &person{cap: most} }

// under is the policy of a question.
func (p *person) under(t *terms, question int) policy.Policy {
	if question == vote && p.dear {
		question = dearer
	}
	return t[question]
}

func (p *person) equal(q *person) bool {
	return p.last == q.last && p.was == q.was && p.in == q.in && p.buyers == q.buyers && p.earned == q.earned && p.cap == q.cap && p.dear == q.dear && p.paid == q.paid &&
		slices.Equal(p.levels[vote], q.levels[vote]) && slices.Equal(p.levels[diary], q.levels[diary]) &&
		slices.Equal(p.answers, q.answers) && slices.Equal(p.held, q.held)
}

func (p *person) hash() uint64 {
	h := fnv.New64a()
	n := [8]byte{
		byte(p.last), byte(p.last >> 8), byte(len(p.levels[vote])), byte(len(p.levels[diary])),
		byte(len(p.answers)), byte(len(p.held)), byte(p.earned), byte(p.buyers),
	}
	_, _ = h.Write(n[:]) // it never fails
	return h.Sum64()
}

func top(levels []level) int {
	if len(levels) == 0 {
		return 0
	}
	return levels[len(levels)-1].epsilon
}

func find(levels []level, epsilon int) (place int, found bool) {
	return slices.BinarySearchFunc(levels, epsilon, func(l level, e int) int { return l.epsilon - e })
}

// spentOn is what a question has cost so far: the highest ε of its chain and the highest of its answers.
func (p *person) spentOn(question int) int {
	spent := top(p.levels[question])
	if question == vote {
		spent += top(p.answers)
	}
	return spent
}

func (p *person) spent() int { return p.spentOn(vote) + p.spentOn(diary) }

// heldBy is the highest ε at which a buyer has a response.
func (p *person) heldBy(buyer int) int {
	for _, l := range slices.Backward(p.levels[vote]) {
		if l.buyers>>buyer&1 == 1 {
			return l.epsilon
		}
	}
	return 0
}

// A moment is when something is decided: by the clock, and by the log, whose time does not run back.
type moment struct{ clock, log int64 }

// holds tells whether a reservation holds budget.
func (h holding) holds(m moment) bool { return !h.out && m.log < h.expires }

func rest(a, b int) int { return max(a-b, 0) }

// request is what decides about a refusal.
type request struct {
	question, epsilon int
	buyer             int // of an order
	cap               int // of other terms; the vote is sold by the dearer policy, or not, and the person has agreed, or not
	dear, agreed      bool
}

// absent is the refusal of somebody who takes no part.
func (p *person) absent(r request) *api.Refusal {
	reason := api.NotEnrolled
	if p.was[r.question] {
		reason = api.Withdrawn
	}
	if p.in[r.question] {
		return nil
	}
	return &api.Refusal{Reason: reason, Asked: tenths(r.epsilon), Remedy: api.RemedyEnrolling}
}

// overdrawn is the refusal of what costs more than is left, under the ceiling of the chain or the cap. reaches is the ε of the
// chain afterwards.
func (p *person) overdrawn(t *terms, m moment, r request, cost, reaches int) *api.Refusal {
	reserved := 0
	for _, h := range p.held {
		if h.holds(m) {
			reserved = max(reserved, h.epsilon)
		}
	}
	onVote := top(p.levels[vote])
	if r.question == vote {
		onVote = reaches
	}
	held := rest(reserved, onVote)

	under := p.under(t, r.question)
	ceiling, spent := inTenths(under.Ceiling(minute(m.clock), 0)), p.spentOn(r.question)
	free, capFree := rest(ceiling, spent), rest(p.cap, p.spent())
	left := free
	if r.question == vote {
		left = rest(free, held)
	}
	refusal := api.Refusal{Asked: tenths(r.epsilon), Cost: tenths(cost), Remedy: api.RemedyNothing}
	switch {
	case left < cost:
		refusal.Reason, refusal.Ceiling = api.ChainCeiling, tenths(ceiling)
		refusal.Spent, refusal.Remaining = tenths(spent), tenths(left)
		possible := free >= cost || rest(inTenths(under.Limit()), spent) >= cost
		if possible && capFree >= cost {
			refusal.Remedy = api.RemedyWaiting
		}
	case rest(capFree, held) < cost:
		refusal.Reason, refusal.Ceiling = api.ObjectCap, tenths(p.cap)
		refusal.Spent, refusal.Remaining = tenths(p.spent()), tenths(rest(capFree, held))
		if capFree >= cost {
			refusal.Remedy = api.RemedyWaiting
		}
	default:
		return nil
	}
	return &refusal
}

// orLess adds to a refusal the highest level below a request's that would not be refused.
func orLess(refusal *api.Refusal, r request, refused func(r request) *api.Refusal) *api.Refusal {
	if refusal == nil || refusal.Remedy == api.RemedyEnrolling {
		return refusal
	}
	for r.epsilon--; r.epsilon > 0; r.epsilon-- {
		if refused(r) != nil {
			continue
		}
		if refusal.Largest = tenths(r.epsilon); refusal.Remedy == api.RemedyNothing {
			refusal.Remedy = api.RemedyLess
		}
		break
	}
	return refusal
}

// undrawable is the refusal of a response, unless it is recorded, or lies below the current one.
func (p *person) undrawable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.undrawn(t, m, r) }
	return orLess(try(r), r, try)
}

// undrawn is the refusal without what would do instead.
func (p *person) undrawn(t *terms, m moment, r request) *api.Refusal {
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	current := top(p.levels[r.question])
	if r.epsilon <= current {
		return nil
	}
	return p.overdrawn(t, m, r, r.epsilon-current, r.epsilon)
}

// unsaleable is the refusal of an order. What would do instead is on offer: what the buyer holds may not be any more.
func (p *person) unsaleable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.unsold(t, m, r) }
	refusal, offered := try(r), inTenths(p.under(t, vote).Limit())
	r.epsilon = min(r.epsilon, offered+1)
	return orLess(refusal, r, try)
}

// unsold is the refusal without what would do instead.
func (p *person) unsold(t *terms, m moment, r request) *api.Refusal {
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	at, found := find(p.levels[vote], r.epsilon)
	var owners uint8
	if found {
		owners = p.levels[vote][at].buyers
	}
	if owners>>r.buyer&1 == 1 {
		return p.undrawn(t, m, r)
	}
	if offered := inTenths(p.under(t, vote).Limit()); r.epsilon > offered {
		return &api.Refusal{
			Reason: api.NotOnOffer, Asked: tenths(r.epsilon), Remedy: api.RemedyNothing,
			Ceiling: tenths(offered), Spent: tenths(p.spentOn(vote)), Remaining: tenths(rest(offered, p.spentOn(vote))),
		}
	}
	waiting := owners
	for _, h := range p.held {
		if h.holds(m) && h.epsilon == r.epsilon && h.buyer != r.buyer {
			waiting |= 1 << h.buyer
		}
	}
	if count(waiting) < holders {
		return p.undrawn(t, m, r)
	}
	refusal := &api.Refusal{Reason: api.HoldersFull, Asked: tenths(r.epsilon), Remedy: api.RemedyNothing}
	if count(owners) < holders {
		refusal.Remedy = api.RemedyWaiting
	}
	return refusal
}

func count(buyers uint8) (n int) {
	for ; buyers != 0; buyers &= buyers - 1 {
		n++
	}
	return n
}

// unanswerable is the refusal of an answer about a panel that the object belongs to.
func (p *person) unanswerable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.unanswered(t, m, r) }
	return orLess(try(r), r, try)
}

// unanswered is the refusal without what would do instead.
func (p *person) unanswered(t *terms, m moment, r request) *api.Refusal {
	current := top(p.answers)
	if r.epsilon <= current {
		return nil
	}
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	return p.overdrawn(t, m, r, r.epsilon-current, top(p.levels[vote]))
}

// gone is the refusal of a reservation that cannot be carried out any more.
func (p *person) gone(t *terms, number uint64, r request) *api.Refusal {
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	at := slices.IndexFunc(p.held, func(h holding) bool { return h.number == number })
	if at >= 0 && p.held[at].out {
		return &api.Refusal{Reason: api.Withdrawn, Asked: tenths(r.epsilon), Remedy: api.RemedyNothing}
	}
	return p.takenBack(t, r)
}

// takenBack is the refusal of a reservation whose budget is not there any more, because terms have changed.
func (p *person) takenBack(t *terms, r request) *api.Refusal {
	cost := rest(r.epsilon, top(p.levels[vote]))
	short := func(reason api.Reason, ceiling, spent int) *api.Refusal {
		if rest(ceiling, spent) >= cost {
			return nil
		}
		return &api.Refusal{
			Reason: reason, Ceiling: tenths(ceiling), Spent: tenths(spent), Asked: tenths(r.epsilon), Cost: tenths(cost),
			Remaining: tenths(rest(ceiling, spent)), Remedy: api.RemedyNothing,
		}
	}
	if refusal := short(api.ChainCeiling, inTenths(p.under(t, vote).Limit()), p.spentOn(vote)); refusal != nil {
		return refusal
	}
	return short(api.ObjectCap, p.cap, p.spent())
}

// unwilling is the refusal of other terms.
func (p *person) unwilling(r request) *api.Refusal {
	if !p.was[vote] {
		return &api.Refusal{Reason: api.NotEnrolled, Remedy: api.RemedyEnrolling}
	}
	if r.agreed || r.cap <= p.cap && (r.dear || !p.dear) {
		return nil
	}
	refusal := &api.Refusal{Reason: api.NeedsConsent, Remedy: api.RemedyConsent}
	if r.cap > p.cap {
		refusal.Ceiling, refusal.Asked = tenths(p.cap), tenths(r.cap)
	}
	return refusal
}

// otherwise is the refusal to enrol somebody on other terms than it is under.
func (p *person) otherwise(question int) *api.Refusal {
	switch {
	case p.cap != most && (p.was[vote] || p.was[diary]):
		return &api.Refusal{Reason: api.CapDiffers, Ceiling: tenths(p.cap), Spent: tenths(p.spent()), Asked: tenths(most), Remedy: api.RemedyTerms}
	case question == vote && p.dear:
		return &api.Refusal{Reason: api.PolicyDiffers, Spent: tenths(top(p.levels[vote])), Remedy: api.RemedyTerms}
	}
	return nil
}

// show adds a response to levels, or compares it with the one that is there. Of either, value and event may be unknown. A
// new one is of an event behind last, and one that was there is not.
func show(levels []level, shown level, last uint64) ([]level, bool) {
	at, found := find(levels, shown.epsilon)
	if !found {
		return slices.Insert(slices.Clone(levels), at, shown), shown.event == 0 || shown.event > last
	}
	was := levels[at]
	if shown.value == "" {
		return levels, true
	}
	if shown.event > last || was.value != "" && (was.value != shown.value || was.event != shown.event) {
		return levels, false
	}
	if was.value == "" {
		levels = slices.Clone(levels)
		levels[at].value, levels[at].event = shown.value, shown.event
	}
	return levels, true
}

// method is how a response at an ε comes about.
func method(levels []level, epsilon int) string {
	at, found := find(levels, epsilon)
	switch {
	case found:
		return "resale"
	case at == len(levels):
		return "raise"
	case at == 0:
		return "degrade"
	}
	return "insert"
}
