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

// Reconcile makes the ledger match a table of the host, for example at every start. It enrolls new
// objects, and changes the terms of objects whose rows have other terms. It compares contents only:
// a second call finds nothing to do and writes nothing, and a call after a crash does the rest. It
// needs no key; its keys in the log begin with "reconcile".
//
// Terms that may allow more than before need a consent ([api.Member.Consent]). Without it, an
// object is refused and keeps its terms, and the other objects are processed. An object that has
// withdrawn or was forgotten is not enrolled again. Objects that are missing in the table are
// reported, and withdrawn only on request.
//
// Large tables are processed in transactions of bounded size; other calls may run concurrently. An
// object that another call enrolls, or puts under other terms, after the table began to be read is
// left as that call decided.
//
// After some errors nothing was done. They are the errors of Members and of Confirm,
// [*api.GoneError], [*api.NameError], [api.ErrNoCap], and [api.ErrUnknown] for a question.
// [api.ErrInvalid] is one of them, too: for an invalid row, for two rows of the same object and
// question, and for different caps of one object. After any other error, call Reconcile again.
func (l *Ledger) Reconcile(ctx context.Context, r api.ReconcileRequest) (api.ReconcileResult, error) {
	if l.engine.ReadOnly && !r.DryRun {
		return api.ReconcileResult{}, api.ErrReadOnly
	}
	if r.Members == nil || r.Gone < 0 {
		return api.ReconcileResult{}, errs.Invalid("reconcile: Members is not set, or Gone (%d) is negative", r.Gone)
	}
	asOf, err := engine.Read(ctx, &l.engine, func(s *state.State) (uint64, error) {
		if r.AsOf > s.Counters.Events {
			return 0, errs.Invalid("AsOf is event %d, but the log has %d events", r.AsOf, s.Counters.Events)
		}
		return cmp.Or(r.AsOf, s.Counters.Events), nil
	})
	if err != nil {
		return api.ReconcileResult{}, err
	}
	reconciliation := enrollment.Reconciliation{
		Executor: &l.requests, AsOf: asOf, Withdraw: r.Withdraw, Progress: r.Progress,
	}
	if reconciliation.Table, err = l.readTable(ctx, r.Members); err != nil {
		return api.ReconcileResult{}, err
	}
	defer reconciliation.Table.Close()
	plan, err := reconciliation.Plan(ctx)
	if err != nil {
		return api.ReconcileResult{}, err
	}
	// More than 1 % are missing, and the host has not confirmed their exact number.
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
	done, err := reconciliation.Run(ctx, plan)
	if err != nil {
		return api.ReconcileResult{}, err
	}
	return l.reconciled(ctx, done)
}

// readTable reads the host's table to its end, and checks each row. The caller must close the
// table.
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

// reconciled returns the report of a plan, or of its execution, with the names of the questions.
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
