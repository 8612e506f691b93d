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

// Backup writes a copy of the ledger, as it is at one instant, to a new file, while calls go on.
// They wait until it is copied if the file outgrows meanwhile the address space reserved for it:
// four times its size when it was opened, and 4 GiB at least; on Windows and 32-bit systems if it
// grows at all. The copy is verified ([Ledger.Verify]) before it gets its name, and is on disk when
// Backup returns. It is made page by page; its unused pages are overwritten with zeros, so nothing
// is in it that was forgotten before. [Ledger.CompactTo] leaves them out, and takes longer.
//
// A backup is a ledger of its own, and verified again when it is first opened for writing. Opened
// instead of the original it is a rollback, which hands out new draws for what was drawn since:
// [Options.Checkpoint] refuses that. It returns [fs.ErrExist] when there is such a file, or the
// journal of another ledger where its own would be; [api.ErrInvalid] for an empty path, the ledger's
// own file, and the path of a ledger's key, journal or other file; [api.ErrCorrupt] with the first
// problem when the ledger does not verify, events of the future aside. When ctx ends first, there
// is no copy, nor a part of one. What a crash leaves of one, .NAME.copy-*.sluice-unfinished, is
// removed by the next copy or compaction in the same directory.
//
// progress, unless nil, is told how many KiB of the file are dealt with, of how many in all: each
// of them is copied, and then verified, so they count twice.
func (l *Ledger) Backup(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error) {
	return l.copyTo(ctx, path, kv.Pages, progress)
}

// CompactTo is [Ledger.Backup] record by record: the copy is smaller, as it has no unused pages.
func (l *Ledger) CompactTo(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error) {
	return l.copyTo(ctx, path, kv.Records, progress)
}

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
		return api.Copied{}, l.orEnded(err) // by the checkpoint before the copy, maybe
	}
	return out, nil
}

// checkFile checks that the file is the one that this process wrote, before it is copied and when
// it is.
func (l *Ledger) checkFile(ctx context.Context) error {
	return l.engine.View(ctx, func(*state.State) error { return nil })
}

// orEnded returns why the ledger has ended, if it has: an error of its file tells less then.
func (l *Ledger) orEnded(err error) error {
	return cmp.Or(l.engine.Queue.Check(), err)
}

// copying tells how far a copy has come.
type copying struct {
	report func(done, total int)
	passes int64 // how often the file is gone through
	size   int64 // of the file, in bytes
}

func (p *copying) read(done, total int64) {
	p.size = total
	p.tell(done)
}

// verified tells how far the second pass has come. It is counted in events, and told in bytes.
func (p *copying) verified(done, total uint64) {
	p.tell(p.size + int64(float64(p.size)*float64(done)/float64(max(total, 1))))
}

func (p *copying) tell(done int64) {
	const unit = 1 << 10
	p.report(int(done/unit), int(p.passes*p.size/unit))
}

// closeCopy makes a copy of the file whole, so that it names no journal and holds nothing that was
// forgotten.
func (l *Ledger) closeCopy(ctx context.Context, path string) error {
	s, err := bolt.Open(path, false)
	if err != nil {
		return err
	}
	if err := errors.Join(s.Update(l.engine.Complete), s.Close()); err != nil {
		return err
	}
	return bolt.EraseUnused(ctx, path)
}

// verifyCopy verifies a copy that has no name yet.
func verifyCopy(
	ctx context.Context, path string, clock func() time.Time, progress func(done, total uint64),
) (out api.Copied, err error) {
	s, err := bolt.Open(path, true)
	if err != nil {
		return out, err
	}
	l, err := openStore(ctx, s, Options{ReadOnly: true, Now: clock})
	if err != nil {
		return out, errors.Join(err, s.Close())
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	found, err := l.sound(ctx, progress)
	if err != nil {
		return out, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return out, err
	}
	return api.Copied{Bytes: info.Size(), Events: found.Events}, nil
}

// Compact rewrites the ledger's file so that there is nothing in it but the ledger as it is now:
// what [Ledger.Forget] destroyed is gone from it, and the file is as small as it can be. The file
// is replaced by a rename, so at any instant there is a whole one. Requests that change the ledger
// wait until it is done. On Windows an open file cannot be replaced; use [Ledger.CompactTo] there.
//
// When ctx ends before the new file is whole, the ledger goes on with the old one, and nothing else
// is left. progress, unless nil, is told how many KiB of the file are rewritten, of about how many.
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
		p := copying{report: report, passes: 1}
		return from.Compact(ctx, p.read)
	})
	if errors.Is(err, kv.ErrUncertain) {
		err = fmt.Errorf("%w: %w", api.ErrStopped, err)
		l.engine.Queue.Stop(err)
	}
	l.engine.StopIfOverwritten(err)
	if err == nil {
		err = l.engine.Moved()
	}
	if err != nil {
		return l.orEnded(err)
	}
	return nil
}
