package enrollment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Report sums up the differences between a table and the ledger.
type Report struct {
	Questions map[uint32]*api.Reconciled // by number; the names of the questions are not set in it
	Gone      api.NameList               // enrolled objects without a row
	Withdrawn int                        // number of these that were withdrawn, or that Run would withdraw
	Present   int                        // number of enrolled objects
	listed    [Gone + 1]int              // by kind: number of names that mayList was called for
}

// in returns the results of a question, which the caller adds to. It creates them at the first
// call.
func (r *Report) in(question uint32) *api.Reconciled {
	one := r.Questions[question]
	if one == nil {
		one = &api.Reconciled{}
		r.Questions[question] = one
	}
	return one
}

// add adds a difference to the results of its question or, for [Gone], to r.Gone.
func (r *Report) add(d Difference) {
	if d.Kind == Gone {
		r.list(&r.Gone, d)
		return
	}
	q := r.in(d.Question)
	switch d.Kind {
	case Same:
		q.Same++
	case New:
		r.list(&q.New, d)
	case Changed:
		r.list(&q.Changed, d)
	case Left:
		r.list(&q.Left, d)
	case Dropped:
		r.list(&q.Dropped, d)
	case Refused:
		r.refuse(q, d.Refusal)
	}
}

// list counts the object of a difference in n. It lists the name only if mayList allows it.
func (r *Report) list(n *api.NameList, d Difference) {
	if n.Count++; r.mayList(d.Kind) {
		n.First = append(n.First, d.Object)
	}
}

// refuse lists a refusal in q, or only counts it if mayList does not allow more.
func (r *Report) refuse(q *api.Reconciled, refusal api.Refusal) {
	if r.mayList(Refused) {
		q.Refused = append(q.Refused, refusal)
	} else {
		q.Unlisted++
	}
}

// mayList reports whether one more name of a kind may be listed, and counts it. The first
// [api.MaxPanel] names of each kind are listed, over all questions.
func (r *Report) mayList(k Kind) bool {
	r.listed[k]++
	return r.listed[k] <= api.MaxPanel
}

// Reconciliation changes the ledger to match a table.
type Reconciliation struct {
	*request.Executor
	Table    *Table                // of the host
	AsOf     uint64                // the last event when reading of the table began
	Withdraw bool                  // withdraw enrolled objects without a row
	Progress func(done, total int) // optional

	report      *Report
	key         string                       // prefix of the keys of its requests
	requests    int                          // number of requests so far, which is part of their keys
	done, total int                          // numbers of objects for the progress
	pending     [withdrawal]map[uint32]*List // the next part, by step and question; gone has the step withdrawal
	gone        []string                     // names to be withdrawn in the next part
	waiting     int                          // number of objects in pending and gone
}

// The steps of a part, in the order of execution. For objects that are new to a question, the cap
// is changed after the enrolment, because an enrolment changes no terms.
const (
	termsChange = iota
	enrolment
	capChange
	withdrawal
)

// Plan returns the differences, and the number of objects that Run would withdraw. It changes
// nothing.
func (rc *Reconciliation) Plan(ctx context.Context) (*Report, error) {
	rc.report = &Report{Questions: map[uint32]*api.Reconciled{}}
	if err := rc.compare(ctx, rc.report.add, func() error { return nil }); err != nil {
		return nil, err
	}
	if rc.Withdraw {
		rc.report.Withdrawn = rc.report.Gone.Count
	}
	return rc.report, nil
}

// Run changes the ledger in parts, and returns what it has done. plan is the result of Plan. If
// plan has nothing to change, Run returns it as it is. Run compares the table again, because the
// ledger may have changed since Plan, and executes the differences that it finds then.
func (rc *Reconciliation) Run(ctx context.Context, plan *Report) (*Report, error) {
	rc.total = plan.Withdrawn
	for _, q := range plan.Questions {
		rc.total += q.New.Count + q.Changed.Count
	}
	if rc.total == 0 {
		return plan, nil
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("reconcile: generating a key: %w", err)
	}
	rc.key, rc.report = "reconcile "+id.String(), &Report{Questions: map[uint32]*api.Reconciled{}}
	if err := rc.compare(ctx, rc.note, func() error { return rc.flush(ctx, state.PartSize) }); err != nil {
		return nil, err
	}
	return rc.report, rc.flush(ctx, 1)
}

