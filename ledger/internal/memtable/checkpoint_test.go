package memtable

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
)

// base is a store in memory that counts updates and can fail.
type base struct {
	kv.Memory
	fault      atomic.Pointer[func(update func() error) error] // replaces an update
	updates    int
	written    []string // by the last update, in order
	readLive   bool     // Get reads the current content, not the snapshot
	beforeView func()   // called before each view
	lateError  error    // returned by each view after fn
	prefetched []string // records that were prefetched
}

func (b *base) fail(instead func(update func() error) error) { b.fault.Store(&instead) }

func (b *base) Update(fn func(kv.Writer) error) error {
	update := func() error {
		b.updates++
		b.written = nil
		return b.Memory.Update(func(w kv.Writer) error { return fn(recordingWriter{w, b}) })
	}
	if instead := b.fault.Load(); instead != nil && *instead != nil {
		return (*instead)(update)
	}
	return update()
}

func (b *base) View(fn func(kv.Reader) error) error {
	if b.beforeView != nil {
		b.beforeView()
	}
	return b.Memory.View(func(r kv.Reader) error { return errors.Join(fn(liveReader{r, b}), b.lateError) })
}

// recordingWriter records the keys that are written.
type recordingWriter struct {
	kv.Writer
	base *base
}

func (w recordingWriter) Put(bucket string, key, value []byte) error {
	w.base.written = append(w.base.written, bucket+" "+string(key))
	return w.Writer.Put(bucket, key, value)
}

func (w recordingWriter) Delete(bucket string, key []byte) error {
	w.base.written = append(w.base.written, bucket+" "+string(key)+" deleted")
	return w.Writer.Delete(bucket, key)
}

// liveReader reads a base whose content may be overwritten during the view.
type liveReader struct {
	kv.Reader
	base *base
}

func (r liveReader) Get(bucket string, key []byte) (value []byte, err error) {
	if !r.base.readLive {
		return r.Reader.Get(bucket, key)
	}
	err = r.base.Memory.View(func(now kv.Reader) error { value, err = now.Get(bucket, key); return err })
	return value, err
}

func (r liveReader) Prefetch(bucket string, keys [][]byte) {
	for _, key := range keys {
		r.base.prefetched = append(r.base.prefetched, bucket+" "+string(key))
	}
}

var errDisk = errors.New("disk full")

func before(func() error) error { return errDisk }

func uncertain(update func() error) error {
	_ = update()
	return fmt.Errorf("%w: flush failed", kv.ErrUncertain)
}

// write makes an update with a mark and a record.
func write(t testing.TB, s kv.Store, n uint64, pairs ...string) {
	t.Helper()
	err := s.Update(func(w kv.Writer) error { return errors.Join(setMark(w, n), put(w, pairs...)) })
	check.Need(t, err == nil, "update %d: %v", n, err)
}

// fill makes updates from n on, each with a large record, until one fails or n is most. It returns
// the next n.
func fill(s kv.Store, n, most uint64, size int) (uint64, error) {
	var err error
	for ; err == nil && n < most; n++ {
		err = s.Update(func(w kv.Writer) error {
			return errors.Join(setMark(w, n), w.Put("large", fmt.Append(nil, n), make([]byte, size)))
		})
	}
	return n, err
}

// put puts pairs into bucket b, and deletes where there is no value.
func put(w kv.Writer, pairs ...string) (err error) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			err = errors.Join(err, w.Delete("b", []byte(pairs[i])))
		} else {
			err = errors.Join(err, w.Put("b", []byte(pairs[i]), []byte(pairs[i+1])))
		}
	}
	return err
}

func all(r kv.Reader) (found []string, err error) {
	err = r.Scan("b", nil, func(key, value []byte) bool {
		found = append(found, string(key)+"="+string(value))
		return true
	})
	return found, err
}

// want fails unless bucket b holds these pairs.
func want(t testing.TB, s kv.Store, pairs ...string) {
	t.Helper()
	check.OK(t, s.View(func(r kv.Reader) error {
		found, err := all(r)
		wantSame(t, found, pairs, "bucket b has")
		return err
	}))
}

