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
// A small request reads at most maxSmallRecords, and never waits. Whether a request that only reads
// is small is found out by running it: if it reads more records, it is stopped, and starts again as
// a large request. Whether a request that changes the ledger is small is estimated before, from the
// objects that it names. A large request takes its estimated records from the token bucket of its
// principal, and waits for a slot. Few large requests compute at a time. One principal has at most
// half of the slots, rounded up, and waiting principals are served in rotation. After the request,
// the bucket is corrected by the records that were really read. Operators have no bucket, and may
// have all slots.

const (
	// maxSmallRecords is the maximum number of records that a small request reads.
	maxSmallRecords = 4096
	// recordsEach is the estimated number of records that are read for each object of a panel.
	recordsEach = 3
	// maxWaiting is how many requests of one principal may wait for a slot, in addition to those
	// that may have one.
	maxWaiting = 32
)

// effort is the work of a call, in records read.
type effort struct {
	meter       state.Meter // counts the records that the call reads
	taken       int64       // records already taken from the bucket of the principal
	mustSettle  bool        // settleRecords must take the records that were read
	releaseSlot func()      // releases the slot; nil if the call has none
}

// isReadOnly reports whether a route changes nothing, so that it can be stopped and run again.
func (r *route) isReadOnly() bool {
	return !r.needsKey && !r.isLong && !slices.Contains([]string{"reconcile", "takeOver"}, r.id)
}

// compute runs a call within the limits on records, and returns its result. At the end it releases
// the slot of the call, if it has one. There are four cases, in this order:
//
//   - A copy runs at once: Limits.Copies bounds it.
//   - A stream runs at once. Its records are taken from the bucket at its end.
//   - A call that only reads runs as a small request first, and again as a large one if it was not.
//   - Any other call runs as a large request if it is estimated to be one.
func (c *call) compute() (any, error) {
	// Reads of the ledger with this context count their records in the meter.
	c.request = c.request.WithContext(state.WithMeter(c.ctx(), &c.effort.meter))
	defer c.releaseSlot()
	switch {
	case c.route.copiesFile:
		return c.route.serve(c) // copies have a limit of their own
	case c.route.isLong:
		// A principal in debt is refused. settleRecords takes the rest at the end, when the number
		// is known.
		if err := c.takeRecords(1); err != nil {
			return nil, err
		}
		return c.route.serve(c)
	case c.route.isReadOnly():
		records := c.estimatedRecords()
		if records > maxSmallRecords || records == 0 && c.route.isGrowing {
			// A principal in debt is refused before the read, even though 0 records are taken.
			// Otherwise each of its requests would be read in part and then stopped, for nothing.
			if err := c.takeRecords(0); err != nil {
				return nil, err
			}
		}
		c.effort.meter.Allow(maxSmallRecords)
		result, err := c.route.serve(c)
		c.effort.meter.Allow(0) // any number from now on
		if !c.effort.meter.Exceeded() {
			c.effort.mustSettle = false // the request was small, so its records do not count
			return result, err
		}
		c.effort.mustSettle = true // also if computeLarge refuses the call: what it has read counts
		return c.computeLarge(max(records, maxSmallRecords))
	}
	if records := c.estimatedRecords(); records > maxSmallRecords {
		return c.computeLarge(records)
	}
	return c.route.serve(c)
}

// computeLarge runs a call that is estimated to read so many records. It first takes them from the
// bucket, and waits for a slot. It returns an error if the bucket has too few, or if too many
// requests of the principal wait. It also returns an error if the context ends before the call has
// a slot.
func (c *call) computeLarge(records int64) (result any, err error) {
	if err := c.takeRecords(records); err != nil {
		return nil, err
	}
	if c.effort.releaseSlot, err = c.handler.gates.slots.enter(c.ctx(), c.holder.principal()); err != nil {
		return nil, err
	}
	return c.route.serve(c)
}

