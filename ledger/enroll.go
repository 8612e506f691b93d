package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// EnrollRequest puts objects under the ledger's care for one question.
type EnrollRequest struct {
	Key      string   `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // 1 to 256 bytes each; see [NameError]
	// Policy is the ceiling of each object's chain. The zero value sets none: only the cap binds.
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap is the largest ε each object may spend over all its chains. 0 leaves the cap of an object
	// that is known already as it is; for a new one it is [ErrNoCap].
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Terms, if set, says what Policy and Cap are for each object; the fields of these names are
	// empty then. It is asked once about each, in the order of their names, before anything
	// happens. Asked again for the same key it must say the same.
	Terms func(object string) (policy.Policy, privacy.Epsilon) `json:"-"`
	// Partial: leave refused objects out, rather than refuse the request
	Partial bool `json:"partial,omitempty"`
	// New: if the ledger knows one of the objects, in any question, the request is an [ErrNotNew],
	// unless it is done already
	New bool `json:"new,omitempty"`
	// DryRun: check everything and return what would be done; nothing is recorded, and the key
	// stays free
	DryRun   bool     `json:"dry_run,omitempty"`
	Progress Progress `json:"-"` // optional
}

// EnrollResult tells what an enrolment did.
type EnrollResult struct {
	Enrolled int `json:"enrolled"` // newly enrolled, or again after they had withdrawn
	Already  int `json:"already"`  // enrolled in the question before, with the same policy
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them.
	// [Ledger.Refusals] yields all.
	Refused  []Refusal `json:"refused"`
	Unlisted int       `json:"unlisted"` // how many more were left out, or were and are forgotten since
	First    uint64    `json:"first"`    // first and last event; other requests' events may lie between
	Last     uint64    `json:"last"`     // as First
}

// Enroll enrols objects in a question. Those enrolled already are left as they are; one that has
// withdrawn takes part again, with everything it has spent. If an object is known with another cap
// than the one given, or enrolled with another policy, it is refused ([CapDiffers],
// [PolicyDiffers]): what somebody has agreed to does not change in passing, but by
// [Ledger.ChangeTerms]. If any object is refused, nobody is enrolled and the [*RefusedError] says
// who, unless the request is partial. If it gives no cap and somebody is new to the ledger, nobody
// is enrolled and the error is [ErrNoCap].
//
// A host that has a table of its own brings the ledger in line with it by [Ledger.Reconcile].
func (l *Ledger) Enroll(ctx context.Context, r EnrollRequest) (EnrollResult, error) {
	all, err := event.CheckObjects(r.Objects)
	if err != nil {
		return EnrollResult{}, err
	}
	if err := event.CheckName("idempotency key", r.Key); err != nil {
		return EnrollResult{}, err
	}
	if r.Terms != nil && (!r.Policy.IsZero() || !r.Cap.IsZero()) {
		return EnrollResult{}, errs.Invalid("a policy or a cap for all, and terms for each")
	}
	q, err := l.requests.Question(ctx, r.Question)
	if err != nil {
		return EnrollResult{}, err
	}
	x := enrollment.Enrolment{List: r.list(all), New: r.New}
	for _, p := range x.Policies() {
		if err := event.CheckPolicy(*p); err != nil {
			return EnrollResult{}, err
		}
	}
	x.Request = enrollment.Request{
		Executor: &l.requests, Key: r.Key, Id: r.form(&x.List), Question: q, Partial: r.Partial, Progress: r.Progress,
	}
	x.DryRun = r.DryRun
	done, err := x.Run(ctx)
	if err != nil {
		return EnrollResult{}, err
	}
	return EnrollResult{
		Enrolled: int(done.Counts[enrollment.Done]), Already: int(done.Counts[enrollment.Unchanged]),
		Refused: done.Refused, Unlisted: done.Left - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

// list returns the objects with their terms.
func (r *EnrollRequest) list(objects []string) enrollment.List {
	if r.Terms == nil {
		return enrollment.List{Names: objects, Each: []enrollment.Terms{{Policy: &r.Policy, Cap: r.Cap}}}
	}
	return enrollment.ListOf(objects, r.Terms)
}

func (r *EnrollRequest) form(list *enrollment.List) event.Identity {
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
