package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// The model of the ledger: what the documentation says, with plain integers and maps.

type model struct {
	clock     time.Time // the host's clock
	confirmed time.Time // the time up to which the clock is confirmed
	opened    opening   // how the ledger was opened
	truthKey  bool      // the ledger has one
	keyed     bool      // it was opened with the key: chains are bound to their first true value
	noiseKeys []string  // keys that the ledger has recorded
	log       []entry
	births    []int // for each event, a unique serial number
	serial    *int  // the last serial number of this model and all its copies
	questions []api.Question
	policies  map[string]bool // policies in the log, by their text
	people    map[string]*person
	about     map[string][]int // the positions in the log of events about an object
	buyers    []*api.BuyerState
	deals     []*modelDeal // sales and reservations; number n is at index n−1
	answers   map[string][]*modelAnswer
	mayName   bool     // a request named several objects, one of which needed nothing, since an object was forgotten
	asked     []string // objects whose true values were requested
	turned    []string // objects whose true value has changed, by the host
}

// entry is the part of an event that does not follow from other state.
type entry struct {
	kind, object string
	time         time.Time
	erased       bool
}

type person struct {
	cap, spent, earned int64
	forgotten          int // the number of the event that forgets it
	left               int // the event by which it last withdrew, or was forgotten
	chains             map[string]*modelChain
}

type modelChain struct {
	rule      rule
	noise     string // the name of the noise key; "" for random draws
	withdrawn bool
	answered  int64
	bound     string // the true value it began with, if the ledger has a truth key
	levels    map[int64]*modelLevel
	began     int           // the event that began the epoch; 0 for the first
	earlier   []*modelChain // epochs
}

type modelLevel struct {
	response string // "" until it was read
	truth    string // the true value from which it was drawn
	event    int
	holders  []string
	paid     []int64 // by each buyer, for this level
}

// usualLeap is the default limit of the clock ahead of the log.
const usualLeap = 366 * 24 * time.Hour

func newModel() *model {
	m := &model{clock: ledgertest.Begin(), serial: new(int), policies: map[string]bool{}, people: map[string]*person{}, about: map[string][]int{}, answers: map[string][]*modelAnswer{}}
	m.write("created", "")
	return m
}

// now returns the host's clock, or the log's time if that is later.
func (m *model) now() time.Time {
	if n := len(m.log); n > 0 && m.clock.Before(m.log[n-1].time) {
		return m.log[n-1].time
	}
	return m.clock
}

// far returns whether the clock is further ahead of the log than confirmed.
func (m *model) far() bool {
	return m.clock.Sub(m.log[len(m.log)-1].time) > usualLeap && m.clock.After(m.confirmed)
}

// closed returns why nothing can be written, or nil.
func (m *model) closed() error {
	switch {
	case m.opened.ReadOnly:
		return api.ErrReadOnly
	case m.far():
		return api.ErrClock
	}
	return nil
}

// write adds an event to the log and returns its number.
func (m *model) write(kind, object string) int {
	if object != "" && kind != "forgotten" {
		m.about[object] = append(m.about[object], len(m.log))
	}
	m.log = append(m.log, entry{kind, object, m.now(), false})
	*m.serial++
	m.births = append(m.births, *m.serial)
	return len(m.log)
}

// next returns the number of the next event.
func (m *model) next() uint64 { return uint64(len(m.log)) + 1 }

// settleList is settle for a request with a list of objects. If one of several needed nothing, what
// the request records about them is erased when any object is forgotten.
func (m *model) settleList(named []string, left ...api.Refusal) uint64 {
	for _, r := range left {
		m.write("refused", r.Object)
	}
	own := len(m.log)
	for own > 0 && m.log[own-1].kind != "settled" {
		own--
	}
	needed := func(name string) bool {
		return slices.ContainsFunc(m.log[own:], func(ev entry) bool { return ev.object == name })
	}
	if alone(named) == "" {
		m.mayName = m.mayName || slices.ContainsFunc(named, func(name string) bool { return !needed(name) })
	}
	return m.settle(named)
}

// settle ends a request for named objects, with refusals, and returns the number of its last event.
func (m *model) settle(named []string, left ...api.Refusal) uint64 {
	for _, r := range left {
		m.write("refused", r.Object)
	}
	return uint64(m.write("settled", alone(named)))
}

// alone returns the only object of a request that names no other, or "".
func alone(named []string) string {
	if len(named) == 0 || slices.ContainsFunc(named, func(name string) bool { return name != named[0] }) {
		return ""
	}
	return named[0]
}

func (m *model) question(name string) (q api.Question, err error) {
	i := slices.IndexFunc(m.questions, func(q api.Question) bool { return q.Name == name })
	if i < 0 {
		return q, api.ErrUnknown
	}
	return m.questions[i], nil
}

