package ledgerhttp

import (
	"cmp"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
)

// Limits bound what requests and connections may take. A 0 is the default that is given with each.
//
// Limits count by principal: a buyer or an object, with all of its tokens, and of other roles a
// token. Of what may be at a time a principal may have no more than is free then: alone at most
// half, a second one half of the rest, so that none keeps others out. Operators have as many places
// again for themselves, without that bound, and metrics a sixteenth as many: they always get in.
type Limits struct {
	Body    int64         // bytes of a body: 64 MiB
	Memory  int64         // bytes of bodies, and of answers that are being sent, at a time: 256 MiB
	Read    time.Duration // how far a body may fall behind Slowest: ten seconds
	Write   time.Duration // how far the reader of an answer may fall behind Slowest: half a minute
	Slowest int           // bytes each second that a caller sends or reads in the long run: 16 KiB
	Time    time.Duration // for a request that is no stream, which goes on by its key after that: ten minutes
	Beat    time.Duration // between two signs of life in a stream without events: fifteen seconds
	Running int           // requests at a time, beside streams: 256. Four times as many may be arriving
	Copies  int           // copies of the file, and verifications, at a time: 1
	Streams int           // streams of events and lists at a time: 1024
	Each    int           // streams of one principal at a time: 64, if that is less than half
	Rate    float64       // requests of one principal each second, in the long run: 1,000; of a person 0.1 at most
	Burst   int           // requests of one principal at once, before the rate counts: 2,000; of a person at most 20
	// Work is counted in records that are read: a person is two or three, an entry of the log is
	// one. Requests that read at most 4,096 are counted by Rate alone. An operator reads any
	// number.
	Records     float64 // records that the large requests of one principal read each second, in the long run: 500,000
	RecordBurst int     // records at once, before that counts: 4,000,000
	// Panels is how many large requests compute at a time, while others wait for their turn: half
	// as many as processors, and at least 2.
	Panels int

	// Connections is how many are open at a time: 12,000. Each is a file descriptor, and the ledger
	// needs some for its files.
	Connections int
	// PerAddress is how many connections of one IP address are: 3,000. In IPv6 an address is a
	// network of 64 bits. A negative number does not count by address: behind a reverse proxy all
	// have the same. A Unix socket has no addresses.
	PerAddress int
	Unproven   time.Duration // until a request on a connection must be admitted: 20 seconds
}

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

// principal is what limits count by.
type principal struct {
	role string
	of   string // the buyer or the object; in roles that are of none, the name of the token
}

func (h Holder) principal() principal { return principal{h.Role, cmp.Or(h.Whom, h.Name)} }

// mostPrincipals is how many principals are remembered, about: the rate of those who are forgotten
// counts from the beginning.
const mostPrincipals = 1 << 14

// personRate and personBurst bound the requests of a person instead, if they are less: each
// statement is an event of the log, for good.
const (
	personRate  = 0.1 // each second
	personBurst = 20
)

// arrivals is how many requests may be arriving for each that may run.
const arrivals = 4

// gates count what is in progress, and how often each principal comes.
type gates struct {
	arriving, running, copies, streams, memory *room
	rates, personRates, records                *purses // requests, those of persons, and what large requests read
	turns                                      *turns
}

func (g *gates) init(l Limits) {
	g.arriving = newRoom("requests that are arriving", arrivals*l.Running, arrivals*l.Running)
	g.running = newRoom("requests", l.Running, l.Running)
	g.copies, g.streams = newRoom("copies", l.Copies, l.Copies), newRoom("streams", l.Streams, l.Each)
	g.memory = newRoom("bytes of requests and answers", int(l.Memory), int(l.Memory))
	g.rates = newPurses(l.Rate, float64(l.Burst), time.Now)
	g.personRates = newPurses(min(personRate, l.Rate), float64(min(personBurst, l.Burst)), time.Now)
	g.records = newPurses(l.Records, float64(l.RecordBurst), time.Now)
	g.turns = newTurns(l.Panels)
}

// pace refuses a request that comes too soon after others of its principal.
func (g *gates) pace(by Holder) error {
	rates := g.rates
	if by.Role == rolePerson {
		rates = g.personRates
	}
	if rates.take(by.principal(), 1) > 0 {
		return problem.New(problem.TooMany, "more requests than %v each second", rates.each)
	}
	return nil
}

// enter lets a request in that has arrived, if there is a place for it, and returns what it calls
// when it leaves.
func (g *gates) enter(by Holder, r *route) (leave func(), err error) {
	switch {
	case r.copies:
		return g.copies.enter(by)
	case r.long:
		return g.streams.enter(by)
	}
	return g.running.enter(by)
}

// The sides of a room, which do not take places from each other.
const (
	ofOthers = iota
	ofOperators
	ofMetrics
	sides
)

// metricsShare is which part of the places of a room there is for metrics: one in so many.
const metricsShare = 16

func sideOf(role string) int {
	switch role {
	case roleOperator:
		return ofOperators
	case roleMetrics:
		return ofMetrics
	}
	return ofOthers
}

// room has the places for requests of one kind, or bytes.
type room struct {
	kind       string
	most, each int // places of a side, and of one principal
	mu         sync.Mutex
	taken      int // in all
	sides      [sides]int
	of         map[principal]int // of those that have any
}

func newRoom(kind string, most, each int) *room {
	return &room{kind: kind, most: most, each: each, of: map[principal]int{}}
}

// enter takes a place, and returns what gives it back.
func (r *room) enter(by Holder) (leave func(), err error) {
	h := &hold{room: r, by: by}
	return h.release, h.grow(1)
}

// bound returns how many places are left for a caller, and how many places it may have in all then.
func (r *room) bound(by Holder) (free, each int) {
	side := sideOf(by.Role)
	switch free = r.most - r.sides[side]; side {
	case ofMetrics:
		free = max(1, r.most/metricsShare) - r.sides[side]
	case ofOthers:
		return free, min(r.each, free)
	}
	return free, r.each
}

// hold is a number of places of one room.
type hold struct {
	room *room
	by   Holder
	n    int
}

// grow takes some more places.
func (h *hold) grow(n int) error {
	r, p := h.room, h.by.principal()
	r.mu.Lock()
	defer r.mu.Unlock()
	free, each := r.bound(h.by)
	switch {
	case n > free:
		return problem.New(problem.Busy, "there are as many %s in progress as may be", r.kind)
	case r.of[p] > each-n:
		return problem.New(problem.TooMany, "more than %d %s at a time", r.of[p], r.kind)
	}
	r.add(h, n)
	return nil
}

// add changes how many places are taken.
func (r *room) add(h *hold, n int) {
	p := h.by.principal()
	h.n += n
	r.taken += n
	r.sides[sideOf(h.by.Role)] += n
	if r.of[p] += n; r.of[p] == 0 {
		delete(r.of, p)
	}
}

// release gives all places back. More calls do nothing.
func (h *hold) release() {
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.room.add(h, -h.n)
}

// allowance is the time that a caller may still take, to send or to read. What it sends or reads
// gives it time back, by the slowest rate, so that it is bounded however much there is, and a
// caller that is fast enough is never cut off.
type allowance struct {
	left, most time.Duration
	rate       int // bytes each second
}

func newAllowance(most time.Duration, rate int) allowance { return allowance{most, most, rate} }

// spend notes that it took some time to send or to read n bytes.
func (a *allowance) spend(took time.Duration, n int) {
	gained := time.Duration(math.Min(float64(a.most), float64(n)/float64(a.rate)*float64(time.Second)))
	a.left = min(a.most, a.left-took+gained)
}
