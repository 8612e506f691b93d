package ledgerhttp

import (
	"cmp"
	"io"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicedp/sluice/ledger/problem"
)

// Limits bound what requests may take. A 0 is the default that stands behind each.
type Limits struct {
	Body    int64         // bytes of a body: 64 MiB
	Read    time.Duration // until a body has come: a minute
	Time    time.Duration // for a request that is no stream, after which it can be taken up again by its key: ten minutes
	Write   time.Duration // until a reader takes the next part of an answer: half a minute
	Beat    time.Duration // between two signs of life in a stream without events: fifteen seconds
	Running int           // requests at a time, beside streams: 256
	Large   int           // requests with a body above 1 MiB at a time: 4
	Copies  int           // copies of the file, and verifications, at a time: 1
	Streams int           // streams of events and lists at a time: 1024
	Each    int           // streams of one holder at a time: 64
	Rate    float64       // requests of one holder each second, in the long run: 1,000; of a person at most one in ten seconds
	Burst   int           // requests of one holder at once, before the rate counts: 2,000; of a person at most 20
}

// small is how large a body is that needs no place of its own.
const small = 1 << 20

func (l Limits) orDefaults() Limits {
	return Limits{
		Body: cmp.Or(l.Body, 64<<20), Read: cmp.Or(l.Read, time.Minute), Time: cmp.Or(l.Time, 10*time.Minute),
		Write: cmp.Or(l.Write, 30*time.Second), Beat: cmp.Or(l.Beat, 15*time.Second),
		Running: cmp.Or(l.Running, 256), Large: cmp.Or(l.Large, 4), Copies: cmp.Or(l.Copies, 1), Streams: cmp.Or(l.Streams, 1024), Each: cmp.Or(l.Each, 64),
		Rate: cmp.Or(l.Rate, 1000), Burst: cmp.Or(l.Burst, 2000),
	}
}

// mostHolders is how many holders are remembered, about: the rate of those who are forgotten counts anew.
const mostHolders = 1 << 14

// personRate and personBurst bound the requests of a person instead, if they are less: each statement is an event of the log, for good.
const (
	personRate  = 0.1 // each second
	personBurst = 20
)

// gates count what is under way.
type gates struct {
	limits                          Limits
	running, copies, streams, large chan struct{}
	mu                              sync.Mutex
	holders                         map[string]*visits // by name and role
}

// visits are those of one holder.
type visits struct {
	rate    *rate.Limiter
	streams int
}

func (g *gates) init(l Limits) {
	g.limits = l
	g.running, g.copies, g.streams = make(chan struct{}, l.Running), make(chan struct{}, l.Copies), make(chan struct{}, l.Streams)
	g.large = make(chan struct{}, l.Large)
	g.holders = map[string]*visits{}
}

// enter lets a request in if there is room for it, and returns what it calls when it leaves.
func (g *gates) enter(by Holder, r *route) (leave func(), err error) {
	v, err := g.visit(by, r.long)
	if err != nil {
		return nil, err
	}
	room := g.running
	if r.long {
		room = g.streams
		if r.copies {
			room = g.copies
		}
	}
	select {
	case room <- struct{}{}:
	default:
		g.left(v, r.long)
		return nil, problem.New(problem.Busy, "there are as many requests of this kind under way as may be")
	}
	return func() {
		<-room
		g.left(v, r.long)
	}, nil
}

// visit counts a request of a holder.
func (g *gates) visit(by Holder, long bool) (*visits, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := string(by.Role) + " " + by.Name
	v := g.holders[at]
	if v == nil {
		if len(g.holders) >= mostHolders {
			maps.DeleteFunc(g.holders, func(_ string, v *visits) bool { return v.streams == 0 })
		}
		v = &visits{rate: rate.NewLimiter(rate.Limit(g.limits.Rate), g.limits.Burst)}
		if by.Role == Person {
			v.rate = rate.NewLimiter(personRate, min(personBurst, g.limits.Burst))
		}
		g.holders[at] = v
	}
	if !v.rate.Allow() {
		return nil, problem.New(problem.TooMany, "more requests than %v each second", float64(v.rate.Limit()))
	}
	if long && v.streams >= g.limits.Each {
		return nil, problem.New(problem.TooMany, "more than %d streams at a time", g.limits.Each)
	}
	if long {
		v.streams++
	}
	return v, nil
}

func (g *gates) left(v *visits, long bool) {
	if long {
		g.mu.Lock()
		v.streams--
		g.mu.Unlock()
	}
}

// sized reads a body. Once it is large it needs a place of its own, which it keeps until it is closed.
type sized struct {
	io.ReadCloser
	places chan struct{}
	read   int64
	placed bool
}

// Read implements [io.Reader].
func (s *sized) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.read += int64(n); s.read > small && !s.placed {
		select {
		case s.places <- struct{}{}:
			s.placed = true
		default:
			return 0, problem.New(problem.Busy, "there are as many large requests under way as may be")
		}
	}
	return n, err
}

// leave frees the place, if there is one.
func (s *sized) leave() {
	if s != nil && s.placed {
		<-s.places
	}
}
