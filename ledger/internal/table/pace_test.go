package table

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/memory"
)

// Updates that fill the room faster than a checkpoint empties what is below are slowed down, before they would have to stop.
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
		if slow := outruns(one.size, one.room, limit, one.done); slow != one.slow {
			t.Errorf("%d bytes of %d, %v of it done: slowed down %v, want %v", one.size, one.room, one.done, slow, one.slow)
		}
	}
}

// How far a checkpoint is, is told by how long the records of each bucket took before, and goes on while one transaction runs.
func TestHowFarACheckpointIs(t *testing.T) {
	l := &layer{}
	for i := range 100 {
		for _, bucket := range []string{"near", "far"} {
			l.put(bucket, fmt.Append(nil, i), []byte("v"), uint64(i), 1)
		}
	}
	want := func(what string, s *stage, now time.Time, share float64) {
		t.Helper()
		if got := s.at(now); math.Abs(got-share) > 1e-9 {
			t.Errorf("%s: %v of it is done, want %v", what, got, share)
		}
	}
	first := effortFor(l, nil)
	begun := first.begin("near", 100)
	want("all aside", begun, begun.begun, allAside)
	want("half in its place", first.end("near", 100, time.Second), time.Now(), allAside+(1-allAside)/2)
	want("all in its place", first.end("far", 100, 4*time.Second), time.Now(), 1)
	each := first.learned()
	if each["near"] != 10*time.Millisecond || each["far"] != 40*time.Millisecond {
		t.Errorf("it took %v", each)
	}
	next := effortFor(l, each)
	want("a fifth of the time", next.end("near", 100, time.Second), time.Now(), allAside+(1-allAside)/5)
	s := next.begin("far", 100)
	for _, one := range []struct{ after, share float64 }{{0, 0.2}, {1, 0.4}, {4, 1}, {1000, 1}} {
		want(fmt.Sprint("after ", one.after, " seconds"), s, s.begun.Add(time.Duration(one.after*float64(time.Second))), allAside+(1-allAside)*one.share)
	}
	want("more than there is", next.end("far", 1000, 0), time.Now(), 1)
	want("nothing to be placed", effortFor(&layer{}, nil).end("far", 1, 0), time.Now(), 1)
}

func TestACheckpointIsReckonedByTheOneBefore(t *testing.T) {
	s, err := Over(&memory.Store{}, Options{Mark: Mark{"m", []byte("m")}, Portion: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(w kv.Writer) error {
		for i := range 20 {
			for _, bucket := range []string{"a", "b", "m"} {
				if err := w.Put(bucket, fmt.Append(nil, "m", i), []byte("v")); err != nil {
					return err
				}
			}
		}
		return w.Put("m", []byte("m"), []byte("1"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if buckets := slices.Sorted(maps.Keys(s.efforts)); !slices.Equal(buckets, []string{"a", "b", "m"}) || slices.Min(slices.Collect(maps.Values(s.efforts))) <= 0 {
		t.Errorf("of the checkpoint is known %v", s.efforts)
	}
	if s.stage.Load() != nil {
		t.Error("it is over, and seems to run")
	}
}
