package enrollment

import (
	"context"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Withdrawal ends the part of many objects in all questions. Who was enrolled by an event behind
// AsOf stays, and so does who takes part in nothing.
type Withdrawal struct {
	Request
	Names []string // in order
	AsOf  uint64   // an event
}

// The tallies of a withdrawal.
const (
	WithdrawnNow = iota
	WithdrawnBefore
)

// Run carries it out.
func (x *Withdrawal) Run(ctx context.Context) (request.Outcome, error) {
	return x.run(ctx, x.Names, x.plan)
}

// plan says what to do with each object.
func (x *Withdrawal) plan(s *state.State, names []string) (p request.Part, err error) {
	for _, name := range names {
		o, known, err := s.Object(name)
		if err != nil {
			return p, err
		}
		part := partNone
		if known {
			if part, err = partOf(s, name, o, x.AsOf); err != nil {
				return p, err
			}
		}
		if part != partOld {
			p.Counts[WithdrawnBefore]++
			continue
		}
		p.Counts[WithdrawnNow]++
		p.Changes = append(p.Changes, &event.Withdrawn{Object: name})
	}
	return p, nil
}

// part is what an object takes part in.
type part int

const (
	partNone part = iota // nothing
	partOld              // something, all of it since an event or longer
	partNew              // something since later
)

// partOf says what an object takes part in.
func partOf(s *state.State, name string, o state.Object, asOf uint64) (part, error) {
	numbers, err := s.QuestionsOf(name)
	if err != nil {
		return partNone, err
	}
	found := partNone
	for _, number := range numbers {
		c, is, err := s.Chain(number, name)
		if err != nil || !is {
			return partNone, errs.Corrupt(err, "object %q has lost its chain in question %d", name, number)
		}
		switch {
		case o.Withdrew(c):
		case c.Enrolled > asOf:
			return partNew, nil
		default:
			found = partOld
		}
	}
	return found, nil
}