func (m *model) chain(question, name string) *modelChain {
	if p := m.people[name]; p != nil {
		return p.chains[question]
	}
	return nil
}

// members returns the objects of a request: those named, or all in a question.
func (m *model) members(question string, named []string) []string {
	if named != nil {
		return slices.Sorted(slices.Values(named))
	}
	var all []string
	for name := range m.people {
		if c := m.chain(question, name); c != nil && !c.withdrawn {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (c *modelChain) current() int64 {
	return slices.Max(append(slices.Collect(maps.Keys(c.levels)), 0))
}

func (c *modelChain) lowest() int64 { return slices.Min(slices.Collect(maps.Keys(c.levels))) }

func (c *modelChain) spent() int64 { return c.current() + c.answered }

// total returns what all epochs have cost.
func (c *modelChain) total() (sum int64) {
	for _, one := range c.epochs() {
		sum += one.spent()
	}
	return sum
}

// epochs returns the chain in each earlier epoch, and the current one.
func (c *modelChain) epochs() []*modelChain { return append(slices.Clone(c.earlier), c) }

// during returns the chain of the epoch that an event belongs to.
func (c *modelChain) during(event uint64) (then *modelChain) {
	for _, one := range c.epochs() {
		if uint64(one.began) <= event {
			then = one
		}
	}
	return then
}

// take adds a level. It costs what it raises the highest level by. A level below others is derived
// from the next one above it, and so from that one's true value.
func (p *person) take(c *modelChain, e int64, event int, truth string) {
	for _, above := range slices.Backward(SortedKeys(c.levels)) {
		if above > e {
			truth = c.levels[above].truth
		}
	}
	p.spent += max(0, e-c.current())
	c.levels[e] = &modelLevel{event: event, truth: truth}
}

// excluded returns the refusal of an object that can take part in no request, or nil.
func (m *model) excluded(question, name string, e int64) *api.Refusal {
	r := &api.Refusal{Object: name, Asked: epsilonOf(e), Reason: api.NotEnrolled, Remedy: "enrolling"}
	c := m.chain(question, name)
	if c != nil && !c.withdrawn {
		return nil
	}
	if c != nil {
		r.Reason = api.Withdrawn
	}
	return r
}

// wish is what a request wants of one object.
type wish struct {
	question, object string
	e                int64
	orders           int64 // the number of different buyers that count as served
	buyer            string
	reserved         bool // it has priority
	reserves         bool // it is for a reservation
}

// assess returns how an object would answer, or the refusal.
func (m *model) assess(w wish) (verdict, *api.Refusal) {
	if r := m.excluded(w.question, w.object, w.e); r != nil {
		return refused, r
	}
	p, c := m.people[w.object], m.chain(w.question, w.object)
	if r := m.full(c, w); r != nil {
		return refused, r
	}
	if c.levels[w.e] != nil {
		return reused, nil
	}
	if m.lacks(c) {
		return refused, noNoiseKey(w.object, w.e)
	}
	if w.e < c.current() {
		return derived, nil
	}
	if m.lacksTruthKey() {
		return refused, noTruthKey(w.object, w.e)
	}
	if r := m.budget(p, c, w, w.e-c.current(), w.e); r != nil {
		return refused, r
	}
	return drawn, nil
}

func noNoiseKey(object string, e int64) *api.Refusal {
	return &api.Refusal{Object: object, Reason: api.NoNoiseKey, Asked: epsilonOf(e), Remedy: "key"}
}

// lacksTruthKey returns whether nothing can be drawn from true values because the key is missing. A
// read-only ledger draws nothing.
func (m *model) lacksTruthKey() bool { return m.truthKey && !m.keyed && !m.opened.ReadOnly }

func noTruthKey(object string, e int64) *api.Refusal {
	return &api.Refusal{Object: object, Reason: api.NoTruthKey, Asked: epsilonOf(e), Remedy: "key"}
}

// verdict is how an object answers.
type verdict int

const (
	drawn   verdict = iota // above the current level, from the true value
	reused                 // already recorded
	derived                // below the current level, without the true value
	refused                // the object cannot take part
)

// budget returns the refusal if an object cannot pay a cost that raises its chain to a level. What
// reservations hold of the chain counts under the chain's ceiling, and what they hold of all chains
// under the cap. Ceilings are those at the clock's time, even if it has gone back; reservations do
// not follow it.
func (m *model) budget(p *person, c *modelChain, w wish, cost, top int64) *api.Refusal {
	held, at := m.held(p, w, top), m.clock
	if w.reserved {
		held, at = modelHold{}, m.now()
	}
	ceiling := c.rule.ceiling(at, w.orders)
	left := ceiling - held.plain - c.spent()
	if held.shares > 0 {
		left = min(left, c.rule.ceiling(at, w.orders+1)-held.shares-c.spent())
	}
	capLeft := p.cap - p.spent - held.all
	r := &api.Refusal{Object: w.object, Asked: epsilonOf(w.e), Cost: epsilonOf(cost), Remedy: "nothing"}
	switch {
	case cost > left:
		r.Reason, r.Ceiling, r.Spent, r.Remaining = api.ChainCeiling, epsilonOf(ceiling), epsilonOf(c.spent()), epsilonOf(max(0, left))
		if cost <= max(ceiling, c.rule.limit())-c.spent() && cost <= p.cap-p.spent {
			r.Remedy = "waiting"
		}
	case cost > capLeft:
		r.Reason, r.Ceiling, r.Spent, r.Remaining = api.ObjectCap, epsilonOf(p.cap), epsilonOf(p.spent), epsilonOf(max(0, capLeft))
		if cost <= p.cap-p.spent {
			r.Remedy = "waiting"
		}
	default:
		return nil
	}
	return r
}

// modelHold is what reservations hold.
type modelHold struct {
	// Of the chain beyond a level: by buyers who hold a level of it, or are ordering, and by
	// others, each of whom unlocks a share. A second of these may be cancelled, so nothing may
	// depend on it.
	plain, shares int64
	all           int64 // of all chains of the object
}

// held returns what reservations hold of an object, if the chain is raised to a level.
func (m *model) held(p *person, w wish, top int64) (out modelHold) {
	reach := map[string]int64{}
	for _, d := range m.deals {
		if !m.holdsFor(d, w.object) {
			continue
		}
		reach[d.Question] = max(reach[d.Question], d.epsilon())
		switch {
		case d.Question != w.question:
		case d.Buyer == w.buyer || p.chains[d.Question].heldBy(d.Buyer) > 0:
			out.plain = max(out.plain, d.epsilon()-top)
		default:
			out.shares = max(out.shares, d.epsilon()-top)
		}
	}
	for q, e := range reach {
		if q == w.question {
			out.all += max(0, e-top)
		} else {
			out.all += max(0, e-p.chains[q].current())
		}
	}
	return out
}

func (m *model) holdsFor(d *modelDeal, name string) bool {
	_, in := d.promised[name]
	return in && d.holds(m.now())
}

// host is how the host answers requests for true values.
type host struct {
	IsLying  bool // all true values have changed
	IsBroken bool // the source fails
}

var errHost = errors.New("the host fails")

// truth returns the host's true value. It has none for one of the objects.
func (h host) truth(q api.Question, name string) string {
	if name == "mute" {
		return ""
	}
	n := len(q.Name) + len(name)
	if h.IsLying {
		n++
	}
	return q.Values[n%2]
}

// ask requests true values, and returns refusals of objects without one, or with another one than
// before.
func (m *model) ask(h host, q api.Question, e int64, names []string, orLess func(*api.Refusal) *api.Refusal) (untold []api.Refusal, err error) {
	m.asked = append(m.asked, names...)
	if h.IsBroken && len(names) > 0 {
		return nil, errHost
	}
	for _, name := range names {
		changed := m.changed(h, q, name)
		if h.truth(q, name) == "" || changed {
			untold = append(untold, *orLess(&api.Refusal{Object: name, Reason: api.NoTruth, Asked: epsilonOf(e), Remedy: "truth"}))
		}
		if changed {
			m.turned = append(m.turned, name)
		}
	}
	return untold, nil
}

// changed returns whether the host's true value is another than the one that a chain began with.
func (m *model) changed(h host, q api.Question, name string) bool {
	c, truth := m.chain(q.Name, name), h.truth(q, name)
	return c.bound != "" && truth != "" && c.bound != truth
}

// bind binds chains to the true value with which they begin.
func (m *model) bind(h host, q api.Question, names ...string) {
	for _, name := range names {
		if c := m.chain(q.Name, name); m.keyed && c.bound == "" {
			c.bound = h.truth(q, name)
			m.write("bound", name)
		}
	}
}

func refusedError(question string, refused []api.Refusal) error {
	listed, unlisted := firstListed(byObject(refused))
	return &api.RefusedError{Question: question, Refused: listed, Unlisted: unlisted, Sums: sumsOf(refused)}
}

// firstListed returns the refusals that an error or a quote lists, and how many more there are.
func firstListed(refused []api.Refusal) (listed []api.Refusal, unlisted int) {
	n := min(100, len(refused))
	return refused[:n], len(refused) - n
}

// sumsOf counts refusals by reason, with the smallest alternative of the objects. The most frequent
// reason is first; of equally frequent ones, the first by name.
func sumsOf(refused []api.Refusal) (sums []api.RefusalSum) {
	byReason := map[string][]int64{}
	for _, r := range refused {
		byReason[string(r.Reason)] = append(byReason[string(r.Reason)], r.Largest.Nano())
	}
	for _, reason := range SortedKeys(byReason) {
		all := byReason[reason]
		sums = append(sums, api.RefusalSum{Reason: api.Reason(reason), Count: uint64(len(all)), Largest: epsilonOf(slices.Min(all))})
	}
	slices.SortStableFunc(sums, func(a, b api.RefusalSum) int { return int(b.Count) - int(a.Count) })
	return sums
}

func byObject(refused []api.Refusal) []api.Refusal {
	return slices.SortedFunc(slices.Values(refused), func(a, b api.Refusal) int { return strings.Compare(a.Object, b.Object) })
}

func isAmong(refused []api.Refusal) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(refused, func(r api.Refusal) bool { return r.Object == name })
	}
}

func without(names []string, refused []api.Refusal) []string {
	return slices.DeleteFunc(slices.Clone(names), isAmong(refused))
}

// The requests of the host.

func (m *model) define(q api.Question) error {
	old, err := m.question(q.Name)
	switch {
	case err != nil:
		m.questions = append(m.questions, api.Question{Name: q.Name, Values: q.Values, Encoding: modelEncoding(q), Mechanism: q.Mechanism})
		m.write("question", "")
	case !slices.Equal(old.Values, q.Values), q.Encoding != "" && q.Encoding != old.Encoding, asJSON(old.Mechanism) != asJSON(q.Mechanism):
		return api.ErrInvalid
	}
	m.settle(nil)
	return nil
}

// modelEncoding returns the encoding of a question: the given one, or finite for a mechanism, or
// unary from 21 values on.
func modelEncoding(q api.Question) string {
	switch {
	case q.Encoding != "":
		return q.Encoding
	case q.Mechanism != nil:
		return "finite"
	case len(q.Values) > 20:
		return "unary"
	}
	return "direct"
}

// modelLevels returns the ε of a question's responses, rising; nil if all are possible.
func modelLevels(q api.Question) (all []int64) {
	if q.Mechanism != nil {
		for _, epsilon := range q.Mechanism.Family.Epsilons() {
			all = append(all, epsilon.Nano())
		}
	}
	return all
}

// hasLevel returns whether a question has responses at an ε.
func hasLevel(q api.Question, e int64) bool {
	levels := modelLevels(q)
	return levels == nil || slices.Contains(levels, e)
}

// levelsReleased returns the levels for released ceilings: each the highest at or below one, once.
func levelsReleased(q api.Question, due []modelStep) (out []modelStep) {
	levels := modelLevels(q)
	if levels == nil {
		return due
	}
	top := int64(0)
	for _, s := range due {
		reached := int64(0)
		for _, e := range levels {
			if e <= s.e {
				reached = e
			}
		}
		if reached > top {
			top = reached
			out = append(out, modelStep{e: reached, at: s.at})
		}
	}
	return out
}

func (m *model) withdraw(name string) error {
	p := m.people[name]
	if p == nil {
		return api.ErrUnknown
	}
	if p.takesPart() {
		m.leave(name)
	}
	m.settle([]string{name})
	return nil
}

// leave withdraws an object from everything.
func (m *model) leave(name string) {
	p := m.people[name]
	for _, c := range p.chains {
		c.withdrawn = true
	}
	p.left = m.write("withdrawn", name)
	for _, d := range m.deals {
		delete(d.promised, name) // even if it is enrolled again
	}
}

// beginEpoch ends the epoch of a chain, unless nothing has happened in it.
func (m *model) beginEpoch(question, name string) error {
	if _, err := m.question(question); err != nil {
		return err
	}
	if refusal := m.excluded(question, name, 0); refusal != nil {
		return refusedError(question, []api.Refusal{*refusal})
	}
	c := m.chain(question, name)
	if len(c.levels) > 0 || c.answered > 0 || c.bound != "" {
		if q, _ := m.question(question); len(c.entries(q)) >= 1024 {
			return refusedError(question, []api.Refusal{{Object: name, Reason: api.Full, Remedy: "nothing"}})
		}
		began := m.write("epoch", name)
		m.people[name].chains[question] = &modelChain{rule: c.rule, levels: map[int64]*modelLevel{}, began: began, earlier: c.epochs()}
		for _, d := range m.deals {
			if d.Question == question {
				delete(d.promised, name)
			}
		}
	}
	m.settle([]string{name})
	return nil
}

// forget erases what was recorded about an object, and its responses. What it spent and earned
// stays, as if it had all been for answers.
func (m *model) forget(name string) error {
	p, said := m.people[name], m.about[name]
	if p == nil && said == nil {
		return api.ErrUnknown
	}
	if len(said) > 0 || p != nil && m.mayName {
		event := m.write("forgotten", name)
		m.mayName = false
		m.erase(said)
		delete(m.about, name)
		if p != nil {
			p.forget(event)
		}
	}
	// The panel of a recorded answer could confirm a guess of the name.
	maps.DeleteFunc(m.answers, func(_ string, known []*modelAnswer) bool {
		return slices.ContainsFunc(known, func(a *modelAnswer) bool { return slices.Contains(a.panel, name) })
	})
	for _, d := range m.deals {
		d.forget(name)
	}
	m.settle(nil)
	return nil
}

// erase keeps of events only what does not identify an object.
func (m *model) erase(places []int) {
	for _, i := range places {
		m.log[i].object, m.log[i].erased = "", true
	}
}

func (p *person) forget(event int) {
	p.forgotten, p.left = event, event
	for q, c := range p.chains {
		p.chains[q] = &modelChain{rule: c.rule, withdrawn: true, answered: c.total(), levels: map[int64]*modelLevel{}, began: event}
	}
}

// withoutRefusals returns refusals without those of an object.
func withoutRefusals(refused []api.Refusal, name string) []api.Refusal {
	return slices.DeleteFunc(slices.Clone(refused), func(r api.Refusal) bool { return r.Object == name })
}

func (m *model) raise(r api.RaiseRequest, h host) (out api.RaiseResult, err error) {
	q, err := m.question(r.Question)
	if err != nil {
		return out, err
	}
	if !hasLevel(q, r.Epsilon.Nano()) {
		return out, api.ErrInvalid
	}
	e, names := r.Epsilon.Nano(), m.members(r.Question, r.Objects)
	verdicts := map[string]verdict{}
	var refusals []api.Refusal
	var needy []string
	for _, name := range names {
		w := wish{question: q.Name, object: name, e: e, orders: m.orders(q.Name, name)}
		v, refusal := m.assess(w)
		if verdicts[name] = v; v == refused {
			if m.excluded(q.Name, name, e) == nil {
				m.orLess(refusal, m.people[name], q, w, true)
			}
			refusals = append(refusals, *refusal)
		} else if v == drawn {
			needy = append(needy, name)
		}
	}
	if len(refusals) > 0 && !r.Partial {
		return out, refusedError(q.Name, refusals)
	}
	untold, err := m.ask(h, q, e, needy, func(r *api.Refusal) *api.Refusal {
		return m.orLess(r, m.people[r.Object], q, wish{question: q.Name, object: r.Object, e: e}, false)
	})
	if err != nil {
		return out, err
	}
	if refusals = append(refusals, untold...); len(refusals) > 0 && !r.Partial {
		return out, refusedError(q.Name, refusals)
	}
	out = api.RaiseResult{Refused: byObject(refusals), First: m.next()}
	for _, name := range without(names, refusals) {
		switch verdicts[name] {
		case reused:
			out.Reused++
			continue
		case derived:
			out.Derived++
		case drawn:
			out.Drawn++
			m.bind(h, q, name)
		}
		m.people[name].take(m.chain(q.Name, name), e, m.write("released", name), h.truth(q, name))
	}
	out.Last = m.settleList(r.Objects, out.Refused...)
	return out, nil
}

func (m *model) orders(question, name string) int64 {
	if c := m.chain(question, name); c != nil {
		return c.buyers()
	}
	return 0
}

// advance goes from object to object.
func (m *model) advance(only string, h host) (out api.AdvanceResult, err error) {
	questions := m.questions
	if only != "" {
		q, err := m.question(only)
		if err != nil {
			return out, err
		}
		questions = []api.Question{q}
	}
	plans, err := m.planAll(questions, h)
	if err != nil {
		return out, err
	}
	out.First = m.next()
	for _, name := range SortedKeys(m.people) {
		for _, s := range plans[name].steps {
			p, c := m.people[name], m.chain(s.question.Name, name)
			if s.e > c.current() {
				m.bind(h, s.question, name)
			}
			p.take(c, s.e, m.write("released", name), h.truth(s.question, name))
		}
	}
	var left []api.Refusal
	for _, q := range questions {
		if one := plans.about(q); one.Raised+one.Unchanged+len(one.Refused) > 0 {
			out.Questions = append(out.Questions, one)
			left = append(left, one.Refused...)
		}
	}
	out.Last = m.settle(nil, left...)
	return out, nil
}

// modelPlan is what a sweep has to do with one object.
type modelPlan struct {
	parts map[string]bool // the questions in which it takes part
	steps []modelStep     // by the calendar
	short map[string]*api.Refusal
	needs map[string]bool // the questions for which true values are needed
}

type modelStep struct {
	question api.Question
	e        int64
	at       time.Time // when it was due
}

type modelPlans map[string]modelPlan

// planAll makes the plans, and requests true values until none is missing. An object without a
// matching true value leaves budget for its other questions.
func (m *model) planAll(questions []api.Question, h host) (all modelPlans, err error) {
	asked := map[[2]string]bool{} // by question and object
	for {
		plans := modelPlans{}
		for name := range m.people {
			plans[name] = m.plan(name, questions, asked, h)
		}
		more := false
		for _, q := range questions {
			var needy []string
			for _, name := range SortedKeys(plans) {
				if id := [2]string{q.Name, name}; plans[name].needs[q.Name] && !asked[id] {
					needy, asked[id], more = append(needy, name), true, true
				}
			}
			if _, err := m.ask(h, q, 0, needy, func(r *api.Refusal) *api.Refusal { return r }); err != nil {
				return nil, err
			}
		}
		if !more {
			return plans, nil
		}
	}
}

// plan takes what is due for an object by the calendar, within its budgets. In a question without a
// matching true value it goes no further.
func (m *model) plan(name string, questions []api.Question, asked map[[2]string]bool, h host) modelPlan {
	out := modelPlan{parts: map[string]bool{}, short: map[string]*api.Refusal{}, needs: map[string]bool{}}
	var due []modelStep
	p := m.people[name].copy()
	for _, q := range questions {
		c := p.chains[q.Name]
		if c == nil || c.withdrawn {
			continue
		}
		out.parts[q.Name] = true
		if c.rule.terms != nil {
			continue // what is for sale is released by sales
		}
		for _, s := range levelsReleased(q, c.rule.releases(m.clock, c.buyers())) {
			due = append(due, modelStep{q, s.e, s.at})
		}
	}
	slices.SortStableFunc(due, func(a, b modelStep) int { return a.at.Compare(b.at) })
	for _, s := range due {
		q, c := s.question.Name, p.chains[s.question.Name]
		if out.short[q] != nil || c.levels[s.e] != nil {
			continue
		}
		w := wish{question: q, object: name, e: s.e, orders: c.buyers()}
		if r := m.full(c, w); r != nil {
			out.short[q] = m.orLess(r, p, s.question, w, true)
			continue
		}
		if m.lacks(c) {
			out.short[q] = m.orLess(noNoiseKey(name, s.e), p, s.question, w, true)
			continue
		}
		if cost := s.e - c.current(); cost > 0 {
			if m.lacksTruthKey() {
				out.short[q] = m.orLess(noTruthKey(name, s.e), p, s.question, w, true)
				continue
			}
			r, budget := m.budget(p, c, w, cost, s.e), true
			if r == nil && asked[[2]string{q, name}] {
				r, budget = m.unfit(h, s.question, name, s.e), false
			}
			if r != nil {
				out.short[q] = m.orLess(r, p, s.question, w, budget)
				continue
			}
			out.needs[q] = true
		}
		p.take(c, s.e, 0, "")
		out.steps = append(out.steps, s)
	}
	return out
}

// unfit refuses an object without a true value, or with another than its chain began with.
func (m *model) unfit(h host, q api.Question, name string, e int64) *api.Refusal {
	if h.truth(q, name) == "" || m.changed(h, q, name) {
		return &api.Refusal{Object: name, Reason: api.NoTruth, Asked: epsilonOf(e), Remedy: "truth"}
	}
	return nil
}

// copy returns a copy of an object for trying things.
func (p *person) copy() *person {
	other := *p
	other.chains = map[string]*modelChain{}
	for q, c := range p.chains {
		chain := *c
		chain.levels = maps.Clone(c.levels)
		other.chains[q] = &chain
	}
	return &other
}

// about returns the result of the plans in one question.
func (all modelPlans) about(q api.Question) api.Advanced {
	out := api.Advanced{Question: q.Name}
	for _, name := range SortedKeys(all) {
		plan := all[name]
		switch {
		case !plan.parts[q.Name]:
		case plan.short[q.Name] != nil:
			out.Refused = append(out.Refused, *plan.short[q.Name])
		case slices.ContainsFunc(plan.steps, func(s modelStep) bool { return s.question.Name == q.Name }):
			out.Raised++
		default:
			out.Unchanged++
		}
	}
	return out
}

// Queries about panels.

type modelAnswer struct {
	panel   []string // the requested objects, including the excluded ones
	e       int64
	answer  string // "" until it was read
	scored  bool
	objects uint64
	refused []api.Refusal
	event   uint64
	began   uint64 // the event of the fresh answer that it comes from; 0 if that is not recorded yet
}

// hasScore returns whether a query about so many objects has two answers and a boundary between
// them.
func hasScore(q api.Question, query string, objects int) bool {
	kind, rest, _ := strings.Cut(query, ":")
	switch kind {
	case "majority":
		return true
	case "threshold":
		_, threshold, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(threshold)
		return err == nil && n >= 1 && n <= objects
	}
	return len(q.Values) == 2
}

// answered returns the known answers to a query about a panel, whole or with exclusions, by rising
// ε.
func (m *model) answered(r api.AnswerRequest, names []string, leaves bool) (key string, known []*modelAnswer) {
	key = fmt.Sprintf("%q %q %v %q", r.Question, r.Query, leaves, names)
	return key, m.answers[key]
}

// recorded returns the answer at an ε, or else the nearest above it, if there is one. For a partial
// request, answers with exclusions count too.
func (m *model) recorded(r api.AnswerRequest, names []string) (key string, best *modelAnswer) {
	for _, leaves := range []bool{false, true} {
		at, known := m.answered(r, names, leaves)
		for _, a := range known {
			if (!leaves || r.Partial) && a.e >= r.Epsilon.Nano() && (best == nil || a.e < best.e) {
				key, best = at, a
			}
		}
	}
	return key, best
}

// raisable returns the highest answer about a whole panel, if a higher one can be raised from it:
// it has a score, and no object of the panel began an epoch since then.
func (m *model) raisable(r api.AnswerRequest, names []string) *modelAnswer {
	_, known := m.answered(r, names, false)
	if len(known) == 0 {
		return nil
	}
	top := known[len(known)-1]
	another := func(name string) bool { return uint64(m.chain(r.Question, name).began) > top.began }
	if !top.scored || slices.ContainsFunc(names, another) {
		return nil
	}
	return top
}

// priceOfAnswer returns what an answer from true values costs each object: if it is raised, the
// difference.
func (m *model) priceOfAnswer(r api.AnswerRequest, names []string, leaves bool) int64 {
	if base := m.raisable(r, names); base != nil && !leaves {
		return max(0, r.Epsilon.Nano()-base.e)
	}
	return r.Epsilon.Nano()
}

// panel returns the objects, who can pay and who cannot, and whether an object is excluded for any
// reason.
func (m *model) panel(r api.AnswerRequest, untold bool) (q api.Question, names []string, refusals []api.Refusal, leaves bool, err error) {
	if q, err = m.question(r.Question); err != nil {
		return q, nil, nil, false, err
	}
	if names = m.members(q.Name, r.Objects); len(names) == 0 {
		return q, nil, nil, false, api.ErrUnknown
	}
	refused := func(leaves bool) (refusals []api.Refusal) {
		cost := m.priceOfAnswer(r, names, leaves)
		for _, name := range names {
			refusal := m.excluded(q.Name, name, r.Epsilon.Nano())
			if refusal == nil && m.lacksTruthKey() {
				refusal = m.lessOfAnswer(noTruthKey(name, r.Epsilon.Nano()), r, names, leaves, false)
			}
			if refusal == nil {
				c, e := m.chain(q.Name, name), r.Epsilon.Nano()
				refusal = m.budget(m.people[name], c, wish{question: q.Name, object: name, e: e, orders: c.buyers()}, cost, c.current())
				if refusal != nil {
					m.lessOfAnswer(refusal, r, names, leaves, true)
				}
			}
			if refusal != nil {
				refusals = append(refusals, *refusal)
			}
		}
		return refusals
	}
	refusals = refused(false)
	if leaves = r.Partial && (untold || len(refusals) > 0); leaves {
		refusals = refused(true)
	}
	return q, names, refusals, leaves, nil
}

func (m *model) quoteAnswer(r api.AnswerRequest) (api.AnswerQuote, error) {
	_, names, refusals, leaves, err := m.panel(r, false)
	if err != nil {
		return api.AnswerQuote{}, err
	}
	var held privacy.Epsilon
	for _, leaves := range []bool{false, true} {
		if _, known := m.answered(r, names, leaves); len(known) > 0 && (!leaves || r.Partial) {
			if e := epsilonOf(known[len(known)-1].e); held.Less(e) {
				held = e
			}
		}
	}
	if _, best := m.recorded(r, names); best != nil {
		return api.AnswerQuote{Objects: best.objects, Held: held, Refused: best.refused, Sums: sumsOf(best.refused)}, nil
	}
	q := api.AnswerQuote{
		Objects: uint64(len(without(names, refusals))), Charge: epsilonOf(m.priceOfAnswer(r, names, leaves)), Held: held, NewDraw: r.Epsilon, Sums: sumsOf(refusals),
	}
	q.Refused, q.Unlisted = firstListed(refusals)
	if !held.IsZero() {
		q.NotRaised = m.notRaised(r, names, leaves)
	}
	q.Displaced = m.displaced(r.Question, without(names, refusals), q.Charge.Nano())
	return q, nil
}

// notRaised returns why an answer is drawn although there is one at a lower ε.
func (m *model) notRaised(r api.AnswerRequest, names []string, leaves bool) error {
	_, known := m.answered(r, names, false)
	if leaves || len(known) == 0 {
		return errors.New("an object is left out, and a partial request may leave out others next time")
	}
	if m.raisable(r, names) != nil {
		return nil
	}
	q, _ := m.question(r.Question)
	kind, _, _ := strings.Cut(r.Query, ":")
	switch top := known[len(known)-1]; {
	case !top.scored && (kind == "plurality" || kind == "winner"):
		return &mechanism.ScoreError{Outputs: len(q.Values)}
	case !top.scored:
		return &mechanism.ScoreError{Outputs: 2}
	}
	return errors.New("an object in the panel has begun a new epoch")
}

// answer returns the result and the recorded answer, whose text is set by the ledger.
func (m *model) answer(r api.AnswerRequest, h host) (out api.AnswerResult, made *modelAnswer, err error) {
	q, names, _, _, err := m.panel(r, false)
	if err != nil {
		return out, nil, err
	}
	key, made := m.recorded(r, names)
	e := r.Epsilon.Nano()
	if made == nil {
		if key, made, out.Charged, err = m.drawAnswer(r, h, q); err != nil {
			return out, nil, err
		}
	}
	if made.e != e {
		event := uint64(m.write("answered", ""))
		made = &modelAnswer{panel: made.panel, e: e, scored: made.scored, objects: made.objects, refused: made.refused, event: event, began: cmp.Or(made.began, event)}
		known := append(slices.Clone(m.answers[key]), made)
		slices.SortFunc(known, func(a, b *modelAnswer) int { return int(a.e - b.e) })
		m.answers[key] = known
	}
	m.settle(r.Objects, made.refused...)
	out.Epsilon, out.Objects, out.Refused, out.Event = r.Epsilon, made.objects, made.refused, made.event
	return out, made, nil
}

// drawAnswer charges a panel for an answer that must be drawn.
func (m *model) drawAnswer(r api.AnswerRequest, h host, q api.Question) (key string, made *modelAnswer, cost privacy.Epsilon, err error) {
	_, names, refusals, leaves, err := m.panel(r, false)
	if err != nil {
		return "", nil, cost, err
	}
	checkRefusals := func() error {
		if len(refusals) == 0 || r.Partial && len(refusals) < len(names) {
			return nil
		}
		return refusedError(q.Name, refusals)
	}
	if err := checkRefusals(); err != nil {
		return "", nil, cost, err
	}
	able := without(names, refusals)
	if err := m.loss(r, able, m.priceOfAnswer(r, names, leaves)); err != nil {
		return "", nil, cost, err
	}
	untold, err := m.ask(h, q, r.Epsilon.Nano(), able, func(one *api.Refusal) *api.Refusal { return m.lessOfAnswer(one, r, names, leaves, false) })
	if err == nil && len(untold) > 0 && !leaves && r.Partial && len(untold) < len(names) {
		_, _, refusals, leaves, err = m.panel(r, true)
		untold = slices.DeleteFunc(untold, func(one api.Refusal) bool {
			return slices.ContainsFunc(refusals, func(other api.Refusal) bool { return other.Object == one.Object })
		})
	}
	refusals = append(refusals, untold...)
	able = without(names, refusals)
	if err == nil {
		err = checkRefusals()
	}
	if err == nil {
		err = m.loss(r, able, m.priceOfAnswer(r, names, leaves))
	}
	if err != nil {
		return "", nil, cost, err
	}
	m.bind(h, q, able...)
	made = &modelAnswer{panel: names, scored: hasScore(q, r.Query, len(able)), objects: uint64(len(able)), refused: byObject(refusals)}
	if base := m.raisable(r, names); base != nil && !leaves {
		made.began = base.began
	}
	price := m.priceOfAnswer(r, names, leaves)
	for _, name := range able {
		m.people[name].spent += price
		m.chain(q.Name, name).answered += price
		m.write("charged", name)
	}
	key, _ = m.answered(r, names, leaves)
	return key, made, epsilonOf(price), nil
}
