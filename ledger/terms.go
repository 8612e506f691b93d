package ledger

import (
	"context"
	"errors"

	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// ChangeTermsRequest puts objects under other terms.
type ChangeTermsRequest struct {
	Key      string   `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // that are, or were, enrolled in the question
	// Policy is that of each object's chain from now on. nil leaves each as it is; a pointer to the
	// zero value sets none, so that only the cap binds.
	Policy *policy.Policy `json:"-"`
	// Cap is the largest ε each object may spend over all its chains, from now on. 0 leaves each as
	// it is.
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Consent is the host's word that the objects have agreed to the new terms: 1 to 1,024 bytes of
	// UTF-8 without control characters, that tell an auditor where to look. It is needed if
	// anything is more than before. The log keeps it until the object is forgotten, and the
	// object's statement shows it.
	Consent  string   `json:"consent,omitempty"`
	Partial  bool     `json:"partial,omitempty"` // leave refused objects out, rather than refuse the request
	Progress Progress `json:"-"`                 // optional
}

// ChangeTermsResult tells what a change of terms did.
type ChangeTermsResult struct {
	Changed   int `json:"changed"`   // under other terms now
	Unchanged int `json:"unchanged"` // under these before
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them.
	// [Ledger.Refusals] yields all.
	Refused  []Refusal `json:"refused"`
	Unlisted int       `json:"unlisted"` // how many more were left out, or were and are forgotten since
	First    uint64    `json:"first"`    // first and last event; other requests' events may lie between
	Last     uint64    `json:"last"`     // as First
}

// ChangeTerms puts objects under another policy, or another cap, from now on. Less always works, at
// once: a lower cap, also below what is spent, so that nothing remains; a lower ceiling, higher
// prices, fewer buyers, an earlier end. Whatever may be more needs the consent of the objects,
// which the host states ([ChangeTermsRequest.Consent]): without it, an object is refused
// ([NeedsConsent]) unless [policy.Policy.AtMost] proves that, at every later instant and after any number
// of buyers, the new policy allows nothing that the old one does not, and the cap is not higher.
// What it cannot prove needs consent, too.
//
// What was released stays released, and what was paid stays paid. Who upgrades pays the new price
// less what that buyer has paid for the object, never less than nothing. A reservation keeps its
// price, and its place among those who may hold a level; but not the budget: whoever has too little
// left when it is captured is refused, or left out. Levels that were released stay on sale as the
// new terms say.
//
// Who has withdrawn is put under the new terms as well, and takes part under them when enrolled
// again. Objects that were never enrolled in the question are refused ([NotEnrolled]). If any
// object is refused, nothing happens, unless the request is partial. Many are dealt with in
// transactions of bounded size, as by [Ledger.Raise]; nothing holds what others change meanwhile
// ([ErrPartlyDone]).
//
// Other errors: [ErrUnknown] for the question; [ErrInvalid]; [ErrKeyConflict]; [ErrReadOnly]; and
// [ErrForgotten] if the only object was forgotten since the key was used.
func (l *Ledger) ChangeTerms(ctx context.Context, r ChangeTermsRequest) (ChangeTermsResult, error) {
	all, err := event.CheckObjects(r.Objects)
	if err != nil {
		return ChangeTermsResult{}, err
	}
	if err := r.check(); err != nil {
		return ChangeTermsResult{}, err
	}
	if r.Policy != nil {
		if err := event.CheckPolicy(*r.Policy); err != nil {
			return ChangeTermsResult{}, err
		}
	}
	q, err := l.requests.Question(ctx, r.Question)
	if err != nil {
		return ChangeTermsResult{}, err
	}
	terms := enrollment.Terms{Policy: r.Policy, Cap: r.Cap, Consent: r.Consent}
	x := enrollment.TermsChange{
		Request: enrollment.Request{
			Executor: &l.requests, Key: r.Key, Id: r.form(all), Question: q, Partial: r.Partial, Progress: r.Progress,
		},
		List: enrollment.List{Names: all, Each: []enrollment.Terms{terms}},
	}
	done, err := x.Run(ctx)
	if err != nil {
		return ChangeTermsResult{}, err
	}
	return ChangeTermsResult{
		Changed: int(done.Counts[enrollment.Done]), Unchanged: int(done.Counts[enrollment.Unchanged]),
		Refused: done.Refused, Unlisted: done.Left - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

func (r *ChangeTermsRequest) check() error {
	if r.Policy == nil && r.Cap.IsZero() {
		return errs.Invalid("neither a policy nor a cap is given")
	}
	err := event.CheckName("idempotency key", r.Key)
	if r.Consent != "" {
		err = errors.Join(err, event.CheckText("consent", r.Consent))
	}
	return err
}

func (r *ChangeTermsRequest) form(objects []string) event.Identity {
	f := event.NewForm("terms")
	f.Field("Question").Text(r.Question)
	p := f.Field("Policy")
	if p.Flag(r.Policy != nil); r.Policy != nil {
		p.Text(r.Policy.String())
	}
	f.Field("Cap").Epsilon(r.Cap)
	f.Field("Consent").Text(r.Consent)
	f.Objects(objects, false)
	f.Field("Partial").Flag(r.Partial)
	return f.Finish()
}
