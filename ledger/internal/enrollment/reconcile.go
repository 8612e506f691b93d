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

// Report has the differences between a table and the ledger.
type Report struct {
	Questions map[uint32]*api.Reconciled // by number; their names are not set
	Gone      api.NameList               // enrolled objects without a row
	Withdrawn int                        // number of these that were withdrawn
	Present   int                        // number of enrolled objects
	listed    [Gone + 1]int              // number of listed names of each kind
}

// in returns the report about a question, and adds it if necessary.
func (r *Report) in(question uint32) *api.Reconciled {
	one := r.Questions[question]
	if one == nil {
		one = &api.Reconciled{}
		r.Questions[question] = one
	}
	return one
}

// add adds a difference.
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

// list counts the object of a difference in n, and lists its name if there is capacity.
func (r *Report) list(n *api.NameList, d Difference) {
	if n.Count++; r.mayList(d.Kind) {
		n.First = append(n.First, d.Object)
	}
}

// refuse adds a refusal to q, or counts it if there is no capacity.
func (r *Report) refuse(q *api.Reconciled, refusal api.Refusal) {
	if r.mayList(Refused) {
		q.Refused = append(q.Refused, refusal)
	} else {
		q.Unlisted++
	}
}

// mayList counts a name of a kind, and reports whether it may be listed.
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
	key         string // prefix of the keys of its requests
	requests    int
	done, total int
	pending     [withdrawal]map[uint32]*List // by step and question
	gone        []string                     // names to be withdrawn
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

// Plan returns what Run would do.
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

// Run changes the ledger in parts. It compares the table again as it goes, and executes the
// differences that it finds then.
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

// compare compares the table with the ledger, and sets the number of enrolled objects in the
// report.
func (rc *Reconciliation) compare(ctx context.Context, found func(Difference), between func() error) error {
	c := Comparison{Executor: rc.Executor, Table: rc.Table, AsOf: rc.AsOf, Found: found, Between: between}
	err := c.Run(ctx)
	rc.report.Present = c.Present
	return err
}

// note adds a difference to the report, and to the next part if the ledger must be changed.
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
			d.Terms.Cap = Terms{}.Cap // unchanged
		}
		rc.add(enrolment, d.Question, d.Object, d.Terms)
		rc.waiting++
	}
}

// add adds an object to a step of the next part.
func (rc *Reconciliation) add(step int, question uint32, object string, t Terms) {
	if rc.pending[step] == nil {
		rc.pending[step] = map[uint32]*List{}
	}
	if rc.pending[step][question] == nil {
		rc.pending[step][question] = &List{}
	}
	rc.pending[step][question].add(object, t)
}

// flush executes the pending part if it has at least the given number of objects.
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
		w := Withdrawal{Request: rc.request(nil), Names: rc.gone, AsOf: rc.AsOf}
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

// execute executes a step of the part in a question.
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

// request returns a request with a new key. A repeated reconciliation needs no old keys: it finds
// no difference where the ledger was changed already.
func (rc *Reconciliation) request(q *event.Question) Request {
	rc.requests++
	return Request{
		Executor: rc.Executor, Key: fmt.Sprintf("%s %d", rc.key, rc.requests), Id: event.NewForm("reconcile").Finish(),
		Question: q, Partial: true,
	}
}

// advance reports progress of n more objects.
func (rc *Reconciliation) advance(n int) {
	if rc.done += n; rc.Progress != nil {
		rc.Progress(rc.done, max(rc.done, rc.total))
	}
}
