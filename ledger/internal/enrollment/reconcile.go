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
func (x *Reconciliation) Plan(ctx context.Context) (*Report, error) {
	x.report = &Report{Questions: map[uint32]*api.Reconciled{}}
	if err := x.compare(ctx, x.report.add, func() error { return nil }); err != nil {
		return nil, err
	}
	if x.Withdraw {
		x.report.Withdrawn = x.report.Gone.Count
	}
	return x.report, nil
}

// Run changes the ledger in parts. It compares the table again as it goes, and executes the
// differences that it finds then.
func (x *Reconciliation) Run(ctx context.Context, plan *Report) (*Report, error) {
	x.total = plan.Withdrawn
	for _, q := range plan.Questions {
		x.total += q.New.Count + q.Changed.Count
	}
	if x.total == 0 {
		return plan, nil
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("a key: %w", err)
	}
	x.key, x.report = "reconcile "+id.String(), &Report{Questions: map[uint32]*api.Reconciled{}}
	if err := x.compare(ctx, x.note, func() error { return x.flush(ctx, state.PartSize) }); err != nil {
		return nil, err
	}
	return x.report, x.flush(ctx, 1)
}

// compare compares the table with the ledger, and sets the number of enrolled objects in the
// report.
func (x *Reconciliation) compare(ctx context.Context, found func(Difference), between func() error) error {
	c := Comparison{Executor: x.Executor, Table: x.Table, AsOf: x.AsOf, Found: found, Between: between}
	err := c.Run(ctx)
	x.report.Present = c.Present
	return err
}

// note adds a difference to the report, and to the next part if the ledger must be changed.
func (x *Reconciliation) note(d Difference) {
	x.report.add(d)
	switch {
	case d.Kind == Gone && x.Withdraw:
		x.gone = append(x.gone, d.Object)
		x.waiting++
	case d.Kind == Changed:
		x.add(termsChange, d.Question, d.Object, d.Terms)
		x.waiting++
	case d.Kind == New:
		if d.Later {
			x.add(capChange, d.Question, d.Object, Terms{Cap: d.Terms.Cap, Consent: d.Terms.Consent, Was: d.Terms.Was})
			d.Terms.Cap = Terms{}.Cap // unchanged
		}
		x.add(enrolment, d.Question, d.Object, d.Terms)
		x.waiting++
	}
}

// add adds an object to a step of the next part.
func (x *Reconciliation) add(step int, question uint32, object string, t Terms) {
	if x.pending[step] == nil {
		x.pending[step] = map[uint32]*List{}
	}
	if x.pending[step][question] == nil {
		x.pending[step][question] = &List{}
	}
	x.pending[step][question].add(object, t)
}

// flush executes the pending part if it has at least the given number of objects.
func (x *Reconciliation) flush(ctx context.Context, enough int) error {
	if x.waiting < enough {
		return nil
	}
	for step := range x.pending {
		for _, question := range slices.Sorted(maps.Keys(x.pending[step])) {
			if err := x.execute(ctx, step, question); err != nil {
				return err
			}
		}
		x.pending[step] = nil
	}
	if len(x.gone) > 0 {
		w := Withdrawal{Request: x.request(nil), Names: x.gone, AsOf: x.AsOf}
		out, err := w.Run(ctx)
		if err != nil {
			return err
		}
		x.report.Withdrawn += int(out.Counts[Done])
		x.advance(len(x.gone))
	}
	x.gone, x.waiting = nil, 0
	return nil
}

// execute executes a step of the part in a question.
func (x *Reconciliation) execute(ctx context.Context, step int, question uint32) error {
	q, err := engine.Read(ctx, x.Engine, func(s *state.State) (*event.Question, error) { return s.Question(question) })
	if err != nil {
		return err
	}
	list := *x.pending[step][question]
	var out request.Outcome
	if step == enrolment {
		e := Enrolment{Request: x.request(q), List: list, Strangers: true}
		out, err = e.Run(ctx)
	} else {
		c := TermsChange{Request: x.request(q), List: list, AsOf: x.AsOf}
		out, err = c.Run(ctx)
	}
	if err != nil {
		return err
	}
	for _, refusal := range out.Refused {
		x.report.refuse(x.report.in(question), refusal)
	}
	if step == capChange {
		x.advance(0) // its objects are counted by the enrolment
	} else {
		x.advance(len(list.Names))
	}
	return nil
}

// request returns a request with a new key. A repeated reconciliation needs no old keys: it finds
// no difference where the ledger was changed already.
func (x *Reconciliation) request(q *event.Question) Request {
	x.requests++
	return Request{
		Executor: x.Executor, Key: fmt.Sprintf("%s %d", x.key, x.requests), Id: event.NewForm("reconcile").Finish(),
		Question: q, Partial: true,
	}
}

// advance reports progress of n more objects.
func (x *Reconciliation) advance(n int) {
	if x.done += n; x.Progress != nil {
		x.Progress(x.done, max(x.done, x.total))
	}
}
