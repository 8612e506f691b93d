package memtable

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// CopyTo implements [kv.Copier], if the base does. It first makes a checkpoint if the base does not
// have everything yet. It copies the base: what is published concurrently may be in the copy or
// not.
func (t *Table) CopyTo(
	ctx context.Context, path string, how kv.Copying, progress kv.Progress, check func(path string) error,
) error {
	base, can := t.base.(kv.Copier)
	if !can {
		return fmt.Errorf("copy to %s: %w", path, errors.ErrUnsupported)
	}
	return t.copy(ctx, progress, func(progress kv.Progress) error {
		return base.CopyTo(ctx, path, how, progress, check)
	})
}

// Compact implements [kv.Copier], if the base does. It first makes a checkpoint if the base does
// not have everything yet. Updates do not wait for it, unless too much is in memory; only the next
// checkpoint waits.
func (t *Table) Compact(ctx context.Context, progress kv.Progress) error {
	base, can := t.base.(kv.Copier)
	if !can {
		return fmt.Errorf("compact: %w", errors.ErrUnsupported)
	}
	// Without this lock a second Compact would hold checkpointing until the first one ends.
	if err := t.compacting.Lock(ctx); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	defer t.compacting.Unlock()
	return t.copy(ctx, progress, func(progress kv.Progress) error { return base.Compact(ctx, progress) })
}

// copy calls run, which copies the base. Before that it makes a checkpoint, unless the base has
// everything already. Then the base has every record in its place, and its staging area is empty.
// copy holds checkpointing until the first call of progress, which means that the snapshot is
// taken.
func (t *Table) copy(ctx context.Context, progress kv.Progress, run func(kv.Progress) error) error {
	if err := t.lockCheckpoint(ctx); err != nil {
		return err
	}
	held, err := true, t.stopped() // held: this goroutine still has to release checkpointing
	if t.Bytes() > 0 {
		held, err = t.checkpointWithin(ctx)
	}
	if !held {
		return err
	}
	defer t.callWritten() // if no other goroutine has called Written; the snapshot need not wait for it
	// begun releases checkpointing: at the first progress, or when copy returns without any.
	begun := sync.OnceFunc(t.checkpointing.Unlock)
	defer begun()
	if err != nil {
		return err
	}
	return run(func(done, total int64) {
		begun()
		if progress != nil {
			progress(done, total)
		}
	})
}

// WriteTo completes a copy of a base that is open for reading only, and so cannot be written to by
// a checkpoint. It empties the staging area of the copy, and writes to the copy each published
// record that is not in its place in the base.
func (t *Table) WriteTo(copied kv.Writer) error {
	c := t.current.Load()
	if err := clearStaging(copied); err != nil {
		return err
	}
	if c.frozen != nil {
		if err := c.frozen.writeTo(copied); err != nil {
			return err
		}
	}
	return c.active.writeTo(copied)
}

// Inspect implements [kv.Inspector]. It shows the same records as View. If the base is no
// Inspector, it is View.
func (t *Table) Inspect(fault func(kv.Fault), fn func(kv.Reader) error) error {
	base, can := t.base.(kv.Inspector)
	if !can {
		return t.View(fn)
	}
	inspect := func(fn func(kv.Reader) error) error { return base.Inspect(fault, fn) }
	r := newReader(t)
	r.toleratesDamage, r.fn = true, fn
	return t.view(inspect, r)
}
