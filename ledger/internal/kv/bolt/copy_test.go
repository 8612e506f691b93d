package bolt

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

var _ interface {
	kv.Store
	kv.Copier
} = (*Store)(nil)

var ways = map[string]kv.Copying{"pages": kv.Pages, "records": kv.Records}

// eachWay runs a test for each way to copy.
func eachWay(t *testing.T, test func(t *testing.T, how kv.Copying)) {
	for name, how := range ways {
		t.Run(name, func(t *testing.T) { test(t, how) })
	}
}

// failAt returns a hook that makes one step fail.
func failAt(step string, err error) func(string) error {
	return func(now string) error {
		if now == step {
			return err
		}
		return nil
	}
}

func putOne(s kv.Store, bucket, key, value string) error {
	return s.Update(func(w kv.Writer) error { return w.Put(bucket, []byte(key), []byte(value)) })
}

func deleteOne(s kv.Store, bucket, key string) error {
	return s.Update(func(w kv.Writer) error { return w.Delete(bucket, []byte(key)) })
}

// filledRecords is the number of records that fill writes to each of three buckets.
const filledRecords = 4000

// fill writes many records of many sizes: more than one batch, and values of several pages.
func fill(t testing.TB, s kv.Store) {
	t.Helper()
	for _, bucket := range []string{"first", "second", "third"} {
		check.Must(t, s.Update(func(w kv.Writer) error {
			var err error
			for i := range filledRecords {
				key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
				err = errors.Join(err, w.Put(bucket, key, bytes.Repeat([]byte{byte(i) | 1}, 1+i%800+i%500/499*10_000)))
			}
			return err
		}))
	}
}

func records(t testing.TB, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	check.Must(t, s.snapshot(func(tx *transaction) error {
		return tx.old.visitAll(func(bucket string, key, value []byte) error {
			all[bucket+"/"+string(key)] = string(value)
			return nil
		})
	}))
	return all
}

func wantRecords(t testing.TB, s *Store, want map[string]string) {
	t.Helper()
	got := records(t, s)
	check.That(t, maps.Equal(got, want), "the %d records differ from the %d expected", len(got), len(want))
}

// wantSound checks the pages with the check of bbolt.
func wantSound(t testing.TB, s *Store) {
	t.Helper()
	check.Must(t, s.snapshot(func(tx *transaction) error {
		var all error
		for err := range tx.tx.Check() {
			all = errors.Join(all, err)
		}
		return all
	}))
}

// wantFiles checks the names of the files in the directory of path.
func wantFiles(t testing.TB, path string, want ...string) {
	t.Helper()
	entries := check.Value(os.ReadDir(filepath.Dir(path)))(t)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	check.That(t, fmt.Sprint(got) == fmt.Sprint(want), "the directory has %q, want %q", got, want)
}

func fileContains(t testing.TB, path string, secret string) bool {
	t.Helper()
	content := check.Value(os.ReadFile(path))(t)
	return bytes.Contains(content, []byte(secret))
}

func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return string(b[:])
}

// If there is nothing to delete, no commit writes to the file.
func TestDelete_NoSuchKey_WritesNothing(t *testing.T) {
	path, s := opened(t)
	before := check.Value(os.ReadFile(path))(t)
	check.Must(t, deleteOne(s, "first", "none"))
	check.Must(t, deleteOne(s, "none", "k"))
	after, err := os.ReadFile(path)
	check.Must(t, err)
	check.That(t, bytes.Equal(before, after), "the file changed")
	check.Must(t, deleteOne(s, "first", "k"))
	after, err = os.ReadFile(path)
	check.That(t, err == nil && !bytes.Equal(before, after), "the file did not change; %v", err)
}

