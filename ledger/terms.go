package ledger

import (
	"context"
	"errors"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// ChangeTerms changes the policy or the cap of objects from now on. Terms that allow less are
// always accepted, and apply at once. Examples are a lower cap, even one below what is spent, so
// that nothing remains; a lower ceiling, higher prices, fewer buyers, an earlier end.
//
// Terms that may allow more need the consent of the objects, which the host states
// ([api.ChangeTermsRequest.Consent]). Without it, an object is refused ([api.NeedsConsent]) if its
// cap rises. It is also refused unless [policy.Policy.AtMost] proves that the new policy allows no
// more than the old one. The proof covers every later instant, and any number of buyers. A change
// that AtMost cannot prove also needs consent.
//
// What was released stays released, and what was paid stays paid. A buyer who upgrades pays the new
// price less what that buyer has paid for the object, never less than zero. A reservation keeps its
// price, and its place among the limited number of holders of a level, but not the budget. An
// object that has too little budget left at the capture is refused, or left out. Levels that were
// released stay on sale, under the new terms.
//
// The terms of an object that has withdrawn change too, and apply when it is enrolled again.
// Objects that were never enrolled in the question are refused ([api.NotEnrolled]). If any object
// is refused, nothing happens, unless the request is partial. Many objects are processed in
// transactions of bounded size, as by [Ledger.Raise]. Nothing is held in between, so concurrent
// requests may change what the later parts need ([api.ErrPartlyDone]).
//
// Other errors: [api.ErrUnknown] for the question; [api.ErrInvalid]; [*api.KeyConflictError];
// [api.ErrReadOnly]; and [api.ErrForgotten] if the only object was forgotten since the key was
// used.
func (l *Ledger) ChangeTerms(ctx context.Context, r api.ChangeTermsRequest) (api.ChangeTermsResult, error) {
	all, err := event.CheckObjects(r.Objects)
	if err != nil {
		return api.ChangeTermsResult{}, err
	}
	if err := checkTerms(&r); err != nil {
		return api.ChangeTermsResult{}, err
	}
	if r.Policy != nil {
		if err := event.CheckPolicy(*r.Policy); err != nil {
			return api.ChangeTermsResult{}, err
		}
	}
	q, err := l.requests.Question(ctx, r.Question)
	if err != nil {
		return api.ChangeTermsResult{}, err
	}
	terms := enrollment.Terms{Policy: r.Policy, Cap: r.Cap, Consent: r.Consent}
	change := enrollment.TermsChange{
		Request: enrollment.Request{
			Executor: &l.requests, Key: r.Key, Id: termsForm(&r, all), Question: q, Partial: r.Partial,
			Progress: r.Progress,
		},
		List: enrollment.List{Names: all, Each: []enrollment.Terms{terms}},
	}
	done, err := change.Run(ctx)
	if err != nil {
		return api.ChangeTermsResult{}, err
	}
	return api.ChangeTermsResult{
		Changed: int(done.Counts[enrollment.Done]), Unchanged: int(done.Counts[enrollment.Unchanged]),
		Refused: done.Refused, Unlisted: done.RefusedCount - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

// checkTerms returns [api.ErrInvalid] for a request that names no terms, or has an invalid key or
// consent.
func checkTerms(r *api.ChangeTermsRequest) error {
	if r.Policy == nil && r.Cap.IsZero() {
		return errs.Invalid("neither Policy nor Cap is set: set the terms to change")
	}
	err := event.CheckName("idempotency key", r.Key)
	if r.Consent != "" {
		err = errors.Join(err, event.CheckText("consent", r.Consent))
	}
	return err
}

// termsForm returns the identity of the request: digests of all its fields except the key. A
// repeated request with the same key must have the same identity.
func termsForm(r *api.ChangeTermsRequest, objects []string) event.Identity {
	f := event.NewForm("terms")
	f.Field("Question").Text(r.Question)
	p := f.Field("Policy")
	if p.Flag(r.Policy != nil); r.Policy != nil {
		p.Text(r.Policy.String())
	}
	f.Field("Cap").Epsilon(r.Cap)
	f.Field("Consent").Text(r.Consent)
	f.Objects(objects, false) // false: not all objects
	f.Field("Partial").Flag(r.Partial)
	return f.Finish()
}
