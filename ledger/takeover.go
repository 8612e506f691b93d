package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// TakeOver makes this standby ([Options.Standby]) the host that writes. It claims the journal, so
// that the previous host appends nothing more. It folds the rest of the journal, and returns the
// ledger, open for writing with the same options. Nothing that was acknowledged to a caller is
// lost, and nothing is drawn twice. Call TakeOver when the previous host is gone or must stop
// writing: nothing but this call decides that. The previous host then returns [api.ErrStopped].
//
// The standby is closed when TakeOver returns the ledger, and its calls return [api.ErrClosed]. A
// watcher continues with the new ledger after the last event that it handled.
//
// If TakeOver fails because the journal cannot be claimed, nothing has happened, and the standby
// continues. Reasons are that this host does not have all keys, that something is lost, or that the
// database does not answer. If ctx ends, or the journal cannot be read, after the claim, the
// standby continues as well, but no host can write: call TakeOver again, here or on another host.
// After any other error the standby is closed; open it again.
func (l *Ledger) TakeOver(ctx context.Context) (next *Ledger, err error) {
	if !l.engine.Standby {
		return nil, errs.Invalid("take over: this ledger is not a standby")
	}
	if !l.takingOver.TryLock() {
		return nil, fmt.Errorf("another takeover is in progress: %w", api.ErrInUse)
	}
	defer l.takingOver.Unlock()
	if err := errors.Join(errs.Context(ctx), l.engine.Queue.Check()); err != nil {
		return nil, err
	}
	s, journals, err := l.engine.TakeOver(ctx)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	// The journal is claimed, so the end of ctx must not leave the ledger without a host.
	ctx = context.WithoutCancel(ctx)
	o := l.options
	o.Standby, o.ReadOnly = false, false
	defer func() {
		// This also runs when a function of the host has panicked.
		if next == nil {
			// Find returns the claimed journal, which may be closed already; a second Close does
			// nothing.
			j, lost := journals.Find(ctx, journal.Wanted{})
			err = fmt.Errorf("take over: %w", errors.Join(err, lost, j.Close(), s.Close()))
		}
	}()
	// Copies of the ledger that are open on this machine do not prevent a takeover.
	next, err = openClaimed(ctx, s, journals, o, l.file, true)
	if err != nil {
		return nil, err
	}
	// A test may have replaced these two in the standby.
	next.engine.Chances, next.requests.Sampler = l.engine.Chances, l.requests.Sampler
	return next, nil
}