func TestCopyTo_CopyHasEveryRecord(t *testing.T) {
	eachWay(t, func(t *testing.T, how kv.Copying) {
		s := mustOpen(t, newFile(t))
		fill(t, s)
		for i := 0; i < filledRecords; i += 200 {
			key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
			check.Must(t, deleteOne(s, "second", string(key)))
		}
		want := records(t, s)
		to := filepath.Join(testenv.TempDir(t), "copy")
		check.Must(t, s.CopyTo(t.Context(), to, how, nil, func(temp string) error {
			wantFiles(t, to, filepath.Base(temp))
			check.That(t, strings.HasPrefix(filepath.Base(temp), ".copy.copy-"), "the temporary name is %s", temp)
			checked, err := Open(temp, true)
			if err != nil {
				return err
			}
			wantRecords(t, checked, want)
			return checked.Close()
		}))
		wantFiles(t, to, "copy")
		info, err := os.Stat(to)
		check.That(t, err == nil && info.Mode() == 0o600, "mode %v, %v", info.Mode(), err)
		copied := mustOpen(t, to)
		wantRecords(t, copied, want)
		wantSound(t, copied)
		check.Must(t, putOne(copied, "second", "later", "x"))
		fill(t, copied)
		wantSound(t, copied)
		wantRecords(t, s, want)
	})
}

// A read-only store and an empty one can be copied, a closed one cannot.
func TestCopyTo_ReadOnlyOrEmptyStore_Works(t *testing.T) {
	eachWay(t, func(t *testing.T, how kv.Copying) {
		dir := testenv.TempDir(t)
		path := filepath.Join(dir, "data.db")
		check.Must(t, Create(path, func(kv.Writer) error { return nil }))
		s := check.Value(Open(path, true))(t)
		defer s.Close()
		check.Must(t, s.CopyTo(t.Context(), filepath.Join(dir, "copy"), how, nil, nil))
		copied := mustOpen(t, filepath.Join(dir, "copy"))
		wantRecords(t, copied, map[string]string{})
		check.Must(t, copied.Update(putK("v")))
		check.Must(t, s.Close())
		check.That(t, s.CopyTo(t.Context(), filepath.Join(dir, "late"), how, nil, nil) != nil, "a closed store was copied")
		wantFiles(t, path, "copy", "data.db")
	})
}

func TestCopyTo_DuringUpdates_IsOneSnapshot(t *testing.T) {
	eachWay(t, func(t *testing.T, how kv.Copying) {
		s := mustOpen(t, newFile(t))
		fill(t, s)
		var commits atomic.Int64
		count := func(w kv.Writer) error {
			n := commits.Add(1)
			value := fmt.Appendf(nil, "%d", n)
			return errors.Join(w.Put("first", []byte("counter"), value), w.Put("third", []byte("counter"), value),
				w.Put("second", fmt.Appendf(nil, "%d", n%50), bytes.Repeat(value, 1+int(n%500))))
		}
		check.Must(t, s.Update(count))
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := s.Update(count); err != nil {
					t.Error(err)
					return
				}
			}
		})
		dir, last := testenv.TempDir(t), ""
		for i := range testenv.Tries(2, 4, 4) {
			to := filepath.Join(dir, fmt.Sprint(i))
			check.Must(t, s.CopyTo(t.Context(), to, how, nil, nil))
			copied := mustOpen(t, to)
			wantSound(t, copied)
			all := records(t, copied)
			check.That(t, all["first/counter"] == all["third/counter"],
				"counters %s and %s", all["first/counter"], all["third/counter"])
			if now := all["first/counter"]; len(now) < len(last) || len(now) == len(last) && now < last {
				t.Errorf("counter %s after %s", now, last)
			}
			last = all["first/counter"]
			check.Must(t, copied.Close())
		}
		close(done)
		wg.Wait()
		t.Logf("%d commits during the copies", commits.Load())
	})
}