func checkpoint(t testing.TB, s *Table) {
	t.Helper()
	err := s.Checkpoint()
	check.Need(t, err == nil, "checkpoint: %v", err)
}

func number(mark []byte) uint64 {
	if mark == nil {
		return 0
	}
	return binary.BigEndian.Uint64(mark)
}

// A small checkpoint is one transaction of the base, in the order of keys and with deletions. It
// frees the memory, and calls Begun and Written with the mark.
func TestCheckpoint_Small_WritesTheBaseInOneTransaction(t *testing.T) {
	b := &base{}
	var hooks []string
	s := tableOver(t, b, Options{Mark: mark,
		Begun:   func(mark []byte) { hooks = append(hooks, fmt.Sprint("begun ", number(mark))) },
		Written: func(mark []byte) { hooks = append(hooks, fmt.Sprint("written ", number(mark))) },
		Failed:  func(err error) { t.Error(err) },
	})
	write(t, s, 1, "y", "1", "a", "1", "x", "1")
	write(t, s, 2, "x", "", "c", "2", "a", "2")
	check.Need(t, b.updates == 0, "the base was written to without a checkpoint")
	checkpoint(t, s)
	want(t, b, "a=2", "c=2", "y=1")
	check.That(t, s.Bytes() == 0, "after a checkpoint %d bytes are in memory", s.Bytes())
	checkpoint(t, s)
	check.That(t, b.updates == 1, "two checkpoints, one of them with nothing to write, made %d updates", b.updates)
	write(t, s, 3, "y", "", "b", "3")
	want(t, s, "a=2", "b=3", "c=2")
	checkpoint(t, s)
	want(t, b, "a=2", "b=3", "c=2")
	order := []string{"b b", "b y deleted", "meta counters"}
	check.That(t, slices.Equal(b.written, order), "written in the order %q, want %q", b.written, order)
	calls := []string{"begun 2", "written 2", "begun 3", "written 3"}
	check.That(t, slices.Equal(hooks, calls), "the hooks got %q, want %q", hooks, calls)
}

// At each step of a checkpoint, other callers read and update, and see whole updates. An older view
// keeps its snapshot.
func TestTable_AtEachStepOfACheckpoint_ReadsAndUpdates(t *testing.T) {
	for _, at := range []Step{Frozen, Staged, Applied, Stored, Dropped} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			reached, goOn := make(chan struct{}), make(chan struct{})
			hold := sync.OnceFunc(func() { close(reached); <-goOn })
			b := &base{}
			s := tableOver(t, b, Options{Mark: mark, Portion: 1, Step: reaching(at, hold)})
			write(t, s, 1, "a", "1", "b", "1")
			check.OK(t, s.View(func(r kv.Reader) error {
				write(t, s, 2, "a", "2", "b", "", "c", "2")
				done := make(chan error)
				go func() { done <- s.Checkpoint() }()
				<-reached
				want(t, s, "a=2", "c=2")
				write(t, s, 3, "a", "3", "b", "3")
				want(t, s, "a=3", "b=3", "c=2")
				second := make(chan error)
				go func() { second <- s.Checkpoint() }()
				stillWaits(t, second, "a checkpoint does not wait for the one that runs")
				close(goOn)
				check.Must(t, errors.Join(<-done, <-second))
				want(t, b, "a=3", "b=3", "c=2")
				found, err := all(r)
				wantSame(t, found, []string{"a=1", "b=1"}, "an older view")
				return err
			}))
		})
	}
}

// If a checkpoint ends after a view took the layers and before it took its snapshot of the base,
// the view is tried again.
func TestView_CheckpointBeforeItsSnapshot_Retries(t *testing.T) {
	for _, m := range []Mark{mark, {}} {
		b := &base{}
		s := tableOver(t, b, Options{Mark: m})
		write(t, s, 1, "a", "1")
		b.beforeView = func() { // after the layers were taken and before the snapshot
			b.beforeView = nil
			write(t, s, 2, "a", "2", "b", "2")
			checkpoint(t, s)
			write(t, s, 3, "c", "3")
		}
		want(t, s, "a=2", "b=2", "c=3")
	}
}

