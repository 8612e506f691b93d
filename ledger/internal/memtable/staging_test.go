package memtable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// recordingStore is a store in memory that keeps a copy of itself after each update.
type recordingStore struct {
	kv.Memory
	images []*kv.Memory
}

func (f *recordingStore) Update(fn func(kv.Writer) error) error {
	err := f.Memory.Update(fn)
	f.images = append(f.images, f.Copy())
	return err
}

// stagedRecords returns the keys and values of the staging area of a store.
func stagedRecords(t testing.TB, s kv.Store) (keys, values [][]byte) {
	t.Helper()
	check.Must(t, s.View(func(r kv.Reader) error {
		return r.Scan(Staging, nil, func(key, value []byte) bool {
			keys, values = append(keys, bytes.Clone(key)), append(values, bytes.Clone(value))
			return true
		})
	}))
	return keys, values
}

// content returns bucket b, and the number of the last update.
func content(t testing.TB, s kv.Store) (found []string, n uint64) {
	t.Helper()
	check.Must(t, s.View(func(r kv.Reader) error {
		at, err := r.Get(mark.Bucket, mark.Key)
		if err != nil {
			return err
		}
		n = number(at)
		found, err = all(r)
		return err
	}))
	return found, n
}

// manyPairs returns n pairs for an update.
func manyPairs(n int, value string) (pairs []string) {
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("%03d", i), value)
	}
	return pairs
}

// changes returns the pairs of an update after manyPairs(40, …): new records, new values and
// deleted records.
func changes() (pairs []string) {
	for i := range 80 {
		value := fmt.Sprint("second ", i)
		if i%7 == 3 && i < 40 {
			value = ""
		}
		if i%5 > 0 {
			pairs = append(pairs, fmt.Sprintf("%03d", i), value)
		}
	}
	return pairs
}

// recordCheckpoint makes a small checkpoint, and then a large one whose transactions it records.
// It returns the content before and after the large one.
func recordCheckpoint(t *testing.T) (f *recordingStore, before, after []string) {
	t.Helper()
	return recordCheckpointOf(t, 2)
}

// recordCheckpointOf is recordCheckpoint with another number of the recorded update.
func recordCheckpointOf(t *testing.T, number uint64) (f *recordingStore, before, after []string) {
	t.Helper()
	f = &recordingStore{}
	s := tableOver(t, f, Options{Mark: mark, Portion: 50})
	write(t, s, 1, manyPairs(40, "first")...)
	checkpoint(t, s)
	before, _ = content(t, s)
	write(t, s, number, changes()...)
	after, _ = content(t, s)
	f.images = []*kv.Memory{f.Copy()}
	checkpoint(t, s)
	return f, before, after
}

// A process may die after any transaction of a checkpoint. The next process sees the whole content
// before or after the checkpoint, and completes it. The same holds if that process dies, too.
func TestCheckpoint_Interrupted_IsResumed(t *testing.T) {
	f, before, after := recordCheckpoint(t)
	check.Need(t, len(f.images) >= 20, "the checkpoint has only %d transactions", len(f.images))
	seen := map[uint64]int{}
	for i, image := range f.images {
		s := tableOver(t, image.Copy(), Options{Mark: mark})
		found, n := content(t, s)
		seen[n]++
		check.Need(t, (n != 1 || slices.Equal(found, before)) && (n != 2 || slices.Equal(found, after)),
			"after transaction %d, as of update %d, the table has %q", i, n, found)
		checkResume(t, image, n, found, 2)
	}
	check.That(t, seen[1] >= 3 && seen[2] >= 10 && len(seen) == 2, "images by update: %v", seen)
}

// checkResume continues with a recorded base: as a read-only table, by copying it, and by a
// checkpoint that is interrupted after any transaction.
func checkResume(t *testing.T, image *kv.Memory, n uint64, found []string, deep int) {
	t.Helper()
	still := tableOver(t, image.Copy(), Options{Mark: mark, ReadOnly: true})
	want(t, still, found...)
	whole := image.Copy()
	check.Must(t, whole.Update(still.WriteTo))
	wantCheckpointed(t, whole, found)

	f := &recordingStore{}
	check.Must(t, copyAll(f, image))
	s := tableOver(t, f, Options{Mark: mark, Portion: 50})
	write(t, s, n+1, "in front", "1", "000", "")
	more, _ := content(t, s)
	if deep--; deep > 0 {
		f.images = nil
		checkpoint(t, s)
		for _, image := range f.images {
			s := tableOver(t, image.Copy(), Options{Mark: mark})
			now, at := content(t, s)
			check.Need(t, (at != n || slices.Equal(now, found)) && (at != n+1 || slices.Equal(now, more)),
				"as of update %d, the table has %q", at, now)
			checkResume(t, image, at, now, deep)
		}
	}
	checkpoint(t, s)
	wantCheckpointed(t, f, more)
}

