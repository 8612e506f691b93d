package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// subject is one object of a request, with everything that decides about it.
type subject struct {
	name   string
	chain  state.Chain
	object state.Object
	policy policy.Policy
}

// readSubject is subject in memory that the caller has.
func readSubject(s *state.State, q *event.Question, name string, asked privacy.Epsilon, x *subject) (*Refusal, error) {
	x.name = name
	found, err := s.ReadChain(q.Number, name, &x.chain)
	if err != nil {
		return nil, err
	}
	if !found {
		return &Refusal{Object: name, Reason: NotEnrolled, Asked: asked, Helps: HelpsEnrolling}, nil
	}
	if found, err = s.ReadObject(name, &x.object); err != nil || !found {
		return nil, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if x.object.Withdrew(x.chain) {
		return &Refusal{Object: name, Reason: Withdrawn, Asked: asked, Helps: HelpsEnrolling}, nil
	}
	x.policy, err = s.Policy(x.chain.Policy)
	return nil, err
}