// A checkpoint begins in the background when memory exceeds the limit. Updates wait when memory
// reaches about twice the limit before the checkpoint ends.
func TestUpdate_MemoryFull_WaitsForTheCheckpoint(t *testing.T) {
	const limit = 10_000
	goOn := make(chan struct{})
	var begun atomic.Int32
	s := tableOver(t, &base{}, Options{Mark: mark, Limit: limit,
		Begun: func([]byte) { begun.Add(1) },
		Step:  reaching(Frozen, func() { <-goOn })})
	var n atomic.Uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			write(t, s, n.Add(1), fmt.Sprint(n.Load()), strings.Repeat("x", 1000))
		}
	}()
	at := uint64(0)
	for now := n.Load(); at != now || now < 10; now = n.Load() {
		at = now
		time.Sleep(20 * time.Millisecond)
	}
	if size := s.Bytes(); at > 40 || size < 2*limit || size > 4*limit {
		t.Errorf("while a checkpoint is held there were %d updates, and %d bytes in memory", at, size)
	}
	check.Equal(t, begun.Load(), 1, "checkpoints have begun")
	close(goOn)
	<-done
	for began := time.Now(); begun.Load() < 3; time.Sleep(time.Millisecond) { // a checkpoint that is ending delays the next one
		write(t, s, n.Add(1), fmt.Sprint(n.Load()), strings.Repeat("x", 1000))
		check.Need(t, time.Since(began) <= 10*time.Second, "%d checkpoints have begun", begun.Load())
	}
	checkpoint(t, s)
	check.That(t, s.Bytes() == 0, "after the last checkpoint %d bytes are in memory", s.Bytes())
}

// Written may take long, for example while a key holder that must destroy keys does not answer.
// Other checkpoints run concurrently, and Written is then called once, for the last of them.
func TestCheckpoint_WrittenTakesLong_NextDoesNotWait(t *testing.T) {
	goOn, written, dropped := make(chan struct{}), make(chan struct{}, 3), make(chan struct{}, 3)
	var marks []uint64
	s := tableOver(t, &base{}, Options{Mark: mark,
		Written: func(mark []byte) {
			marks = append(marks, number(mark))
			written <- struct{}{}
			<-goOn
		},
		Step: reaching(Dropped, func() { dropped <- struct{}{} })})
	unblock := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(unblock)
	ended := make(chan error, 3)
	for n := range uint64(3) {
		write(t, s, n+1, "a", fmt.Sprint(n))
		go func() { ended <- s.Checkpoint() }()
		await(t, dropped, "a checkpoint is done")
		if n == 0 {
			await(t, written, "Written is called")
		}
	}
	check.That(t, len(ended) == 0, "Checkpoint returns before Written has")
	unblock()
	for range 3 {
		check.OK(t, <-ended)
	}
	wantSame(t, marks, []uint64{1, 3}, "Written got the marks")
}

// await waits for an event that should happen at once.
func await(t testing.TB, happens <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: not within ten seconds", what)
	}
}

// Memory stays bounded while Written takes long.
func TestCheckpoint_WrittenTakesLong_MemoryIsBounded(t *testing.T) {
	const limit = 10_000
	goOn := make(chan struct{})
	s := tableOver(t, &base{}, Options{Mark: mark, Limit: limit, Written: func([]byte) { <-goOn }})
	t.Cleanup(func() { close(goOn) })
	n := uint64(0)
	update := func() {
		n++
		write(t, s, n, fmt.Sprint(n), strings.Repeat("x", 1000))
	}
	for range 100 {
		update()
	}
	wantMemoryBounded(t, s, limit, update)
}

// wantMemoryBounded waits until memory is within its bound, and makes updates while it waits.
func wantMemoryBounded(t testing.TB, s *Table, limit int64, update func()) {
	t.Helper()
	for began := time.Now(); s.Bytes() > 3*limit; time.Sleep(time.Millisecond) {
		check.Need(t, time.Since(began) <= 10*time.Second, "%d bytes stay in memory", s.Bytes())
		update()
	}
}

