package audit

import (
	"context"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// kept is a ledger in memory that does not change.
type kept struct {
	kv.Memory
	about event.About
}

func (k *kept) Origin() string { return k.about.Origin() }
func (k *kept) Now() time.Time { return k.about.At }
func (k *kept) Inspect(_ context.Context, _ func(kv.Fault), fn func(kv.Reader) error) error {
	return k.View(fn)
}

// newKept returns a ledger in which ann has released a response at ε = 0.5, under a cap of 1.
func newKept(t *testing.T) *kept {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	created := event.Created{Currency: "USD"}
	k := &kept{about: event.About{Created: created, At: at}}
	settled := func(key string, id event.Identity, first uint64, object string, counts event.Counts) *event.Settled {
		return &event.Settled{
			Key: key, Digest: id.Digest, Marks: id.Marks, First: first, Through: first - 1, Final: true,
			Counts: counts, Alone: object != "", Object: object,
		}
	}
	err := k.Update(func(w kv.Writer) error {
		format := append([]byte(state.FormatName), 0, state.FormatVersion)
		if err := w.Put(state.BucketMeta, []byte(state.KeyFormat), format); err != nil {
			return err
		}
		s, err := state.Begin(w, at)
		if err != nil {
			return err
		}
		q := api.Question{Name: "vote", Values: []string{"yes", "no"}, Encoding: "direct"}
		for _, request := range [][]event.Change{
			{&created},
			{&event.QuestionDefined{Number: 1, Question: q}, settled("define", event.DefineRequest(q, ""), 2, "", event.Counts{})},
			{&event.Enrolled{Object: "ann", Question: 1, Cap: epsilon(t, "1")}, settled("enroll", event.NewForm("enroll").Finish(), 4, "ann", event.Counts{1})},
			{released(t, "0.5"), settled("raise", event.RaiseRequest("vote", epsilon(t, "0.5"), false, []string{"ann"}, false), 6, "ann", event.Counts{1})},
		} {
			if _, _, err := fold.Record(s, request); err != nil {
				return err
			}
		}
		return fold.Flush(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func epsilon(t *testing.T, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func released(t *testing.T, at string) *event.Released {
	t.Helper()
	return &event.Released{Object: "ann", Question: 1, Epsilon: epsilon(t, at), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
}

// An event that cannot be applied changes nothing in the fold. That includes the tallies, which are
// counted before the budget is checked.
func TestAuditorTry_InvalidEvent_ChangesNothing(t *testing.T) {
	for _, at := range []string{"0.75", "2"} {
		a := &auditor{ended: t.Context().Err, ledger: newKept(t), pace: Usual(), reported: map[faultID]bool{}, events: pipeline{newBatch(), newBatch()}}
		var err error
		if a.folded, err = a.pace.folded(); err != nil {
			t.Fatal(err)
		}
		if err := a.begin(); err != nil {
			t.Fatal(err)
		}
		compare := func() uint64 {
			a.done, a.position, a.problems = false, place{}, 0
			for !a.done {
				if err := a.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return a.problems
		}
		if n := compare(); n != 0 {
			t.Fatalf("%d problems", n)
		}
		last := a.fold.Counters
		var fault error
		err = a.source.update(func() (err error) {
			fault, err = a.tryApply(&event.Event{Number: last.Events + 1, Time: last.Last, Change: released(t, at)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if impossible := at == "2"; (fault != nil) != impossible || (compare() == 0) != impossible {
			t.Errorf("at ε=%s, the fault is %v, and there are %d problems", at, fault, a.problems)
		}
		if err := a.folded.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An event that cannot be decoded still counts in the tree, because its hashes are at the end of
// the record.
func TestReadEvent_DamagedRecord_KeepsHashes(t *testing.T) {
	n := event.Entry{Event: event.Event{Number: 4, Time: time.Unix(1, 0).UTC(), Change: released(t, "0.5")}, Hashes: make([]tlog.Hash, merkle.Completes(3))}
	for i := range n.Hashes {
		n.Hashes[i][0] = byte(i + 1)
	}
	sound := n.Encode()
	for name, one := range map[string]struct {
		record []byte
		hashes bool
	}{
		"sound":         {sound, true},
		"other version": {append(append(append([]byte{}, sound[:3]...), sound[3]+1), sound[4:]...), true},
		"cut off":       {sound[len(sound)-5:], false},
		"nothing":       {nil, false},
	} {
		var used readEvent
		used.read(4, sound, true, new(event.Reader)) // an earlier event must leave no trace
		used.read(4, one.record, true, new(event.Reader))
		if (used.invalid == nil) != (name == "sound") || (used.leaf == tlog.Hash{}) != (name != "sound") {
			t.Errorf("%s: %v, leaf %v", name, used.invalid, used.leaf)
		}
		if one.hashes != (len(used.hashes) == len(n.Hashes) && used.hashes[1] == n.Hashes[1]) {
			t.Errorf("%s: hashes %v", name, used.hashes)
		}
	}
}