// takeRecords takes records from the token bucket of the principal. For an operator it only notes
// them. If the bucket has too few records, takeRecords takes none, sets Retry-After to the seconds
// until it will have enough, and returns an error. A bucket in debt has too few even for 0 records.
func (c *call) takeRecords(records int64) error {
	wait := time.Duration(0)
	if c.holder.Role != roleOperator {
		wait = c.handler.gates.records.take(c.holder.principal(), float64(records))
	}
	if wait == 0 {
		c.effort.taken, c.effort.mustSettle = c.effort.taken+records, true
		return nil
	}
	c.out.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64))
	const what = "this request reads about %d records, more than this caller may read now; its limit is %v per second"
	return problem.New(problem.TooMany, what, records, c.handler.limits.Records)
}

// settleRecords corrects the token bucket of the principal by the difference between the records
// that the call read and those that were taken before. It does nothing for a small request, for an
// operator, or when it is called again.
func (c *call) settleRecords() {
	if c.effort.mustSettle && c.holder.Role != roleOperator {
		c.handler.gates.records.settle(c.holder.principal(), float64(c.effort.meter.Records()-c.effort.taken))
	}
	c.effort.mustSettle = false
}

// releaseSlot releases the slot of the call, if it has one.
func (c *call) releaseSlot() {
	if leave := c.effort.releaseSlot; leave != nil {
		c.effort.releaseSlot = nil
		leave()
	}
}

// estimatedRecords estimates the number of records that a request reads, from its body. The
// estimate is recordsEach for each object that the request names. If the request is also about
// objects that it does not name, it adds recordsEach for each chain of the ledger. For a capture it
// counts the objects of the reservation. It returns 0 if the request has no body, or a body about
// no panel.
func (c *call) estimatedRecords() int64 {
	if _, captures := c.body.(*httpapi.Capture); captures {
		return recordsEach * c.reserved()
	}
	named, others := httpapi.Panel(c.body)
	objects := int64(named)
	if others {
		if stats, err := c.ledger().Stats(c.ctx()); err == nil { // on an error, the call itself returns it
			objects += int64(min(stats.Chains, math.MaxInt32)) // bounded, so that the product does not overflow
		}
	}
	return recordsEach * objects
}

// reserved returns the number of objects of the reservation in the path, with those that it
// refuses. It returns 0 if the reservation cannot be read: the call itself then returns the error.
func (c *call) reserved() int64 {
	number, err := c.pathNumber("reservation")
	if err != nil {
		return 0
	}
	r, err := c.ledger().Reservation(c.ctx(), number)
	if err != nil {
		return 0
	}
	return int64(min(r.Objects, math.MaxInt32)) + int64(len(r.Refused))
}

// rateLimiter limits the rate at which each principal does something, with a token bucket for each
// principal.
type rateLimiter struct {
	rate    float64 // refill per second
	burst   float64 // capacity of a bucket
	now     func() time.Time
	mu      sync.Mutex
	buckets map[principal]*tokenBucket
}

// tokenBucket is the token bucket of one principal. A negative value is a debt, which is at most
// the capacity.
type tokenBucket struct {
	tokens float64   // from -burst to burst
	at     time.Time // time of the last update of tokens
}

// newRateLimiter returns a limiter of rate per second, with buckets of the capacity burst. now is
// [time.Now] or a test's clock.
func newRateLimiter(rate, burst float64, now func() time.Time) *rateLimiter {
	return &rateLimiter{rate: rate, burst: burst, now: now, buckets: map[principal]*tokenBucket{}}
}

// take takes n from the bucket of a principal, and returns 0. If the bucket has less than n, take
// takes nothing, and returns the time until the bucket will have n. An n above the capacity only
// needs a full bucket, which is then in debt.
func (l *rateLimiter) take(by principal, n float64) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.filled(by)
	if lacks := min(n, l.burst) - one.tokens; lacks > 0 {
		// the maximum keeps the duration from overflowing at a very low rate
		return time.Duration(min(math.Ceil(lacks/l.rate*float64(time.Second)), float64(math.MaxInt64/2)))
	}
	l.spend(one, n)
	return 0
}

