package rules

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Rules decide who may have what, and draw it. They know the host's keys, and what requests in
// memory hold.
type Rules struct {
	ReadOnly bool    // nothing is drawn
	Binder   *Binder // nil without a truth key
	Bound    bool    // the ledger has a truth key, whether or not it was opened with it
	// Patience is how long a source of truths may take for a batch; 0 for ever.
	Patience time.Duration
	Noise    noises // does not change after Open
	Holds    Holds  // of the raises that are under way
}

// Subject is one object of a request, with everything that decides about it.
type Subject struct {
	Name   string        // as in the request
	Chain  state.Chain   // of the question that is asked
	Object state.Object  // its budget
	Policy policy.Policy // of the chain; the zero value if only the cap binds
}

// ReadSubject reads into x what decides about an object of a request for a question at an ε. If the
// object takes no part, it returns why.
func ReadSubject(
	s *state.State, q *event.Question, name string, asked privacy.Epsilon, x *Subject,
) (*api.Refusal, error) {
	x.Name = name
	found, err := s.ReadChain(q.Number, name, &x.Chain)
	if err != nil {
		return nil, err
	}
	if !found {
		return refuse(name, asked, api.NotEnrolled, event.RemedyEnrolling), nil
	}
	if found, err = s.ReadObject(name, &x.Object); err != nil || !found {
		return nil, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if x.Object.Withdrew(x.Chain) {
		return refuse(name, asked, api.Withdrawn, event.RemedyEnrolling), nil
	}
	x.Policy, err = s.Policy(x.Chain.Policy)
	return nil, err
}

// LacksTruth refuses an object that the host has no true value of, or another than its chain began
// with: the refusal does not say which.
func LacksTruth(object string, asked privacy.Epsilon) *api.Refusal {
	return refuse(object, asked, api.NoTruth, event.RemedyTruth)
}

// refuse returns the refusal of an object that asks for an ε.
func refuse(object string, asked privacy.Epsilon, why api.Reason, remedy string) *api.Refusal {
	return &api.Refusal{Object: object, Reason: why, Asked: asked, Remedy: remedy}
}
