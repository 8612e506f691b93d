package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// peepers is a store that counts the records about objects for which transactions ask.
type peepers struct {
	kv.Store
	asked atomic.Int64
}

type peeper struct {
	kv.Writer
	asked *atomic.Int64
}

func (p *peepers) Update(fn func(kv.Writer) error) error {
	return p.Store.Update(func(w kv.Writer) error { return fn(peeper{w, &p.asked}) })
}

func (p peeper) note(bucket string) {
	if bucket == state.BucketObjects || bucket == state.BucketChains {
		p.asked.Add(1)
	}
}

func (p peeper) Get(bucket string, key []byte) ([]byte, error) {
	p.note(bucket)
	return p.Writer.Get(bucket, key)
}

func (p peeper) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	p.note(bucket)
	return p.Writer.Scan(bucket, from, visit)
}

// All parts but the first are made before their transactions, which then ask for nothing about objects. What they write is
// what the events say: wantClean folds the log anew.
func TestPartsAreMadeBeforeTheirTransactions(t *testing.T) {
	names := crowd(3*state.PartSize + 7)
	for name, test := range map[string]struct {
		options Options
		change  func(*RaiseRequest)
	}{
		"everybody":          {},
		"names":              {change: func(r *RaiseRequest) { r.All, r.Objects = false, names }},
		"bound to the truth": {options: Options{TruthKey: []byte("a key of sixteen")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &peepers{Store: &kvtest.Memory{}}
			begin(t, s)
			l := voters(t, openMemory(t, s, test.options), "10", names...)
			for round, epsilon := range []string{"1", "3", "2"} { // drawn, drawn above others, derived between
				request := order(t, fmt.Sprint("raise ", round), epsilon)
				if test.change != nil {
					test.change(&request)
				}
				after := int64(0)
				request.Progress = func(int, int) {
					if after == 0 {
						after = s.asked.Load()
					}
				}
				result := carryOut(t, l, request)
				if n := result.Drawn + result.Derived; n != len(names) {
					t.Errorf("ε=%s: %+v", epsilon, result)
				}
				if now := s.asked.Load(); after == 0 || now != after {
					t.Errorf("ε=%s: transactions asked %d times about objects, %d of them behind the first part", epsilon, now, now-after)
				}
			}
			wantClean(t, l, VerifyRequest{})
		})
	}
}

// A request that holds no budget, and changes nothing, comes between two parts: what was made ahead is used all the same.
func TestAPartMadeAheadOutlivesARepetition(t *testing.T) {
	names := crowd(3 * state.PartSize)
	s := &peepers{Store: &kvtest.Memory{}}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{}), "10", names...)
	before := releaseOf(t, "before", names[0], "1")
	release(t, l, before)
	request := order(t, "raise", "1", names...)
	asked := int64(0)
	request.Progress = afterPart(func() {
		asked = s.asked.Load()
		release(t, l, before)
	})
	carryOut(t, l, request)
	if now := s.asked.Load(); asked == 0 || now != asked {
		t.Errorf("behind the first part, transactions asked %d times about objects", now-asked)
	}
}

// A partial request names people whom nobody knows, several in one part, and some who have left.
func TestAPartMadeAheadRefusesToo(t *testing.T) {
	known := crowd(3 * state.PartSize)
	l := voters(t, inMemory(t, Options{}), "10", known...)
	gone := []string{known[3], known[state.PartSize+5], known[state.PartSize+9], known[3*state.PartSize-1]}
	for _, name := range gone {
		must(t, l.Withdraw(t.Context(), "leave "+name, name))
	}
	request := order(t, "raise", "1", append(slices.Clone(known), "person-05000x", "person-05001x", "person-09999x")...)
	request.Partial = true
	for range 2 { // the second time is told from the log
		result := carryOut(t, l, request)
		if len(result.Refused) != 7 || result.Drawn != len(known)-len(gone) {
			t.Errorf("%d drawn, refused %+v", result.Drawn, result.Refused)
		}
	}
	wantClean(t, l, VerifyRequest{})
}

