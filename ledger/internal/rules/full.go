package rules

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// capacity is how many entries a request can add to a chain.
type capacity struct {
	entries int // as the chain is, with what the request adds to it before
	taken   int // by what open reservations and running requests will add, or more if any level fits all the same
	to      Recipient
}

// recipient returns who gets what is asked for.
func (ask *Asking) recipient() Recipient {
	return Recipient{Buys: ask.Newcomer || ask.Buyer != 0, Buyer: ask.Buyer}
}

// capacity returns how many entries a request can add to the chain of an object. Reservations are
// read only if they decide something.
func (l *Rules) capacity(s *state.State, x *Subject, ask *Asking) (c capacity, err error) {
	q := ask.Question
	c = capacity{entries: x.Chain.Entries(q) + ask.Pending, to: ask.recipient()}
	holds := l.Holds.List()
	c.taken = MostPromised(q, len(x.Object.Held)) + len(holds)*q.LevelEntries()
	if c.taken == 0 || c.left() >= q.LevelEntries()+1 {
		return c, nil
	}
	if c.taken, err = Promised(s, q, &x.Chain, x.Object, s.Now); err != nil {
		return c, err
	}
	held, err := heldEntries(s, x, ask, holds)
	c.taken += held
	return c, err
}

// left returns how many entries can be added while nothing ends that has taken some.
func (c *capacity) left() int { return event.MaxEntries - c.entries - c.taken }

// fits reports whether a request can add the response of a chain at an ε.
func (c *capacity) fits(q *event.Question, chain *state.Chain, epsilon privacy.Epsilon) bool {
	added := Added(q, chain, epsilon, c.to)
	return added == 0 || added <= c.left()
}

// takesLevels reports whether a request can add any level that is not recorded yet.
func (c *capacity) takesLevels(q *event.Question) bool {
	most := q.LevelEntries()
	if c.to.Buys {
		most++
	}
	return most <= c.left()
}

// heldEntries returns how many entries running requests will add to the chain that is asked for. As
// in [Reaches.hold], a request that holds itself counts only those that were there before.
func heldEntries(s *state.State, x *Subject, ask *Asking, holds []*Hold) (n int, err error) {
	for _, one := range holds {
		if one == ask.Hold {
			break
		}
		if one.Question != ask.Question.Number {
			continue
		}
		covered, err := one.Covers(s, x.Name)
		if err != nil {
			return n, err
		}
		if covered {
			n += Added(ask.Question, &x.Chain, one.Epsilon, Recipient{})
		}
	}
	return n, nil
}

// checkFull returns why the chain of an object, or its list of reservations, cannot take what is
// asked for, or nil. What is captured was counted when it was reserved.
func (l *Rules) checkFull(s *state.State, x *Subject, ask *Asking) (*api.Refusal, error) {
	if ask.Sale != 0 {
		return nil, nil
	}
	if added := Added(ask.Question, &x.Chain, ask.Epsilon, ask.recipient()); added > 0 {
		c, err := l.capacity(s, x, ask)
		if err != nil {
			return nil, err
		}
		if added > c.left() {
			return RefuseFull(x.Name, ask.Epsilon, c.entries+added <= event.MaxEntries), nil
		}
	}
	if full, err := hasAllReservations(s, x, ask); err != nil || !full {
		return nil, err
	}
	return RefuseFull(x.Name, ask.Epsilon, true), nil
}

// hasAllReservations reports whether a request is for a reservation of an object that can have no
// more of them.
func hasAllReservations(s *state.State, x *Subject, ask *Asking) (bool, error) {
	if !ask.Reserving || len(x.Object.Held) < event.MaxReservations {
		return false, nil
	}
	open, err := s.StillHeld(x.Object, 0)
	return len(open) >= event.MaxReservations, err
}

// CheckEpoch returns the refusal of a new epoch for which the chain of an object has no entry left,
// or nil. It ends the reservations of the old one.
func CheckEpoch(x *Subject, q *event.Question) *api.Refusal {
	if x.Chain.Entries(q) < event.MaxEntries {
		return nil
	}
	return RefuseFull(x.Name, privacy.Epsilon{}, false)
}

// Recipient is who gets a response of a chain.
type Recipient struct {
	Buys  bool   // a buyer, else the host
	Buyer uint32 // its number; 0 for one that is new to the ledger
}

// Added returns how many entries a chain of a question has more once a recipient has its response
// at an ε: the level, unless it is recorded, and the buyer, unless it holds the level.
func Added(q *event.Question, c *state.Chain, epsilon privacy.Epsilon, to Recipient) (n int) {
	at, recorded := state.FindLevel(c.Levels, epsilon)
	if !recorded {
		n = q.LevelEntries()
	}
	if to.Buys && !(recorded && c.Levels[at].IsHeldBy(to.Buyer)) {
		n++
	}
	return n
}

// MostPromised returns how many entries so many open reservations add to a chain at most.
func MostPromised(q *event.Question, reservations int) int {
	return reservations * (q.LevelEntries() + 1)
}

// Promised returns how many entries a chain of a question may have more once all open reservations
// of its object are captured.
func Promised(s *state.State, q *event.Question, c *state.Chain, o state.Object, at time.Time) (n int, err error) {
	for _, number := range o.Held {
		r, err := s.Sale(number)
		if err != nil {
			return 0, err
		}
		if r.Question == q.Number && r.HoldsOn(o, at) {
			n += Added(q, c, r.Epsilon, Recipient{Buys: true, Buyer: r.Buyer})
		}
	}
	return n, nil
}

// RefuseFull returns the refusal of a request for a level of an object whose chain, or whose list
// of reservations, is full.
func RefuseFull(object string, asked privacy.Epsilon, waiting bool) *api.Refusal {
	r := refuse(object, asked, api.Full, event.RemedyNothing)
	if waiting {
		r.Remedy = event.RemedyWaiting
	}
	return r
}
