package ledgerhttp

import (
	"cmp"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
)

// Limits bound what requests and connections may take. A field that is 0 has the default that its
// comment gives.
//
// Limits count by principal. A principal is a buyer or an object with all of its tokens; in other
// roles it is a token. Of a resource that is counted "at a time", a principal gets more only if it
// then has no more than was free before. So a single principal has about half at most, and a second
// one half of the rest. Operators have as much again for themselves, without that rule, and metrics
// a sixteenth as much, so that others never keep them out.
type Limits struct {
	Body    int64         // bytes of a body: 64 MiB
	Memory  int64         // bytes of bodies, and of answers being sent, at a time: 256 MiB
	Read    time.Duration // how far a body may be late against the rate Slowest: 10 seconds
	Write   time.Duration // how far the reader of an answer may be late against the rate Slowest: 30 seconds
	Slowest int           // bytes per second that a caller must send or read on average: 16 KiB
	// for a request that is no stream: 10 minutes. Repeated with its key, it goes on
	Time    time.Duration
	Beat    time.Duration // between two keep-alive comments in a stream without events: 15 seconds
	Running int           // requests at a time, besides streams: 256. Four times as many may be arriving
	Copies  int           // copies of the file, and verifications, at a time: 1
	Streams int           // streams of events and lists at a time: 1024
	Each    int           // streams of one principal at a time: 64, if that is less than half of the streams
	Rate    float64       // requests of one principal per second, on average: 1,000; of a person at most 0.1
	Burst   int           // requests of one principal at once, before Rate applies: 2,000; of a person at most 20
	// Work is counted in records read: 2 or 3 for an object, 1 for an entry of the log. Only Rate
	// limits requests that read at most 4,096 records. An operator may read any number.
	Records     float64 // records per second that large requests of one principal read, on average: 500,000
	RecordBurst int     // records at once, before Records applies: 4,000,000
	// Panels is how many large requests compute at a time; others wait for their turn. The default
	// is half the number of processors, and at least 2.
	Panels int

	// Connections is how many connections are open at a time: 12,000. Each needs a file
	// descriptor, and the ledger needs some for its files.
	Connections int
	// PerAddress is how many connections are open at a time from one IP address: 3,000. For IPv6
	// an address is a /64 network. If it is negative, there is no such limit: use this for a
	// reverse proxy, from which all connections have the same address. It does not apply to a Unix
	// socket.
	PerAddress int
	Unproven   time.Duration // until a request on a new connection must be admitted: 20 seconds
}

// orDefaults returns the limits with defaults for the fields that are 0.
func (l Limits) orDefaults() Limits {
	return Limits{
		Body:        cmp.Or(l.Body, 64<<20),
		Memory:      cmp.Or(l.Memory, 256<<20),
		Read:        cmp.Or(l.Read, 10*time.Second),
		Write:       cmp.Or(l.Write, 30*time.Second),
		Slowest:     cmp.Or(l.Slowest, 16<<10),
		Time:        cmp.Or(l.Time, 10*time.Minute),
		Beat:        cmp.Or(l.Beat, 15*time.Second),
		Running:     cmp.Or(l.Running, 256),
		Copies:      cmp.Or(l.Copies, 1),
		Streams:     cmp.Or(l.Streams, 1024),
		Each:        cmp.Or(l.Each, 64),
		Rate:        cmp.Or(l.Rate, 1000),
		Burst:       cmp.Or(l.Burst, 2000),
		Records:     cmp.Or(l.Records, 500_000),
		RecordBurst: cmp.Or(l.RecordBurst, 4_000_000),
		Panels:      cmp.Or(l.Panels, max(2, runtime.GOMAXPROCS(0)/2)),
		Connections: cmp.Or(l.Connections, 12_000),
		PerAddress:  cmp.Or(l.PerAddress, 3_000),
		Unproven:    cmp.Or(l.Unproven, 20*time.Second),
	}
}

// principal is the unit by which limits are counted.
type principal struct {
	role string
	of   string // the buyer or the object; in other roles the name of the token
}

// principal returns the principal by which the holder counts.
func (h Holder) principal() principal { return principal{h.Role, cmp.Or(h.Whom, h.Name)} }

// maxPrincipals is how many principals each rate limit remembers. When there are more, all are
// forgotten, and start with full buckets.
const maxPrincipals = 1 << 14

// personRate and personBurst limit the requests of a person, if they are less than Rate and Burst.
// The limit is low because each statement adds an event to the log for good.
const (
	personRate  = 0.1 // per second
	personBurst = 20
)

// arrivingPerRunning is how many requests may be arriving for each request that may run.
const arrivingPerRunning = 4

// gates count the requests in progress, and limit the rates of each principal.
type gates struct {
	arriving, running, copies, streams, memory *quota
	// of requests, of persons' requests, of records
	rates, personRates, records *rateLimiter
	slots                       *slots // for large requests
}

// init sets all quotas and rate limiters from the limits, which have their defaults.
func (g *gates) init(l Limits) {
	g.arriving = newQuota("requests that are arriving", arrivingPerRunning*l.Running, arrivingPerRunning*l.Running)
	g.running = newQuota("requests", l.Running, l.Running)
	g.copies, g.streams = newQuota("copies", l.Copies, l.Copies), newQuota("streams", l.Streams, l.Each)
	g.memory = newQuota("bytes of requests and answers", int(l.Memory), int(l.Memory))
	g.rates = newRateLimiter(l.Rate, float64(l.Burst), time.Now)
	g.personRates = newRateLimiter(min(personRate, l.Rate), float64(min(personBurst, l.Burst)), time.Now)
	g.records = newRateLimiter(l.Records, float64(l.RecordBurst), time.Now)
	g.slots = newSlots(l.Panels)
}