// The commit of a part fails when the next one is made already. That one must not be used, even if the log has become as long
// by other means as it was made for: the part before it never was.
func TestAPartMadeBehindOneThatIsLost(t *testing.T) {
	names := crowd(3 * state.PartSize)
	memory := &kvtest.Memory{}
	begin(t, memory)
	s := &shim{Store: memory}
	l := voters(t, openMemory(t, s, Options{}), "10", names...)
	request := order(t, "raise", "1", names...)
	request.Partial = true
	x, err := l.newRaise(t.Context(), request)
	must(t, err)
	_, err = x.Precheck(t.Context(), x.panel, "")
	must(t, err)
	b := &batch.Bulk{Engine: &l.engine, Holds: &l.rules.Holds, Work: x, Key: request.Key, Id: x.form(), Panel: x.panel, Early: true}
	s.set(failing, nil)
	_, err = b.RunPart(t.Context(), &batch.Standing{}, &batch.Outcome{})
	wantErr(t, err, errDisk)
	s.set(nil, nil)
	b.Ahead.Wait()
	if b.Ahead.Made == nil {
		t.Fatalf("nothing was made ahead (%v)", b.Ahead.Err)
	}
	carryOut(t, l, order(t, "instead", "1", names[2*state.PartSize:]...))
	_, _, err = l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		if got, want := s.Counters.Events, b.Ahead.Behind.Counters.Events; got != want {
			t.Errorf("there are %d events, want %d", got, want)
		}
		_, made, err := b.Next(s, &batch.Standing{Cursor: b.Ahead.Behind.Cursor})
		if made != nil {
			t.Error("what was made behind a part that was lost is used")
		}
		return nil, err
	})
	must(t, err)
}

// A request whose commit failed goes on behind the last part that was committed.
func TestARequestThatLostAPartGoesOn(t *testing.T) {
	names := crowd(4 * state.PartSize)
	l, s := openShim(t, votersFile(t, "10", names...), Options{})
	request := order(t, "raise", "1", names...)
	request.Progress = afterPart(func() {
		s.set(func() error { return errDisk }, nil)
	})
	_, err := l.Raise(t.Context(), request)
	wantErr(t, err, errDisk)
	s.set(nil, nil)
	release(t, l, releaseOf(t, "between", names[2*state.PartSize], "1"))
	request.Progress = nil
	if result := carryOut(t, l, request); result.Drawn != len(names)-1 || result.Reused != 1 {
		t.Errorf("%+v", result)
	}
	wantClean(t, l, VerifyRequest{})
}

// panicking is a store of which one view panics, as one of damaged pages may. It is none of those by which a transaction looks
// whether the file is still its own: whether they come first is a matter of time.
type panicking struct {
	kv.Store
	left atomic.Int64
}

func (p *panicking) View(fn func(kv.Reader) error) error {
	if !bytes.Contains(debug.Stack(), []byte(").Update(")) && p.left.Add(-1) == 0 {
		panic("torn page")
	}
	return p.Store.View(fn)
}

// A panic where a part is made ahead is not the end of the process: the transaction makes the part itself. One in a survey
// is the caller's.
func TestPanicsBesideARequest(t *testing.T) {
	names := crowd(4 * state.PartSize)
	s := &panicking{Store: &kvtest.Memory{}}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{}), "10", names...)
	request := order(t, "raise", "1")
	request.Progress = afterPart(func() { s.left.Store(1) })
	if result := carryOut(t, l, request); result.Drawn != len(names) {
		t.Errorf("%+v", result)
	}
	if s.left.Load() > 0 {
		t.Error("there was no panic")
	}
	request = order(t, "again", "2")
	asked := 0
	request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		if asked++; asked == 2 {
			s.left.Store(1)
		}
		return TruthOf("yes")(ctx, q, objects)
	}
	func() {
		defer func() {
			if p := recover(); p != "torn page" {
				t.Errorf("recovered %v", p)
			}
		}()
		_, err := l.Raise(t.Context(), request)
		t.Errorf("no panic, but %v", err)
	}()
	if result := carryOut(t, l, request); result.Drawn != len(names) {
		t.Errorf("%+v", result)
	}
	wantClean(t, l, VerifyRequest{})
}

// Slices of a survey end where they were bounded, whoever of them has left: nobody is asked for twice.
func TestASurveyAsksForEachOnce(t *testing.T) {
	names := crowd(3*state.PartSize + 1)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	left := append(slices.Clone(names[5:25]), names[state.PartSize-1], names[3*state.PartSize-1], names[3*state.PartSize])
	for _, name := range left {
		must(t, l.Withdraw(t.Context(), "leave "+name, name))
	}
	var asked []string
	request := order(t, "raise", "1")
	request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		asked = append(asked, objects...)
		return TruthOf("yes")(ctx, q, objects)
	}
	total := 0
	request.Progress = func(_, all int) { total = all }
	result := carryOut(t, l, request)
	want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(left, name) })
	if result.Drawn != len(want) || total != len(want) || !slices.Equal(asked, want) {
		t.Errorf("%d of %d drawn, %d asked for, want %d", result.Drawn, total, len(asked), len(want))
	}
	wantClean(t, l, VerifyRequest{})
}