func TestCopyTo_PathExistsOrStepFails_LeavesNoFile(t *testing.T) {
	failure := errors.New("no")
	eachWay(t, func(t *testing.T, how kv.Copying) {
		path, s := opened(t)
		dir := testenv.TempDir(t)
		to := filepath.Join(dir, "copy")

		check.Must(t, os.WriteFile(to, []byte("mine"), 0o600))
		check.Must(t, os.Symlink("nowhere", to+"-link"))
		for _, taken := range []string{to, to + "-link", path} {
			err := s.CopyTo(t.Context(), taken, how, nil, func(string) error { t.Error("checked"); return nil })
			check.WantErr(t, err, fs.ErrExist, "%s is taken", taken)
		}
		content, err := os.ReadFile(to)
		check.That(t, err == nil && string(content) == "mine", "the file holds %q, %v", content, err)
		check.Must(t, os.Remove(to))

		late := func(string) error { return os.WriteFile(to, []byte("late"), 0o600) }
		check.WantErr(t, s.CopyTo(t.Context(), to, how, nil, late), fs.ErrExist, "a file created during the copy")
		if content, err := os.ReadFile(to); err != nil || string(content) != "late" {
			t.Errorf("the file holds %q, %v", content, err)
		}
		check.Must(t, os.Remove(to))

		check.WantErr(t, s.CopyTo(t.Context(), to, how, nil, func(string) error { return failure }), failure, "a failed check")
		s.hook = func(string) error { return failure }
		check.WantErr(t, s.CopyTo(t.Context(), to, how, nil, nil), failure, "a directory that is not synced")
		s.hook = nil
		check.WantErr(t, s.CopyTo(t.Context(), filepath.Join(dir, "none", "copy"), how, nil, nil), fs.ErrNotExist, "no directory")
		func() {
			defer func() { _ = recover() }()
			_ = s.CopyTo(t.Context(), to, how, nil, func(string) error { panic("mine") })
		}()
		wantFiles(t, to, "copy-link")
		wantFiles(t, path, "data.db")
		check.Must(t, s.CopyTo(t.Context(), to, how, nil, nil))
		wantRecords(t, mustOpen(t, to), records(t, s))
	})
	s := mustOpen(t, newFile(t))
	to := filepath.Join(testenv.TempDir(t), "copy")
	check.That(t, s.CopyTo(t.Context(), to, 7, nil, nil) != nil, "way of copying 7")
	wantFiles(t, to)
}

// If the file was truncated, a copy and a compaction fail, and the missing part is not taken for
// its end.
func TestCopyTo_FileTruncated_IsOverwritten(t *testing.T) {
	eachWay(t, func(t *testing.T, how kv.Copying) {
		path, s := opened(t)
		fill(t, s)
		check.Must(t, os.Truncate(path, 1<<20))
		to := filepath.Join(testenv.TempDir(t), "copy")
		err := s.CopyTo(t.Context(), to, how, nil, nil)
		check.That(t, errors.Is(err, kv.ErrOverwritten) && !errors.Is(err, kv.ErrUncertain), "CopyTo returned %v", err)
		wantFiles(t, to)
		err = s.Compact(t.Context(), nil)
		check.That(t, errors.Is(err, kv.ErrOverwritten) && !errors.Is(err, kv.ErrUncertain), "Compact returned %v", err)
		wantFiles(t, path, "data.db")
	})
}

func TestCopyTo_Records_LackDeletedData(t *testing.T) {
	path, s := opened(t)
	fill(t, s)
	deleted, key, replaced, kept := secret(), secret(), secret(), secret()
	long := strings.Repeat("x", 9000)
	check.Must(t, putOne(s, "second", "deleted", long+deleted))
	check.Must(t, putOne(s, "second", key, "v"))
	check.Must(t, putOne(s, "first", "replaced", replaced))
	check.Must(t, putOne(s, "first", "kept", kept))
	check.Must(t, putOne(s, "alone", "in its bucket", "v"))
	check.Must(t, s.Update(func(w kv.Writer) error { // in one transaction, which does not reuse the pages that it frees
		return errors.Join(w.Delete("second", []byte("deleted")), w.Delete("second", []byte(key)),
			w.Put("first", []byte("replaced"), []byte("new")), w.Delete("alone", []byte("in its bucket")))
	}))
	gone := map[string]string{"deleted": deleted, "deleted key": key, "replaced": replaced, "emptied bucket": "alone"}
	want := func(at string, there bool) {
		t.Helper()
		for what, secret := range gone {
			check.That(t, fileContains(t, at, secret) == there, "%s: %s found: %v", filepath.Base(at), what, !there)
		}
		check.That(t, fileContains(t, at, kept), "%s: what was kept is not found", filepath.Base(at))
	}
	want(path, true)
	dir := testenv.TempDir(t)
	check.Must(t, s.CopyTo(t.Context(), filepath.Join(dir, "pages"), kv.Pages, nil, nil))
	want(filepath.Join(dir, "pages"), true)
	check.Must(t, s.CopyTo(t.Context(), filepath.Join(dir, "records"), kv.Records, nil, nil))
	want(filepath.Join(dir, "records"), false)
	want(path, true)
	check.Must(t, s.Compact(t.Context(), nil))
	want(path, false)
	check.Must(t, s.CopyTo(t.Context(), filepath.Join(dir, "again"), kv.Pages, nil, nil))
	want(filepath.Join(dir, "again"), false)
}

