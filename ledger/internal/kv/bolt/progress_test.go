package bolt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
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
	path := newFile(t)
	s := mustOpen(t, path)
	grow(t, s)
	want := records(t, s)
	for name, write := range copiers(s, path) {
		calls := 0
		must(t, write(t.Context(), func(int64, int64) { calls++ }))
		if calls < 5 {
			t.Fatalf("%s: told %d times", name, calls)
		}
		if name != "compact" {
			must(t, os.Remove(filepath.Join(filepath.Dir(path), name)))
		}
		for i, end := range []int{1, 2, calls / 2, calls} {
			if !pace.Deep() && i%2 == 0 {
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
			if !errors.Is(err, context.Canceled) || told != end {
				t.Errorf("%s, ended when told for the %dth time of %d: told %d times, %v", name, end, calls, told, err)
			}
			wantFiles(t, path, "data.db")
			wantRecords(t, s, want)
		}
	}
	must(t, putOne(s, "first", "later", "x"))
}

// What is told never falls, and ends with all.
func TestCopyTellsHowFarItIs(t *testing.T) {
	path := newFile(t)
	s := mustOpen(t, path)
	grow(t, s)
	for name, write := range copiers(s, path) {
		var last, all int64
		must(t, write(t.Context(), func(done, total int64) {
			if done < last || done > total || all != 0 && total != all {
				t.Errorf("%s: %d of %d after %d of %d", name, done, total, last, all)
			}
			last, all = done, total
		}))
		size, err := s.Size()
		must(t, err)
		if last != all || all <= size/2 || all > 2*size {
			t.Errorf("%s: %d of %d at the end; the file has %d bytes", name, last, all, size)
		}
	}
}

// Progress is first told of nothing read yet, when the snapshot is taken: what comes then is in no copy, and updates go on, but for a
// store that is compacted.
func TestProgressBeginsWithTheSnapshot(t *testing.T) {
	path := newFile(t)
	s := mustOpen(t, path)
	grow(t, s)
	for name, write := range copiers(s, path) {
		told := 0
		must(t, write(t.Context(), func(done, total int64) {
			if told++; told > 1 {
				return
			}
			if done != 0 || total == 0 {
				t.Errorf("%s: told %d of %d first", name, done, total)
			}
			if name != "compact" {
				must(t, putOne(s, "first", "late for "+name, "x"))
			}
		}))
		if name == "compact" {
			continue
		}
		copied := mustOpen(t, filepath.Join(filepath.Dir(path), name))
		must(t, copied.View(func(r kv.Reader) error {
			late, err := r.Get("first", []byte("late for "+name))
			if late != nil {
				t.Errorf("%s: what came after the snapshot is in the copy", name)
			}
			return err
		}))
	}
}
