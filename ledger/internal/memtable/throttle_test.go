package memtable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Updates are delayed if they fill the active layer faster than the checkpoint writes the frozen
// one, before they would have to stop.
func TestExceedsShare_FilledFasterThanWritten_DelaysUpdates(t *testing.T) {
	const limit = 1000
	for _, one := range []struct {
		size, capacity int64
		done           float64 // of the checkpoint
		slow           bool
	}{
		{0, limit, 0, false}, {249, limit, 0, false}, {251, limit, 0, true}, // at the beginning a quarter of the limit is free
		{620, limit, 0.5, false}, {630, limit, 0.5, true}, {999, limit, 0.99, true}, {999, limit, 1, false},
		{limit, limit, 0, false}, {5 * limit, limit, 0.5, false}, // awaitCapacity waits instead
		{1140, 1900, 0, false}, {1160, 1900, 0, true}, {1900, 1900, 0, false}, // a small frozen layer
	} {
		if isSlow := exceedsShare(one.size, one.capacity, limit, one.done); isSlow != one.slow {
			t.Errorf("%d bytes of %d, %v of it done: slowed down %v, want %v", one.size, one.capacity, one.done, isSlow, one.slow)
		}
	}
}

// AwaitCapacity waits until the checkpoint has progressed as far as memory is filled. Other updates
// need not wait during that time.
func TestAwaitCapacity_SlowCheckpoint_LeavesCapacityForOthers(t *testing.T) {
	held, goOn := make(chan struct{}), make(chan struct{})
	s, err := Over(&kv.Memory{}, Options{Mark: Mark{"m", []byte("m")}, Limit: 100_000, Portion: 1000, Step: func(at Step) {
		if at == Staged {
			close(held)
			<-goOn
		}
	}})
	check.Must(t, err)
	write := func(key string, bytes int) {
		t.Helper()
		check.Must(t, s.Update(func(w kv.Writer) error {
			return errors.Join(w.Put("b", []byte(key), make([]byte, bytes)), w.Put("m", []byte("m"), []byte(key)))
		}))
	}
	waits := func(want bool) {
		t.Helper()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.AwaitCapacity(over); (err != nil) != want || want && !errors.Is(err, context.Canceled) {
			t.Errorf("AwaitCapacity waits: %v, want %v", err, want)
		}
	}
	for i := range 10 {
		write(fmt.Sprint(i), 5000)
	}
	waits(false)
	done := make(chan error)
	go func() { done <- s.Checkpoint() }()
	<-held
	waits(false)
	write("a", 21_000) // a fifth of the checkpoint is done
	waits(true)
	write("c", 5000) // an update need not wait
	before := s.waiters.Load()
	got := make(chan error)
	go func() { got <- s.AwaitCapacity(t.Context()) }()
	for deadline := time.Now().Add(10 * time.Second); s.waiters.Load() == before; time.Sleep(time.Millisecond) {
		check.Need(t, !time.Now().After(deadline), "the checkpoint may pause while a caller waits for it")
	}
	close(goOn)
	check.OK(t, <-got)
	check.Must(t, <-done)
	waits(false)
}

// filled returns a layer with some records in each bucket.
func filled(n int, buckets ...string) *layer {
	l := &layer{}
	for i := range n {
		for _, bucket := range buckets {
			l.put(bucket, fmt.Append(nil, i), []byte("v"), uint64(i), 1)
		}
	}
	return l
}

