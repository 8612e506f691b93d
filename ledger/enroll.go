package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Enroll enrolls objects in a question. Objects that are enrolled already are not changed. An
// object that has withdrawn takes part again, and what it has spent stays spent. If an object has
// another cap than the given one, or is enrolled with another policy, it is refused
// ([api.CapDiffers], [api.PolicyDiffers]). An enrollment does not change what an object has agreed
// to; [Ledger.ChangeTerms] does.
//
// If any object is refused, no object is enrolled and the [*api.RefusedError] lists the refused
// objects, unless the request is partial. If the request gives no cap and an object is new to the
// ledger, no object is enrolled and the error is [api.ErrNoCap].
//
// A host that has a table of its own can update the ledger from it with [Ledger.Reconcile].
func (l *Ledger) Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error) {
	all, err := event.CheckObjects(r.Objects)
	if err != nil {
		return api.EnrollResult{}, err
	}
	if err := event.CheckName("idempotency key", r.Key); err != nil {
		return api.EnrollResult{}, err
	}
	if r.Terms != nil && (!r.Policy.IsZero() || !r.Cap.IsZero()) {
		return api.EnrollResult{}, errs.Invalid("Terms is set together with Policy or Cap")
	}
	q, err := l.requests.Question(ctx, r.Question)
	if err != nil {
		return api.EnrollResult{}, err
	}
	enrolment := enrollment.Enrolment{List: enrollmentList(&r, all), New: r.New}
	for _, p := range enrolment.Policies() {
		if err := event.CheckPolicy(*p); err != nil {
			return api.EnrollResult{}, err
		}
	}
	enrolment.Request = enrollment.Request{
		Executor: &l.requests, Key: r.Key, Id: enrollmentForm(&r, &enrolment.List), Question: q, Partial: r.Partial,
		Progress: r.Progress,
	}
	enrolment.DryRun = r.DryRun
	done, err := enrolment.Run(ctx)
	if err != nil {
		return api.EnrollResult{}, err
	}
	return api.EnrollResult{
		Enrolled: int(done.Counts[enrollment.Done]), Already: int(done.Counts[enrollment.Unchanged]),
		Refused: done.Refused, Unlisted: done.RefusedCount - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

// enrollmentList returns the objects with their terms: those that r.Terms returns for each, or the
// same for all.
func enrollmentList(r *api.EnrollRequest, objects []string) enrollment.List {
	if r.Terms == nil {
		return enrollment.List{Names: objects, Each: []enrollment.Terms{{Policy: &r.Policy, Cap: r.Cap}}}
	}
	return enrollment.ListOf(objects, r.Terms)
}

// enrollmentForm returns the identity of the request: digests of all its fields except the key. A
// repeated request with the same key must have the same identity.
func enrollmentForm(r *api.EnrollRequest, list *enrollment.List) event.Identity {
	f := event.NewForm("enroll")
	f.Field("Question").Text(r.Question)
	f.Field("Policy").Text(r.Policy.String())
	f.Field("Cap").Epsilon(r.Cap)
	f.Objects(list.Names, false) // false: not all objects
	f.Field("Partial").Flag(r.Partial)
	if f.Field("Terms").Flag(r.Terms != nil); r.Terms != nil {
		list.AddTo(f.ObjectField("Terms"))
	}
	return f.Finish()
}