func TestCompact_ShrinksAndKeepsRecordsAndMode(t *testing.T) {
	path := newFile(t)
	check.Must(t, os.Chmod(path, 0o640))
	if os.Getuid() == 0 && runtime.GOOS != "windows" {
		check.Must(t, os.Chown(path, 4711, 4712))
	}
	s := mustOpen(t, path)
	fill(t, s)
	check.Must(t, s.Compact(t.Context(), nil))
	full := check.Value(s.Size())(t)
	wantSound(t, s)
	check.Must(t, s.Update(func(w kv.Writer) error {
		var err error
		for i := range filledRecords {
			key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
			for _, bucket := range []string{"first", "second", "third"} {
				if i%10 != 0 {
					err = errors.Join(err, w.Delete(bucket, key))
				}
			}
		}
		return err
	}))
	want, before := records(t, s), len(records(t, s))
	check.Must(t, s.Compact(t.Context(), nil))
	if size, err := s.Size(); err != nil || size > full/2 {
		t.Errorf("%d bytes after deleting 9 of 10 records, %d before; %v", size, full, err)
	}
	wantRecords(t, s, want)
	wantSound(t, s)
	wantFiles(t, path, "data.db")
	info := check.Value(os.Stat(path))(t)
	check.Equal(t, info.Mode(), 0o640, "mode")
	owner := fmt.Sprintf("%+v", info.Sys())
	check.That(t, os.Getuid() != 0 || strings.Contains(owner, "4711"), "the owner changed: %s", owner)
	check.Must(t, putOne(s, "first", "later", "x"))
	check.Must(t, s.Compact(t.Context(), nil))
	check.Must(t, s.Close())
	s = mustOpen(t, path)
	if got := records(t, s); len(got) != before+1 || got["first/later"] != "x" {
		t.Errorf("%d records of %d after opening again", len(got), before+1)
	}
}

