package ledger

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// A partial request names people whom nobody knows, several in one part, and some who have left.
func TestAPartMadeAheadRefusesToo(t *testing.T) {
	known := crowd(3 * state.PartSize)
	l := voters(t, inMemory(t, Options{}), "10", known...)
	gone := []string{known[3], known[state.PartSize+5], known[state.PartSize+9], known[3*state.PartSize-1]}
	for _, name := range gone {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave " + name, Object: name}))
	}
	request := order(t, "raise", "1", append(slices.Clone(known), "person-05000x", "person-05001x", "person-09999x")...)
	request.Partial = true
	for range 2 { // the second time is told from the log
		result := carryOut(t, l, request)
		check.That(t, len(result.Refused) == 7 && result.Drawn == len(known)-len(gone),
			"%d drawn, refused %+v", result.Drawn, result.Refused)
	}
	wantClean(t, l, api.VerifyRequest{})
}

// A request whose commit failed goes on behind the last part that was committed.
func TestARequestThatLostAPartGoesOn(t *testing.T) {
	names := crowd(4 * state.PartSize)
	l, s := openShim(t, votersFile(t, "10", names...), Options{})
	request := order(t, "raise", "1", names...)
	request.Progress = afterPart(func() { s.set(func() error { return errDisk }, nil) })
	wantErr(t, check.Err(l.Raise(t.Context(), request)), errDisk)
	s.set(nil, nil)
	release(t, l, releaseOf(t, "between", names[2*state.PartSize], "1"))
	request.Progress = nil
	result := carryOut(t, l, request)
	check.That(t, result.Drawn == len(names)-1 && result.Reused == 1, "%+v", result)
	wantClean(t, l, api.VerifyRequest{})
}

// panicking is a store of which one view panics, as one of damaged pages may.
type panicking struct {
	kv.Store
	left atomic.Int64
}

func (p *panicking) View(fn func(kv.Reader) error) error {
	if p.left.Add(-1) == 0 {
		panic("torn page")
	}
	return p.Store.View(fn)
}

// A panic in a survey is the caller's, and nothing has happened.
func TestPanicsInASurvey(t *testing.T) {
	names := crowd(4 * state.PartSize)
	s := &panicking{Store: &kv.Memory{}}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{}), "10", names...)
	request := order(t, "again", "2")
	asked := 0
	request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		if asked++; asked == 2 {
			s.left.Store(1)
		}
		return sameTruth("yes")(ctx, q, objects)
	}
	func() {
		defer func() {
			p := recover()
			check.That(t, p == "torn page", "recovered %v", p)
		}()
		_, err := l.Raise(t.Context(), request)
		t.Errorf("no panic, but %v", err)
	}()
	result := carryOut(t, l, request)
	check.That(t, result.Drawn == len(names), "%+v", result)
	wantClean(t, l, api.VerifyRequest{})
}

// Slices of a survey end where they were bounded, whoever of them has left: nobody is asked for twice.
func TestASurveyAsksForEachOnce(t *testing.T) {
	names := crowd(3*state.PartSize + 1)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	left := append(slices.Clone(names[5:25]), names[state.PartSize-1], names[3*state.PartSize-1], names[3*state.PartSize])
	for _, name := range left {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave " + name, Object: name}))
	}
	var asked []string
	request := order(t, "raise", "1")
	request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		asked = append(asked, objects...)
		return sameTruth("yes")(ctx, q, objects)
	}
	total := 0
	request.Progress = func(_, all int) { total = all }
	result := carryOut(t, l, request)
	want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(left, name) })
	check.That(t, result.Drawn == len(want) && total == len(want) && slices.Equal(asked, want),
		"%d of %d drawn, %d asked for, want %d", result.Drawn, total, len(asked), len(want))
	wantClean(t, l, api.VerifyRequest{})
}

// Times are compared as they are in the log, also those that were never read from it: the monotonic reading of the
// machine's clock does not see that somebody has set it back.
func TestTimesHaveNoMonotonicReading(t *testing.T) {
	s := &state.State{}
	s.SetClock(time.Now())
	check.That(t, s.Clock == s.Clock.Round(0) && s.Now == s.Now.Round(0), "%v and %v", s.Clock, s.Now)
}

// The memory of a part's changes is used again for the part after the next. What came of each part, whom it left out above
// all, is told all the same.
func TestEachPartTellsWhomItLeftOut(t *testing.T) {
	const parts = 5
	names := crowd(parts * state.PartSize)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	request := order(t, "raise", "1")
	request.Partial = true
	var left []string
	for i := 0; i < len(names); i += 1000 { // some in each part, at other places
		left = append(left, names[i])
	}
	request.Truth = func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, name := range objects {
			if _, out := slices.BinarySearch(left, name); !out {
				values[i] = "yes"
			}
		}
		return values, nil
	}
	result := carryOut(t, l, request)
	var refused []string
	for _, r := range result.Refused {
		refused = append(refused, r.Object)
	}
	check.That(t, slices.Equal(refused, left) && result.Drawn == len(names)-len(left),
		"%d drawn, and %d left out of %d: %.5q", result.Drawn, len(refused), len(left), refused)
	wantClean(t, l, api.VerifyRequest{})
}