// settle takes more tokens from the bucket of a principal, even if that puts it in debt. If more is
// negative, settle puts -more tokens back.
func (l *rateLimiter) settle(by principal, more float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spend(l.filled(by), more)
}

// spend takes n from a bucket. A negative n refills it. The bucket stays between -burst and burst.
// The caller holds l.mu.
func (l *rateLimiter) spend(one *tokenBucket, n float64) {
	one.tokens = min(max(one.tokens-n, -l.burst), l.burst)
}

// filled returns the bucket of a principal after adding the refill since its last use. A principal
// that has no bucket gets a full one. If there are maxPrincipals buckets then, all are removed
// first. The caller holds l.mu.
func (l *rateLimiter) filled(by principal) *tokenBucket {
	now := l.now()
	one := l.buckets[by]
	if one == nil {
		if len(l.buckets) >= maxPrincipals {
			clear(l.buckets)
		}
		one = &tokenBucket{tokens: l.burst, at: now}
		l.buckets[by] = one
	}
	one.tokens = min(one.tokens+max(0, now.Sub(one.at).Seconds())*l.rate, l.burst)
	one.at = now
	return one
}

// slots limits how many large requests compute at a time. Waiting principals are served in
// rotation. So a principal with many requests delays the others by no more than one request each
// time.
//
// The rotation needs no code of its own. Only one request of each principal, its head, waits for a
// slot of all. Goroutines that wait to send to a channel are served in the order of their arrival.
type slots struct {
	all    chan struct{} // one element for each slot in use
	mu     sync.Mutex
	queues map[principal]*waitQueue // principals that have a slot or wait for one
}

// waitQueue has the requests of one principal. A waiting request acquires three semaphores in
// order: a slot of the principal (own), the head of the queue, and a slot of all. A semaphore is a
// channel with as many free places as it has units: to send an element acquires a unit.
type waitQueue struct {
	requests int           // number of requests that have a slot or wait for one
	own      chan struct{} // one element for each slot that the principal has, or is about to get
	head     chan struct{} // one element while a request of the principal waits for a slot of all
}

// newSlots returns slots for most large requests at a time.
func newSlots(most int) *slots {
	return &slots{all: make(chan struct{}, most), queues: map[principal]*waitQueue{}}
}

// each returns how many slots one principal may have at a time: half of all, rounded up, or all for
// an operator.
func (s *slots) each(by principal) int {
	if by.role == roleOperator {
		return cap(s.all)
	}
	return (cap(s.all) + 1) / 2
}

// enter waits for a slot, and returns the function that releases it. It returns an error at once if
// too many requests of the principal wait, and ctx.Err() if ctx ends before a slot is free.
func (s *slots) enter(ctx context.Context, by principal) (leave func(), err error) {
	queue, err := s.joinQueue(by)
	if err != nil {
		return nil, err
	}
	var taken []chan struct{} // the semaphores of which this request holds a unit
	leave = func() {
		for _, places := range taken {
			<-places
		}
		s.leaveQueue(by)
	}
	for _, places := range []chan struct{}{queue.own, queue.head, s.all} {
		select {
		case places <- struct{}{}:
			taken = append(taken, places)
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	<-queue.head // the next request of the principal may now wait for a slot of all
	taken = []chan struct{}{queue.own, s.all}
	return leave, nil
}

// joinQueue counts a request of a principal in its queue, and returns the queue. If the requests
// that may have a slot and maxWaiting others are there already, it returns an error instead.
func (s *slots) joinQueue(by principal) (*waitQueue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queues[by]
	if queue == nil {
		queue = &waitQueue{own: make(chan struct{}, s.each(by)), head: make(chan struct{}, 1)}
		s.queues[by] = queue
	}
	if queue.requests >= s.each(by)+maxWaiting {
		return nil, problem.New(problem.TooMany, "this caller already has %d large requests that wait", maxWaiting)
	}
	queue.requests++
	return queue, nil
}

// leaveQueue undoes joinQueue. It removes the queue with its last request.
func (s *slots) leaveQueue(by principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queues[by]
	if queue.requests--; queue.requests == 0 {
		delete(s.queues, by)
	}
}
