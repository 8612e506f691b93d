package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Backup writes a copy of the ledger, as it is at one instant, to a new file. Other calls continue
// during the copy. They wait for it only if the file outgrows the address space reserved for it:
// four times its size when it was opened, and at least 4 GiB. On Windows and 32-bit systems they
// wait if the file grows at all. The copy is verified ([Ledger.Verify]) before it gets its name,
// and is on disk when Backup returns. The file is copied page by page. Unused pages are overwritten
// with zeros, so that the copy has nothing that was forgotten before. [Ledger.CompactTo] omits
// these pages, and takes longer.
//
// A backup is a separate ledger, and is verified again when it is first opened for writing. To open
// it instead of the original is a rollback: it would draw again what was drawn after the backup.
// [Options.Checkpoint] prevents that.
//
// Backup returns [fs.ErrExist] if the file exists, or if the journal of another ledger is where the
// copy's journal would be. It returns [api.ErrInvalid] for an empty path, the ledger's own file,
// and the path of a ledger's key, journal or other file. It returns [api.ErrCorrupt] with the first
// problem if the ledger does not verify; events with a future time are no problem here. If ctx ends
// first, there is no copy, and no part of one. A crash may leave the file
// .NAME.copy-*.sluice-unfinished, which the next copy or compaction in the same directory removes.
//
// progress, unless nil, gets the number of KiB of the file that are done, and the total. Each KiB
// counts twice, because it is copied and then verified.
func (l *Ledger) Backup(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error) {
	return l.copyTo(ctx, path, kv.Pages, progress)
}

// CompactTo is like [Ledger.Backup], but copies record by record. The copy is smaller, because it
// has no unused pages.
func (l *Ledger) CompactTo(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error) {
	return l.copyTo(ctx, path, kv.Records, progress)
}

// copyTo writes a copy of the ledger to a new file, page by page or record by record, and verifies
// it. It returns [errors.ErrUnsupported] for a store that cannot be copied. After an error there is
// no copy.
func (l *Ledger) copyTo(
	ctx context.Context, path string, how kv.Copying, progress func(done, total int),
) (out api.Copied, err error) {
	if err := errors.Join(errs.Context(ctx), l.engine.Queue.Check()); err != nil {
		return out, err
	}
	from, ok := l.engine.Copier()
	if !ok {
		return out, fmt.Errorf("copy: %w", errors.ErrUnsupported)
	}
	resolved, err := newFile(path, l.file)
	if err = errors.Join(l.checkFile(ctx), err); err != nil {
		return out, err
	}
	err = callback.WithProgress(ctx, progress, func(ctx context.Context, report func(done, total int)) error {
		// The file is copied, and then verified.
		p := copying{report: report, passes: 2}
		return from.CopyTo(ctx, resolved, how, p.read, func(copied string) (err error) {
			if err := l.closeCopy(ctx, copied); err != nil {
				return err
			}
			if out, err = verifyCopy(ctx, copied, l.engine.Clock, p.verified); err != nil {
				return err
			}
			return l.checkFile(ctx)
		})
	})
	if err != nil {
		l.engine.StopIfOverwritten(err)
		// The checkpoint that was written before the copy may have stopped the ledger.
		return api.Copied{}, l.stopReasonOr(err)
	}
	return out, nil
}

// checkFile returns an error if the file is not the one that this process wrote. It is called
// before and after a copy.
func (l *Ledger) checkFile(ctx context.Context) error {
	return l.engine.View(ctx, func(*state.State) error { return nil })
}

// stopReasonOr returns why the ledger has stopped or was closed, if it has. Otherwise it returns
// err, because an error of the file explains less.
func (l *Ledger) stopReasonOr(err error) error {
	return cmp.Or(l.engine.Queue.Check(), err)
}

// copying reports the progress of a copy.
type copying struct {
	report func(done, total int)
	passes int64 // how many times the file is read
	size   int64 // of the file, in bytes
}

// read reports the progress of the first pass, which reads the file: the bytes done, and the size
// of the file.
func (p *copying) read(done, total int64) {
	p.size = total
	p.reportBytes(done)
}

// verified reports the progress of the second pass, which verifies the copy. It gets numbers of
// events, and reports the same share of the bytes.
func (p *copying) verified(done, total uint64) {
	p.reportBytes(p.size + int64(float64(p.size)*float64(done)/float64(max(total, 1))))
}

// reportBytes reports the bytes done in all passes, and their total, in KiB.
func (p *copying) reportBytes(done int64) {
	const unit = 1 << 10
	p.report(int(done/unit), int(p.passes*p.size/unit))
}

// closeCopy completes a copy before it is verified. Afterwards it names no journal, unless that of
// the ledger is missing. Its unused pages are erased, so that it contains nothing that was
// forgotten.
func (l *Ledger) closeCopy(ctx context.Context, path string) error {
	s, err := bolt.Open(path, false) // for writing
	if err != nil {
		return err
	}
	if err := errors.Join(s.Update(l.engine.Complete), s.Close()); err != nil {
		return err
	}
	return bolt.EraseUnused(ctx, path)
}

// verifyCopy verifies a copy before it gets its name. It returns the size of the copy and its
// number of events, or [api.ErrCorrupt] with the first problem.
func verifyCopy(
	ctx context.Context, path string, clock func() time.Time, progress func(done, total uint64),
) (out api.Copied, err error) {
	s, err := bolt.Open(path, true) // for reading only
	if err != nil {
		return out, err
	}
	l, err := openStore(ctx, s, Options{ReadOnly: true, Now: clock})
	if err != nil {
		return out, errors.Join(err, s.Close())
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	found, err := l.verifySound(ctx, progress)
	if err != nil {
		return out, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return out, err
	}
	return api.Copied{Bytes: info.Size(), Events: found.Events}, nil
}

// Compact rewrites the ledger's file so that it contains only the current ledger. What
// [Ledger.Forget] destroyed is gone from the file, and the file is as small as possible. The file
// is replaced by a rename, so that a complete file exists at any instant. Requests that change the
// ledger wait until Compact is done. On Windows an open file cannot be replaced; use
// [Ledger.CompactTo] there.
//
// If ctx ends before the new file is complete, the ledger continues with the old file, and nothing
// else is left. progress, unless nil, gets the number of KiB of the file that are rewritten, and
// the approximate total.
func (l *Ledger) Compact(ctx context.Context, progress func(done, total int)) error {
	if l.engine.ReadOnly && !l.engine.Standby {
		return api.ErrReadOnly
	}
	if err := l.checkFile(ctx); err != nil {
		return err
	}
	from, ok := l.engine.Copier()
	if !ok {
		return fmt.Errorf("compact: %w", errors.ErrUnsupported)
	}
	err := callback.WithProgress(ctx, progress, func(ctx context.Context, report func(done, total int)) error {
		p := copying{report: report, passes: 1} // the file is only read once
		return from.Compact(ctx, p.read)
	})
	// It is not known whether the old or the new file remains.
	if errors.Is(err, kv.ErrUncertain) {
		err = fmt.Errorf("%w: %w", api.ErrStopped, err)
		l.engine.Queue.Stop(err)
	}
	l.engine.StopIfOverwritten(err)
	if err == nil {
		// The new file has another identity, and would otherwise count as a copy.
		err = l.engine.RecordMove()
	}
	if err != nil {
		return l.stopReasonOr(err)
	}
	return nil
}