// wantCheckpointed fails unless a store has exactly these pairs in bucket b, and nothing is staged.
func wantCheckpointed(t *testing.T, s kv.Store, pairs []string) {
	t.Helper()
	want(t, s, pairs...)
	keys, _ := stagedRecords(t, s)
	check.That(t, len(keys) == 0, "%d portions are left in the staging area", len(keys))
}

// copyAll copies the buckets of the tests.
func copyAll(to, from kv.Store) error {
	return to.Update(func(w kv.Writer) error {
		return from.View(func(r kv.Reader) (err error) {
			for _, bucket := range []string{mark.Bucket, "b", Staging} {
				err = errors.Join(err, r.Scan(bucket, nil, func(key, value []byte) bool {
					err = errors.Join(err, w.Put(bucket, bytes.Clone(key), bytes.Clone(value)))
					return true
				}))
			}
			return err
		})
	})
}

// Each transaction of a large checkpoint changes at most one portion. Only the one that completes
// the staging area changes the mark.
func TestCheckpoint_Large_TransactionsChangeAtMostAPortion(t *testing.T) {
	b := &base{}
	const records = 3 // each counts as 512 bytes, however short it is
	s := tableOver(t, b, Options{Mark: mark, Portion: 512 * records})
	write(t, s, 1, "first", "1")
	checkpoint(t, s)
	write(t, s, 2, manyPairs(100, "ten bytes!")...)
	marks, most := []uint64{1}, 0
	b.fail(func(update func() error) error {
		err := update()
		_, n := content(t, b)
		marks = append(marks, n)
		changed := slices.DeleteFunc(slices.Clone(b.written), func(one string) bool { return strings.HasPrefix(one, Staging) })
		most = max(most, len(changed))
		return err
	})
	checkpoint(t, s)
	check.That(t, most == records, "a transaction has changed %d records, want %d", most, records)
	check.That(t, slices.IsSorted(marks) && marks[2] == 1 && marks[len(marks)-3] == 2,
		"the marks of the transactions are %v", marks)
	wantCheckpointed(t, b, func() []string { found, _ := content(t, s); return found }())
}

// Portions of a checkpoint that was interrupted before all of it was staged are not taken for
// portions of the next checkpoint, even if that has the same mark.
func TestCheckpoint_AfterPartlyStagedOne_IgnoresItsPortions(t *testing.T) {
	f, before, _ := recordCheckpoint(t)
	for i, image := range f.images {
		if _, n := content(t, image); n != 1 {
			break
		}
		for _, pairs := range [][]string{{"other", "2"}, manyPairs(90, "other")} {
			base := &recordingStore{}
			check.Must(t, copyAll(base, image))
			s := tableOver(t, base, Options{Mark: mark, Portion: 1100}) // two records are a small checkpoint
			want(t, s, before...)
			write(t, s, 2, pairs...)
			found, _ := content(t, s)
			checkpoint(t, s)
			wantCheckpointed(t, base, found)
			for _, image := range base.images[1:] {
				now, n := content(t, tableOver(t, image, Options{Mark: mark}))
				check.That(t, n != 2 || slices.Equal(now, found), "after a transaction the table has %q, want %q", now, found)
			}
			again, _ := content(t, tableOver(t, base, Options{Mark: mark}))
			check.That(t, slices.Equal(again, found), "after transaction %d the table has %q, want %q", i, again, found)
		}
	}
}