// compare runs a [Comparison], which calls found for each difference and between after each
// snapshot. It then sets the number of enrolled objects in rc.report.
func (rc *Reconciliation) compare(ctx context.Context, found func(Difference), between func() error) error {
	c := Comparison{Executor: rc.Executor, Table: rc.Table, AsOf: rc.AsOf, Found: found, Between: between}
	err := c.Run(ctx)
	rc.report.Present = c.Present
	return err
}

// note adds a difference to the report. If the ledger must be changed, it also adds the object to
// the steps of the next part. Each object and question counts once in rc.waiting, even if it has
// two steps.
func (rc *Reconciliation) note(d Difference) {
	rc.report.add(d)
	switch {
	case d.Kind == Gone && rc.Withdraw:
		rc.gone = append(rc.gone, d.Object)
		rc.waiting++
	case d.Kind == Changed:
		rc.add(termsChange, d.Question, d.Object, d.Terms)
		rc.waiting++
	case d.Kind == New:
		if d.Later {
			rc.add(capChange, d.Question, d.Object, Terms{Cap: d.Terms.Cap, Consent: d.Terms.Consent, Was: d.Terms.Was})
			d.Terms.Cap = Terms{}.Cap // 0: the enrolment keeps the cap that the ledger has
		}
		rc.add(enrolment, d.Question, d.Object, d.Terms)
		rc.waiting++
	}
}

// add adds an object and its terms in a question to a step of the next part.
func (rc *Reconciliation) add(step int, question uint32, object string, t Terms) {
	if rc.pending[step] == nil {
		rc.pending[step] = map[uint32]*List{}
	}
	if rc.pending[step][question] == nil {
		rc.pending[step][question] = &List{}
	}
	rc.pending[step][question].add(object, t)
}

// flush executes the pending part, step by step, and empties it. It does nothing if the part has
// fewer objects than enough.
func (rc *Reconciliation) flush(ctx context.Context, enough int) error {
	if rc.waiting < enough {
		return nil
	}
	for step := range rc.pending {
		for _, question := range slices.Sorted(maps.Keys(rc.pending[step])) {
			if err := rc.execute(ctx, step, question); err != nil {
				return err
			}
		}
		rc.pending[step] = nil
	}
	if len(rc.gone) > 0 {
		w := Withdrawal{Request: rc.request(nil), Names: rc.gone, AsOf: rc.AsOf} // nil: from all questions
		out, err := w.Run(ctx)
		if err != nil {
			return err
		}
		rc.report.Withdrawn += int(out.Counts[Done])
		rc.advance(len(rc.gone))
	}
	rc.gone, rc.waiting = nil, 0
	return nil
}

// execute executes one step of the pending part for one question. step is termsChange, enrolment or
// capChange. Refused objects are added to the report.
func (rc *Reconciliation) execute(ctx context.Context, step int, question uint32) error {
	q, err := engine.Read(ctx, rc.Engine, func(s *state.State) (*event.Question, error) { return s.Question(question) })
	if err != nil {
		return err
	}
	list := *rc.pending[step][question]
	var out request.Outcome
	if step == enrolment {
		e := Enrolment{Request: rc.request(q), List: list, SkipFormer: true}
		out, err = e.Run(ctx)
	} else {
		c := TermsChange{Request: rc.request(q), List: list, AsOf: rc.AsOf}
		out, err = c.Run(ctx)
	}
	if err != nil {
		return err
	}
	for _, refusal := range out.Refused {
		rc.report.refuse(rc.report.in(question), refusal)
	}
	if step == capChange {
		rc.advance(0) // its objects are counted by the enrolment
	} else {
		rc.advance(len(list.Names))
	}
	return nil
}

// request returns a partial request about a question, or about all questions if q is nil. It has a
// new key, so its identity need not describe it. A repeated reconciliation needs no old keys: it
// finds no difference where the ledger was changed already.
func (rc *Reconciliation) request(q *event.Question) Request {
	rc.requests++
	return Request{
		Executor: rc.Executor, Key: fmt.Sprintf("%s %d", rc.key, rc.requests), Id: event.NewForm("reconcile").Finish(),
		Question: q, Partial: true,
	}
}

// advance counts n more objects as done, and reports the progress. done can exceed total, because
// total is the number that Plan found.
func (rc *Reconciliation) advance(n int) {
	if rc.done += n; rc.Progress != nil {
		rc.Progress(rc.done, max(rc.done, rc.total))
	}
}
