package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Member is a row of the host's own table: an object that takes part in a question, and the terms
// that it has agreed to.
type Member struct {
	Object   string `json:"object"`   // 1 to 256 bytes; see [NameError]
	Question string `json:"question"` // by its name
	// Policy: of the object's chain; the zero value is none, so that only the cap binds
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap: of the object, over all its chains; 0 leaves it as it is, and is [ErrNoCap] for one new
	// to the ledger
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Consent is the host's word that the object agrees to exactly these terms now, as in
	// [ChangeTermsRequest]. It is used only when they change: so a row that is older than what the
	// ledger has would bring back what somebody has taken back since. What may be more is refused
	// without it; to a higher cap, which is over all questions, the consent in one row is enough.
	Consent string `json:"consent,omitempty"`
}

// ReconcileRequest brings the ledger in line with a table of the host's.
type ReconcileRequest struct {
	// Members yields the table: each row once, in any order. It is read to its end, once, before
	// anything happens; if it yields an error, that ends the call. The ledger keeps the rows in
	// memory up to 32 MiB, and beyond that in temporary files.
	Members iter.Seq2[Member, error] `json:"-"`
	// AsOf is the last event that the table knows of; 0 stands for that of when it begins to be
	// read. Give it if the table is older than this call, such as one that was sent: who is
	// enrolled or put under other terms behind it is left as that says.
	AsOf uint64 `json:"as_of,omitempty"`
	// DryRun changes nothing: the result is what would be done.
	DryRun bool `json:"dry_run,omitempty"`
	// Confirm, if set, is told what is to be done before anything is. An error ends the call, with
	// nothing done, and is returned.
	Confirm func(ReconcileResult) error `json:"-"`
	// Withdraw withdraws who is gone, as [Ledger.Withdraw] does. If they are more than one in a
	// hundred of those who take part in something, Gone must be their number; else nothing is done,
	// and the error is a [*GoneError].
	Withdraw bool     `json:"withdraw,omitempty"`
	Gone     int      `json:"gone,omitempty"` // how many the host expects to be gone; see Withdraw
	Progress Progress `json:"-"`              // optional
}

// ReconcileResult tells what the ledger differs in from a table, and what was done about it.
type ReconcileResult struct {
	// Questions are those with a row, or with an object that takes part, in the order in which they
	// were defined.
	Questions []Reconciled `json:"questions"`
	// Gone are those who take part in something and have no row at all.
	Gone      NameList `json:"gone"`
	Withdrawn int      `json:"withdrawn"` // of those gone; 0 unless that was asked for
}

// GoneError says that too many would be withdrawn because a table has no row of them: it may be the
// wrong table, or half of one. Nothing was done.
type GoneError struct {
	Gone     int `json:"gone"`     // who take part in something, and have no row
	Of       int `json:"of"`       // who take part in something
	Expected int `json:"expected"` // ReconcileRequest.Gone
}

func (e *GoneError) Error() string {
	const text = "%d of %d objects have no row in the table, %d were expected: " +
		"so many are withdrawn only if the request says how many (Gone)"
	return fmt.Sprintf(text, e.Gone, e.Of, e.Expected)
}

// Reconcile brings the ledger in line with a table of the host's, such as at every start: it enrols
// who is new, and puts who has other terms under these. It goes by the contents alone: called again
// it finds nothing to do, and writes nothing; after a crash, the rest. It needs no key; those in
// the log begin with "reconcile".
//
// Nobody is put under terms that may allow more than before without consent ([Member.Consent]):
// they are refused, and stay on their terms, while all others are dealt with. Nobody comes back who
// has withdrawn or was forgotten. Who is gone from the table is reported, and withdrawn only if
// that is asked for.
//
// Many are dealt with in transactions of bounded size; other calls may run meanwhile. Who is
// enrolled or put under other terms by them after the table began to be read is left as they say.
//
// Errors, with which nothing was done: that of Members or of Confirm; [*GoneError]; [ErrInvalid]
// for a row that cannot be, or two of the same object and question, or different caps of one
// object; [*NameError]; [ErrNoCap]; [ErrUnknown] for a question. After any other, call it again.
func (l *Ledger) Reconcile(ctx context.Context, r ReconcileRequest) (ReconcileResult, error) {
	if l.engine.ReadOnly && !r.DryRun {
		return ReconcileResult{}, ErrReadOnly
	}
	if r.Members == nil || r.Gone < 0 {
		return ReconcileResult{}, errs.Invalid("no table is given, or %d are expected to be gone", r.Gone)
	}
	asOf, err := engine.Read(ctx, &l.engine, func(s *state.State) (uint64, error) {
		if r.AsOf > s.Counters.Events {
			return 0, errs.Invalid("a table as of event %d, of a log with %d", r.AsOf, s.Counters.Events)
		}
		return cmp.Or(r.AsOf, s.Counters.Events), nil
	})
	if err != nil {
		return ReconcileResult{}, err
	}
	x := enrollment.Reconciliation{Executor: &l.requests, AsOf: asOf, Withdraw: r.Withdraw, Progress: r.Progress}
	if x.Table, err = l.readTable(ctx, r.Members); err != nil {
		return ReconcileResult{}, err
	}
	defer x.Table.Close()
	plan, err := x.Plan(ctx)
	if err != nil {
		return ReconcileResult{}, err
	}
	if n := plan.Gone.Count; r.Withdraw && n > plan.Present/100 && n != r.Gone {
		return ReconcileResult{}, &GoneError{n, plan.Present, r.Gone}
	}
	out, err := l.reconciled(ctx, plan)
	if err == nil && r.Confirm != nil {
		err = r.Confirm(out)
	}
	if err != nil {
		return ReconcileResult{}, err
	}
	if r.DryRun {
		return out, nil
	}
	done, err := x.Run(ctx, plan)
	if err != nil {
		return ReconcileResult{}, err
	}
	return l.reconciled(ctx, done)
}

// readTable reads the host's table, and checks each row.
func (l *Ledger) readTable(ctx context.Context, rows iter.Seq2[Member, error]) (*enrollment.Table, error) {
	table, err := enrollment.NewTable(&l.requests)
	if err != nil {
		return nil, err
	}
	for m, failed := range rows {
		if err = failed; err == nil {
			terms := enrollment.Terms{Policy: &m.Policy, Cap: m.Cap, Consent: m.Consent}
			err = table.Add(ctx, m.Object, m.Question, terms)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	return table, nil
}

// reconciled returns a report with the names of the questions.
func (l *Ledger) reconciled(ctx context.Context, r *enrollment.Report) (ReconcileResult, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (ReconcileResult, error) {
		out := ReconcileResult{Questions: []Reconciled{}, Gone: r.Gone, Withdrawn: r.Withdrawn}
		for _, number := range slices.Sorted(maps.Keys(r.Questions)) {
			q, err := s.Question(number)
			if err != nil {
				return out, err
			}
			one := *r.Questions[number]
			one.Question = q.Name
			out.Questions = append(out.Questions, one)
		}
		return out, nil
	})
}
