package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// subject is one object of a request, with everything that decides about it.
type subject struct {
	name   string
	chain  chain
	object object
	policy policy.Policy
}

// readSubject is subject in memory that the caller has.
func (s *state) readSubject(q *event.Question, name string, asked privacy.Epsilon, x *subject) (*Refusal, error) {
	x.name = name
	found, err := s.readChain(q.Number, name, &x.chain)
	if err != nil {
		return nil, err
	}
	if !found {
		return &Refusal{Object: name, Reason: NotEnrolled, Asked: asked, Helps: HelpsEnrolling}, nil
	}
	if found, err = s.readObject(name, &x.object); err != nil || !found {
		return nil, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if x.object.withdrew(x.chain) {
		return &Refusal{Object: name, Reason: Withdrawn, Asked: asked, Helps: HelpsEnrolling}, nil
	}
	x.policy, err = s.policy(x.chain.policy)
	return nil, err
}
