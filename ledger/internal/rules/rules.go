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

// Rules decides what each request may have of each object, and draws responses. It has the host's
// keys, and the budget held by running requests.
type Rules struct {
	ReadOnly    bool    // nothing is drawn
	Binder      *Binder // nil without a truth key
	HasTruthKey bool    // the ledger has a truth key, even if it was opened without it
	// Patience is how long a source of true values may take for a batch; 0 for no limit.
	Patience time.Duration
	Noise    noiseKeys // does not change after Open
	Holds    Holds     // of the running raises
}

// Subject is one object of a request, with all records that decide about it.
type Subject struct {
	Name   string        // as in the request
	Chain  state.Chain   // in the question of the request
	Object state.Object  // its budget
	Policy policy.Policy // of the chain; the zero value if only the cap limits it
}

// ReadSubject reads into subject the records that decide about an object, for a request for a
// question at an ε. It returns a refusal if the object is not enrolled or has withdrawn. The policy
// is then not read, and the other records may be.
func ReadSubject(
	s *state.State, q *event.Question, name string, asked privacy.Epsilon, subject *Subject,
) (*api.Refusal, error) {
	subject.Name = name
	found, err := s.ReadChain(q.Number, name, &subject.Chain)
	if err != nil {
		return nil, err
	}
	if !found {
		return refuse(name, asked, api.NotEnrolled, event.RemedyEnrolling), nil
	}
	if found, err = s.ReadObject(name, &subject.Object); err != nil || !found {
		return nil, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if subject.Object.Withdrew(subject.Chain) {
		return refuse(name, asked, api.Withdrawn, event.RemedyEnrolling), nil
	}
	subject.Policy, err = s.Policy(subject.Chain.Policy)
	return nil, err
}

// LacksTruth returns the refusal of an object that has no usable true value. The host has none, an
// invalid one, or another one than its chain began with. The refusal does not say which of these it
// is.
func LacksTruth(object string, asked privacy.Epsilon) *api.Refusal {
	return refuse(object, asked, api.NoTruth, event.RemedyTruth)
}

// refuse returns the refusal of an object at an ε.
func refuse(object string, asked privacy.Epsilon, why api.Reason, remedy string) *api.Refusal {
	return &api.Refusal{Object: object, Reason: why, Asked: asked, Remedy: remedy}
}