// Updates that fail again and again, for example because the journal accepts nothing, do not fill
// memory, and write nothing to the base.
func TestUpdate_FailsRepeatedly_MemoryIsBounded(t *testing.T) {
	const limit = 10_000
	b := &base{}
	s := tableOver(t, b, Options{Mark: mark, Limit: limit})
	write(t, s, 1, "a", "1")
	checkpoint(t, s)
	fail := func() {
		err := s.Update(func(w kv.Writer) error {
			return errors.Join(setMark(w, 2), put(w, "a", strings.Repeat("x", 1000)), errDisk)
		})
		check.WantErr(t, err, errDisk, "error")
	}
	for range 100 {
		fail()
	}
	wantMemoryBounded(t, s, limit, fail)
	checkpoint(t, s)
	want(t, s, "a=1")
	want(t, b, "a=1")
	check.That(t, len(b.written) == 0, "the base was written to: %q", b.written)
}

// A checkpoint that fails before it has written loses nothing. Updates continue until memory is
// full, and a later checkpoint writes everything.
func TestCheckpoint_Fails_LosesNothingAndCanBeRetried(t *testing.T) {
	const limit = 10_000
	b := &base{}
	var failed atomic.Int32
	s := tableOver(t, b, Options{Mark: mark, Limit: limit, Pause: time.Hour, Failed: func(err error) {
		check.WantErr(t, err, errDisk, "error")
		failed.Add(1)
	}})
	write(t, s, 1, "a", "1", "b", "1")
	b.fail(before)
	check.WantErr(t, s.Checkpoint(), errDisk, "a checkpoint that fails returns")
	write(t, s, 2, "a", "2", "b", "")
	want(t, s, "a=2")
	n, err := fill(s, 3, 100, 1000)
	check.That(t, errors.Is(err, errDisk) && s.Bytes() >= 2*limit && s.Bytes() <= 3*limit,
		"after %d updates with %d bytes in memory: %v", n, s.Bytes(), err)
	check.WantErr(t, s.Update(func(kv.Writer) error { t.Error("an update has begun although memory is full"); return nil }), errDisk, "error")
	check.That(t, failed.Load() == 1, "Failed was called %d times", failed.Load())
	want(t, s, "a=2")
	b.fail(nil)
	checkpoint(t, s)
	write(t, s, n, "c", "3")
	want(t, s, "a=2", "c=3")
	want(t, b, "a=2")
}

// A checkpoint that failed in the background is tried again after Options.Pause, even if memory is
// full.
func TestCheckpoint_FailsInBackground_IsRetriedAfterPause(t *testing.T) {
	b := &base{}
	s := tableOver(t, b, Options{Mark: mark, Limit: 1000, Pause: time.Millisecond})
	b.fail(before)
	n, err := fill(s, 1, math.MaxUint64, 100)
	check.WantErr(t, err, errDisk, "error")
	b.fail(nil)
	time.Sleep(2 * time.Millisecond)
	write(t, s, n, "a", "1")
	want(t, s, "a=1")
}

// If it is uncertain whether a commit is durable, or if the file was replaced, nothing is read or
// written any more.
func TestCheckpoint_UncertainOrReplaced_StopsTheTable(t *testing.T) {
	for name, c := range map[string]struct {
		instead func(func() error) error
		is      error
	}{
		"uncertain": {uncertain, kv.ErrUncertain},
		"panic":     {func(func() error) error { panic("bbolt") }, kv.ErrUncertain},
		"replaced":  {func(func() error) error { return fmt.Errorf("%w: gone", kv.ErrReplaced) }, kv.ErrReplaced},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int64{1, math.MaxInt64 / 2} {
				failed := make(chan error, 1)
				b := &base{}
				s := tableOver(t, b, Options{Mark: mark, Limit: limit, Failed: func(err error) { failed <- err }})
				b.fail(c.instead)
				err := s.View(func(kv.Reader) error { // what it has read from the base may not be durable
					write(t, s, 1, "a", "1")
					if limit > 1 {
						check.WantErr(t, s.Checkpoint(), c.is, "the checkpoint")
					}
					check.WantErr(t, <-failed, c.is, "the error that Failed got")
					return nil
				})
				check.WantErr(t, err, c.is, "a view that has begun before")
				b.fail(nil)
				wantStopped(t, s, c.is)
				check.OK(t, s.Close())
			}
		})
	}
}

