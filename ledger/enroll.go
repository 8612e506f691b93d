package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Enroll enrols objects in a question. Those enrolled already are left as they are; one that has
// withdrawn takes part again, with everything it has spent. If an object is known with another cap
// than the one given, or enrolled with another policy, it is refused ([api.CapDiffers],
// [api.PolicyDiffers]): what somebody has agreed to does not change in passing, but by
// [Ledger.ChangeTerms]. If any object is refused, nobody is enrolled and the [*api.RefusedError] says
// who, unless the request is partial. If it gives no cap and somebody is new to the ledger, nobody
// is enrolled and the error is [api.ErrNoCap].
//
// A host that has a table of its own brings the ledger in line with it by [Ledger.Reconcile].
func (l *Ledger) Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error) {
	all, err := event.CheckObjects(r.Objects)
	if err != nil {
		return api.EnrollResult{}, err
	}
	if err := event.CheckName("idempotency key", r.Key); err != nil {
		return api.EnrollResult{}, err
	}
	if r.Terms != nil && (!r.Policy.IsZero() || !r.Cap.IsZero()) {
		return api.EnrollResult{}, errs.Invalid("a policy or a cap for all, and terms for each")
	}
	q, err := l.requests.Question(ctx, r.Question)
	if err != nil {
		return api.EnrollResult{}, err
	}
	x := enrollment.Enrolment{List: enrollmentList(&r, all), New: r.New}
	for _, p := range x.Policies() {
		if err := event.CheckPolicy(*p); err != nil {
			return api.EnrollResult{}, err
		}
	}
	x.Request = enrollment.Request{
		Executor: &l.requests, Key: r.Key, Id: enrollmentForm(&r, &x.List), Question: q, Partial: r.Partial,
		Progress: r.Progress,
	}
	x.DryRun = r.DryRun
	done, err := x.Run(ctx)
	if err != nil {
		return api.EnrollResult{}, err
	}
	return api.EnrollResult{
		Enrolled: int(done.Counts[enrollment.Done]), Already: int(done.Counts[enrollment.Unchanged]),
		Refused: done.Refused, Unlisted: done.Left - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

// enrollmentList returns the objects with their terms.
func enrollmentList(r *api.EnrollRequest, objects []string) enrollment.List {
	if r.Terms == nil {
		return enrollment.List{Names: objects, Each: []enrollment.Terms{{Policy: &r.Policy, Cap: r.Cap}}}
	}
	return enrollment.ListOf(objects, r.Terms)
}

// enrollmentForm returns the identity of the request, without its key.
func enrollmentForm(r *api.EnrollRequest, list *enrollment.List) event.Identity {
	f := event.NewForm("enroll")
	f.Field("Question").Text(r.Question)
	f.Field("Policy").Text(r.Policy.String())
	f.Field("Cap").Epsilon(r.Cap)
	f.Objects(list.Names, false)
	f.Field("Partial").Flag(r.Partial)
	if f.Field("Terms").Flag(r.Terms != nil); r.Terms != nil {
		list.AddTo(f.ObjectField("Terms"))
	}
	return f.Finish()
}
