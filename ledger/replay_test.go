package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
)

// Invariant 9: the log is the truth. That the stored state is the fold of the log, byte for byte, is
// what audit checks after the random histories, the crashes and the large orders. Here: apply refuses
// a log that cannot be, rather than make a state of it.

// history is a sound log: one question, two objects, a few responses.
func history(t *testing.T) []event {
	t.Helper()
	s := &kvtest.Memory{}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{Now: epoch}), "1", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	release(t, l, releaseOf(t, "2", "ann", "0.25"))
	release(t, l, releaseOf(t, "3", "bob", "1"))
	return logOf(t, pairs(t, s))
}

// renumber gives the events of a log the numbers that their places ask for.
func renumber(log []event) []event {
	for i := range log {
		log[i].number = uint64(i + 1)
	}
	return log
}

func indexOf(t *testing.T, log []event, match func(change) bool) int {
	t.Helper()
	for i, ev := range log {
		if match(ev.change) {
			return i
		}
	}
	t.Fatal("no such event")
	return 0
}

func isEnrolled(name string) func(change) bool {
	return func(c change) bool { e, ok := c.(*enrolled); return ok && e.object == name }
}

func isReleased(name, epsilon string, t *testing.T) func(change) bool {
	return func(c change) bool {
		r, ok := c.(*released)
		return ok && r.object == name && r.epsilon == eps(t, epsilon)
	}
}

func isSettled(key string) func(change) bool {
	return func(c change) bool { s, ok := c.(*settled); return ok && s.key == key }
}

func TestASoundLogReplays(t *testing.T) {
	must(t, replay(&kvtest.Memory{}, history(t)))
}

// Each of these changes makes a log that no ledger can have written.
func unsoundLogs(t *testing.T) map[string]func(log []event) []event {
	drop := func(match func(change) bool) func([]event) []event {
		return func(log []event) []event {
			i := indexOf(t, log, match)
			return renumber(append(log[:i:i], log[i+1:]...))
		}
	}
	again := func(match func(change) bool) func([]event) []event {
		return func(log []event) []event { return renumber(append(log, log[indexOf(t, log, match)])) }
	}
	extra := func(c change) func([]event) []event {
		return func(log []event) []event {
			return append(log, event{number: uint64(len(log)) + 1, time: log[len(log)-1].time, change: c})
		}
	}
	one := eps(t, "1")
	return map[string]func(log []event) []event{
		"out of order": func(log []event) []event { log[4], log[5] = log[5], log[4]; return log },
		"a gap":        func(log []event) []event { log[len(log)-1].number++; return log },
		"twice":        func(log []event) []event { return append(log[:3:3], log[2:]...) },
		"not from 1":   func(log []event) []event { return log[1:] },
		"back in time": func(log []event) []event {
			log[5].time = log[4].time.Add(-time.Nanosecond)
			return log
		},
		"enrolled twice":          again(isEnrolled("ann")),
		"never enrolled":          drop(isEnrolled("bob")),
		"released twice":          again(isReleased("ann", "0.5", t)),
		"derived twice":           again(isReleased("ann", "0.25", t)),
		"settled twice":           again(isSettled("3")),
		"over the cap":            extra(&released{object: "ann", question: 1, epsilon: eps(t, "1.000000001"), response: response{method: methodRaise}}),
		"an ε of 0":               extra(&released{object: "ann", question: 1, response: response{method: methodDegrade}}),
		"a stranger's answer":     extra(&released{object: "zoe", question: 1, epsilon: one, response: response{method: methodRaise}}),
		"another question":        extra(&released{object: "ann", question: 2, epsilon: one, response: response{method: methodRaise}}),
		"a question's number":     extra(&questionDefined{3, Question{Name: "q", Values: []string{"a", "b"}, Encoding: Direct}}),
		"a question twice":        extra(&questionDefined{1, Question{Name: "q", Values: []string{"a", "b"}, Encoding: Direct}}),
		"a policy's number":       extra(&policyDefined{number: 2, json: `{"kind":"fixed","ceiling":"1"}`}),
		"a policy of another age": extra(&policyDefined{number: 1, json: `{"kind":"martian"}`}),
		"a part of another": func(log []event) []event {
			log = extra(&settled{key: "large", digest: [32]byte{1}})(log)
			return extra(&settled{key: "large", digest: [32]byte{2}, final: true})(log)
		},
		"a key of another": extra(&settled{key: "3", digest: [32]byte{1}}),
	}
}

func TestApplyRefusesALogThatCannotBe(t *testing.T) {
	for name, spoil := range unsoundLogs(t) {
		t.Run(name, func(t *testing.T) {
			log := spoil(history(t))
			if err := replay(&kvtest.Memory{}, log); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got the error %v, want ErrCorrupt", err)
			}
		})
	}
}

// If a decision were wrong, apply would still keep the budget: the commit fails, and nothing changes.
func TestApplyIsASecondGuardOfTheBudget(t *testing.T) {
	l, s := openShim(t, votersFile(t, "1", "ann"), Options{})
	unchanged(t, s, func() {
		_, _, err := l.submit(t.Context(), func(*state) ([]change, error) {
			return []change{&released{object: "ann", question: 1, epsilon: eps(t, "1.1"), response: response{method: methodRaise}}}, nil
		})
		wantErr(t, err, ErrCorrupt)
	})
	release(t, l, releaseOf(t, "k", "ann", "1"))
}

// The fold is pure: it does the same whenever it is done, whatever the clock says.
func TestReplayingTwiceGivesTheSameBytes(t *testing.T) {
	log := history(t)
	first, second := &kvtest.Memory{}, &kvtest.Memory{}
	must(t, replay(first, log))
	must(t, replay(second, log))
	same(t, "second replay", pairs(t, second), pairs(t, first))
}

// Nor does it matter where transactions begin and end.
func TestReplayingEventByEventGivesTheSameBytes(t *testing.T) {
	log := history(t)
	whole := &kvtest.Memory{}
	must(t, replay(whole, log))
	same(t, "replay event by event", pairs(t, replayedSingly(t, log)), pairs(t, whole))
}

// replayedSingly folds a log in transactions of one event.
func replayedSingly(t *testing.T, log []event) *kvtest.Memory {
	t.Helper()
	single := &kvtest.Memory{}
	must(t, single.Update(func(w kv.Writer) error { return w.Put(bucketMeta, []byte(keyFormat), formatRecord()) }))
	for _, ev := range log {
		must(t, single.Update(func(w kv.Writer) error {
			st, err := writeState(w, ev.time)
			if err != nil {
				return err
			}
			if err := st.append(ev); err != nil {
				return err
			}
			return st.flush()
		}))
	}
	return single
}