func wantStopped(t *testing.T, s *Table, is error) {
	t.Helper()
	check.WantErr(t, s.View(func(kv.Reader) error { t.Error("a view has begun"); return nil }), is, "View")
	check.WantErr(t, s.Update(func(kv.Writer) error { t.Error("an update has begun"); return nil }), is, "Update")
	check.WantErr(t, s.Checkpoint(), is, "Checkpoint")
	check.That(t, s.CopyTo(context.Background(), "nowhere", kv.Pages, nil, nil) != nil, "CopyTo works")
}

// An update that waits for capacity returns the error when the table stops.
func TestUpdate_TableStopsWhileItWaits_ReturnsTheError(t *testing.T) {
	goOn := make(chan struct{})
	b := &base{}
	b.fail(func(update func() error) error { <-goOn; return uncertain(update) })
	s := tableOver(t, b, Options{Mark: mark, Limit: 1000})
	done := make(chan error)
	go func() {
		_, err := fill(s, 1, math.MaxUint64, 100)
		done <- err
	}()
	stillWaits(t, done, "no update waits")
	close(goOn)
	check.WantErr(t, <-done, kv.ErrUncertain, "error")
}

// If another process has written to the base, before or during a transaction, the table stops. The
// base is not written to.
func TestTable_BaseOverwritten_Stops(t *testing.T) {
	for name, meet := range map[string]func(s *Table, overwrite func()) error{
		"view": func(s *Table, overwrite func()) error {
			overwrite()
			return s.View(func(kv.Reader) error { return nil })
		},
		"inspect": func(s *Table, overwrite func()) error {
			overwrite()
			return s.Inspect(func(kv.Fault) {}, func(kv.Reader) error { return nil })
		},
		"update": func(s *Table, overwrite func()) error {
			overwrite()
			return s.Update(func(w kv.Writer) error { return setMark(w, 9) })
		},
		"checkpoint": func(s *Table, overwrite func()) error { overwrite(); return s.Checkpoint() },
		"within a view": func(s *Table, overwrite func()) error {
			return s.View(func(kv.Reader) error { overwrite(); return errors.New("found damage") })
		},
		"within an update": func(s *Table, overwrite func()) error {
			return s.Update(func(w kv.Writer) error {
				check.OK(t, w.(Checker).Check())
				overwrite()
				return w.Put("b", []byte("a"), []byte("3"))
			})
		},
		"before a check": func(s *Table, overwrite func()) error {
			return s.Update(func(w kv.Writer) error { overwrite(); return w.(Checker).Check() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &base{readLive: true}
			s := tableOver(t, b, Options{Mark: mark})
			write(t, s, 1, "a", "1")
			checkpoint(t, s)
			write(t, s, 2, "a", "2")
			check.WantErr(t, meet(s, func() { write(t, &b.Memory, 7, "a", "other") }), kv.ErrOverwritten, "the call")
			wantStopped(t, s, kv.ErrOverwritten)
			want(t, b, "a=other")
		})
	}
}

// Check accepts the base at each step of a checkpoint.
func TestChecker_AtEachStepOfACheckpoint_AcceptsTheBase(t *testing.T) {
	for _, at := range []Step{Frozen, Staged, Applied, Stored, Dropped} {
		b, steps, goOn := &base{}, make(chan Step), make(chan struct{})
		s := tableOver(t, b, Options{Mark: mark, Portion: 1, Step: func(step Step) { steps <- step; <-goOn }})
		write(t, s, 1, "a", "1")
		done := make(chan error)
		go func() { done <- s.Checkpoint() }()
		now := <-steps
		next := func() { goOn <- struct{}{}; now = <-steps }
		check.WantErr(t, s.Update(func(w kv.Writer) error {
			for now != at {
				next()
			}
			return w.(Checker).Check()
		}), nil, "at step %d", at)
		for now != Dropped {
			next()
		}
		goOn <- struct{}{}
		check.OK(t, <-done)
	}
}

// An update that panics leaves no writes.
func TestUpdate_Panics_IsUndone(t *testing.T) {
	s := tableOver(t, &base{}, Options{Mark: mark})
	write(t, s, 1, "a", "1")
	size := s.Bytes()
	func() {
		defer func() {
			check.Equal(t, recover(), "stop", "the panic")
		}()
		_ = s.Update(func(w kv.Writer) error { _ = put(w, "a", "2", "a", "3", "b", "2"); panic("stop") })
	}()
	want(t, s, "a=1")
	write(t, s, 2, "b", "4")
	want(t, s, "a=1", "b=4")
	checkpoint(t, s)
	check.That(t, s.Bytes() == 0 && size != 0, "%d bytes before, %d after the checkpoint", size, s.Bytes())
}

// If the base returns an error after fn has returned nil, the update may be stored elsewhere but is
// not published here. So the table stops.
func TestUpdate_BaseFailsAfterFn_StopsTheTable(t *testing.T) {
	b := &base{}
	s := tableOver(t, b, Options{Mark: mark})
	write(t, s, 1, "a", "1")
	b.lateError = errDisk
	check.WantErr(t, s.Update(func(w kv.Writer) error { return put(w, "a", "2") }), errDisk, "error")
	b.lateError = nil
	wantStopped(t, s, errDisk)
}

// Close makes no checkpoint: updates that are only in memory are lost, as if the process had ended.
func TestClose_UpdatesInMemory_WritesNothing(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "base")
	s := tableOver(t, openBolt(t, path), Options{Mark: mark})
	write(t, s, 1, "a", "1")
	checkpoint(t, s)
	write(t, s, 2, "a", "2")
	check.Must(t, s.Close())
	s = tableOver(t, openBolt(t, path), Options{Mark: mark})
	defer s.Close()
	want(t, s, "a=1")
}

