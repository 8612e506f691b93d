package ledger

import (
	"context"
	"errors"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// ChangeTerms puts objects under another policy, or another cap, from now on. Less always works, at
// once: a lower cap, also below what is spent, so that nothing remains; a lower ceiling, higher
// prices, fewer buyers, an earlier end. Whatever may be more needs the consent of the objects,
// which the host states ([api.ChangeTermsRequest.Consent]): without it, an object is refused
// ([api.NeedsConsent]) unless [policy.Policy.AtMost] proves that, at every later instant and after any number
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
// again. Objects that were never enrolled in the question are refused ([api.NotEnrolled]). If any
// object is refused, nothing happens, unless the request is partial. Many are dealt with in
// transactions of bounded size, as by [Ledger.Raise]; nothing holds what others change meanwhile
// ([api.ErrPartlyDone]).
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
	x := enrollment.TermsChange{
		Request: enrollment.Request{
			Executor: &l.requests, Key: r.Key, Id: termsForm(&r, all), Question: q, Partial: r.Partial,
			Progress: r.Progress,
		},
		List: enrollment.List{Names: all, Each: []enrollment.Terms{terms}},
	}
	done, err := x.Run(ctx)
	if err != nil {
		return api.ChangeTermsResult{}, err
	}
	return api.ChangeTermsResult{
		Changed: int(done.Counts[enrollment.Done]), Unchanged: int(done.Counts[enrollment.Unchanged]),
		Refused: done.Refused, Unlisted: done.Left - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

func checkTerms(r *api.ChangeTermsRequest) error {
	if r.Policy == nil && r.Cap.IsZero() {
		return errs.Invalid("neither a policy nor a cap is given")
	}
	err := event.CheckName("idempotency key", r.Key)
	if r.Consent != "" {
		err = errors.Join(err, event.CheckText("consent", r.Consent))
	}
	return err
}

func termsForm(r *api.ChangeTermsRequest, objects []string) event.Identity {
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
