package ledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// TestCopiesTellHowFarTheyAreAndCanBeStopped ends the context of each way to copy at each moment at which it tells how
// far it is: it leaves no file then, and the ledger goes on.
func TestCopiesTellHowFarTheyAreAndCanBeStopped(t *testing.T) {
	path := votersFile(t, "1", crowd(6_000)...)
	l := open(t, path, Options{})
	dir, made := tests.Scratch(t), 0
	for name, write := range map[string]func(ctx context.Context, p func(done, total int)) error{
		"backup": func(ctx context.Context, p func(done, total int)) error {
			return check.Err(l.Backup(ctx, filepath.Join(dir, "backup"), p))
		},
		"records": func(ctx context.Context, p func(done, total int)) error {
			return check.Err(l.CompactTo(ctx, filepath.Join(dir, "records"), p))
		},
		"compact": l.Compact,
	} {
		told, last := 0, 0
		must(t, write(t.Context(), func(done, total int) {
			if told++; done < last || done > total {
				t.Errorf("%s: %d of %d after %d", name, done, total, last)
			}
			last = done
		}))
		check.That(t, told >= 3, "%s: told %d times", name, told)
		if name != "compact" {
			must(t, os.Remove(filepath.Join(dir, name)))
		}
		for end := 1; end <= told; end++ {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := write(ctx, func(int, int) {
				if calls++; calls == end {
					cancel()
				}
			})
			cancel()
			if err == nil && name != "compact" {
				must(t, os.Remove(filepath.Join(dir, name))) // all was done when that was reported: a copy waits for no progress function
			} else if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, stopped when told for the %dth time of %d: %v", name, end, told, err)
			}
			for _, at := range []string{dir, filepath.Dir(path)} {
				entries := check.Value(os.ReadDir(at))(t)
				if at == dir && len(entries) > 0 || len(entries) > 2 { // the file and its journal
					t.Errorf("%s, stopped: there is left %v", name, entries)
				}
			}
			enroll(t, l, "vote", "1", "late "+name+crowd(end)[end-1])
			made++
		}
	}
	n := stats(t, l).Objects
	check.That(t, n == uint64(6_000+made), "%d people, %d came late", n, made)
}

// closing is a store whose ledger is closed when it is about to be copied.
type closing struct {
	kv.Store
	closes func() error
}

func (c closing) CopyTo(ctx context.Context, path string, how kv.Copying, p kv.Progress, check func(string) error) error {
	return errors.Join(c.closes(), c.Store.(kv.Copier).CopyTo(ctx, path, how, p, check))
}

func (c closing) Compact(ctx context.Context, p kv.Progress) error {
	return errors.Join(c.closes(), c.Store.(kv.Copier).Compact(ctx, p))
}

// Whoever copies a ledger while it is closed is told so, and not that some database is not open.
func TestACopyOfALedgerThatIsBeingClosed(t *testing.T) {
	for name, write := range map[string]func(l *Ledger, path string) error{
		"backup":  func(l *Ledger, path string) error { return check.Err(l.Backup(t.Context(), path, nil)) },
		"records": func(l *Ledger, path string) error { return check.Err(l.CompactTo(t.Context(), path, nil)) },
		"compact": func(l *Ledger, _ string) error { return l.Compact(t.Context(), nil) },
	} {
		l := check.Value(Open(t.Context(), votersFile(t, "1", "ann"), Options{}))(t)
		l.engine.Store = closing{l.engine.Store, l.Close}
		err := write(l, filepath.Join(tests.Scratch(t), "copy"))
		check.That(t, errors.Is(err, api.ErrClosed) && err.Error() == api.ErrClosed.Error(), "%s: %v", name, err)
	}
}