// Close waits for the current checkpoint.
func TestClose_DuringACheckpoint_Waits(t *testing.T) {
	b, reached, goOn := &base{}, make(chan struct{}), make(chan struct{})
	s := tableOver(t, b, Options{Limit: 1, Step: reaching(Frozen, func() { close(reached); <-goOn })})
	write(t, s, 1, "a", "1")
	<-reached
	done := make(chan error)
	go func() { done <- s.Close() }()
	stillWaits(t, done, "Close does not wait for the checkpoint")
	close(goOn)
	check.OK(t, <-done)
	check.That(t, b.updates == 1, "the checkpoint did not write")
}

// A read-only table takes updates in memory. A checkpoint fails, and so does a copy that would need
// one.
func TestReadOnly_UpdatesInMemory_CheckpointAndCopyFail(t *testing.T) {
	dir := testenv.TempDir(t)
	path := filepath.Join(dir, "base")
	s := tableOver(t, openBolt(t, path), Options{Mark: mark})
	write(t, s, 1, "a", "1")
	checkpoint(t, s)
	check.Must(t, s.Close())
	file := check.Value(bolt.Open(path, true))(t)
	s = tableOver(t, file, Options{Mark: mark, Limit: 1, ReadOnly: true, Failed: func(err error) { t.Error(err) }})
	defer s.Close()
	check.WantErr(t, s.CopyTo(t.Context(), filepath.Join(dir, "copy"), kv.Pages, nil, nil), nil, "a copy with nothing in memory")
	for n := range uint64(10) {
		write(t, s, n+2, "b", fmt.Sprint(n))
	}
	want(t, s, "a=1", "b=9")
	check.That(t, s.Checkpoint() != nil, "a checkpoint is done")
	check.That(t, s.CopyTo(t.Context(), filepath.Join(dir, "second"), kv.Pages, nil, nil) != nil, "a copy lacks the updates in memory")
}

