package memtable

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// CopyTo implements [kv.Copier], where the base does, after a checkpoint if it has not everything
// yet. The copy is of the base: what is published meanwhile may be in it or not.
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

// Compact implements [kv.Copier], where the base does, after a checkpoint if it has not everything
// yet. Updates do not wait, unless too much is in memory: it is the next checkpoint that does.
func (t *Table) Compact(ctx context.Context, progress kv.Progress) error {
	base, can := t.base.(kv.Copier)
	if !can {
		return fmt.Errorf("compact: %w", errors.ErrUnsupported)
	}
	if err := t.compacting.Take(ctx); err != nil { // a second one would keep checkpoints waiting until the first ends
		return fmt.Errorf("compact: %w", err)
	}
	defer t.compacting.Leave()
	return t.copy(ctx, progress, func(progress kv.Progress) error { return base.Compact(ctx, progress) })
}

// copy runs what copies the base, when that has everything and nothing aside. Another checkpoint
// may begin when progress is told the first time: the copy is of a snapshot, which is taken by
// then.
func (t *Table) copy(ctx context.Context, progress kv.Progress, run func(kv.Progress) error) error {
	if err := t.lockCheckpoint(ctx); err != nil {
		return err
	}
	held, err := true, t.stopped()
	if t.Bytes() > 0 {
		held, err = t.checkpointWithin(ctx)
	}
	if !held {
		return err
	}
	defer t.tell() // if nobody has meanwhile: the snapshot need not wait for that
	begun := sync.OnceFunc(t.checkpointing.Leave)
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

// WriteTo writes what is published and not in its place in the base, which is open for reading
// only, to a copy of it.
func (t *Table) WriteTo(copied kv.Writer) error {
	c := t.current.Load()
	if err := clearAside(copied); err != nil {
		return err
	}
	if c.frozen != nil {
		if err := c.frozen.writeTo(copied); err != nil {
			return err
		}
	}
	return c.active.writeTo(copied)
}

// Inspect implements [kv.Inspector]: it shows what View does. Over a base that is no Inspector it
// is View.
func (t *Table) Inspect(fault func(kv.Fault), fn func(kv.Reader) error) error {
	base, can := t.base.(kv.Inspector)
	if !can {
		return t.View(fn)
	}
	inspect := func(fn func(kv.Reader) error) error { return base.Inspect(fault, fn) }
	r := newReader(t)
	r.careless, r.fn = true, fn
	return t.view(inspect, r)
}
