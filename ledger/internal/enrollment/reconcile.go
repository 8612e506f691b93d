package enrollment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// Names lists objects: all are counted, and the first have their names.
type Names struct {
	Count int      // of all
	First []string // in order
}

// Report is what a table and the ledger differ in.
type Report struct {
	Questions map[uint32]*InQuestion // by number
	Gone      Names                  // objects that take part and have no row
	Withdrawn int                    // of them
	Present   int                    // objects that take part in something
	left      [Gone + 1]int          // how many names of each kind may still be listed
}

// InQuestion is what they differ in about a question.
type InQuestion struct {
	Same    int                 // rows, see [Same]
	New     Names               // see the [Kind] of each name
	Changed Names               // likewise
	Left    Names               // likewise
	Dropped Names               // likewise
	Refused request.RefusalList // likewise
}

// newReport returns one without anything in it.
func newReport() *Report {
	r := &Report{Questions: map[uint32]*InQuestion{}}
	for kind := range r.left {
		r.left[kind] = vocabulary.MaxPanel
	}
	return r
}

// in returns what is reported of a question.
func (r *Report) in(question uint32) *InQuestion {
	one := r.Questions[question]
	if one == nil {
		one = &InQuestion{}
		r.Questions[question] = one
	}
	return one
}

// add takes a difference in.
func (r *Report) add(d Difference) error {
	if d.Kind == Gone {
		r.list(&r.Gone, d)
		return nil
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
	return nil
}

func (r *Report) list(n *Names, d Difference) {
	if n.Count++; r.left[d.Kind] > 0 {
		r.left[d.Kind]--
		n.First = append(n.First, d.Object)
	}
}

func (r *Report) refuse(q *InQuestion, refusal vocabulary.Refusal) {
	if r.left[Refused] > 0 {
		r.left[Refused]--
		q.Refused.Listed = append(q.Refused.Listed, refusal)
	} else {
		q.Refused.Unlisted++
	}
}

// todo is how much there is to do.
func (r *Report) todo() (n int) {
	for _, q := range r.Questions {
		n += q.New.Count + q.Changed.Count
	}
	return n
}

// Reconciliation brings the ledger in line with a table.
type Reconciliation struct {
	*request.Executor
	Table    *Table                // of the host
	AsOf     uint64                // the last event when the table began to be read
	Withdraw bool                  // who is gone is withdrawn
	Progress func(done, total int) // optional

	report      *Report
	key         string // of its requests, but for their numbers
	requests    int
	done, total int
	at          map[uint32]*pending
	gone        []string
	waiting     int // in all of these
}

// pending is what is to be done in a question.
type pending struct {
	question            *event.Question
	change, enrol, then List
}

// Plan says what there is to do.
func (x *Reconciliation) Plan(ctx context.Context) (*Report, error) {
	r := newReport()
	c := Comparison{Executor: x.Executor, Table: x.Table, AsOf: x.AsOf, Found: r.add, Between: func() error { return nil }}
	if err := c.Run(ctx); err != nil {
		return nil, err
	}
	if r.Present = c.Present; x.Withdraw {
		r.Withdrawn = r.Gone.Count
	}
	return r, nil
}

// Run does it, in parts. It compares again on the way: what is done is what the ledger lacks then.
func (x *Reconciliation) Run(ctx context.Context, plan *Report) (*Report, error) {
	if x.total = plan.todo() + plan.Withdrawn; x.total == 0 {
		return plan, nil
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("a key: %w", err)
	}
	x.key, x.report, x.at = "reconcile "+id.String(), newReport(), map[uint32]*pending{}
	c := Comparison{Executor: x.Executor, Table: x.Table, AsOf: x.AsOf, Found: x.note, Between: func() error { return x.flush(ctx, state.PartSize) }}
	if err := c.Run(ctx); err != nil {
		return nil, err
	}
	x.report.Present = c.Present
	return x.report, x.flush(ctx, 1)
}

// note takes a difference in that is to be dealt with.
func (x *Reconciliation) note(d Difference) error {
	if err := x.report.add(d); err != nil {
		return err
	}
	if d.Kind == Gone && x.Withdraw {
		x.gone = append(x.gone, d.Object)
		x.waiting++
		return nil
	}
	if d.Kind != New && d.Kind != Changed {
		return nil
	}
	x.waiting++
	at := x.at[d.Question]
	if at == nil {
		at = &pending{}
		x.at[d.Question] = at
	}
	switch {
	case d.Kind == Changed:
		at.change.add(d.Object, d.Terms)
	case d.Later:
		at.then.add(d.Object, Terms{Cap: d.Terms.Cap, Consent: d.Terms.Consent, Was: d.Terms.Was})
		d.Terms.Cap = Terms{}.Cap // as it is
		fallthrough
	default:
		at.enrol.add(d.Object, d.Terms)
	}
	return nil
}

// flush deals with those who wait, if they are so many.
func (x *Reconciliation) flush(ctx context.Context, many int) error {
	if x.waiting < many {
		return nil
	}
	numbers := slices.Sorted(maps.Keys(x.at))
	steps := []func(context.Context, *pending) error{x.change, x.enrol, x.then}
	for _, step := range steps {
		for _, number := range numbers {
			if err := x.inQuestion(ctx, number, step); err != nil {
				return err
			}
		}
	}
	if err := x.withdraw(ctx); err != nil {
		return err
	}
	x.at, x.gone, x.waiting = map[uint32]*pending{}, nil, 0
	return nil
}

func (x *Reconciliation) inQuestion(ctx context.Context, number uint32, step func(context.Context, *pending) error) error {
	at := x.at[number]
	if at.question == nil {
		err := x.Engine.View(ctx, func(s *state.State) (err error) {
			at.question, err = s.Question(number)
			return err
		})
		if err != nil {
			return err
		}
	}
	return step(ctx, at)
}

// request returns one under a new key. Whoever would do the same again finds that it is done.
func (x *Reconciliation) request(q *event.Question) Request {
	x.requests++
	return Request{Executor: x.Executor, Key: fmt.Sprintf("%s %d", x.key, x.requests), Id: event.NewForm("reconcile").Finish(), Question: q, Partial: true}
}

// settle takes in what came of a request.
func (x *Reconciliation) settle(q *event.Question, n int, o request.Outcome, err error) error {
	if err != nil {
		return err
	}
	for _, refusal := range o.Refused {
		x.report.refuse(x.report.in(q.Number), refusal)
	}
	if x.done += n; x.Progress != nil {
		x.Progress(x.done, max(x.done, x.total))
	}
	return nil
}

func (x *Reconciliation) change(ctx context.Context, at *pending) error {
	return x.changeTo(ctx, at.question, at.change, len(at.change.Names))
}

// then changes caps of those who were just enrolled.
func (x *Reconciliation) then(ctx context.Context, at *pending) error {
	return x.changeTo(ctx, at.question, at.then, 0)
}

func (x *Reconciliation) changeTo(ctx context.Context, q *event.Question, list List, n int) error {
	if len(list.Names) == 0 {
		return nil
	}
	c := TermsChange{Request: x.request(q), List: list, AsOf: x.AsOf}
	o, err := c.Run(ctx)
	return x.settle(q, n, o, err)
}

func (x *Reconciliation) enrol(ctx context.Context, at *pending) error {
	if len(at.enrol.Names) == 0 {
		return nil
	}
	e := Enrolment{Request: x.request(at.question), List: at.enrol, Strangers: true}
	o, err := e.Run(ctx)
	return x.settle(at.question, len(at.enrol.Names), o, err)
}

func (x *Reconciliation) withdraw(ctx context.Context) error {
	if len(x.gone) == 0 {
		return nil
	}
	w := Withdrawal{Request: x.request(nil), Names: x.gone, AsOf: x.AsOf}
	o, err := w.Run(ctx)
	if err == nil {
		x.report.Withdrawn += int(o.Counts[WithdrawnNow])
	}
	return x.settle(nil, len(x.gone), o, err)
}
