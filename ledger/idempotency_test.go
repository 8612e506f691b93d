package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Invariant 5: key and request seen before: the recorded result, byte for byte; key seen with another
// request: a typed conflict. Nothing is drawn or charged twice.

// A key whose record points at another request's events, which no checksum tells, is not answered by them.
func TestAKeyIsNotAnsweredByTheEventsOfAnother(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{}), "5", "5", "ann", "bob")
	release(t, l, releaseOf(t, "one", "ann", "1"))
	release(t, l, releaseOf(t, "two", "bob", "1"))
	log := logOf(t, pairs(t, s))
	one := slices.IndexFunc(log, func(ev event.Event) bool { c, is := ev.Change.(*event.Settled); return is && c.Key == "one" })
	altered := foldedAnew(t, log)
	putRecord(t, altered, state.BucketRequests, []byte("two"), state.Request{Settled: []uint64{log[one].Number}}.Encode())
	l = openMemory(t, altered, Options{})
	for _, r := range []api.ReleaseRequest{releaseOf(t, "two", "bob", "1"), releaseOf(t, "two", "ann", "1")} {
		wantErr(t, check.Err(l.Release(t.Context(), r)), api.ErrCorrupt)
	}
	release(t, l, releaseOf(t, "one", "ann", "1"))
}

// Names run together differently must not make the same request.
func TestDigestsKeepFieldsApart(t *testing.T) {
	seen := map[[2]event.Sum]string{}
	for _, names := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"a", "b", "c"}, {"\x02ab", "c"}} {
		for _, question := range []string{"", "ab", "a"} {
			id := event.RaiseRequest(question, eps(t, "1"), false, names, false)
			sum := [2]event.Sum{id.Sum, id.Objects}
			text := fmt.Sprintf("%q of %q", question, names)
			twin, twice := seen[sum]
			check.That(t, !twice, "%s and %s have one digest", text, twin)
			seen[sum] = text
		}
	}
}

// fieldOf returns what an idempotency conflict says.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var conflict *api.KeyConflictError
	check.Need(t, errors.As(err, &conflict) && conflict.Key == "the key", "the conflict is %v", err)
	if named := conflict.Field; named != "" && named != "Kind" && !strings.HasSuffix(err.Error(), "differs in "+named) {
		t.Errorf("a difference in %s is told as %v", named, err)
	}
	return conflict.Field
}

func TestAConflictOfALongRequestNamesTheField(t *testing.T) {
	names := crowd(state.PartSize + 10)
	l := voters(t, inMemory(t, Options{}), "3", names...)
	carryOut(t, l, order(t, "the key", "0.5", names...))
	_, err := l.Raise(t.Context(), order(t, "the key", "0.75", names...))
	check.Equal(t, fieldOf(t, err), "Epsilon", "the field of another ε")
	_, err = l.Raise(t.Context(), order(t, "the key", "0.5", names[1:]...))
	check.Equal(t, fieldOf(t, err), "Objects", "the field of other objects")
}

// Marks are kept with the digest, and go with it.
func TestNoMarksTellWhatWasForgotten(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "5", "5", "ann", "bob")
	release(t, l, releaseOf(t, "released", "ann", "0.7"))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"}))
	for _, n := range eventsOf(t, l.engine.Store) {
		if c, is := n.Change.(*event.Settled); is && c.Key == "released" && (c.Marks != event.Marks{} || n.Erased == nil) {
			t.Errorf("what is kept of the request is %+v", c)
		}
	}
}

func TestRelease_SameKeyByManyAtOnce_IsOneCommit(t *testing.T) {
	const callers = 32
	l, s := openShim(t, votersFile(t, "3", crowd(50)...), Options{})
	before := s.commits.Load()
	got := make([]api.Response, callers)
	failed := race(t, callers, func(i int) (err error) {
		got[i], err = l.Release(t.Context(), releaseOf(t, "k", "person-00007", "0.5"))
		return err
	})
	check.That(t, len(failed) == 0, "errors: %v", failed)
	for _, one := range got {
		check.Need(t, one == got[0], "one caller got %v, another %v", got[0], one)
	}
	check.Equal(t, s.commits.Load()-before, 1, "commits")
	check.Equal(t, countKind(events(t, l), "released"), 1, "draws")
	auditStore(t, s)
}
