package bolt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// copiers are the ways to write a store anew.
func copiers(s *Store, path string) map[string]func(context.Context, kv.Progress) error {
	all := map[string]func(context.Context, kv.Progress) error{"compact": s.Compact}
	for name, how := range ways {
		all[name] = func(ctx context.Context, progress kv.Progress) error {
			return s.CopyTo(ctx, filepath.Join(filepath.Dir(path), name), how, progress, nil)
		}
	}
	return all
}

// A copy ends with its context, at whichever moment, and leaves nothing; the store goes on.
func TestCopyEndsWithItsContext(t *testing.T) {
	path, s := opened(t)
	grow(t, s)
	want := records(t, s)
	for name, write := range copiers(s, path) {
		calls := 0
		check.Must(t, write(t.Context(), func(int64, int64) { calls++ }))
		check.Need(t, calls >= 5, "%s: told %d times", name, calls)
		if name != "compact" {
			check.Must(t, os.Remove(filepath.Join(filepath.Dir(path), name)))
		}
		for i, end := range []int{1, 2, calls / 2, calls} {
			if !testenv.Deep() && i%2 == 0 {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			told := 0
			err := write(ctx, func(int64, int64) {
				if told++; told == end {
					cancel()
				}
			})
			cancel()
			check.That(t, errors.Is(err, context.Canceled) && told == end,
				"%s, ended when told for the %dth time of %d: told %d times, %v", name, end, calls, told, err)
			wantFiles(t, path, "data.db")
			wantRecords(t, s, want)
		}
	}
	check.Must(t, putOne(s, "first", "later", "x"))
}

// What is told never falls, and ends with all.
func TestCopyTellsHowFarItIs(t *testing.T) {
	path, s := opened(t)
	grow(t, s)
	for name, write := range copiers(s, path) {
		var last, all int64
		check.Must(t, write(t.Context(), func(done, total int64) {
			check.That(t, done >= last && done <= total && (all == 0 || total == all),
				"%s: %d of %d after %d of %d", name, done, total, last, all)
			last, all = done, total
		}))
		size := check.Value(s.Size())(t)
		check.That(t, last == all && all > size/2 && all <= 2*size,
			"%s: %d of %d at the end; the file has %d bytes", name, last, all, size)
	}
}

// Progress is first told of nothing read yet, when the snapshot is taken: what comes then is in no
// copy, and updates go on, but for a store that is compacted.
func TestProgressBeginsWithTheSnapshot(t *testing.T) {
	path, s := opened(t)
	grow(t, s)
	for name, write := range copiers(s, path) {
		told := 0
		check.Must(t, write(t.Context(), func(done, total int64) {
			if told++; told > 1 {
				return
			}
			check.That(t, done == 0 && total != 0, "%s: told %d of %d first", name, done, total)
			if name != "compact" {
				check.Must(t, putOne(s, "first", "late for "+name, "x"))
			}
		}))
		if name == "compact" {
			continue
		}
		copied := mustOpen(t, filepath.Join(filepath.Dir(path), name))
		check.Must(t, copied.View(func(r kv.Reader) error {
			late, err := r.Get("first", []byte("late for "+name))
			check.That(t, late == nil, "%s: what came after the snapshot is in the copy", name)
			return err
		}))
	}
}
