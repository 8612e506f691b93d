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

// copyCalls are the calls that copy or compact a store.
func copyCalls(s *Store, path string) map[string]func(context.Context, kv.Progress) error {
	all := map[string]func(context.Context, kv.Progress) error{"compact": s.Compact}
	for name, how := range ways {
		all[name] = func(ctx context.Context, progress kv.Progress) error {
			return s.CopyTo(ctx, filepath.Join(filepath.Dir(path), name), how, progress, nil)
		}
	}
	return all
}

// If its context ends at any moment, a copy returns the error and leaves no file, and the store can
// be used.
func TestCopyTo_ContextEnds_LeavesNoFile(t *testing.T) {
	path, s := opened(t)
	fill(t, s)
	want := records(t, s)
	for name, write := range copyCalls(s, path) {
		allCalls := 0
		check.Must(t, write(t.Context(), func(int64, int64) { allCalls++ }))
		check.Need(t, allCalls >= 5, "%s: progress was called %d times", name, allCalls)
		if name != "compact" {
			check.Must(t, os.Remove(filepath.Join(filepath.Dir(path), name)))
		}
		for i, end := range []int{1, 2, allCalls / 2, allCalls} {
			if !testenv.Deep() && i%2 == 0 {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := write(ctx, func(int64, int64) {
				if calls++; calls == end {
					cancel()
				}
			})
			cancel()
			check.That(t, errors.Is(err, context.Canceled) && calls == end,
				"%s, canceled at call %d of %d: %d calls, %v", name, end, allCalls, calls, err)
			wantFiles(t, path, "data.db")
			wantRecords(t, s, want)
		}
	}
	check.Must(t, putOne(s, "first", "later", "x"))
}

// The reported progress never falls, and ends with the total.
func TestCopyTo_Progress_RisesToTheTotal(t *testing.T) {
	path, s := opened(t)
	fill(t, s)
	for name, write := range copyCalls(s, path) {
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

// The first call of progress reports 0 bytes after the snapshot was taken. A later update is not in
// the copy. During a copy, but not during a compaction, updates do not wait.
func TestCopyTo_FirstProgress_IsAfterTheSnapshot(t *testing.T) {
	path, s := opened(t)
	fill(t, s)
	for name, write := range copyCalls(s, path) {
		calls := 0
		check.Must(t, write(t.Context(), func(done, total int64) {
			if calls++; calls > 1 {
				return
			}
			check.That(t, done == 0 && total != 0, "%s: the first call reports %d of %d", name, done, total)
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
			check.That(t, late == nil, "%s: an update after the snapshot is in the copy", name)
			return err
		}))
	}
}