func TestCompact_UnderLoad_LosesNothing(t *testing.T) {
	path, s := opened(t)
	const writers = 4
	compactions := testenv.Tries(5, 12, 12)
	done := make(chan struct{})
	var last [writers]int
	var wg sync.WaitGroup
	loop := func(fn func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := fn(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range writers {
		loop(func(i int) error {
			err := s.Update(func(w kv.Writer) error {
				value := fmt.Appendf(nil, "%d", i)
				return errors.Join(w.Put("a", []byte{1, byte(n)}, value), w.Put("z", []byte{1, byte(n)}, value),
					w.Put("log", fmt.Appendf(nil, "%d/%06d", n, i), value))
			})
			if err == nil {
				last[n] = i
			}
			return err
		})
	}
	for range 3 {
		var seen [writers]int
		loop(func(int) error {
			return s.View(func(r kv.Reader) error {
				for n := range writers {
					a, err := r.Get("a", []byte{1, byte(n)})
					z, err2 := r.Get("z", []byte{1, byte(n)})
					if err != nil || err2 != nil || !bytes.Equal(a, z) {
						return fmt.Errorf("a snapshot shows %q and %q; %v, %v", a, z, err, err2)
					}
					if a == nil {
						continue
					}
					now := 0
					if _, err := fmt.Sscan(string(a), &now); err != nil || now < seen[n] {
						return fmt.Errorf("%d after %d; %v", now, seen[n], err)
					}
					seen[n] = now
				}
				return s.View(func(kv.Reader) error { return nil }) // nested views work, too
			})
		})
	}
	loop(func(i int) error {
		return s.CopyTo(t.Context(), fmt.Sprintf("%s-%d", path, i), kv.Copying(i%2), nil, func(temp string) error {
			copied, err := Open(temp, true)
			if err != nil {
				return err
			}
			return copied.Close()
		})
	})
	loop(func(int) error {
		if other, err := Open(path, false); !errors.Is(err, kv.ErrInUse) {
			return fmt.Errorf("a second Open: %v, %w", other, err)
		}
		return nil
	})
	for range compactions {
		check.Must(t, s.Compact(t.Context(), nil))
		time.Sleep(10 * time.Millisecond)
	}
	close(done)
	wg.Wait()
	wantSound(t, s)
	check.Must(t, s.Close())
	s = mustOpen(t, path)
	all := records(t, s)
	total := 0
	for n := range writers {
		for i := range last[n] + 1 {
			check.Need(t, all[fmt.Sprintf("log/%d/%06d", n, i)] == fmt.Sprint(i),
				"record %d of writer %d is lost", i, n)
		}
		total += last[n]
		check.That(t, last[n] >= 2, "writer %d got to %d", n, last[n])
	}
	t.Logf("%d commits", total)
}

// While Compact writes the new file, views and copies continue, and updates wait and then go to the
// new file. A view that began before keeps the old file.
func TestCompact_UpdatesWaitAndViewsContinue(t *testing.T) {
	path, s := opened(t)
	renaming, goOn := make(chan struct{}), make(chan struct{})
	s.hook = func(step string) error {
		if step == stepName {
			close(renaming)
			<-goOn
		}
		return nil
	}
	var wg sync.WaitGroup
	var compacted, updated atomic.Bool
	inView, leave := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		check.OK(t, s.View(func(r kv.Reader) error {
			close(inView)
			<-leave
			v, err := r.Get("first", []byte("k"))
			check.That(t, string(v) == "v" && !compacted.Load(),
				"the old view shows %q, compaction done: %v", v, compacted.Load())
			return err
		}))
	})
	<-inView
	wg.Go(func() {
		check.OK(t, s.Compact(t.Context(), nil))
		compacted.Store(true)
	})
	<-renaming
	update := make(chan error, 1)
	go func() {
		err := s.Update(putK("new"))
		updated.Store(true)
		update <- err
	}()
	wantRecords(t, s, map[string]string{"first/k": "v"})
	check.Must(t, s.CopyTo(t.Context(), path+"-copy", kv.Pages, nil, nil))
	time.Sleep(30 * time.Millisecond)
	check.That(t, !updated.Load(), "an update does not wait")
	close(goOn)
	check.Must(t, <-update) // although the old view, and therefore Compact, has not ended
	wantRecords(t, s, map[string]string{"first/k": "new"})
	check.That(t, !compacted.Load(), "Compact returned before the last view of the old file")
	close(leave)
	wg.Wait()
	check.Must(t, s.Close())
	wantRecords(t, mustOpen(t, path), map[string]string{"first/k": "new"})
}

// A copy is synced in small parts, because commits would wait for a large flush.
func TestCopyTo_Pages_SyncsInSmallParts(t *testing.T) {
	path, s := opened(t)
	check.Must(t, putOne(s, "first", "large", string(make([]byte, 4*syncStep))))
	parts := 0
	s.hook = func(step string) error {
		if step == stepPart {
			parts++
		}
		return nil
	}
	copied := filepath.Join(filepath.Dir(path), "copy")
	check.Must(t, s.CopyTo(t.Context(), copied, kv.Pages, nil, nil))
	check.That(t, parts >= 4, "a copy of %d MiB was synced %d times", 4*syncStep>>20, parts)
	s.hook = failAt(stepPart, errFull)
	check.WantErr(t, s.CopyTo(t.Context(), copied+" again", kv.Pages, nil, nil), errFull, "a copy that cannot be synced")
	wantFiles(t, path, "copy", "data.db")
}

// Compact syncs each transaction of the new file, so little remains to be synced at the end.
func TestCompact_SyncsEachTransaction(t *testing.T) {
	s := mustOpen(t, newFile(t))
	for i := range 4 {
		check.Must(t, putOne(s, "first", fmt.Sprint("large ", i), string(make([]byte, batch))))
	}
	d := mustOpen(t, newFile(t)).current
	written := 0
	m := &meter{ctx: t.Context(), progress: func(done, _ int64) {
		written++
		check.That(t, !d.db.NoSync, "transactions are not synced, after %d bytes", done)
	}}
	check.Must(t, s.snapshot(func(tx *transaction) error { return d.fill(tx, m) }))
	check.That(t, written >= 4, "progress was called %d times", written)
}

var errFull = errors.New("the disk is full")

