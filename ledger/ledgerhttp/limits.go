package ledgerhttp

import (
	"cmp"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicedp/sluice/ledger/problem"
)

// Limits bound what requests may take. A 0 is the default that stands behind each. Of what may be at a time one holder has at most half, rounded up, so that
// nobody keeps all others out, unless there is one place in all. An operator, the host's own, may have all.
type Limits struct {
	Body    int64         // bytes of a body: 64 MiB
	Read    time.Duration // until a body has come: a minute
	Time    time.Duration // for a request that is no stream, after which it can be taken up again by its key: ten minutes
	Write   time.Duration // until a reader takes the next part of an answer: half a minute
	Beat    time.Duration // between two signs of life in a stream without events: fifteen seconds
	Running int           // requests at a time, beside streams: 256, and 128 of a holder other than an operator
	Large   int           // requests with a body above 1 MiB at a time: 4, and 2 of such a holder
	Copies  int           // copies of the file, and verifications, at a time: 1
	Streams int           // streams of events and lists at a time: 1024
	Each    int           // streams of one holder at a time: 64, if that is less than half
	Rate    float64       // requests of one holder each second, in the long run: 1,000; of a person at most one in ten seconds
	Burst   int           // requests of one holder at once, before the rate counts: 2,000; of a person at most 20
	// Work is counted in records that are read: a person is two or three, an entry of the log is one. Requests that read at most
	// 4,096 are counted by Rate alone. An operator reads any number.
	Records     float64 // records that the large requests of one holder read each second, in the long run: 500,000
	RecordBurst int     // records at once, before that counts: 4,000,000
	Panels      int     // large requests that compute at a time, while others wait for their turn: half as many as processors, and at least 2
}

// small is how large a body is that needs no place of its own.
const small = 1 << 20

func (l Limits) orDefaults() Limits {
	return Limits{
		Body: cmp.Or(l.Body, 64<<20), Read: cmp.Or(l.Read, time.Minute), Time: cmp.Or(l.Time, 10*time.Minute),
		Write: cmp.Or(l.Write, 30*time.Second), Beat: cmp.Or(l.Beat, 15*time.Second),
		Running: cmp.Or(l.Running, 256), Large: cmp.Or(l.Large, 4), Copies: cmp.Or(l.Copies, 1), Streams: cmp.Or(l.Streams, 1024), Each: cmp.Or(l.Each, 64),
		Rate: cmp.Or(l.Rate, 1000), Burst: cmp.Or(l.Burst, 2000),
		Records: cmp.Or(l.Records, 500_000), RecordBurst: cmp.Or(l.RecordBurst, 4_000_000), Panels: cmp.Or(l.Panels, max(2, runtime.GOMAXPROCS(0)/2)),
	}
}

// mostHolders is how many holders are remembered, about: the rate of those who are forgotten counts anew.
const mostHolders = 1 << 14

// personRate and personBurst bound the requests of a person instead, if they are less: each statement is an event of the log, for good.
const (
	personRate  = 0.1 // each second
	personBurst = 20
)

// gates count what is under way, and how often each holder comes.
type gates struct {
	limits                          Limits
	running, copies, streams, large *room
	purses                          *purses
	turns                           *turns
	mu                              sync.Mutex
	rates                           map[Holder]*rate.Limiter
}

func (g *gates) init(l Limits) {
	g.limits = l
	g.running, g.large = newRoom("requests", l.Running, l.Running), newRoom("large requests", l.Large, l.Large)
	g.copies, g.streams = newRoom("copies", l.Copies, l.Copies), newRoom("streams", l.Streams, l.Each)
	g.rates = map[Holder]*rate.Limiter{}
	g.purses, g.turns = newPurses(l, time.Now), newTurns(l.Panels)
}

// enter lets a request in if there is room for it, and returns what it calls when it leaves.
func (g *gates) enter(by Holder, r *route) (leave func(), err error) {
	if pace := g.rate(by); !pace.Allow() {
		return nil, problem.New(problem.TooMany, "more requests than %v each second", float64(pace.Limit()))
	}
	switch {
	case r.copies:
		return g.copies.enter(by)
	case r.long:
		return g.streams.enter(by)
	}
	return g.running.enter(by)
}

// rate returns that of a holder.
func (g *gates) rate(by Holder) *rate.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	pace := g.rates[by]
	if pace == nil {
		if len(g.rates) >= mostHolders {
			clear(g.rates)
		}
		pace = rate.NewLimiter(rate.Limit(g.limits.Rate), g.limits.Burst)
		if by.Role == Person {
			pace = rate.NewLimiter(personRate, min(personBurst, g.limits.Burst))
		}
		g.rates[by] = pace
	}
	return pace
}

// room has the places for requests of one kind. No holder but the host's own has more than half of them, so that nobody keeps all others out.
type room struct {
	kind       string
	most, each int // places in all, and of one holder
	mu         sync.Mutex
	taken      int
	of         map[Holder]int // of those who have any
}

func newRoom(kind string, most, each int) *room {
	return &room{kind: kind, most: most, each: each, of: map[Holder]int{}}
}

// enter takes a place, and returns what gives it back.
func (r *room) enter(by Holder) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	each := r.each
	if by.Role != Operator {
		each = min(each, (r.most+1)/2)
	}
	switch {
	case r.taken >= r.most:
		return nil, problem.New(problem.Busy, "there are as many %s under way as may be", r.kind)
	case r.of[by] >= each:
		return nil, problem.New(problem.TooMany, "more than %d %s at a time", each, r.kind)
	}
	r.taken++
	r.of[by]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken--
		if r.of[by]--; r.of[by] == 0 {
			delete(r.of, by)
		}
	}, nil
}

// sized reads a body. Once it is large it needs a place of its own, which it keeps until it is closed.
type sized struct {
	io.ReadCloser
	room *room
	by   Holder
	read int64
	left func() // gives the place back; nil as long as there is none
}

// Read implements [io.Reader].
func (s *sized) Read(p []byte) (n int, err error) {
	n, err = s.ReadCloser.Read(p)
	if s.read += int64(n); s.read > small && s.left == nil {
		var full error
		if s.left, full = s.room.enter(s.by); full != nil {
			return 0, full
		}
	}
	return n, err
}

// leave frees the place, if there is one.
func (s *sized) leave() {
	if s != nil && s.left != nil {
		s.left()
	}
}