// A portion that is damaged, missing or of another checkpoint is found when the base is opened.
func TestOver_StagedPortionsDamaged_IsCorrupt(t *testing.T) {
	f, _, _ := recordCheckpoint(t)
	other, _, _ := recordCheckpointOf(t, 9)
	i := slices.IndexFunc(f.images, func(image *kv.Memory) bool { _, n := content(t, image); return n == 2 })
	image := f.images[i]
	keys, values := stagedRecords(t, image)
	check.Need(t, len(keys) >= 5, "the staging area has %d portions", len(keys))
	over := func(what string, change func(kv.Writer) error) {
		t.Helper()
		base := image.Copy()
		check.Must(t, base.Update(change))
		check.WantErr(t, check.Err(Over(base, Options{Mark: mark})), kv.ErrCorrupt, "%s", what)
	}
	for n := range keys {
		over(fmt.Sprint("without portion ", n), func(w kv.Writer) error { return w.Delete(Staging, keys[n]) })
	}
	_, others := stagedRecords(t, other.images[i])
	over("one of another checkpoint", func(w kv.Writer) error { return w.Put(Staging, keys[2], others[2]) })
	over("the first of another checkpoint", func(w kv.Writer) error { return w.Put(Staging, keys[0], others[0]) })
	over("two portions swapped", func(w kv.Writer) error {
		return errors.Join(w.Put(Staging, keys[0], values[1]), w.Put(Staging, keys[1], values[0]))
	})
	over("a strange key", func(w kv.Writer) error { return w.Put(Staging, []byte("z"), values[0]) })
	for at := range values[0] {
		for _, bits := range []byte{1, 0x80} {
			damaged := bytes.Clone(values[0])
			damaged[at] ^= bits
			over(fmt.Sprintf("byte %d", at), func(w kv.Writer) error { return w.Put(Staging, keys[0], damaged) })
		}
		over(fmt.Sprintf("cut at %d", at), func(w kv.Writer) error { return w.Put(Staging, keys[0], append(values[0][:at:at], "."...)) })
	}
	// Damage that happens while the table is open is found by the checkpoint. Nothing is lost,
	// because the records are read from memory.
	base := image.Copy()
	s := tableOver(t, base, Options{Mark: mark})
	found, _ := content(t, s)
	check.Must(t, base.Update(func(w kv.Writer) error { return w.Put(Staging, keys[0], values[1]) }))
	check.WantErr(t, s.Checkpoint(), kv.ErrCorrupt, "a portion was damaged while the table was open")
	want(t, s, found...)
}

// A valid portion of another checkpoint is not applied.
func TestCheckpoint_PortionOfAnotherCheckpoint_IsNotApplied(t *testing.T) {
	f, _, _ := recordCheckpoint(t)
	_, before := stagedRecords(t, f.images[2])
	b := &base{}
	s := tableOver(t, b, Options{Mark: mark, Portion: 50, Step: func(step Step) {
		if keys, _ := stagedRecords(t, b); step == Staged {
			check.OK(t, b.Memory.Update(func(w kv.Writer) error { return w.Put(Staging, keys[0], before[0]) }))
		}
	}})
	write(t, s, 7, manyPairs(40, "other")...)
	check.WantErr(t, s.Checkpoint(), kv.ErrCorrupt, "a checkpoint")
	want(t, b)
}

// A large checkpoint that fails at any transaction loses nothing, and the next one completes it.
func TestCheckpoint_LargeFailsAtAnyTransaction_IsResumed(t *testing.T) {
	f, _, after := recordCheckpoint(t)
	for at := range len(f.images) - 1 {
		b := &base{}
		s := tableOver(t, b, Options{Mark: mark, Portion: 50})
		write(t, s, 1, manyPairs(40, "first")...)
		checkpoint(t, s)
		write(t, s, 2, changes()...)
		left := at
		b.fail(func(update func() error) error {
			if left--; left < 0 {
				return errDisk
			}
			return update()
		})
		check.WantErr(t, s.Checkpoint(), errDisk, "a checkpoint whose transaction %d fails returns", at)
		want(t, s, after...)
		write(t, s, 3, "in front", "3")
		found, _ := content(t, s)
		b.fail(nil)
		checkpoint(t, s)
		wantCheckpointed(t, b, found)
	}
}

// A copy is never taken during a checkpoint, so its staging area is empty. Checkpoints wait for a
// copy only until its snapshot is taken.
func TestCopyTo_DuringUpdates_CopyHasEmptyStagingArea(t *testing.T) {
	dir := testenv.TempDir(t)
	s := tableOver(t, openBolt(t, filepath.Join(dir, "base")), Options{Mark: mark, Limit: 5000, Portion: 500})
	defer s.Close()
	writeNumber(t, s, 1)
	var writing sync.WaitGroup
	done := make(chan struct{})
	writing.Go(func() {
		for n := uint64(2); !closed(done); n++ {
			writeNumber(t, s, n)
		}
	})
	for n := range testenv.Scale(10, 100) {
		path := filepath.Join(dir, fmt.Sprint("copy ", n))
		check.Must(t, s.CopyTo(t.Context(), path, kv.Copying(n%2), nil, nil))
		copied := openBolt(t, path)
		keys, _ := stagedRecords(t, copied)
		check.That(t, len(keys) == 0, "the staging area of a copy has %d portions", len(keys))
		check.OK(t, errors.Join(copied.View(func(r kv.Reader) error { return readNumber(r, 0) }), copied.Close()))
		if n%3 == 0 {
			check.Must(t, s.Compact(t.Context(), nil))
		}
	}
	close(done)
	writing.Wait()

	checkpointOnce := sync.OnceFunc(func() {
		write(t, s, 1<<40, "while it is copied", "1")
		checkpoint(t, s)
	})
	check.Must(t, s.CopyTo(t.Context(), filepath.Join(dir, "last"), kv.Records, func(int64, int64) { checkpointOnce() }, nil))
	copied := openBolt(t, filepath.Join(dir, "last"))
	defer copied.Close()
	want(t, copied)
}

