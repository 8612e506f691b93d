package ledger

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Reconcile brings the ledger in line with a table of the host's, such as at every start: it enrols
// who is new, and puts who has other terms under these. It goes by the contents alone: called again
// it finds nothing to do, and writes nothing; after a crash, the rest. It needs no key; those in
// the log begin with "reconcile".
//
// Nobody is put under terms that may allow more than before without consent ([api.Member.Consent]):
// they are refused, and stay on their terms, while all others are dealt with. Nobody comes back who
// has withdrawn or was forgotten. Who is gone from the table is reported, and withdrawn only if
// that is asked for.
//
// Many are dealt with in transactions of bounded size; other calls may run meanwhile. Who is
// enrolled or put under other terms by them after the table began to be read is left as they say.
//
// Errors, with which nothing was done: that of Members or of Confirm; [*api.GoneError]; [api.ErrInvalid]
// for a row that cannot be, or two of the same object and question, or different caps of one
// object; [*api.NameError]; [api.ErrNoCap]; [api.ErrUnknown] for a question. After any other, call it again.
func (l *Ledger) Reconcile(ctx context.Context, r api.ReconcileRequest) (api.ReconcileResult, error) {
	if l.engine.ReadOnly && !r.DryRun {
		return api.ReconcileResult{}, api.ErrReadOnly
	}
	if r.Members == nil || r.Gone < 0 {
		return api.ReconcileResult{}, errs.Invalid("no table is given, or %d are expected to be gone", r.Gone)
	}
	asOf, err := engine.Read(ctx, &l.engine, func(s *state.State) (uint64, error) {
		if r.AsOf > s.Counters.Events {
			return 0, errs.Invalid("a table as of event %d, of a log with %d", r.AsOf, s.Counters.Events)
		}
		return cmp.Or(r.AsOf, s.Counters.Events), nil
	})
	if err != nil {
		return api.ReconcileResult{}, err
	}
	x := enrollment.Reconciliation{Executor: &l.requests, AsOf: asOf, Withdraw: r.Withdraw, Progress: r.Progress}
	if x.Table, err = l.readTable(ctx, r.Members); err != nil {
		return api.ReconcileResult{}, err
	}
	defer x.Table.Close()
	plan, err := x.Plan(ctx)
	if err != nil {
		return api.ReconcileResult{}, err
	}
	if n := plan.Gone.Count; r.Withdraw && n > plan.Present/100 && n != r.Gone {
		return api.ReconcileResult{}, &api.GoneError{Gone: n, Of: plan.Present, Expected: r.Gone}
	}
	out, err := l.reconciled(ctx, plan)
	if err == nil && r.Confirm != nil {
		err = r.Confirm(out)
	}
	if err != nil {
		return api.ReconcileResult{}, err
	}
	if r.DryRun {
		return out, nil
	}
	done, err := x.Run(ctx, plan)
	if err != nil {
		return api.ReconcileResult{}, err
	}
	return l.reconciled(ctx, done)
}

// readTable reads the host's table, and checks each row.
func (l *Ledger) readTable(ctx context.Context, rows iter.Seq2[api.Member, error]) (*enrollment.Table, error) {
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
func (l *Ledger) reconciled(ctx context.Context, r *enrollment.Report) (api.ReconcileResult, error) {
	return engine.Read(ctx, &l.engine, func(s *state.State) (api.ReconcileResult, error) {
		out := api.ReconcileResult{Gone: r.Gone, Withdrawn: r.Withdrawn}
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
