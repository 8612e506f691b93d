package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Agreed is what an object has agreed to in one question: the policy of its chain, and the cap over
// all questions.
type Agreed struct {
	Policy policy.Policy   // of the chain; for a chain without a policy, the policy that state has under number 0
	Cap    privacy.Epsilon // over all questions
}

// More returns an error that describes what the new terms to may allow, from a time on, that the
// terms in force, a, do not. It returns nil if they are proven to allow nothing more, so that no
// consent is needed.
func (a Agreed) More(known *state.Cache, to Agreed, from time.Time) error {
	var higher error
	if a.Cap.Less(to.Cap) {
		higher = fmt.Errorf("the cap would be ε=%s, and is ε=%s", to.Cap, a.Cap)
	}
	more := known.AtMost(to.Policy, a.Policy, from)
	if more != nil && to.Policy.Equal(policy.Fixed(privacy.MaxEpsilon())) {
		// to.Policy is the policy of a chain without one, so its comparison says nothing useful.
		more = errors.New("the policy may allow more: without a policy only the cap binds")
	}
	return errors.Join(higher, more)
}

// Refuse returns the refusal of an object that must agree to the new terms to before they apply.
// more is the error of [Agreed.More].
func (a Agreed) Refuse(object string, to Agreed, more error) api.Refusal {
	r := api.Refusal{Object: object, Reason: api.NeedsConsent, Remedy: event.RemedyConsent,
		Why: oneLine(more)}
	if a.Cap.Less(to.Cap) {
		r.Ceiling, r.Asked = a.Cap, to.Cap
	}
	return r
}

// oneLine returns the text of an error on one line, as valid UTF-8 of at most [event.MaxWhy] bytes.
// A longer text is cut.
func oneLine(more error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(more.Error(), "\n", "; "), "?")
	if len(text) > event.MaxWhy {
		text = strings.ToValidUTF8(text[:event.MaxWhy], "")
	}
	return text
}
