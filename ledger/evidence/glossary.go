package evidence

import (
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
)

// glossary is what facts refer to: what the events before them defined and began. It is
// [event.Numbers].
type glossary struct {
	questions    map[uint32]*event.Question
	policies     map[uint32]*policy.Policy
	buyers       map[uint32]string
	reservations map[uint64]begun
	sales        map[uint64]begun
	// The numbers of the same, by what they stand for; a policy's by its canonical JSON.
	named, planned, known map[string]uint32
	// spare are the events that defined or began what nothing has referred to yet.
	spare map[term]uint64
}

// term is what is referred to by its number: a question, policy, buyer, reservation or sale, by the
// kind of the event that defines it.
type term struct {
	kind   event.Kind
	number uint64
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
		questions: map[uint32]*event.Question{}, named: map[string]uint32{},
		policies: map[uint32]*policy.Policy{}, planned: map[string]uint32{},
		buyers: map[uint32]string{}, known: map[string]uint32{},
		reservations: map[uint64]begun{}, sales: map[uint64]begun{}, spare: map[term]uint64{},
	}
}

// learn takes in what an event defines or begins. In a log nothing is defined twice.
func (g *glossary) learn(ev event.Event) error {
	twice, of := false, term{kind: ev.Change.Kind()}
	switch c := ev.Change.(type) {
	case *event.QuestionDefined:
		of.number = uint64(c.Number)
		twice = g.named[c.Name] != 0 || g.questions[c.Number] != nil
		g.named[c.Name], g.questions[c.Number] = c.Number, event.NewQuestion(c)
	case *event.PolicyDefined:
		p, err := policy.Parse([]byte(c.JSON))
		if err != nil {
			return err
		}
		of.number = uint64(c.Number)
		twice = g.planned[c.JSON] != 0 || g.policies[c.Number] != nil
		g.planned[c.JSON], g.policies[c.Number] = c.Number, &p
	case *event.BuyerNamed:
		of.number = uint64(c.Number)
		twice = g.known[c.Name] != 0 || g.buyers[c.Number] != ""
		g.known[c.Name], g.buyers[c.Number] = c.Number, c.Name
	case *event.Reserved:
		of.number = c.Sale
		_, twice = g.reservations[c.Sale]
		g.reservations[c.Sale] = begun{ev, c.Deal}
	case *event.SaleMade:
		of.number = c.Sale
		_, twice = g.sales[c.Sale]
		g.sales[c.Sale] = begun{ev, c.Deal}
	}
	if of.number != 0 {
		g.spare[of] = ev.Number
	}
	if twice {
		return errors.New("its number, or what it defines, is that of another")
	}
	return nil
}

// use notes what an event refers to.
func (g *glossary) use(c event.Change) {
	need := func(kind event.Kind, number uint64) { delete(g.spare, term{kind, number}) }
	refers := event.ReferencesOf(c)
	need(event.KindQuestion, uint64(refers.Question))
	need(event.KindPolicy, uint64(refers.Policy))
	need(event.KindBuyer, uint64(refers.Buyer))
	need(event.KindReserved, refers.Reservation)
	need(event.KindSale, refers.Sale)
	if c, is := c.(*event.Forgotten); is {
		for _, r := range c.Chains {
			need(event.KindQuestion, uint64(r.Question))
			need(event.KindPolicy, uint64(r.Policy))
		}
	}
}

// Question implements [event.Names].
func (g *glossary) Question(number uint32) (*event.Question, error) {
	if q := g.questions[number]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("question %d is not defined before", number)
}

// Policy implements [event.Names].
func (g *glossary) Policy(number uint32) (policy.Policy, error) {
	if p := g.policies[number]; p != nil {
		return *p, nil
	}
	return policy.Policy{}, fmt.Errorf("policy %d is not defined before", number)
}

// BuyerName implements [event.Names].
func (g *glossary) BuyerName(number uint32) (string, error) {
	if name := g.buyers[number]; name != "" {
		return name, nil
	}
	return "", fmt.Errorf("buyer %d is not named before", number)
}

// NoiseKeyName implements [event.Names]. A fact has the number of a noise key, and not its name.
func (g *glossary) NoiseKeyName(uint32) (string, error) { return "", nil }

// Deal implements [event.Names].
func (g *glossary) Deal(by event.Kind, sale uint64) (event.Deal, error) {
	all := g.sales
	if by == event.KindReserved {
		all = g.reservations
	}
	if of, known := all[sale]; known {
		return of.Deal, nil
	}
	return event.Deal{}, fmt.Errorf("sale %d is not there before", sale)
}

// QuestionNumber implements [event.Numbers].
func (g *glossary) QuestionNumber(name string) uint32 { return g.named[name] }

// PolicyNumber implements [event.Numbers].
func (g *glossary) PolicyNumber(json string) uint32 { return g.planned[json] }

// BuyerNumber implements [event.Numbers].
func (g *glossary) BuyerNumber(name string) uint32 { return g.known[name] }