// lingering is a store in which the second view that looks for chains ends late.
type lingering struct {
	kv.Store
	views  atomic.Int64 // that have looked for chains
	open   atomic.Int64 // not ended yet
	linger func()
}

type lingeringView struct {
	kv.Reader
	scanning func()
}

func (s *lingering) View(fn func(kv.Reader) error) error {
	s.open.Add(1)
	defer s.open.Add(-1)
	number := int64(0)
	err := s.Store.View(func(r kv.Reader) error {
		return fn(lingeringView{r, func() {
			if number == 0 {
				number = s.views.Add(1)
			}
		}})
	})
	if number == 2 && s.linger != nil {
		s.linger()
	}
	return err
}

func (v lingeringView) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if bucket == state.BucketChains {
		v.scanning()
	}
	return v.Reader.Scan(bucket, from, visit)
}

// A survey that is given up leaves nothing behind that runs.
func TestASurveyThatIsGivenUp(t *testing.T) {
	names := crowd(4 * state.PartSize)
	s := &lingering{Store: &kvtest.Memory{}}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{}), "10", names...)
	broken := errors.New("no connection")
	for name, test := range map[string]struct {
		want error
		fail func(stop func()) error // what comes of the first question for truths, while the second slice is looked at
	}{
		"the source of truths fails": {broken, func(func()) error { return broken }},
		"the caller gives up":        {context.Canceled, func(stop func()) error { stop(); return nil }},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan struct{})
		s.views.Store(0)
		s.linger = func() {
			<-failed
			time.Sleep(soon)
		}
		request := order(t, "raise", "1")
		request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
			defer close(failed)
			for end := time.Now().Add(patience); s.views.Load() < 2 && time.Now().Before(end); {
				time.Sleep(time.Millisecond) // until the second slice is looked at
			}
			if err := test.fail(cancel); err != nil {
				return nil, err
			}
			return TruthOf("yes")(ctx, q, objects)
		}
		_, err := l.Raise(ctx, request)
		if n := s.open.Load(); n != 0 || s.views.Load() < 2 {
			t.Errorf("%s: %d views of %d are open", name, n, s.views.Load())
		}
		wantErr(t, err, test.want)
		cancel()
	}
	s.linger = nil
	request := order(t, "raise", "1")
	if result := carryOut(t, l, request); result.Drawn != len(names) {
		t.Errorf("%+v", result)
	}
}

// Times are compared as they are in the log, also those that were never read from it: the monotonic reading of the
// machine's clock does not see that somebody has set it back.
func TestTimesHaveNoMonotonicReading(t *testing.T) {
	s := &state.State{}
	s.SetClock(time.Now())
	if s.Clock != s.Clock.Round(0) || s.Now != s.Now.Round(0) {
		t.Errorf("%v and %v", s.Clock, s.Now)
	}
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
	if !slices.Equal(refused, left) || result.Drawn != len(names)-len(left) {
		t.Errorf("%d drawn, and %d left out of %d: %.5q", result.Drawn, len(refused), len(left), refused)
	}
	wantClean(t, l, VerifyRequest{})
}

// What was decided for one part stays what it is while the next part is decided.
func TestThePartInFrontStaysWhileTheNextIsDecided(t *testing.T) {
	names := crowd(30)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	x, err := l.newRaise(t.Context(), order(t, "raise", "1", names...))
	must(t, err)
	_, err = x.Precheck(t.Context(), x.panel, "")
	must(t, err)
	must(t, l.engine.View(t.Context(), func(s *state.State) error {
		s.Chances = state.NewChances()
		var before batch.Part
		var said []event.Change
		for some := range slices.Chunk(names, 10) {
			p, err := x.Decide(s, some)
			must(t, err)
			for i, c := range said {
				if before.Changes[i] != c || c.(*event.Released).Object >= some[0] {
					t.Fatalf("change %d of the part in front has become %+v", i, before.Changes[i])
				}
			}
			if len(p.Changes) != len(some) || p.Changes[0].(*event.Released).Object != some[0] {
				t.Fatalf("%d changes for %d objects", len(p.Changes), len(some))
			}
			before, said = p, slices.Clone(p.Changes)
		}
		return nil
	}))
}
