package ledgerhttp

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Requests are bounded by what they read, not only by their number: 80 bytes may ask about all
// objects there are.
//
// A request that reads few records is never held up. One that only reads is found to be large when
// it has read more: it is stopped, and begins again when it may. One that changes the ledger is
// weighed before, by the objects that it names. A large request takes the records that it is likely
// to read from the purse of its principal, and waits for a turn: few compute at a time, one
// principal has at most half of the turns, and the principals that wait are served one after the
// other. When it has ended, the purse is settled by what it has read.

const (
	// fewRecords is how many records a request may read and be small.
	fewRecords = 4096
	// recordsEach is how many records are read, about, of each object of a panel.
	recordsEach = 3
	// mostWaiting is how many requests of one principal may wait for a turn, beside as many as may
	// have one at a time.
	mostWaiting = 32
)

// effort is what a call reads.
type effort struct {
	meter state.Meter
	paid  int64  // the records that were taken from the purse of its principal
	owes  bool   // what it reads is to be taken from there
	turn  func() // gives its turn back; nil if it has none
}

// reads reports whether a route changes nothing, so that it can begin again.
func (r *route) reads() bool {
	return !r.keyed && !r.long && !slices.Contains([]string{"reconcile", "takeOver"}, r.id)
}

// compute serves a call when it may, and gives its turn back.
func (c *call) compute() (any, error) {
	c.request = c.request.WithContext(state.WithMeter(c.ctx(), &c.effort.meter))
	defer c.leaveTurn()
	switch {
	case c.route.copies:
		return c.route.serve(c) // these have places of their own
	case c.route.long:
		if err := c.pay(1); err != nil { // its end shows how much it was
			return nil, err
		}
		return c.route.serve(c)
	case c.route.reads():
		records := c.weight()
		if records > fewRecords || records == 0 && c.route.grows {
			// Without debts: else each request that is stopped would be read for nothing.
			if err := c.pay(0); err != nil {
				return nil, err
			}
		}
		c.effort.meter.Allow(fewRecords)
		result, err := c.route.serve(c)
		c.effort.meter.Allow(0)
		if !c.effort.meter.Exceeded() {
			c.effort.owes = false // it was small
			return result, err
		}
		c.effort.owes = true
		return c.computeLarge(max(records, fewRecords))
	}
	if records := c.weight(); records > fewRecords {
		return c.computeLarge(records)
	}
	return c.route.serve(c)
}

// computeLarge serves a call that reads so many records, about, when it may and its turn has come.
func (c *call) computeLarge(records int64) (result any, err error) {
	if err := c.pay(records); err != nil {
		return nil, err
	}
	if c.effort.turn, err = c.handler.gates.turns.enter(c.ctx(), c.holder.principal()); err != nil {
		return nil, err
	}
	return c.route.serve(c)
}

// pay takes records from the purse of its principal, or returns when there will be enough.
func (c *call) pay(records int64) error {
	wait := time.Duration(0)
	if c.holder.Role != roleOperator {
		wait = c.handler.gates.records.take(c.holder.principal(), float64(records))
	}
	if wait == 0 {
		c.effort.paid, c.effort.owes = c.effort.paid+records, true
		return nil
	}
	// What was read already is owed all the same, see settle.
	c.out.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64))
	const what = "this request reads about %d records; those of one principal may read %v each second"
	return problem.New(problem.TooMany, what, records, c.handler.limits.Records)
}

// settle takes from the purse of its principal what the call has read beyond what was taken before,
// or puts back what it has not.
func (c *call) settle() {
	if c.effort.owes && c.holder.Role != roleOperator {
		c.handler.gates.records.settle(c.holder.principal(), float64(c.effort.meter.Records()-c.effort.paid))
	}
	c.effort.owes = false
}

// leaveTurn gives the turn of the call back, if it has one.
func (c *call) leaveTurn() {
	if leave := c.effort.turn; leave != nil {
		c.effort.turn = nil
		leave()
	}
}

// weight returns how many records a request reads, about, by what it says.
func (c *call) weight() int64 {
	if _, captures := c.body.(*httpapi.Capture); captures {
		return recordsEach * c.reserved()
	}
	named, others := httpapi.Panel(c.body)
	objects := int64(named)
	if others {
		if stats, err := c.ledger().Stats(c.ctx()); err == nil { // else the call says what is wrong
			objects += int64(min(stats.Chains, math.MaxInt32))
		}
	}
	return recordsEach * objects
}