// A copy, a compacted file and an inspection include the records that are only in memory.
func TestCopyCompactInspect_RecordsInMemory_AreIncluded(t *testing.T) {
	dir := testenv.TempDir(t)
	s := tableOver(t, openBolt(t, filepath.Join(dir, "base")), Options{Mark: mark})
	defer s.Close()
	write(t, s, 1, "a", "1", "b", "1")
	checkpoint(t, s)
	write(t, s, 2, "a", "2", "b", "", "c", "2")
	check.OK(t, s.Inspect(func(f kv.Fault) { t.Error(f) }, func(r kv.Reader) error {
		found, err := all(r)
		wantSame(t, found, []string{"a=2", "c=2"}, "an inspection")
		return err
	}))
	path := filepath.Join(dir, "copy")
	check.Must(t, s.CopyTo(t.Context(), path, kv.Records, nil, nil))
	copied := openBolt(t, path)
	defer copied.Close()
	want(t, copied, "a=2", "c=2")
	write(t, s, 3, "d", "3")
	check.Must(t, s.Compact(t.Context(), nil))
	write(t, s, 4, "e", "4")
	want(t, s, "a=2", "c=2", "d=3", "e=4")
	over := tableOver(t, new(kv.Memory), Options{})
	if !errors.Is(over.Compact(t.Context(), nil), errors.ErrUnsupported) || !errors.Is(over.CopyTo(t.Context(), path, kv.Pages, nil, nil), errors.ErrUnsupported) {
		t.Error("a base that is no kv.Copier is copied")
	}
}

// Prefetch of a table calls Prefetch of the base.
func TestPrefetch_IsPassedToTheBase(t *testing.T) {
	b := &base{}
	check.OK(t, tableOver(t, b, Options{}).View(func(r kv.Reader) error {
		r.(kv.Prefetcher).Prefetch("b", [][]byte{[]byte("x"), []byte("y")})
		return nil
	}))
	wantSame(t, b.prefetched, []string{"b x", "b y"}, "prefetched")
}

// A record that is updated often needs no more memory than one updated once, after the readers of
// older versions have ended.
func TestUpdate_SameRecordAgain_DropsUnreadVersions(t *testing.T) {
	s := tableOver(t, &base{}, Options{Mark: mark})
	value := strings.Repeat("x", 1000)
	write(t, s, 1, "a", value)
	for n := range uint64(1000) {
		write(t, s, n, "a", value)
	}
	few := s.Bytes()
	check.That(t, few <= 4000, "after 1000 updates of one record there are %d bytes in memory", few)
	check.OK(t, s.View(func(r kv.Reader) error {
		for n := range uint64(1000) {
			write(t, s, n, "a", value)
			want(t, s, "a="+value)
		}
		if now := s.Bytes(); now > few+2000 {
			t.Errorf("with one reader of an older version %d bytes are in memory, %d before", now, few)
		}
		return nil
	}))
	for n := range uint64(2) {
		write(t, s, n, "a", value)
	}
	now := s.Bytes()
	check.That(t, now == few, "after that reader %d bytes are in memory, %d before", now, few)
}

// Bytes is within 25 % of the heap that a table uses.
func TestBytes_ManyRecords_IsAboutTheHeapUsed(t *testing.T) {
	const records = 100_000
	live := func() int64 {
		var now runtime.MemStats
		runtime.GC()
		runtime.GC() // the second one empties the pools
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	before, s := live(), tableOver(t, &base{}, Options{Limit: math.MaxInt64})
	for n := 0; n < records; n += 1000 {
		check.Must(t, s.Update(func(w kv.Writer) (err error) {
			for i := range 1000 {
				err = errors.Join(err, w.Put("b", fmt.Appendf(nil, "object %08d", n+i), make([]byte, 96)))
			}
			return err
		}))
	}
	used, reported := live()-before, s.Bytes()
	if reported < used*4/5 || reported > used*5/4 {
		t.Errorf("%d records use %d bytes each, and Bytes reports %d", records, used/records, reported/records)
	}
}

// A Get through a table allocates nothing.
func TestGet_AllocatesNothing(t *testing.T) {
	s := tableOver(t, &base{}, Options{Mark: mark})
	write(t, s, 1, "in the base", "1")
	checkpoint(t, s)
	write(t, s, 2, "in memory", "2")
	check.OK(t, s.View(func(r kv.Reader) error {
		for _, name := range []string{"in the base", "in memory", "nowhere"} {
			key := []byte(name)
			n := testing.AllocsPerRun(100, func() { _, _ = r.Get("b", key) })
			check.That(t, n <= 0, "a Get of what is %s allocates %v times", name, n)
		}
		return nil
	}))
}
