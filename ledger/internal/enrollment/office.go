package enrollment

import (
	"context"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Request is one under a key of its own.
type Request struct {
	*request.Executor                       // of the ledger
	Key               string                // its idempotency key
	Id                event.Identity        // by which a repetition is recognized
	Question          *event.Question       // nil for all
	Partial           bool                  // refused objects are left out
	Progress          func(done, total int) // optional
}

// run executes a request for objects that are in order.
func (r *Request) run(
	ctx context.Context, objects []string, plan func(s *state.State, names []string) (request.Part, error),
) (request.Outcome, error) {
	p := request.Panel{Names: objects}
	if r.Question != nil {
		p.Question = r.Question.Number
	}
	b := request.Bulk{Key: r.Key, Id: r.Id, Panel: p, Progress: r.Progress, Work: &planning{r, plan}}
	done, err := r.Bulk(ctx, b)
	return done, callback.Tell(err)
}

// planning executes a plan. Before any part of it is done, the request is refused if an object must
// be refused.
type planning struct {
	*Request
	plan func(s *state.State, names []string) (request.Part, error)
}

// Precheck implements [request.Work].
func (x *planning) Precheck(ctx context.Context, p request.Panel, behind string) (total int, err error) {
	var refused request.RefusalList
	err = x.EachPart(ctx, &p, behind, func(s *state.State, names []string) error {
		total += len(names)
		part, err := x.plan(s, names)
		refused.Add(part.Refused...)
		return err
	})
	if err == nil {
		err = x.refuse(refused)
	}
	return total, err
}

// Truths has nothing to do: none of these requests takes true values.
func (x *planning) Truths(context.Context, string) error { return nil }

// Decide implements [request.Work].
func (x *planning) Decide(s *state.State, names []string) (request.Part, error) {
	p, err := x.plan(s, names)
	if err == nil {
		err = x.refuse(request.Refusals(p.Refused...))
	}
	return p, err
}

// refuse returns that the request is refused, if anybody is and it is not partial.
func (x *planning) refuse(refused request.RefusalList) error {
	if x.Partial || len(refused.Listed) == 0 {
		return nil
	}
	return x.Refuse(x.Key, "", x.Question, privacy.Epsilon{}, &refused, &rules.TruthFaults{})
}

// Terms are what an object takes part on.
type Terms struct {
	Policy  *policy.Policy  // nil leaves it as it is; the zero value is none
	Cap     privacy.Epsilon // 0 leaves it as it is
	Consent string          // the host's word that the object agreed; "" for none
	// Was, if it is not 0, is the cap that was there when this was found out. If it is another by
	// now, it stays so.
	Was privacy.Epsilon
}

// List is a list of objects, each with its terms.
type List struct {
	Names []string // in order
	Each  []Terms  // by the places of the names; one alone is for all
}

// ListOf returns a list of objects with the terms that a function gives each.
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

// Policies returns the policies of a list by [ListOf], each once, in the order in which they come.
func (l *List) Policies() (all []*policy.Policy) {
	seen := map[*policy.Policy]bool{}
	for _, one := range l.Each {
		if !seen[one.Policy] {
			seen[one.Policy], all = true, append(all, one.Policy)
		}
	}
	return all
}

// AddTo writes the policies and caps of all objects, by which a request is recognized. Each policy
// is written once.
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

// add adds an object behind the others.
func (l *List) add(object string, t Terms) {
	l.Names, l.Each = append(l.Names, object), append(l.Each, t)
}

// policyNumbers finds the numbers of policies, and gives those that are new to the ledger the next
// ones. None at all has the number 0.
type policyNumbers struct {
	state   *state.State
	given   map[string]uint32 // by their texts
	defined []event.Change    // that give them
}

// find returns the number of a policy, if it has one.
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

func (n *policyNumbers) note(p policy.Policy, number uint32) {
	if n.given == nil {
		n.given = map[string]uint32{}
	}
	n.given[p.String()] = number
}