// checkRate counts a request against the rate of its principal. If the rate is exceeded, it counts
// nothing, and returns an error.
func (g *gates) checkRate(by Holder) error {
	rates := g.rates
	if by.Role == rolePerson {
		rates = g.personRates
	}
	if rates.take(by.principal(), 1) > 0 { // the time to wait
		return problem.New(problem.TooMany, "this caller sends more than %v requests per second", rates.rate)
	}
	return nil
}

// enter counts a request whose body has arrived as a copy, a stream or a running request. The
// caller must call leave when the request ends. If the limit is reached, enter counts nothing, and
// returns an error.
func (g *gates) enter(by Holder, r *route) (leave func(), err error) {
	switch {
	case r.copiesFile:
		return g.copies.enter(by)
	case r.isLong:
		return g.streams.enter(by)
	}
	return g.running.enter(by)
}

// The sides of a quota. Each side has units of its own, so that one side never waits for another.
const (
	ofOthers = iota
	ofOperators
	ofMetrics
	sides
)

// metricsShare is the divisor for metrics: they have 1/metricsShare of the units of a quota.
const metricsShare = 16

// sideOf returns the side of a quota that serves a role.
func sideOf(role string) int {
	switch role {
	case roleOperator:
		return ofOperators
	case roleMetrics:
		return ofMetrics
	}
	return ofOthers
}

// quota is a bounded number of units: requests of one kind, or bytes.
type quota struct {
	kind                  string // what a unit is, for errors
	perSide, perPrincipal int    // the maximum of a side, and of one principal
	mu                    sync.Mutex
	taken                 int // on all sides
	sides                 [sides]int
	byPrincipal           map[principal]int // units taken, by principal; no entry is 0
}

// newQuota returns a quota of most units for each side, of which one principal may have each.
func newQuota(kind string, most, each int) *quota {
	return &quota{kind: kind, perSide: most, perPrincipal: each, byPrincipal: map[principal]int{}}
}

// enter takes one unit, and returns the function that releases it. If it returns an error, it has
// taken none, and the function does nothing.
func (q *quota) enter(by Holder) (leave func(), err error) {
	h := &quotaShare{quota: q, by: by}
	return h.release, h.grow(1)
}

// bound returns free, the number of free units on the side of a caller. each is how many units the
// principal of the caller may have in all, with those that it takes now. It is q.perPrincipal or,
// for a caller that is neither an operator nor metrics, free if that is less. So a principal that
// takes single units leaves some for others. The caller of bound holds q.mu.
func (q *quota) bound(by Holder) (free, each int) {
	side := sideOf(by.Role)
	switch free = q.perSide - q.sides[side]; side {
	case ofMetrics:
		free = max(1, q.perSide/metricsShare) - q.sides[side]
	case ofOthers:
		return free, min(q.perPrincipal, free)
	}
	return free, q.perPrincipal
}

// quotaShare is a number of units of a quota that one request of a caller has taken.
type quotaShare struct {
	quota *quota
	by    Holder
	n     int
}

// grow takes n more units. It takes none, and returns an error, if fewer than n are free. The same
// is true if the principal would then have more units of the quota than it may.
func (s *quotaShare) grow(n int) error {
	q, p := s.quota, s.by.principal()
	q.mu.Lock()
	defer q.mu.Unlock()
	free, each := q.bound(s.by)
	switch {
	case n > free:
		return problem.New(problem.Busy, "the limit of %s in progress is reached", q.kind)
	case q.byPrincipal[p] > each-n:
		return problem.New(problem.TooMany, "this caller has %d %s in progress, as many as it may have now",
			q.byPrincipal[p], q.kind)
	}
	q.add(s, n)
	return nil
}

// add changes the number of units of a share by n, which may be negative. The caller holds q.mu.
func (q *quota) add(h *quotaShare, n int) {
	p := h.by.principal()
	h.n += n
	q.taken += n
	q.sides[sideOf(h.by.Role)] += n
	if q.byPrincipal[p] += n; q.byPrincipal[p] == 0 {
		delete(q.byPrincipal, p)
	}
}

// release returns all units of the share. Further calls do nothing.
func (s *quotaShare) release() {
	s.quota.mu.Lock()
	defer s.quota.mu.Unlock()
	s.quota.add(s, -s.n)
}

// allowance is the time that a caller has left to send or to read. Sent or read bytes add time at
// the slowest allowed rate, up to a maximum. So the total time is bounded for any amount of data,
// and a caller that is fast enough is never cut off.
type allowance struct {
	left, most time.Duration
	rate       int // bytes per second
}

func newAllowance(most time.Duration, rate int) allowance { return allowance{most, most, rate} }

// spend subtracts the time that n bytes took, and adds the time that they earn: n / rate seconds.
// The time that is left may become negative.
func (a *allowance) spend(took time.Duration, n int) {
	// in floating point, because the time for many bytes at a low rate could overflow a Duration
	gained := time.Duration(math.Min(float64(a.most), float64(n)/float64(a.rate)*float64(time.Second)))
	a.left = min(a.most, a.left-took+gained)
}
