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
	// Was is 0, or the cap that a comparison has found. If it is not 0 and the ledger has another
	// cap since then, the cap is left unchanged.
	Was privacy.Epsilon
}

// List is a list of objects with their terms.
type List struct {
	Names []string // sorted
	Each  []Terms  // by index of the name; a single element is for all objects
}

// ListOf returns a list of objects, whose names must be sorted. of returns the policy and the cap
// of an object. Equal policies share one pointer, by which [List.Policies] recognizes them.
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

// AddTo writes the policies and caps of all objects to e, for the digest that identifies the
// request. The list must be made by [ListOf]. First come the different policies, then for each
// object the index of its policy and its cap.
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

// of returns the terms of an object of the list.
func (l *List) of(object string) Terms {
	if len(l.Each) == 1 {
		return l.Each[0]
	}
	at, _ := slices.BinarySearch(l.Names, object)
	return l.Each[at]
}

// add appends an object. Names must be added in rising order.
func (l *List) add(object string, t Terms) {
	l.Names, l.Each = append(l.Names, object), append(l.Each, t)
}

// policyNumbers finds the numbers of policies, and gives the next numbers to policies that are new
// to the ledger. The number for no policy is 0. It is used for one transaction or snapshot.
type policyNumbers struct {
	state   *state.State
	given   map[string]uint32 // numbers found or given so far, by text of the policy
	defined []event.Change    // the events that define the new policies
}

// find returns the number of a policy. defined is false if the policy has no number yet, neither in
// the ledger nor from define.
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

// define gives a policy the next number, and adds the event that defines it to n.defined. The
// caller must record that event.
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
	isChange bool         // the new terms differ from those in force; otherwise the policies are not set
	now, to  rules.Agreed // the terms in force, and the new terms
	number   uint32       // of the new policy, if defined is set
	defined  bool         // the new policy has a number already
}

// moveFrom returns the change to the terms t from the terms in force: the policy with the number
// under, and a cap. What t leaves unchanged is taken from the terms in force.
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
		m.to.Policy = state.PolicyOrNone(*t.Policy) // for no policy, that of a chain limited by the cap alone
	}
	return m, nil
}

// more returns an error that describes what the change may allow in addition. It returns nil if the
// change allows nothing more, or if the host has stated consent. It compares from the earlier of
// the clock and the time of the log. The ceilings are those of the clock, which may have gone back,
// so what the policies allow from the clock on counts.
func (m *move) more(s *state.State, wanted Terms) error {
	if !m.isChange || wanted.Consent != "" {
		return nil
	}
	return m.now.More(s.Known, m.to, rules.Earlier(s.Clock, s.Now))
}