// lateCopier is a base that calls before before it takes the snapshot of a copy.
type lateCopier struct {
	kv.Store
	before func()
}

func (c lateCopier) CopyTo(ctx context.Context, path string, how kv.Copying, progress kv.Progress, inspect func(string) error) error {
	c.before()
	return c.Store.(kv.Copier).CopyTo(ctx, path, how, progress, inspect)
}

func (c lateCopier) Compact(context.Context, kv.Progress) error { return errors.ErrUnsupported }

// longCompacting is a base whose Compact takes its snapshot, and then waits for end. Another call
// waits for the first.
type longCompacting struct {
	kv.Store
	alone      *sync.Mutex
	begun, end chan struct{}
}

func (c longCompacting) CopyTo(context.Context, string, kv.Copying, kv.Progress, func(string) error) error {
	return errors.ErrUnsupported
}

func (c longCompacting) Compact(_ context.Context, progress kv.Progress) error {
	c.alone.Lock()
	defer c.alone.Unlock()
	progress(0, 1)
	c.begun <- struct{}{}
	<-c.end
	return nil
}

// A Compact that waits for another Compact delays no checkpoint.
func TestCompact_WaitsForAnother_DelaysNoCheckpoint(t *testing.T) {
	base := longCompacting{new(kv.Memory), new(sync.Mutex), make(chan struct{}), make(chan struct{})}
	s := tableOver(t, base, Options{Mark: mark})
	done := make(chan error)
	for range 2 {
		go func() { done <- s.Compact(t.Context(), nil) }()
	}
	<-base.begun
	time.Sleep(5 * time.Millisecond) // lets the other call begin
	write(t, s, 1, "a", "1")
	checkpoint(t, s)
	want(t, base.Store, "a=1")
	base.end <- struct{}{}
	<-base.begun
	base.end <- struct{}{}
	check.OK(t, errors.Join(<-done, <-done))
}

// A read-only table over a staged checkpoint takes updates beyond its limit, because no checkpoint
// can free memory.
func TestUpdate_ReadOnlyOverStaged_IgnoresTheLimit(t *testing.T) {
	f, _, after := recordCheckpoint(t)
	image := f.images[len(f.images)-2]
	keys, _ := stagedRecords(t, image)
	check.Need(t, len(keys) != 0, "the staging area is empty")
	s := tableOver(t, image, Options{Mark: mark, ReadOnly: true, Limit: 1})
	for n := range uint64(5) {
		write(t, s, 3+n, "~", fmt.Sprint(n))
	}
	want(t, s, append(after, "~=4")...)
}

// CopyTo first makes a checkpoint. Another checkpoint waits until the snapshot of the copy is
// taken.
func TestCheckpoint_CopyHasNoSnapshotYet_Waits(t *testing.T) {
	dir := testenv.TempDir(t)
	applied, goOn := make(chan struct{}, 1), make(chan struct{})
	var s *Table
	var checkpoints sync.WaitGroup
	base := lateCopier{openBolt(t, filepath.Join(dir, "base")), func() {
		write(t, s, 2, manyPairs(40, "second")...)
		checkpoints.Go(func() { checkpoint(t, s) })
		stillWaits(t, applied, "a checkpoint continues before the snapshot is taken")
	}}
	s = tableOver(t, base, Options{Mark: mark, Portion: 50, Step: func(step Step) {
		if _, n := content(t, base); step == Applied && n == 2 {
			applied <- struct{}{}
			<-goOn
		}
	}})
	defer s.Close()
	finish := sync.OnceFunc(func() {
		go func() {
			for range applied { // the remaining steps
			}
		}()
		close(goOn)
	})
	defer finish() // also if the test has failed: Close waits for the checkpoint
	write(t, s, 1, "a", "1")
	path := filepath.Join(dir, "copy")
	check.Must(t, s.CopyTo(t.Context(), path, kv.Pages, nil, nil))
	finish()
	checkpoints.Wait()
	close(applied)
	copied := openBolt(t, path)
	defer copied.Close()
	wantCheckpointed(t, copied, []string{"a=1"})
}

// A closed table keeps no memory of its records.
func TestClose_TableWithRecords_FreesTheirMemory(t *testing.T) {
	s := tableOver(t, &base{}, Options{Mark: mark})
	write(t, s, 1, manyPairs(100, "x")...)
	err := s.Close()
	check.That(t, err == nil && s.Bytes() <= 0, "%d bytes, %v", s.Bytes(), err)
	check.That(t, s.Checkpoint() != nil, "a closed table makes a checkpoint")
}
