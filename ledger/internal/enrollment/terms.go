package enrollment

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Terms are the terms on which an object is enrolled.
type Terms struct {
	Policy  *policy.Policy  // nil leaves it unchanged; the zero value is no policy
	Cap     privacy.Epsilon // 0 leaves it unchanged
	Consent string          // the host's statement that the object agreed; "" for none
	// Was, if it is not 0, is the cap that a comparison has found. If the cap was changed since
	// then, it is left unchanged.
	Was privacy.Epsilon
}

// List is a list of objects with their terms.
type List struct {
	Names []string // sorted
	Each  []Terms  // by index of the name; a single element is for all objects
}

// ListOf returns a list of objects. of returns the policy and the cap of each object.
func ListOf(objects []string, of func(string) (policy.Policy, privacy.Epsilon)) List {
	known, each := map[string]*policy.Policy{}, make([]Terms, len(objects))
	for i, name := range objects {
		p, limit := of(name)
		if known[p.String()] == nil {
			known[p.String()] = &p
		}
		each[i] = Terms{Policy: known[p.String()], Cap: limit}
	}
	return List{Names: objects, Each: each}
}

// Policies returns the policies of a list made by [ListOf], each once, in the order of their first
// use.
func (l *List) Policies() (all []*policy.Policy) {
	seen := map[*policy.Policy]bool{}
	for _, one := range l.Each {
		if !seen[one.Policy] {
			seen[one.Policy], all = true, append(all, one.Policy)
		}
	}
	return all
}

// AddTo writes the policies and caps of all objects, which identify a request. Each policy is
// written once.
func (l *List) AddTo(e *wire.Encoder) {
	places := map[*policy.Policy]uint64{}
	for i, p := range l.Policies() {
		places[p] = uint64(i)
		e.Text(p.String())
	}
	for _, one := range l.Each {
		e.Uvarint(places[one.Policy])
		e.Epsilon(one.Cap)
	}
}

// of returns the terms of an object.
func (l *List) of(object string) Terms {
	if len(l.Each) == 1 {
		return l.Each[0]
	}
	at, _ := slices.BinarySearch(l.Names, object)
	return l.Each[at]
}

// add appends an object.
func (l *List) add(object string, t Terms) {
	l.Names, l.Each = append(l.Names, object), append(l.Each, t)
}

// policyNumbers finds the numbers of policies, and gives the next numbers to policies that are new
// to the ledger. The number for no policy is 0.
type policyNumbers struct {
	state   *state.State
	given   map[string]uint32 // by text
	defined []event.Change    // the events that define new policies
}

// find returns the number of a policy. defined is false if it has none yet.
func (n *policyNumbers) find(p policy.Policy) (number uint32, defined bool, err error) {
	if p.IsZero() {
		return 0, true, nil
	}
	if number, defined = n.given[p.String()]; defined {
		return number, true, nil
	}
	number, defined, err = n.state.PolicyNumber(p)
	if defined {
		n.note(p, number)
	}
	return number, defined, err
}

// define gives a policy the next number.
func (n *policyNumbers) define(p policy.Policy) uint32 {
	number := n.state.Counters.Policies + uint32(len(n.defined)) + 1
	n.defined = append(n.defined, &event.PolicyDefined{Number: number, JSON: p.String()})
	n.note(p, number)
	return number
}

// note remembers the number of a policy.
func (n *policyNumbers) note(p policy.Policy, number uint32) {
	if n.given == nil {
		n.given = map[string]uint32{}
	}
	n.given[p.String()] = number
}

// move is a change of the terms of a chain and its object.
type move struct {
	isChange bool // the terms differ
	now, to  rules.Agreed
	number   uint32 // of the policy, if it is defined
	defined  bool
}

// moveFrom returns the change to these terms from a policy and a cap.
func (t Terms) moveFrom(numbers *policyNumbers, under uint32, limit privacy.Epsilon) (m move, err error) {
	m.now.Cap, m.to.Cap = limit, limit
	if !t.Cap.IsZero() {
		m.to.Cap = t.Cap
	}
	m.number, m.defined = under, true
	if t.Policy != nil {
		if m.number, m.defined, err = numbers.find(*t.Policy); err != nil {
			return m, err
		}
	}
	if m.isChange = !m.defined || m.number != under || m.to.Cap != limit; !m.isChange {
		return m, nil
	}
	if m.now.Policy, err = numbers.state.Policy(under); err != nil {
		return m, err
	}
	if m.to.Policy = m.now.Policy; t.Policy != nil {
		m.to.Policy = state.PolicyOrNone(*t.Policy)
	}
	return m, nil
}

// more returns what the change may allow in addition, if the host has not stated consent, or nil.
// It compares from the time of the clock, so that a clock that has gone back does not count what
// policies allowed until then.
func (m *move) more(s *state.State, wanted Terms) error {
	if !m.isChange || wanted.Consent != "" {
		return nil
	}
	return m.now.More(s.Known, m.to, rules.Earlier(s.Clock, s.Now))
}
