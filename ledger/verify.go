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

// Verify makes the whole state anew from the events alone, and compares it with what is stored: the
// tree hash by hash, and then every chain, level, balance, price, sum, tally, answer and
// idempotency record, value by value. It checks each event against those before it, by the same
// rules by which events are recorded: budgets and ceilings, prices and terms of sale, how each
// response came about, what belongs together. It reports every difference, not only the first.
//
// What no problem proves: the log is one that this package can have written; the state is what it
// says; no byte of a record was changed, and no event dropped, repeated or moved, by anybody who
// did not write the whole rest of the log anew, tree hashes and state included. Against that, and
// against an older copy of the file, only a checkpoint helps that is kept elsewhere: with it, no
// event before it was changed by anybody, or replaced by another. An event before it may have been
// erased, and to whom erased events belonged cannot be told: whoever writes the file by other means
// than this package could erase somebody's events in the name of somebody else who is forgotten. An
// earlier statement about the object shows that, or the receipt of a buyer. Verify needs no secret
// and no truth. So it does not tell whether responses were drawn from the truth, nor whether the
// draws were random, nor who is behind an object; and of what was forgotten there is left only what
// [Ledger.Forget] says.
//
// Events that lie more than five minutes ahead of the clock ([Options.Now]) are a problem, which
// names the first of them and says how many there are: sales that are dated by then are closed for
// good, and reservations have lapsed.
//
// It reads in short snapshots, writes nothing, and can run beside anything else, on a ledger opened
// for reading, too; whoever waits for a processor goes first. Its memory does not grow with the
// log: what does not fit goes to temporary files. Damaged parts of the file are reported and left
// out. An error says that the audit could not be carried out: [api.ErrCheckpoint] for a checkpoint that
// cannot be trusted, [api.ErrClosed], [api.ErrStopped], the error of ctx, those of disks.
func (l *Ledger) Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error) {
	return l.verify(ctx, r, audit.Usual())
}

func (l *Ledger) verify(ctx context.Context, r api.VerifyRequest, at audit.Pace) (api.Verification, error) {
	asked := audit.Request{
		Checkpoints: r.Checkpoints, Verifiers: r.Verifiers, Progress: r.Progress, Missing: l.engine.Missing,
		Exhausted: l.engine.Observer != nil,
	}
	if r.Report != nil {
		asked.Report = func(p audit.Finding) { r.Report(api.Finding(p)) }
	}
	began := time.Now()
	done, err := audit.Run(ctx, auditing{l}, asked, at)
	l.engine.Observe(func(o observe.Observer) {
		o.Audited(observe.Audit{
			Duration: time.Since(began), Events: done.Events, Problems: done.Problems, Exhausted: done.Exhausted,
			Err: err,
		})
	})
	return api.Verification{Head: done.Head, Objects: done.Objects, Problems: done.Problems}, err
}

// sound verifies a ledger, and returns the first problem as an error. What was written by a clock
// that was wrong is to be kept all the same.
func (l *Ledger) sound(ctx context.Context, progress func(done, total uint64)) (api.Verification, error) {
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

// auditCopy verifies the file of a ledger that is being opened, as it is without its journal.
func (l *Ledger) auditCopy(ctx context.Context) error {
	log, began := &l.engine.Log, time.Now()
	const text = "auditing a file that may be a copy"
	log.Now(func(log *zerolog.Logger) { log.Info().Msg(text) })
	told := began
	found, err := l.sound(ctx, func(done, total uint64) {
		if now := time.Now(); now.Sub(told) >= time.Second {
			told = now
			log.Now(func(log *zerolog.Logger) { log.Info().Uint64("events", done).Uint64("last", total).Msg(text) })
		}
	})
	if err != nil {
		return fmt.Errorf("the file seems to be a copy, and is not what a ledger was at one instant; "+
			"copy a ledger by Backup, or when it is closed: %w", err)
	}
	log.Now(func(log *zerolog.Logger) {
		line := log.Info().Uint64("events", found.Events).Dur("duration", time.Since(began))
		line.Msg("audited a file that may be a copy")
	})
	return nil
}

// auditing is the ledger as an audit sees it.
type auditing struct{ *Ledger }

func (l auditing) Origin() string { return l.documents.About.Origin() }

func (l auditing) Now() time.Time { return l.engine.Clock() }

func (l auditing) Inspect(ctx context.Context, fault func(kv.Fault), fn func(kv.Reader) error) error {
	return l.engine.Inspect(ctx, fault, fn)
}
