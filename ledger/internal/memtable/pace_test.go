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

// Updates that fill the room faster than a checkpoint empties what is below are slowed down, before
// they would have to stop.
func TestUpdatesKeepPaceWithACheckpoint(t *testing.T) {
	const limit = 1000
	for _, one := range []struct {
		size, room int64
		done       float64 // of the checkpoint
		slow       bool
	}{
		{0, limit, 0, false}, {249, limit, 0, false}, {251, limit, 0, true}, // when it begins there is some room
		{620, limit, 0.5, false}, {630, limit, 0.5, true}, {999, limit, 0.99, true}, {999, limit, 1, false},
		{limit, limit, 0, false}, {5 * limit, limit, 0.5, false}, // all wait for its end
		{1140, 1900, 0, false}, {1160, 1900, 0, true}, {1900, 1900, 0, false}, // the frozen one is small
	} {
		if slow := exceedsShare(one.size, one.room, limit, one.done); slow != one.slow {
			t.Errorf("%d bytes of %d, %v of it done: slowed down %v, want %v", one.size, one.room, one.done, slow, one.slow)
		}
	}
}

// Whoever makes much waits for the room that a checkpoint makes, and others find some meanwhile.
func TestWhoUpdatesMuchLeavesRoomForOthers(t *testing.T) {
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
			t.Errorf("whoever makes much waits: %v, want %v", err, want)
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
	write("a", 21_000) // a fifth is done
	waits(true)
	write("c", 5000) // and this need not wait
	before := s.waiters.Load()
	got := make(chan error)
	go func() { got <- s.AwaitCapacity(t.Context()) }()
	for deadline := time.Now().Add(10 * time.Second); s.waiters.Load() == before; time.Sleep(time.Millisecond) {
		check.Need(t, !time.Now().After(deadline), "the checkpoint may pause while somebody waits for it")
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

// How far a checkpoint is, is told by how long the records of each bucket took before, and goes on
// while one transaction runs.
func TestHowFarACheckpointIs(t *testing.T) {
	l := filled(100, "near", "far")
	want := func(what string, s *stage, now time.Time, share float64) {
		t.Helper()
		got := s.done(now)
		check.That(t, math.Abs(got-share) <= 1e-9, "%s: %v of it is done, want %v", what, got, share)
	}
	first := effortFor(l, efforts{Staging: unknownEffort})
	begun := first.begin(Staging, 200)
	want("nothing done", begun, begun.begun, 0)
	want("all aside", first.end(Staging, 200, 2*time.Millisecond), time.Now(), 0.5)
	want("half in its place", first.end("near", 100, time.Millisecond), time.Now(), 0.75)
	want("all in its place", first.end("far", 100, 3*time.Millisecond), time.Now(), 1)
	each := first.nextEfforts()
	check.That(t, each[Staging] == 10*time.Microsecond && each["near"] == 10*time.Microsecond &&
		each["far"] == 30*time.Microsecond, "it took %v", each)
	next := effortFor(l, each)
	want("a third of the time", next.count(Staging, 200), time.Now(), 1./3)
	want("half of it", next.end("near", 100, time.Second), time.Now(), 0.5)
	s := next.begin("far", 100)
	for _, one := range []struct{ after, share float64 }{{0, 0.5}, {1, 2. / 3}, {3, 1}, {1000, 1}} {
		want(fmt.Sprint("after ", one.after, " ms"), s, s.begun.Add(time.Duration(one.after*float64(time.Millisecond))), one.share)
	}
	want("more than there is", next.end("far", 1000, 0), time.Now(), 1)
	want("nothing to be done", effortFor(&layer{}, nil).end("far", 1, 0), time.Now(), 1)
}

// Neither a disk that hangs nor what a transaction takes by itself counts as what a record takes,
// and what is not met again is known still.
func TestOneCheckpointIsNoRuleForAll(t *testing.T) {
	e := effortFor(filled(fewRecords, "few", "hung", "quick"), efforts{"few": 7, "gone": 8})
	e.end("few", fewRecords-1, time.Minute)
	e.end("hung", fewRecords, time.Hour)
	e.end("quick", fewRecords, 0)
	if each, want := e.nextEfforts(), (efforts{"few": 7, "gone": 8, "hung": maxEffort, "quick": 1}); !maps.Equal(each, want) {
		t.Errorf("it has learned %v, want %v", each, want)
	}
}

// observed is a base where somebody looks when a transaction has done what it does.
type observed struct {
	kv.Memory
	look func()
}

func (o *observed) Update(fn func(kv.Writer) error) error {
	return o.Memory.Update(func(w kv.Writer) error {
		err := fn(w)
		o.look()
		return err
	})
}

// Each transaction of a checkpoint tells how far that is, and the next checkpoint is reckoned by
// this one.
func TestACheckpointIsReckonedByTheOneBefore(t *testing.T) {
	base := &observed{look: func() {}}
	var s *Table
	var before float64 // how far it was
	o := Options{Mark: Mark{"m", []byte("m")}, Portion: fewRecords * minRecord, Step: func(at Step) {
		if at != Staged && at != Applied {
			return
		}
		if now := s.stage.Load(); now.expected != 0 || now.from <= before || now.from >= 1 {
			t.Errorf("behind a transaction %v of it is done, before it was %v", now.from, before)
		} else {
			before = now.from
		}
	}}
	s = check.Value(Over(base, o))(t)
	base.look = func() {
		now := s.stage.Load()
		check.That(t, now.from >= before && now.to > now.from && now.to <= 1 && now.expected != 0,
			"a transaction leads from %v to %v in %v, and %v was done", now.from, now.to, now.expected, before)
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
		t.Errorf("of the checkpoint is known %v", s.efforts)
	}
	check.That(t, s.stage.Load() == nil && before != 0, "it is over, and seems to run, or was never seen to")
}