func TestClose_DuringCompact_Waits(t *testing.T) {
	path, s := opened(t)
	at := make(chan struct{})
	s.hook = func(step string) error {
		if step == stepSync {
			close(at)
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	result := make(chan error, 1)
	go func() { result <- s.Compact(t.Context(), nil) }()
	<-at
	check.Must(t, s.Close())
	check.Must(t, <-result)
	check.That(t, s.Compact(t.Context(), nil) != nil, "a closed store was compacted")
	wantFiles(t, path, "data.db")
	check.Must(t, mustOpen(t, path).Update(putK("w")))
}

func TestCompact_NewFile_IsLockedAndChecked(t *testing.T) {
	t.Parallel() // most of its time is waiting
	path, s := opened(t)
	check.Must(t, s.Compact(t.Context(), nil))
	for _, readOnly := range []bool{false, true} {
		check.WantErr(t, check.Err(Open(path, readOnly)), kv.ErrInUse, "a second Open, read-only %v", readOnly)
	}
	if db := s.current.db; db.NoSync || db.NoGrowSync || db.AllocSize != Growth {
		t.Error("commits after Compact are not synced as before")
	}
	check.Must(t, s.Update(putK("w")))
	check.Must(t, os.Rename(path, path+"-moved"))
	check.Must(t, Create(path, putK("other")))
	check.WantErr(t, s.Update(putK("lost")), kv.ErrReplaced, "Update after a replacement")
	check.WantErr(t, s.Compact(t.Context(), nil), kv.ErrReplaced, "Compact after a replacement")
	wantFiles(t, path, "data.db", "data.db-moved")
	wantRecords(t, mustOpen(t, path), map[string]string{"first/k": "other"})
	check.Must(t, s.Close())
	wantRecords(t, mustOpen(t, path+"-moved"), map[string]string{"first/k": "w"})
}

// Open waits for the lock of a file that is replaced by compactions. It must not return the old
// file.
func TestOpen_FileCompactedWhileWaiting_IsInUse(t *testing.T) {
	path, s := opened(t)
	result := make(chan error, 1)
	go func() {
		_, err := Open(path, true)
		result <- err
	}()
	for range 8 {
		time.Sleep(lockWait / 10)
		check.Must(t, s.Compact(t.Context(), nil))
	}
	check.WantErr(t, <-result, kv.ErrInUse, "Open")
}

func TestCompact_SymbolicLink_IsKept(t *testing.T) {
	path := newFile(t)
	link := filepath.Join(testenv.TempDir(t), "link")
	check.Must(t, os.Symlink(path, link))
	s := mustOpen(t, link)
	check.Must(t, s.Compact(t.Context(), nil))
	check.Must(t, s.Update(putK("w")))
	check.Must(t, s.Close())
	wantFiles(t, path, "data.db")
	info, err := os.Lstat(link)
	check.That(t, err == nil && info.Mode().Type() == fs.ModeSymlink, "the link became %v, %v", info.Mode(), err)
	wantRecords(t, mustOpen(t, path), map[string]string{"first/k": "w"})
}

func TestCompact_ReadOnlyOrUnknownContent_IsRefused(t *testing.T) {
	path := newFile(t)
	s := check.Value(Open(path, true))(t)
	err := s.Compact(t.Context(), nil)
	check.That(t, err != nil && strings.Contains(err.Error(), "reading only"), "a store for reading: %v", err)
	check.Must(t, s.Close())
	wantFiles(t, path, "data.db")
	// Content that this package never writes would be lost.
	for name, write := range map[string]func(*transaction) error{
		"a nested bucket": func(tx *transaction) error { _, err := tx.buckets.CreateBucket([]byte("inner")); return err },
		"an empty value":  func(tx *transaction) error { return tx.buckets.Put([]byte("empty"), nil) },
	} {
		path := newFile(t)
		d := check.Value(open(path, false, 0))(t)
		check.Must(t, d.update(func(w kv.Writer) error {
			tx := w.(*transaction)
			tx.hasWrites = true
			if _, err := tx.bucket("first"); err != nil {
				return err
			}
			return write(tx)
		}))
		check.Must(t, d.close())
		before := check.Value(os.ReadFile(path))(t)
		s := mustOpen(t, path)
		check.WantErr(t, s.Compact(t.Context(), nil), kv.ErrCorrupt, "%s", name)
		check.WantErr(t, s.CopyTo(t.Context(), path+"-copy", kv.Records, nil, nil), kv.ErrCorrupt, "%s", name)
		after, err := os.ReadFile(path)
		check.That(t, err == nil && bytes.Equal(before, after), "%s: the file changed; %v", name, err)
		wantFiles(t, path, "data.db")
	}
}

// A copy would drop one of two equal keys, and with it the trace of the damage.
func TestCopyTo_DamagedKeys_IsCorrupt(t *testing.T) {
	path, s := opened(t)
	check.Must(t, s.Update(func(w kv.Writer) error {
		return errors.Join(w.Put("first", []byte("key-aaaa"), []byte("1")), w.Put("first", []byte("key-zzzz"), []byte("2")))
	}))
	check.Must(t, s.Close())
	content := check.Value(os.ReadFile(path))(t)
	check.Must(t, os.WriteFile(path, bytes.ReplaceAll(content, []byte("key-aaaa"), []byte("key-zzzz")), 0o600))
	s = mustOpen(t, path)
	check.WantErr(t, s.Compact(t.Context(), nil), kv.ErrCorrupt, "Compact")
	check.WantErr(t, s.CopyTo(t.Context(), path+"-copy", kv.Records, nil, nil), kv.ErrCorrupt, "CopyTo")
	wantFiles(t, path, "data.db")
}

func TestCompact_Fails_ChangesNothing(t *testing.T) {
	failure := errors.New("no")
	path, s := opened(t)
	fill(t, s)
	want := records(t, s)
	s.hook = func(string) error { return failure }
	err := s.Compact(t.Context(), nil)
	check.That(t, errors.Is(err, failure) && !errors.Is(err, kv.ErrUncertain), "Compact returned %v", err)
	wantFiles(t, path, "data.db")
	wantRecords(t, s, want)

	// The directory is moved while the new file is written, and moved back.
	dir := filepath.Dir(path)
	s.hook = func(string) error { return os.Rename(dir, dir+"-away") }
	check.WantErr(t, s.Compact(t.Context(), nil), kv.ErrReplaced, "Compact in a directory that moves")
	s.hook = nil
	check.WantErr(t, s.Update(putK("lost")), kv.ErrReplaced, "Update in a directory that moved")
	check.Must(t, os.Rename(dir+"-away", dir))
	wantRecords(t, s, want)
	check.Must(t, s.Update(putK("w")))
	want["first/k"] = "w"
	check.Must(t, s.Compact(t.Context(), nil))
	check.Must(t, s.Close())
	wantRecords(t, mustOpen(t, path), want)
}

// If the directory cannot be synced, a loss of power may restore the old file. A write to either
// file could be lost, so nothing is written.
func TestCompact_DirectoryNotSynced_StopsWriting(t *testing.T) {
	failure := errors.New("no")
	path, s := opened(t)
	s.hook = failAt(stepSync, failure)
	err := s.Compact(t.Context(), nil)
	check.That(t, errors.Is(err, failure) && errors.Is(err, kv.ErrUncertain), "Compact returned %v", err)
	s.hook = nil
	for range 2 {
		check.WantErr(t, s.Update(putK("lost")), kv.ErrUncertain, "Update after it")
		check.WantErr(t, s.Compact(t.Context(), nil), kv.ErrUncertain, "Compact after it")
	}
	wantRecords(t, s, map[string]string{"first/k": "v"})
	check.WantErr(t, check.Err(Open(path, false)), kv.ErrInUse, "a second Open")
	wantFiles(t, path, "data.db")
	check.Must(t, s.Close())
	s = mustOpen(t, path)
	check.Must(t, s.Update(putK("w")))
	wantRecords(t, s, map[string]string{"first/k": "w"})
}

// After a panic of bbolt, Compact must not copy memory that may be damaged, and Close must not
// wait.
func TestCompact_AfterBboltPanic_IsCorrupt(t *testing.T) {
	path, s := opened(t)
	s.hook = func(string) error { s.current.isBroken.Store(true); return nil }
	for range 2 {
		check.WantErr(t, s.Compact(t.Context(), nil), kv.ErrCorrupt, "Compact")
	}
	wantFiles(t, path, "data.db")
	check.WantErr(t, s.Close(), kv.ErrCorrupt, "Close")
	wantRecords(t, mustOpen(t, path), map[string]string{"first/k": "v"})
}
