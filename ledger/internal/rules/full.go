package rules

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// capacity is how many entries a request can add to a chain. Entries are levels, buyers of levels,
// and ended epochs: see [event.MaxEntries].
type capacity struct {
	entries int       // entries of the chain, including those that earlier steps of the request add
	taken   int       // entries that other requests and reservations will add, or a higher number if that fits
	to      Recipient // gets the response of the request
}

// recipient returns the party that gets the requested response: the buyer, or the host if the
// request has no buyer.
func (req *Request) recipient() Recipient {
	return Recipient{Buys: req.IsNewBuyer || req.Buyer != 0, Buyer: req.Buyer}
}

// capacity returns how many entries a request can add to the chain of an object. It reads the
// reservations and holds only if an upper bound of their entries does not leave enough for any
// request.
func (l *Rules) capacity(s *state.State, subject *Subject, req *Request) (c capacity, err error) {
	q := req.Question
	c = capacity{entries: subject.Chain.Entries(q) + req.Pending, to: req.recipient()}
	holds := l.Holds.List()
	c.taken = MaxPromised(q, len(subject.Object.Held)) + len(holds)*q.LevelEntries()
	if c.taken == 0 || c.left() >= q.LevelEntries()+1 { // a request adds at most a level and its buyer
		return c, nil
	}
	if c.taken, err = Promised(s, q, &subject.Chain, subject.Object, s.Now); err != nil {
		return c, err
	}
	held, err := heldEntries(s, subject, req, holds)
	c.taken += held
	return c, err
}

// left returns how many entries can be added, even if all reservations and running requests add
// theirs. It may be negative.
func (c *capacity) left() int { return event.MaxEntries - c.entries - c.taken }

// fits reports whether the chain has enough entries left to hand out its response at an ε to the
// recipient. A recorded level that the recipient has already adds none.
func (c *capacity) fits(q *event.Question, chain *state.Chain, epsilon privacy.Epsilon) bool {
	added := Added(q, chain, epsilon, c.to)
	return added == 0 || added <= c.left()
}

// takesLevels reports whether the chain has enough entries left for a level that is not recorded
// yet and its buyer.
func (c *capacity) takesLevels(q *event.Question) bool {
	most := q.LevelEntries()
	if c.to.Buys {
		most++
	}
	return most <= c.left()
}

// heldEntries returns how many entries running requests with a hold will add to the requested
// chain. As in [Reaches.hold], a request with a hold counts only the holds before its own. holds is
// in the order in which the holds were added.
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
// for the request, or nil. The capture of a reservation is not checked, because its entries were
// counted when it was reserved.
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
			// Waiting helps if only promised entries are in the way, because they may never be
			// added.
			return RefuseFull(subject.Name, req.Epsilon, c.entries+added <= event.MaxEntries), nil
		}
	}
	if full, err := hasAllReservations(s, subject, req); err != nil || !full {
		return nil, err
	}
	return RefuseFull(subject.Name, req.Epsilon, true), nil // true: reservations end
}

// hasAllReservations reports whether the request is for a reservation and the object has the
// largest number of open reservations.
func hasAllReservations(s *state.State, subject *Subject, req *Request) (bool, error) {
	if !req.IsReservation || len(subject.Object.Held) < event.MaxReservations {
		return false, nil
	}
	open, err := s.StillHeld(subject.Object, 0) // 0: no reservation is being sold
	return len(open) >= event.MaxReservations, err
}

// CheckEpoch returns the refusal of a new epoch if the chain of the object has no entry left for
// it, or nil. Reservations are not counted, because a new epoch ends them.
func CheckEpoch(subject *Subject, q *event.Question) *api.Refusal {
	if subject.Chain.Entries(q) < event.MaxEntries {
		return nil
	}
	return RefuseFull(subject.Name, privacy.Epsilon{}, false) // no ε is requested, and waiting does not help
}

// Recipient is the party that gets a response of a chain.
type Recipient struct {
	Buys  bool   // a buyer; otherwise the host
	Buyer uint32 // number of the buyer; 0 if it is new to the ledger
}

// Added returns how many entries a chain gains when a recipient gets its response at an ε. They are
// those of the level unless it is recorded, and one for a buyer unless it holds the level.
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

// MaxPromised returns the largest number of entries that some open reservations can add to a chain:
// a level and a buyer each.
func MaxPromised(q *event.Question, reservations int) int {
	return reservations * (q.LevelEntries() + 1)
}

// Promised returns the largest number of entries that a chain gains when all reservations of its
// object that are open at a time are captured.
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
