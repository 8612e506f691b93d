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
	entries int // present entries, including those that the request adds before
	taken   int // entries that reservations and running requests will add, or an upper bound if that fits
	to      Recipient
}

// recipient returns the party that gets the requested response.
func (req *Request) recipient() Recipient {
	return Recipient{Buys: req.IsNewBuyer || req.Buyer != 0, Buyer: req.Buyer}
}

// capacity returns how many entries a request can add to the chain of an object. It reads
// reservations only if the result may depend on them.
func (l *Rules) capacity(s *state.State, subject *Subject, req *Request) (c capacity, err error) {
	q := req.Question
	c = capacity{entries: subject.Chain.Entries(q) + req.Pending, to: req.recipient()}
	holds := l.Holds.List()
	c.taken = MaxPromised(q, len(subject.Object.Held)) + len(holds)*q.LevelEntries()
	if c.taken == 0 || c.left() >= q.LevelEntries()+1 {
		return c, nil
	}
	if c.taken, err = Promised(s, q, &subject.Chain, subject.Object, s.Now); err != nil {
		return c, err
	}
	held, err := heldEntries(s, subject, req, holds)
	c.taken += held
	return c, err
}

// left returns how many entries can be added without counting on reservations or requests to end.
func (c *capacity) left() int { return event.MaxEntries - c.entries - c.taken }

// fits reports whether the response of a chain at an ε can be added.
func (c *capacity) fits(q *event.Question, chain *state.Chain, epsilon privacy.Epsilon) bool {
	added := Added(q, chain, epsilon, c.to)
	return added == 0 || added <= c.left()
}

// takesLevels reports whether any level that is not recorded yet can be added.
func (c *capacity) takesLevels(q *event.Question) bool {
	most := q.LevelEntries()
	if c.to.Buys {
		most++
	}
	return most <= c.left()
}

// heldEntries returns how many entries running requests will add to the requested chain. As in
// [Reaches.hold], a request with a hold counts only holds that are older than its own.
func heldEntries(s *state.State, subject *Subject, req *Request, holds []*Hold) (n int, err error) {
	for _, one := range holds {
		if one == req.Hold {
			break
		}
		if one.Question != req.Question.Number {
			continue
		}
		covered, err := one.Covers(s, subject.Name)
		if err != nil {
			return n, err
		}
		if covered {
			n += Added(req.Question, &subject.Chain, one.Epsilon, Recipient{})
		}
	}
	return n, nil
}

// checkFull returns the refusal of an object if its chain or its list of reservations is too full
// for the request, or nil. A captured reservation is not checked, because it was counted when it
// was reserved.
func (l *Rules) checkFull(s *state.State, subject *Subject, req *Request) (*api.Refusal, error) {
	if req.Sale != 0 {
		return nil, nil
	}
	if added := Added(req.Question, &subject.Chain, req.Epsilon, req.recipient()); added > 0 {
		c, err := l.capacity(s, subject, req)
		if err != nil {
			return nil, err
		}
		if added > c.left() {
			return RefuseFull(subject.Name, req.Epsilon, c.entries+added <= event.MaxEntries), nil
		}
	}
	if full, err := hasAllReservations(s, subject, req); err != nil || !full {
		return nil, err
	}
	return RefuseFull(subject.Name, req.Epsilon, true), nil
}

// hasAllReservations reports whether the request is for a reservation and the object has the
// largest number of open reservations.
func hasAllReservations(s *state.State, subject *Subject, req *Request) (bool, error) {
	if !req.IsReservation || len(subject.Object.Held) < event.MaxReservations {
		return false, nil
	}
	open, err := s.StillHeld(subject.Object, 0)
	return len(open) >= event.MaxReservations, err
}

// CheckEpoch returns the refusal of a new epoch if the chain of the object has no entry left for
// it, or nil. Reservations are not counted, because a new epoch ends them.
func CheckEpoch(subject *Subject, q *event.Question) *api.Refusal {
	if subject.Chain.Entries(q) < event.MaxEntries {
		return nil
	}
	return RefuseFull(subject.Name, privacy.Epsilon{}, false)
}

// Recipient is the party that gets a response of a chain.
type Recipient struct {
	Buys  bool   // a buyer; otherwise the host
	Buyer uint32 // number of the buyer; 0 if it is new to the ledger
}

// Added returns how many entries a chain gains when a recipient gets its response at an ε. A level
// counts unless it is recorded, and a buyer counts unless it holds the level.
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

// MaxPromised returns the largest number of entries that some open reservations can add to a
// chain.
func MaxPromised(q *event.Question, reservations int) int {
	return reservations * (q.LevelEntries() + 1)
}

// Promised returns the number of entries that a chain gains at most when all open reservations of
// its object are captured.
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

// RefuseFull returns the refusal of an object whose chain or list of reservations is full. waiting
// reports whether waiting helps.
func RefuseFull(object string, asked privacy.Epsilon, waiting bool) *api.Refusal {
	r := refuse(object, asked, api.Full, event.RemedyNothing)
	if waiting {
		r.Remedy = event.RemedyWaiting
	}
	return r
}
