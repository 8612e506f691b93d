package event

import (
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/policy"
)

// Glossary has the definitions, sales and reservations of the earlier events of a log or
// statement, which [Glossary.Learn] adds. It implements [Numbers].
type Glossary struct {
	Questions    map[uint32]*Question      // by number
	Policies     map[uint32]*policy.Policy // by number
	Buyers       map[uint32]string         // names, by number
	Reservations map[uint64]Begun          // by the number of their sale
	Sales        map[uint64]Begun          // by number
	// named has the numbers of questions by name, planned those of policies by their canonical
	// JSON, and known those of buyers by name.
	named, planned, known map[string]uint32
	// Spare has the event of each definition, sale or reservation to which no event has referred
	// yet.
	Spare map[Term]uint64
}

// Term identifies a question, policy, buyer, reservation or sale by its number and by the kind of
// the event that defines it.
type Term struct {
	kind   Kind
	number uint64
}

// Begun is a reservation or sale with the event that started it.
type Begun struct {
	Event
	Deal
}

// Holds reports whether ev can be the event of one of the objects of the sale or reservation. Their
// events directly follow the event that started it, at the same time. Holds checks only the number
// and the time of ev.
func (b Begun) Holds(ev Event) bool {
	return b.Event.Number < ev.Number && ev.Number-b.Event.Number <= b.Objects && ev.Time.Equal(b.Event.Time)
}

// NewGlossary returns an empty glossary.
func NewGlossary() *Glossary {
	return &Glossary{
		Questions: map[uint32]*Question{}, named: map[string]uint32{},
		Policies: map[uint32]*policy.Policy{}, planned: map[string]uint32{},
		Buyers: map[uint32]string{}, known: map[string]uint32{},
		Reservations: map[uint64]Begun{}, Sales: map[uint64]Begun{}, Spare: map[Term]uint64{},
	}
}

// Learn adds what an event defines or starts, and adds its number to Spare. For other kinds it does
// nothing. It returns an error if a policy is invalid. It also returns an error if the number or
// the name is already defined, but then replaces the earlier definition.
func (g *Glossary) Learn(ev Event) error {
	// twice: the number or the name is already defined; of: what the event defines
	twice, of := false, Term{kind: ev.Change.Kind()}
	switch c := ev.Change.(type) {
	case *QuestionDefined:
		of.number = uint64(c.Number)
		twice = g.named[c.Name] != 0 || g.Questions[c.Number] != nil
		g.named[c.Name], g.Questions[c.Number] = c.Number, NewQuestion(c)
	case *PolicyDefined:
		p, err := policy.Parse([]byte(c.JSON))
		if err != nil {
			return err
		}
		of.number = uint64(c.Number)
		twice = g.planned[c.JSON] != 0 || g.Policies[c.Number] != nil
		g.planned[c.JSON], g.Policies[c.Number] = c.Number, &p
	case *BuyerNamed:
		of.number = uint64(c.Number)
		twice = g.known[c.Name] != 0 || g.Buyers[c.Number] != ""
		g.known[c.Name], g.Buyers[c.Number] = c.Number, c.Name
	case *Reserved:
		of.number = c.Sale
		_, twice = g.Reservations[c.Sale]
		g.Reservations[c.Sale] = Begun{ev, c.Deal}
	case *SaleMade:
		of.number = c.Sale
		_, twice = g.Sales[c.Sale]
		g.Sales[c.Sale] = Begun{ev, c.Deal}
	}
	if of.number != 0 {
		g.Spare[of] = ev.Number
	}
	if twice {
		return errors.New("its number or name is already defined")
	}
	return nil
}

// Use removes from Spare the definitions, sales and reservations that a change refers to.
func (g *Glossary) Use(c Change) {
	// need removes a term from Spare; the number 0 is never in it
	need := func(kind Kind, number uint64) { delete(g.Spare, Term{kind, number}) }
	refers := ReferencesOf(c)
	need(KindQuestion, uint64(refers.Question))
	need(KindPolicy, uint64(refers.Policy))
	need(KindBuyer, uint64(refers.Buyer))
	need(KindReserved, refers.Reservation)
	need(KindSale, refers.Sale)
	if c, is := c.(*Forgotten); is {
		for _, r := range c.Chains {
			need(KindQuestion, uint64(r.Question))
			need(KindPolicy, uint64(r.Policy))
		}
	}
}

// Question implements [Names].
func (g *Glossary) Question(number uint32) (*Question, error) {
	if q := g.Questions[number]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("no earlier event defines question %d", number)
}

// Policy implements [Names].
func (g *Glossary) Policy(number uint32) (policy.Policy, error) {
	if p := g.Policies[number]; p != nil {
		return *p, nil
	}
	return policy.Policy{}, fmt.Errorf("no earlier event defines policy %d", number)
}

// BuyerName implements [Names].
func (g *Glossary) BuyerName(number uint32) (string, error) {
	if name := g.Buyers[number]; name != "" {
		return name, nil
	}
	return "", fmt.Errorf("no earlier event names buyer %d", number)
}

// NoiseKeyName implements [Names]. It returns "", because a fact has the number of a noise key and
// not its name.
func (g *Glossary) NoiseKeyName(uint32) (string, error) { return "", nil }

// Deal implements [Names]. It looks up a reservation if by is [KindReserved], and otherwise a sale.
func (g *Glossary) Deal(by Kind, sale uint64) (Deal, error) {
	all := g.Sales
	if by == KindReserved {
		all = g.Reservations
	}
	if of, known := all[sale]; known {
		return of.Deal, nil
	}
	return Deal{}, fmt.Errorf("no earlier event starts sale %d", sale)
}

// QuestionNumber implements [Numbers].
func (g *Glossary) QuestionNumber(name string) uint32 { return g.named[name] }

// PolicyNumber implements [Numbers].
func (g *Glossary) PolicyNumber(json string) uint32 { return g.planned[json] }

// BuyerNumber implements [Numbers].
func (g *Glossary) BuyerNumber(name string) uint32 { return g.known[name] }