// The progress of a checkpoint is estimated from the earlier durations for each bucket. It also
// rises during a transaction.
func TestEffort_KnownDurations_EstimateTheProgress(t *testing.T) {
	l := filled(100, "near", "far")
	wantDone := func(what string, s *stage, now time.Time, share float64) {
		t.Helper()
		got := s.done(now)
		check.That(t, math.Abs(got-share) <= 1e-9, "%s: the share done is %v, want %v", what, got, share)
	}
	first := effortFor(l, efforts{Staging: unknownEffort})
	begun := first.begin(Staging, 200)
	wantDone("nothing done", begun, begun.begun, 0)
	wantDone("all staged", first.end(Staging, 200, 2*time.Millisecond), time.Now(), 0.5)
	wantDone("half in its place", first.end("near", 100, time.Millisecond), time.Now(), 0.75)
	wantDone("all in its place", first.end("far", 100, 3*time.Millisecond), time.Now(), 1)
	each := first.nextEfforts()
	check.That(t, each[Staging] == 10*time.Microsecond && each["near"] == 10*time.Microsecond &&
		each["far"] == 30*time.Microsecond, "it took %v", each)
	next := effortFor(l, each)
	wantDone("a third of the time", next.count(Staging, 200), time.Now(), 1./3)
	wantDone("half of it", next.end("near", 100, time.Second), time.Now(), 0.5)
	s := next.begin("far", 100)
	for _, one := range []struct{ after, share float64 }{{0, 0.5}, {1, 2. / 3}, {3, 1}, {1000, 1}} {
		wantDone(fmt.Sprint("after ", one.after, " ms"), s, s.begun.Add(time.Duration(one.after*float64(time.Millisecond))), one.share)
	}
	wantDone("more than there is", next.end("far", 1000, 0), time.Now(), 1)
	wantDone("nothing to be done", effortFor(&layer{}, nil).end("far", 1, 0), time.Now(), 1)
}

// A hanging disk and a transaction with few records do not change the expected time for a record. A
// bucket without records in this checkpoint keeps its time.
func TestEffort_FewRecordsOrHangingDisk_AreNotLearned(t *testing.T) {
	e := effortFor(filled(fewRecords, "few", "hung", "quick"), efforts{"few": 7, "gone": 8})
	e.end("few", fewRecords-1, time.Minute)
	e.end("hung", fewRecords, time.Hour)
	e.end("quick", fewRecords, 0)
	if each, want := e.nextEfforts(), (efforts{"few": 7, "gone": 8, "hung": maxEffort, "quick": 1}); !maps.Equal(each, want) {
		t.Errorf("the next efforts are %v, want %v", each, want)
	}
}

// observedBase is a base that calls afterUpdate at the end of each transaction.
type observedBase struct {
	kv.Memory
	afterUpdate func()
}

func (o *observedBase) Update(fn func(kv.Writer) error) error {
	return o.Memory.Update(func(w kv.Writer) error {
		err := fn(w)
		o.afterUpdate()
		return err
	})
}

// Each transaction of a checkpoint updates the progress, and the measured times are kept for the
// next checkpoint.
func TestCheckpoint_EachTransaction_UpdatesProgressAndEfforts(t *testing.T) {
	base := &observedBase{afterUpdate: func() {}}
	var s *Table
	var before float64 // share done after the previous transaction
	o := Options{Mark: Mark{"m", []byte("m")}, Portion: fewRecords * minRecord, Step: func(at Step) {
		if at != Staged && at != Applied {
			return
		}
		if now := s.stage.Load(); now.expected != 0 || now.from <= before || now.from >= 1 {
			t.Errorf("after a transaction the share done is %v, before it was %v", now.from, before)
		} else {
			before = now.from
		}
	}}
	s = check.Value(Over(base, o))(t)
	base.afterUpdate = func() {
		now := s.stage.Load()
		check.That(t, now.from >= before && now.to > now.from && now.to <= 1 && now.expected != 0,
			"a transaction leads from %v to %v in %v, after %v", now.from, now.to, now.expected, before)
		before = now.from
	}
	check.Must(t, s.Update(func(w kv.Writer) error {
		for i := range 2 * fewRecords {
			for _, bucket := range []string{"a", "b"} {
				check.Must(t, w.Put(bucket, fmt.Append(nil, "m", i), []byte("v")))
			}
		}
		return w.Put("m", []byte("m"), []byte("1"))
	}))
	check.Must(t, s.Checkpoint())
	if buckets := slices.Sorted(maps.Keys(s.efforts)); !slices.Equal(buckets, []string{"a", "aside", "b"}) || s.efforts[Staging] == unknownEffort/4 {
		t.Errorf("the measured efforts are %v", s.efforts)
	}
	check.That(t, s.stage.Load() == nil && before != 0, "the stage remains after the checkpoint, or was never set")
}
