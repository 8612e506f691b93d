package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/audit"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Verify recomputes the whole state from the events alone, and compares it with what is stored. It
// compares the tree hash by hash, and every chain, level, balance, price, sum, tally, answer and
// idempotency record value by value. It checks each event against the events before it, by the
// rules that apply when events are recorded. They cover budgets and ceilings, prices and terms of
// sale, how each response was made, and which events belong together. It reports every difference,
// not only the first.
//
// If it finds no problem, the log is one that this package can have written, and the state is the
// state of that log. No byte of a record was changed, and no event was dropped, repeated or moved.
// The exception is an attacker who rewrote the whole rest of the log, with tree hashes and state.
// Only a checkpoint that is kept elsewhere protects against that, and against an older copy of the
// file: with it, no event before it was changed or replaced by another.
//
// Erased events are an exception. An event before the checkpoint may have been erased, and the
// object of an erased event is unknown. A program other than this package could therefore erase the
// events of one object in the name of another object that was forgotten. An earlier statement about
// the object, or the receipt of a buyer, shows that.
//
// Verify needs no secret and no true value. It therefore does not show whether responses were drawn
// from the true values, whether draws were random, or which person an object is. Of what was
// forgotten, only what [Ledger.Forget] documents is left.
//
// Events with a time more than five minutes after the clock ([Options.Now]) are reported as one
// problem, with the first of them and their number. At such a time dated sales are closed for good,
// and reservations have expired.
//
// Verify reads in short snapshots and writes nothing. It can run beside anything else, also on a
// ledger that is open for reading, and yields the processor to other work. Its memory does not grow
// with the log, because it uses temporary files. Damaged parts of the file are reported and left
// out. An error means that the audit could not be completed: [api.ErrCheckpoint] for a checkpoint
// that cannot be trusted, [api.ErrClosed], [api.ErrStopped], the error of ctx, and errors of disks.
func (l *Ledger) Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error) {
	return l.verify(ctx, r, audit.Usual())
}

// verify is Verify with given limits on work and memory. It reports the audit to the observer.
func (l *Ledger) verify(ctx context.Context, r api.VerifyRequest, at audit.Pace) (api.Verification, error) {
	request := audit.Request{
		Checkpoints: r.Checkpoints, Verifiers: r.Verifiers, Progress: r.Progress,
		MissingJournal: l.engine.MissingJournal, Exhausted: l.engine.Observer != nil,
	}
	if r.Report != nil {
		request.Report = func(p audit.Finding) { r.Report(api.Finding(p)) }
	}
	began := time.Now()
	done, err := audit.Run(ctx, auditing{l}, request, at)
	l.engine.Observe(func(o observe.Observer) {
		o.Audited(observe.Audit{
			Duration: time.Since(began), Events: done.Events, Problems: done.Problems, Exhausted: done.Exhausted,
			Err: err,
		})
	})
	return api.Verification{Head: done.Head, Objects: done.Objects, Problems: done.Problems}, err
}

// verifySound verifies a ledger, and returns the first problem as an error. It ignores problems of
// kind clock, because events with a wrong time must be kept all the same.
func (l *Ledger) verifySound(ctx context.Context, progress func(done, total uint64)) (api.Verification, error) {
	problems, first := 0, ""
	found, err := l.Verify(ctx, api.VerifyRequest{Progress: progress, Report: func(p api.Finding) {
		if p.Kind != audit.ProblemClock {
			if problems++; problems == 1 {
				first = p.Text
			}
		}
	}})
	if err == nil && problems > 0 {
		err = fmt.Errorf("%w: %d problems, the first: %s", api.ErrCorrupt, problems, first)
	}
	return found, err
}

// auditCopy verifies the file of a ledger that is being opened, without the events that are only in
// its journal. It writes to the host's log when it begins and ends, and its progress once a second.
// It returns [api.ErrCorrupt] if there is a problem.
func (l *Ledger) auditCopy(ctx context.Context) error {
	log, began := &l.engine.Log, time.Now()
	const text = "auditing a file that may be a copy"
	log.Now(func(log *zerolog.Logger) { log.Info().Msg(text) })
	lastLogged := began
	found, err := l.verifySound(ctx, func(done, total uint64) {
		if now := time.Now(); now.Sub(lastLogged) >= time.Second {
			lastLogged = now
			log.Now(func(log *zerolog.Logger) { log.Info().Uint64("events", done).Uint64("last", total).Msg(text) })
		}
	})
	if err != nil {
		return fmt.Errorf("the file seems to be a copy that was made during writes: "+
			"copy a ledger with Backup, or while it is closed: %w", err)
	}
	log.Now(func(log *zerolog.Logger) {
		line := log.Info().Uint64("events", found.Events).Dur("duration", time.Since(began))
		line.Msg("audited a file that may be a copy")
	})
	return nil
}

// auditing adapts the ledger to the interface that an audit needs.
type auditing struct{ *Ledger }

func (l auditing) Origin() string { return l.documents.About.Origin() }

func (l auditing) Now() time.Time { return l.engine.Clock() }

func (l auditing) Inspect(ctx context.Context, fault func(kv.Fault), fn func(kv.Reader) error) error {
	return l.engine.Inspect(ctx, fault, fn)
}
