package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// TakeOver makes of a standby ([Options.Standby]) the ledger that goes on: it claims the journal,
// so that whoever had it before appends nothing more, folds what is left of it, and returns the
// ledger, open for writing with the same options. Nothing that anybody was told is lost, and
// nothing is drawn twice. Call it when the host that had the ledger is gone, or is to do no more:
// nothing but this call decides that. That host gets [api.ErrStopped] then.
//
// The standby is closed when TakeOver returns the ledger: its calls return [api.ErrClosed], and who
// watches goes on with the ledger behind the last event handled. If TakeOver fails because the
// journal cannot be claimed (this host has not all keys, something is lost, the database does not
// answer), nothing has happened, and the standby goes on. If ctx ends, or the journal cannot be
// read, when it is claimed, the standby goes on as well, but nobody has the ledger: call TakeOver
// again, here or on another host. After any other error the standby is closed; open it again.
func (l *Ledger) TakeOver(ctx context.Context) (next *Ledger, err error) {
	if !l.engine.Standby {
		return nil, errs.Invalid("only a standby takes over")
	}
	if !l.takingOver.TryLock() {
		return nil, fmt.Errorf("take over: another call does: %w", api.ErrInUse)
	}
	defer l.takingOver.Unlock()
	if err := errors.Join(errs.Context(ctx), l.engine.Queue.Check()); err != nil {
		return nil, err
	}
	s, journals, err := l.engine.TakeOver(ctx)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	ctx = context.WithoutCancel(ctx) // the journal is claimed: this ledger goes on, or none does
	o := l.options
	o.Standby, o.ReadOnly = false, false
	defer func() {
		if next == nil { // also when a function of the host has panicked
			j, lost := journals.Find(ctx, journal.Wanted{}) // a second Close does nothing
			err = fmt.Errorf("take over: %w", errors.Join(err, lost, j.Close(), s.Close()))
		}
	}()
	next, err = openClaimed(ctx, s, journals, o, l.file, true) // whatever copies are open here
	if err != nil {
		return nil, err
	}
	next.engine.Chances, next.requests.Sampler = l.engine.Chances, l.requests.Sampler // a test's, maybe
	return next, nil
}
