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

// Requests are limited by the records that they read, and not only by their number, because a
// request of 80 bytes may be about all objects.
//
// A small request never waits. For a request that only reads, this is found out by running it: if
// it reads more than fewRecords, it is stopped, and starts again as a large request. For a request
// that changes the ledger, it is estimated before, from the objects that it names. A large request
// takes its estimated records from the purse of its principal, and waits for a turn. Few large
// requests compute at a time. One principal has at most half of the turns, and waiting principals
// are served in rotation. After the request, the purse is corrected by the records that were
// really read.

const (
	// fewRecords is the maximum number of records that a small request reads.
	fewRecords = 4096
	// recordsEach is the estimated number of records that are read for each object of a panel.
	recordsEach = 3
	// mostWaiting is how many requests of one principal may wait for a turn, in addition to those
	// that may have one.
	mostWaiting = 32
)

// effort is the work of a call, in records read.
type effort struct {
	meter state.Meter
	paid  int64  // records already taken from the purse of the principal
	owes  bool   // settle must take the records that were read from the purse
	turn  func() // releases the turn; nil if the call has none
}

// reads reports whether a route changes nothing, so that it can be stopped and run again.
func (r *route) reads() bool {
	return !r.keyed && !r.long && !slices.Contains([]string{"reconcile", "takeOver"}, r.id)
}

// compute runs a call within the limits on records, and releases its turn.
func (c *call) compute() (any, error) {
	c.request = c.request.WithContext(state.WithMeter(c.ctx(), &c.effort.meter))
	defer c.leaveTurn()
	switch {
	case c.route.copies:
		return c.route.serve(c) // copies have a limit of their own
	case c.route.long:
		if err := c.pay(1); err != nil { // settle takes the rest at the end, when the number is known
			return nil, err
		}
		return c.route.serve(c)
	case c.route.reads():
		records := c.weight()
		if records > fewRecords || records == 0 && c.route.grows {
			// A principal in debt is refused before the read. Otherwise each of its requests would
			// be read in part and then stopped, for nothing.
			if err := c.pay(0); err != nil {
				return nil, err
			}
		}
		c.effort.meter.Allow(fewRecords)
		result, err := c.route.serve(c)
		c.effort.meter.Allow(0)
		if !c.effort.meter.Exceeded() {
			c.effort.owes = false // the request was small, so its records do not count
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

// computeLarge runs a call of about so many records, after taking them from the purse and waiting
// for a turn.
func (c *call) computeLarge(records int64) (result any, err error) {
	if err := c.pay(records); err != nil {
		return nil, err
	}
	if c.effort.turn, err = c.handler.gates.turns.enter(c.ctx(), c.holder.principal()); err != nil {
		return nil, err
	}
	return c.route.serve(c)
}

// pay takes records from the purse of the principal. If the purse has too few, it returns an
// error, and sets Retry-After to when there will be enough.
func (c *call) pay(records int64) error {
	wait := time.Duration(0)
	if c.holder.Role != roleOperator {
		wait = c.handler.gates.records.take(c.holder.principal(), float64(records))
	}
	if wait == 0 {
		c.effort.paid, c.effort.owes = c.effort.paid+records, true
		return nil
	}
	// The records that were already read are still owed, see settle.
	c.out.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64))
	const what = "this request reads about %d records; those of one principal may read %v each second"
	return problem.New(problem.TooMany, what, records, c.handler.limits.Records)
}

// settle corrects the purse of the principal by the difference between the records that the call
// read and those that were taken before.
func (c *call) settle() {
	if c.effort.owes && c.holder.Role != roleOperator {
		c.handler.gates.records.settle(c.holder.principal(), float64(c.effort.meter.Records()-c.effort.paid))
	}
	c.effort.owes = false
}

// leaveTurn releases the turn of the call, if it has one.
func (c *call) leaveTurn() {
	if leave := c.effort.turn; leave != nil {
		c.effort.turn = nil
		leave()
	}
}

// weight estimates the number of records that a request reads, from its body.
func (c *call) weight() int64 {
	if _, captures := c.body.(*httpapi.Capture); captures {
		return recordsEach * c.reserved()
	}
	named, others := httpapi.Panel(c.body)
	objects := int64(named)
	if others {
		if stats, err := c.ledger().Stats(c.ctx()); err == nil { // on an error, the call itself returns it
			objects += int64(min(stats.Chains, math.MaxInt32))
		}
	}
	return recordsEach * objects
}

// reserved returns the number of objects of the reservation in the path, or 0 if there is no such
// reservation.
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

// purses limit the rate at which each principal does something, as a token bucket for each
// principal.
type purses struct {
	each float64 // refill per second
	most float64 // capacity of a purse
	now  func() time.Time
	mu   sync.Mutex
	of   map[principal]*purse
}

// purse is the token bucket of one principal. A negative value is a debt, which is at most the
// capacity.
type purse struct {
	has float64
	at  time.Time // time of the last update of has
}

func newPurses(each, most float64, now func() time.Time) *purses {
	return &purses{each: each, most: most, now: now, of: map[principal]*purse{}}
}

// take takes n from the purse of a principal, and returns 0. If the purse has less than n, it
// takes nothing, and returns the time until it will have n. If n is more than the capacity, that
// is the time until the purse is full.
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

// settle takes more from the purse of a principal, or puts the amount back if it is negative.
func (p *purses) settle(by principal, more float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spend(p.filled(by), more)
}

// spend takes n from a purse, within its bounds. A negative n refills it.
func (p *purses) spend(one *purse, n float64) { one.has = min(max(one.has-n, -p.most), p.most) }

// filled returns the purse of a principal after adding the refill since its last use.
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

// turns limit how many large requests compute at a time. Waiting principals are served in
// rotation. So a principal with many requests delays the others by no more than one request each
// time.
type turns struct {
	all chan struct{} // one element for each turn in use
	mu  sync.Mutex
	of  map[principal]*line // principals that have a turn or wait for one
}

// line holds the requests of one principal. A waiting request acquires three semaphores in order:
// a turn of the principal, the head of the principal's line, and a turn of all.
type line struct {
	requests int           // number of requests that have a turn or wait for one
	own      chan struct{} // one element for each turn that the principal has, or is about to get
	first    chan struct{} // one element while a request of the principal waits for a turn of all
}

func newTurns(most int) *turns {
	return &turns{all: make(chan struct{}, most), of: map[principal]*line{}}
}

// each returns how many turns one principal may have at a time.
func (t *turns) each(by principal) int {
	if by.role == roleOperator {
		return cap(t.all)
	}
	return (cap(t.all) + 1) / 2
}

// enter waits for a turn, and returns the function that releases it. It returns ctx.Err() if ctx
// ends before.
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

// join adds a request of a principal to its line, or returns an error if too many wait.
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

// part removes a request from its line, and the line when it is empty.
func (t *turns) part(by principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[by]
	if one.requests--; one.requests == 0 {
		delete(t.of, by)
	}
}
