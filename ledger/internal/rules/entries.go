package rules

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

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
func RefuseFull(object string, asked privacy.Epsilon, waiting bool) *vocabulary.Refusal {
	r := refuse(object, asked, vocabulary.Full, vocabulary.RemedyNothing)
	if waiting {
		r.Remedy = vocabulary.RemedyWaiting
	}
	return r
}
