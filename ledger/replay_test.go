package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Invariant 9: the log is authoritative. The tests audit the stored state, which must be the fold
// of the log byte for byte, after random histories, crashes and large raises. Here apply must
// refuse an unsound log.

// soundLog returns a sound log: one question, two objects, a few responses.
func soundLog(t *testing.T) []event.Event {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{Now: epoch}), "1", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	release(t, l, releaseOf(t, "2", "ann", "0.25"))
	release(t, l, releaseOf(t, "3", "bob", "1"))
	return logOf(t, pairs(t, s))
}

// renumber numbers the events of a log by their places.
func renumber(log []event.Event) []event.Event {
	for i := range log {
		log[i].Number = uint64(i + 1)
	}
	return log
}

func indexOf(t *testing.T, log []event.Event, match func(event.Change) bool) int {
	t.Helper()
	i := slices.IndexFunc(log, func(ev event.Event) bool { return match(ev.Change) })
	check.Need(t, i >= 0, "no such event")
	return i
}

func isEnrolled(name string) func(event.Change) bool {
	return func(c event.Change) bool { e, ok := c.(*event.Enrolled); return ok && e.Object == name }
}

func isReleased(name, epsilon string, t *testing.T) func(event.Change) bool {
	return func(c event.Change) bool {
		r, ok := c.(*event.Released)
		return ok && r.Object == name && r.Epsilon == eps(t, epsilon)
	}
}

func isSettled(key string) func(event.Change) bool {
	return func(c event.Change) bool { s, ok := c.(*event.Settled); return ok && s.Key == key }
}

// unsoundLogs returns changes, each of which makes a log that no ledger can have written.
func unsoundLogs(t *testing.T) map[string]func(log []event.Event) []event.Event {
	drop := func(match func(event.Change) bool) func([]event.Event) []event.Event {
		return func(log []event.Event) []event.Event {
			i := indexOf(t, log, match)
			return renumber(append(log[:i:i], log[i+1:]...))
		}
	}
	again := func(match func(event.Change) bool) func([]event.Event) []event.Event {
		return func(log []event.Event) []event.Event { return renumber(append(log, log[indexOf(t, log, match)])) }
	}
	one, extra := eps(t, "1"), followedBy
	return map[string]func(log []event.Event) []event.Event{
		"out of order": func(log []event.Event) []event.Event { log[4], log[5] = log[5], log[4]; return log },
		"a gap":        func(log []event.Event) []event.Event { log[len(log)-1].Number++; return log },
		"twice":        func(log []event.Event) []event.Event { return append(log[:3:3], log[2:]...) },
		"not from 1":   func(log []event.Event) []event.Event { return log[1:] },
		"back in time": func(log []event.Event) []event.Event {
			log[5].Time = log[4].Time.Add(-time.Nanosecond)
			return log
		},
		"enrolled twice":           again(isEnrolled("ann")),
		"never enrolled":           drop(isEnrolled("bob")),
		"released twice":           again(isReleased("ann", "0.5", t)),
		"derived twice":            again(isReleased("ann", "0.25", t)),
		"settled twice":            again(isSettled("3")),
		"over the cap":             extra(&event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "1.000000001"), Response: event.Response{Method: event.MethodRaise}}),
		"an ε of 0":                extra(&event.Released{Object: "ann", Question: 1, Response: event.Response{Method: event.MethodDegrade}}),
		"a stranger's answer":      extra(&event.Released{Object: "zoe", Question: 1, Epsilon: one, Response: event.Response{Method: event.MethodRaise}}),
		"another question":         extra(&event.Released{Object: "ann", Question: 2, Epsilon: one, Response: event.Response{Method: event.MethodRaise}}),
		"a question's number":      extra(&event.QuestionDefined{Number: 3, Question: api.Question{Name: "q", Values: []string{"a", "b"}, Encoding: "direct"}}),
		"a question twice":         extra(&event.QuestionDefined{Number: 1, Question: api.Question{Name: "q", Values: []string{"a", "b"}, Encoding: "direct"}}),
		"a policy's number":        extra(&event.PolicyDefined{Number: 2, JSON: `{"kind":"fixed","ceiling":"1"}`}),
		"a policy of another kind": extra(&event.PolicyDefined{Number: 1, JSON: `{"kind":"martian"}`}),
		"a part of another":        extra(&event.Settled{Key: "large", Digest: [32]byte{1}}, &event.Settled{Key: "large", Digest: [32]byte{2}, Final: true}),
		"a key of another":         extra(&event.Settled{Key: "3", Digest: [32]byte{1}}),
	}
}

func TestApply_UnsoundLog_IsCorrupt(t *testing.T) {
	for name, spoil := range unsoundLogs(t) {
		t.Run(name, func(t *testing.T) {
			log := spoil(soundLog(t))
			err := replay(&kv.Memory{}, log)
			check.That(t, errors.Is(err, api.ErrCorrupt), "got the error %v, want ErrCorrupt", err)
		})
	}
}

// The fold is deterministic: it does not depend on the clock, nor on where transactions begin and
// end.
func TestReplay_InOneTransactionOrMany_GivesTheSameBytes(t *testing.T) {
	for name, log := range map[string][]event.Event{"responses": soundLog(t), "market": marketHistory(t)} {
		whole, again := &kv.Memory{}, &kv.Memory{}
		must(t, replay(whole, log))
		must(t, replay(again, log))
		wantSameRecords(t, name+", a second time", pairs(t, again), pairs(t, whole))
		wantSameRecords(t, name+", event by event", pairs(t, replayedSingly(t, log)), pairs(t, whole))
	}
}

// replayedSingly folds a log in transactions of one event.
func replayedSingly(t *testing.T, log []event.Event) *kv.Memory {
	t.Helper()
	single := &kv.Memory{}
	must(t, single.Update(func(w kv.Writer) error { return w.Put(state.BucketMeta, []byte(state.KeyFormat), formatRecord()) }))
	for _, ev := range log {
		must(t, single.Update(func(w kv.Writer) error {
			st, err := state.Begin(w, ev.Time)
			if err != nil {
				return err
			}
			if err := fold.Append(st, ev); err != nil {
				return err
			}
			return fold.Flush(st)
		}))
	}
	return single
}
