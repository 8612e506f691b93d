package evidence

import (
	"errors"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
)

// glossary is what facts refer to: what the events before them defined and began.
type glossary struct {
	questions    map[uint32]*event.Question
	policies     map[uint32]*policy.Policy
	buyers       map[uint32]string
	reservations map[uint64]begun
	sales        map[uint64]begun
	// The numbers of the same, by what they stand for; a policy's by its canonical JSON.
	named, planned, known map[string]uint32
}

// begun is a reservation or sale as its event tells it.
type begun struct {
	event.Event
	event.Deal
}

// holds tells whether an event may be one of the objects of the sale.
func (b begun) holds(ev event.Event) bool {
	return b.Event.Number < ev.Number && ev.Number-b.Event.Number <= b.Objects && ev.Time.Equal(b.Event.Time)
}

// newGlossary returns one that knows nothing.
func newGlossary() glossary {
	return glossary{
		map[uint32]*event.Question{}, map[uint32]*policy.Policy{}, map[uint32]string{}, map[uint64]begun{}, map[uint64]begun{},
		map[string]uint32{}, map[string]uint32{}, map[string]uint32{},
	}
}

// learn takes in what an event defines or begins. In a log nothing is defined twice.
func (g *glossary) learn(ev event.Event) error {
	twice := false
	switch c := ev.Change.(type) {
	case *event.QuestionDefined:
		twice = g.named[c.Name] != 0 || g.questions[c.Number] != nil
		g.named[c.Name], g.questions[c.Number] = c.Number, event.NewQuestion(c)
	case *event.PolicyDefined:
		p, err := policy.Parse([]byte(c.JSON))
		if err != nil {
			return err
		}
		twice = g.planned[c.JSON] != 0 || g.policies[c.Number] != nil
		g.planned[c.JSON], g.policies[c.Number] = c.Number, &p
	case *event.BuyerNamed:
		twice = g.known[c.Name] != 0 || g.buyers[c.Number] != ""
		g.known[c.Name], g.buyers[c.Number] = c.Number, c.Name
	case *event.Reserved:
		_, twice = g.reservations[c.Sale]
		g.reservations[c.Sale] = begun{ev, c.Deal}
	case *event.SaleMade:
		_, twice = g.sales[c.Sale]
		g.sales[c.Sale] = begun{ev, c.Deal}
	}
	if twice {
		return errors.New("its number, or what it defines, is that of another")
	}
	return nil
}