// reserved returns how many objects the reservation in the path has, and 0 if there is none.
func (c *call) reserved() int64 {
	number, err := c.place("reservation")
	if err != nil {
		return 0
	}
	r, err := c.ledger().Reservation(c.ctx(), number)
	if err != nil {
		return 0
	}
	return int64(min(r.Objects, math.MaxInt32)) + int64(len(r.Refused))
}

// purses bound how often each principal does something, or how much of it.
type purses struct {
	each float64 // what comes in each second
	most float64 // that a purse holds
	now  func() time.Time
	mu   sync.Mutex
	of   map[principal]*purse
}

// purse has what may be taken. Below 0 it is in debt, by no more than it holds at most.
type purse struct {
	has float64
	at  time.Time // when it had so much
}

func newPurses(each, most float64, now func() time.Time) *purses {
	return &purses{each: each, most: most, now: now, of: map[principal]*purse{}}
}

// take takes n out of the purse of a principal, and returns 0. If there is too little it takes
// nothing, and returns how long it is until there will be enough or, if n is more than a purse
// holds, until it is full.
func (p *purses) take(by principal, n float64) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.filled(by)
	if lacks := min(n, p.most) - one.has; lacks > 0 {
		return time.Duration(min(math.Ceil(lacks/p.each*float64(time.Second)), float64(math.MaxInt64/2)))
	}
	p.spend(one, n)
	return 0
}

// settle takes more out of the purse of a principal, or puts some back if more is below 0.
func (p *purses) settle(by principal, more float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spend(p.filled(by), more)
}

func (p *purses) spend(one *purse, n float64) { one.has = min(max(one.has-n, -p.most), p.most) }

// filled returns the purse of a principal, with what has come in since it was last used.
func (p *purses) filled(by principal) *purse {
	now := p.now()
	one := p.of[by]
	if one == nil {
		if len(p.of) >= mostPrincipals {
			clear(p.of)
		}
		one = &purse{has: p.most, at: now}
		p.of[by] = one
	}
	one.has = min(one.has+max(0, now.Sub(one.at).Seconds())*p.each, p.most)
	one.at = now
	return one
}

// turns are those of large requests. The principals that wait are served one after the other, so
// that one with many requests holds up the others for no longer than one of them takes.
type turns struct {
	all chan struct{} // has an element for each turn that is taken
	mu  sync.Mutex
	of  map[principal]*line // of those that have a turn, or wait for one
}

// line are the requests of one principal. Those that wait take three places in turn: one of those
// that the principal may have, the first in its line, and one of all.
type line struct {
	requests int           // that have a turn, or wait for one
	own      chan struct{} // has an element for each turn that the principal has, or is about to get
	first    chan struct{} // has an element while a request of the principal waits for a turn of all
}

func newTurns(most int) *turns {
	return &turns{all: make(chan struct{}, most), of: map[principal]*line{}}
}

// each is how many turns one principal may have at a time.
func (t *turns) each(by principal) int {
	if by.role == roleOperator {
		return cap(t.all)
	}
	return (cap(t.all) + 1) / 2
}

// enter waits for a turn, and returns what gives it back. It returns the error of ctx if that ends
// before.
func (t *turns) enter(ctx context.Context, by principal) (leave func(), err error) {
	one, err := t.join(by)
	if err != nil {
		return nil, err
	}
	var taken []chan struct{}
	leave = func() {
		for _, places := range taken {
			<-places
		}
		t.part(by)
	}
	for _, places := range []chan struct{}{one.own, one.first, t.all} {
		select {
		case places <- struct{}{}:
			taken = append(taken, places)
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	<-one.first
	taken = []chan struct{}{one.own, t.all}
	return leave, nil
}

// join counts a request of a principal.
func (t *turns) join(by principal) (*line, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[by]
	if one == nil {
		one = &line{own: make(chan struct{}, t.each(by)), first: make(chan struct{}, 1)}
		t.of[by] = one
	}
	if one.requests >= t.each(by)+mostWaiting {
		return nil, problem.New(problem.TooMany, "%d large requests wait for their turn already", mostWaiting)
	}
	one.requests++
	return one, nil
}

// part forgets a request, and a principal that has no other.
func (t *turns) part(by principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[by]
	if one.requests--; one.requests == 0 {
		delete(t.of, by)
	}
}
