package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// CopyTo implements [kv.Copier], where the base does, after a checkpoint if it has not everything yet. The copy is of
// the base: what is published meanwhile may be in it or not.
func (t *Table) CopyTo(ctx context.Context, path string, how kv.Copying, progress kv.Progress, check func(path string) error) error {
	base, can := t.base.(kv.Copier)
	if !can {
		return fmt.Errorf("copy to %s: %w", path, errors.ErrUnsupported)
	}
	if err := t.empty(); err != nil {
		return err
	}
	return base.CopyTo(ctx, path, how, progress, check)
}

// Compact implements [kv.Copier], where the base does, after a checkpoint if it has not everything yet. Updates do not wait,
// unless too much is in memory: it is the next checkpoint that does.
func (t *Table) Compact(ctx context.Context, progress kv.Progress) error {
	base, can := t.base.(kv.Copier)
	if !can {
		return fmt.Errorf("compact: %w", errors.ErrUnsupported)
	}
	if err := t.empty(); err != nil {
		return err
	}
	return base.Compact(ctx, progress)
}

// WriteTo writes what is published and not in the base, which is open for reading only, to a copy of it.
func (t *Table) WriteTo(copied kv.Writer) error {
	return t.current.Load().active.writeTo(copied, func(int) {})
}

// empty makes a checkpoint unless there is nothing for one.
func (t *Table) empty() error {
	if t.Bytes() == 0 {
		return t.stopped()
	}
	return t.Checkpoint()
}

// Inspect implements [kv.Inspector]: it shows what View does. Over a base that is no Inspector it is View.
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
