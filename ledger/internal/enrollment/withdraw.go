package enrollment

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Withdrawal is a request that withdraws many objects from all questions. Objects enrolled by an
// event after AsOf stay enrolled. Objects that are not enrolled are left unchanged.
type Withdrawal struct {
	Request
	Names []string // sorted
	AsOf  uint64   // the number of an event
}

// Run executes the withdrawal.
func (w *Withdrawal) Run(ctx context.Context) (request.Outcome, error) {
	return w.run(ctx, w.Names, w.decide)
}

// decide returns the withdrawal of an object. It returns nil if the ledger does not know the
// object, if the object is enrolled nowhere, or if an event after AsOf enrolled it. No object is
// refused.
func (w *Withdrawal) decide(s *state.State, _ *policyNumbers, name string) (event.Change, *api.Refusal, error) {
	o, known, err := s.Object(name)
	if err != nil || !known {
		return nil, nil, err
	}
	all, err := membershipsOf(s, name, o)
	if err != nil || participationOf(all, w.AsOf) != inOld {
		return nil, nil, err
	}
	return &event.Withdrawn{Object: name}, nil, nil
}

// membership describes the enrolment of an object in a question, also one from which it has
// withdrawn.
type membership struct {
	question uint32
	policy   uint32 // of its chain
	enrolled uint64 // the event that enrolled it last
	in       bool   // it has not withdrawn
}

// membershipsOf returns the memberships of an object, sorted by the numbers of the questions. It
// includes the questions from which the object has withdrawn.
func membershipsOf(s *state.State, name string, o state.Object) ([]membership, error) {
	questions, err := s.QuestionsOf(name)
	if err != nil {
		return nil, err
	}
	return membershipsIn(s, state.Listed{Name: name, Object: o, Questions: questions})
}

// membershipsIn is membershipsOf for an object whose questions are read already.
func membershipsIn(s *state.State, o state.Listed) (all []membership, err error) {
	for _, number := range o.Questions {
		c, found, err := s.Chain(number, o.Name)
		if err != nil || !found {
			return nil, errs.Corrupt(err, "object %q: its chain in question %d is missing", o.Name, number)
		}
		all = append(all, membership{question: number, policy: c.Policy, enrolled: c.Enrolled, in: !o.Withdrew(c)})
	}
	return all, nil
}

// participation describes in which questions an object is enrolled, relative to an event.
type participation int

const (
	inNone participation = iota // in no question
	inOld                       // in at least one question, and in none by a later event
	inNew                       // in at least one question by a later event
)

// participationOf returns in which questions an object with these memberships is enrolled, relative
// to the event asOf.
func participationOf(all []membership, asOf uint64) participation {
	found := inNone
	for _, m := range all {
		switch {
		case !m.in:
		case m.enrolled > asOf:
			return inNew
		default:
			found = inOld
		}
	}
	return found
}
