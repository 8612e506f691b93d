package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// The second half of invariant 6: a chain belongs to the truth it began with. With a truth key the
// ledger holds a keyed hash of it and refuses to go on for another value.

func truthKey() []byte { return []byte("the key of the host, 32 bytes ..") }

func bound(t *testing.T, path string) *Ledger {
	t.Helper()
	return open(t, path, Options{TruthKey: truthKey()})
}

// One changed truth in a large order is found before anything is drawn.
func TestAChangedTruthStopsTheWholeOrder(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "3", "ann", "bob", "cid")
	carryOut(t, l, order(t, "1", "0.5"))
	r := order(t, "2", "1")
	r.Truth = listOf("yes", "no", "yes")
	unchanged(t, l.engine.Store, func() {
		wantChanged(t, check.Err(l.Raise(t.Context(), r)), "bob")
	})
}

// wantChanged checks that a request is refused because these people's truths have changed. It says so to its caller
// only: text and reasons are those of a host without a truth.
func wantChanged(t *testing.T, err error, names ...string) {
	t.Helper()
	var refused *api.RefusedError
	check.Need(t, errors.As(err, &refused) && slices.Equal(refused.TruthChanged, names),
		"%v, want one for the changed truths of %q", err, names)
	var plain []string
	for _, r := range refused.Refused {
		plain = append(plain, r.Object)
		if r != (api.Refusal{Object: r.Object, Reason: api.NoTruth, Asked: r.Asked, Remedy: "truth", Largest: r.Largest}) {
			t.Errorf("a changed truth is refused as %+v", r)
		}
	}
	check.That(t, slices.Equal(plain, names) && !strings.Contains(err.Error(), "chang"), "%v for %q", err, names)
}

func TestOpenRefusesAnotherTruthKey(t *testing.T) {
	path := votersFile(t, "3", "ann")
	closed(t, bound(t, path))
	other := truthKey()
	other[0]++
	for name, options := range map[string]Options{
		"another":            {TruthKey: other},
		"another, read-only": {TruthKey: other, ReadOnly: true},
		"longer":             {TruthKey: append(truthKey(), 1)},
	} {
		if _, err := Open(t.Context(), path, options); err == nil {
			t.Errorf("%s: opened", name)
		} else {
			wantErr(t, err, api.ErrTruthKey)
		}
	}
	bound(t, path) // and the refused ones left no lock behind
}

func TestAShortTruthKeyIsRefused(t *testing.T) {
	path := votersFile(t, "3", "ann")
	for _, length := range []int{0, 1, 15} {
		wantErr(t, check.Err(Open(t.Context(), path, Options{TruthKey: truthKey()[:length]})), api.ErrInvalid)
	}
	l := open(t, path, Options{TruthKey: truthKey()[:16]})
	n := countKind(events(t, l), "truth-key")
	check.That(t, n == 1, "%d truth-key events", n)
}

// Without the key nothing is drawn from truths, of whomever, and the host is not even asked: it might tell others than
// before, and nobody would notice. What needs no truth goes on.
func TestWithoutTheTruthKeyNothingIsDrawnFromTruths(t *testing.T) {
	path := votersFile(t, "9", "ann", "bob")
	l := bound(t, path)
	enrollUnder(t, l, "vote", market(t, "2"), "9", "cid")
	enrollUnder(t, l, "vote", straight(t, "0.1"), "9", "dan")
	first := release(t, l, releaseOf(t, "1", "ann", "0.5"))
	answerTo(t, l, inquire(t, "2", "majority:yes", "0.5", ballots("ann"), "ann", "bob"))
	sell(t, l, purchase(t, "3", "acme", "0.5", "cid"))
	closed(t, l)

	later := func() time.Time { return on(3) }
	l = open(t, path, Options{Now: later})
	ctx := t.Context()
	for name, request := range map[string]func() error{
		"a raise": func() error {
			r := releaseOf(t, "4", "ann", "1")
			r.Truth = never(t)
			return check.Err(l.Release(ctx, r))
		},
		"a first one": func() error {
			r := releaseOf(t, "4", "bob", "1")
			r.Truth = never(t)
			return check.Err(l.Release(ctx, r))
		},
		"many": func() error {
			r := order(t, "4", "1", "ann", "bob")
			r.Truth = never(t)
			return check.Err(l.Raise(ctx, r))
		},
		"a sale": func() error {
			r := purchase(t, "4", "acme", "1", "cid")
			r.Truth = never(t)
			return check.Err(l.Sell(ctx, r))
		},
		"a reservation": func() error {
			_, err := l.Reserve(ctx, api.ReserveRequest{Key: "4", Order: purchase(t, "", "acme", "1", "cid").Order, For: time.Hour})
			return err
		},
		"an answer": func() error {
			return check.Err(l.Answer(ctx, inquire(t, "4", "winner", "0.5", never(t), "ann", "bob")))
		},
		"an answer raised": func() error {
			return check.Err(l.Answer(ctx, inquire(t, "4", "majority:yes", "1", never(t), "ann", "bob")))
		},
		"of those a part": func() error {
			r := inquire(t, "4", "winner", "0.5", never(t), "ann", "bob")
			r.Partial = true
			return check.Err(l.Answer(ctx, r))
		},
	} {
		unchanged(t, l.engine.Store, func() {
			var refused *api.RefusedError
			err := request()
			check.Need(t, errors.As(err, &refused), "%s: %v", name, err)
			for _, r := range refused.Refused {
				check.That(t, r.Reason == api.NoTruthKey && r.Remedy == "key",
					"%s is refused for %s, %s helps", name, r.Reason, r.Remedy)
			}
		})
	}
	again := release(t, l, releaseOf(t, "5", "ann", "0.5"))
	check.That(t, again == first, "%v, then %v", first, again)
	release(t, l, releaseOf(t, "6", "ann", "0.25"))
	release(t, l, releaseOf(t, "7", "ann", "0.4"))
	sell(t, l, purchase(t, "8", "zeta", "0.5", "cid"))
	sell(t, l, purchase(t, "9", "zeta", "0.3", "cid"))
	answerTo(t, l, inquire(t, "10", "majority:yes", "0.5", never(t), "ann", "bob"))
	answerTo(t, l, inquire(t, "11", "majority:yes", "0.25", never(t), "ann", "bob"))
	swept := check.Value(l.Advance(ctx, api.AdvanceRequest{Key: "12", Truth: never(t)}))(t)
	if one := swept.Questions[0]; len(one.Refused) != 1 || one.Refused[0].Object != "dan" || one.Refused[0].Reason != api.NoTruthKey {
		t.Errorf("a sweep came to %+v", one)
	}
	partial := order(t, "13", "1", "ann", "bob", "cid")
	partial.Partial, partial.Truth = true, never(t)
	result := carryOut(t, l, partial)
	check.That(t, len(result.Refused) == 3 && result.Drawn == 0, "a partial raise came to %+v", result)
	auditStore(t, l.engine.Store)
	closed(t, l)

	reader := open(t, path, Options{ReadOnly: true, Now: later})
	q, err := reader.Quote(ctx, purchase(t, "", "acme", "1", "cid").Order)
	check.That(t, err == nil && len(q.Refused) <= 0, "who only reads has no need of keys: %+v, %v", q, err)
	closed(t, reader)
	l = bound(t, path)
	release(t, l, releaseOf(t, "4", "ann", "1"))
	auditStore(t, l.engine.Store)
}

func chainOf(t *testing.T, l *Ledger, question uint32, name string) (c state.Chain) {
	t.Helper()
	must(t, l.engine.View(t.Context(), func(s *state.State) (err error) {
		c, _, err = s.Chain(question, name)
		return err
	}))
	return c
}

func TestChainsBegunBeforeTheKeyAreBoundAtTheirNextRaise(t *testing.T) {
	path := votersFile(t, "3", "ann")
	l := open(t, path, Options{})
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)

	l = bound(t, path)
	release(t, l, releaseOf(t, "2", "ann", "0.25")) // not by a resale, which does not know the truth
	c := chainOf(t, l, 1, "ann")
	check.That(t, c.Bound == nil, "a resale bound the chain")
	release(t, l, releaseOf(t, "3", "ann", "1"))
	c = chainOf(t, l, 1, "ann")
	check.That(t, c.Bound != nil, "a raise did not bind the chain")
	liar := releaseOf(t, "4", "ann", "2")
	liar.Truth = sameTruth("no")
	wantChanged(t, check.Err(l.Release(t.Context(), liar)), "ann")
	auditStore(t, l.engine.Store)
}

// The host may wipe its copy of the key once the ledger is open.
func TestTheTruthKeyIsTheLedgersOwnCopy(t *testing.T) {
	path := votersFile(t, "3", "ann")
	key := truthKey()
	l := open(t, path, Options{TruthKey: key})
	clear(key)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)
	l = bound(t, path)
	release(t, l, releaseOf(t, "2", "ann", "1"))
}

// Equal tags would tell who has the same value, in one ledger or across two.
func TestTagsOfOneValueDiffer(t *testing.T) {
	seen := map[event.Tag]string{}
	add := func(what string, h event.Tag) {
		twin, twice := seen[h]
		check.That(t, !twice, "%s has the tag of %s", what, twin)
		seen[h] = what
	}
	b := &rules.Binder{Key: truthKey(), Ledger: [16]byte{1}}
	add("a value", b.Truth("ann", 1, 0, 0))
	add("another value", b.Truth("ann", 1, 0, 1))
	add("another object", b.Truth("bob", 1, 0, 0))
	add("another question", b.Truth("ann", 2, 0, 0))
	add("another question with the value's number", b.Truth("ann", 0, 0, 1))
	add("another epoch", b.Truth("ann", 1, 1, 0))
	add("the check", b.Check())
	add("another ledger", (&rules.Binder{Key: truthKey(), Ledger: [16]byte{2}}).Truth("ann", 1, 0, 0))
	add("another key", (&rules.Binder{Key: append(truthKey(), 1), Ledger: [16]byte{1}}).Truth("ann", 1, 0, 0))
	first, again := b.Truth("ann", 1, 0, 0), b.Truth("ann", 1, 0, 0)
	check.That(t, first == again, "a value has two tags")
}

// The tag that binds a chain is what doc.go promises: stored once, with the first bound raise.
func TestOnlyTheFirstBoundRaiseRecordsATag(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "3", "ann")
	for i, epsilon := range []string{"0.5", "0.25", "1", "0.75", "2"} {
		release(t, l, releaseOf(t, string(rune('a'+i)), "ann", epsilon))
	}
	n := 0
	log := logOf(t, pairs(t, l.engine.Store))
	for _, ev := range log {
		if _, ok := ev.Change.(*event.TruthBound); ok {
			n++
			if next, ok := log[ev.Number].Change.(*event.Released); !ok || next.Epsilon != eps(t, "0.5") {
				t.Errorf("event %d binds the chain, and is not followed by the first raise", ev.Number)
			}
		}
	}
	check.That(t, n == 1, "%d events bind the chain", n)
}

// turncoat is a host that has changed its mind about ann, or has no value of her.
func turncoat(anns string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, name := range objects {
			if values[i] = "yes"; name == "ann" {
				values[i] = anns
			}
		}
		return values, nil
	}
}

// afterAChange makes all kinds of requests of a host that has said yes of ann once, and now says something else or nothing.
// It returns everything that anybody sees of it but the host's own process, and of whom the host was told that they changed.
func afterAChange(t *testing.T, anns string) (seen string, told [][]string) {
	t.Helper()
	s, log := &kv.Memory{}, &bytes.Buffer{}
	signer, _, public := logKey(t, "example.com/office", 1)
	beginWithKey(t, s, public)
	clock := newClock(epoch())
	l := openMemory(t, s, Options{Now: clock.read, Signer: signer, Logger: zerolog.New(log).Level(zerolog.TraceLevel)})
	l.engine.Chances.Sampler, l.requests.Sampler, l.engine.Salts = steadySampler(), medians(), steadySalts(9)
	must(t, l.useKeys(t.Context(), truthKey(), nil, api.NoiseKeys{}))
	define(t, l, vote())
	define(t, l, smoker())
	enrollUnder(t, l, "vote", market(t, "2"), "9", "ann", "bob")
	enrollUnder(t, l, "smoker", straight(t, "0.1"), "9", "ann", "bob")
	carryOut(t, l, order(t, "1", "0.5", "ann", "bob"))
	clock.set(on(1))
	must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "2", Truth: sameTruth("yes")})))
	held := reserve(t, l, api.ReserveRequest{Key: "3", Order: purchase(t, "", "acme", "1.5", "ann", "bob").Order, For: 100 * 24 * time.Hour})

	show := func(what string, result any, err error, changed []string) {
		var refused *api.RefusedError
		if errors.As(err, &refused) {
			changed = refused.TruthChanged
		}
		seen += fmt.Sprintf("%s: %s %v %s\n", what, string(text(t, result)), err, string(text(t, refused)))
		told = append(told, changed)
	}
	ctx, truth := t.Context(), turncoat(anns)
	for range 2 { // the second time by its key
		one := releaseOf(t, "4", "ann", "1")
		one.Truth = truth
		response, err := l.Release(ctx, one)
		show("Release", response, err, nil)
		for _, partial := range []bool{false, true} {
			many := order(t, fmt.Sprint("5", partial), "1", "ann", "bob")
			many.Partial, many.Truth = partial, truth
			raised, err := l.Raise(ctx, many)
			show("Raise", raised, err, raised.TruthChanged)
			bought := purchase(t, fmt.Sprint("6", partial), "zeta", "1", "ann", "bob")
			bought.Partial, bought.Truth = partial, truth
			sale, err := l.Sell(ctx, bought)
			show("Sell", sale, err, sale.TruthChanged)
			asked := inquire(t, fmt.Sprint("7", partial), "winner", "0.5", truth, "ann", "bob")
			asked.Partial = partial
			answer, err := l.Answer(ctx, asked)
			show("Answer", answer, err, answer.TruthChanged)
			sale, err = l.Capture(ctx, api.CaptureRequest{Key: fmt.Sprint("8", partial), Reservation: held.Number, Partial: partial, Truth: truth})
			show("Commit", sale, err, sale.TruthChanged)
		}
		clock.set(on(2))
		swept, err := l.Advance(ctx, api.AdvanceRequest{Key: "9", Truth: truth})
		var changed []string
		for _, q := range swept.Questions {
			changed = append(changed, q.TruthChanged...)
		}
		show("Advance", swept, err, changed)
	}
	statement, err := l.Statement(ctx, api.ObjectRequest{Key: "10", Object: "ann"})
	show("Statement", statement, err, nil)
	for _, ev := range events(t, l) {
		show("Watch", ev, nil, nil)
	}
	return seen + regexp.MustCompile(`"duration":[0-9.e+-]+`).ReplaceAllString(log.String(), "") + dump(t, s), told
}

// That a value has changed is a fact about two truths. Nobody but the host's process can tell it from a value that the host
// does not have: not by any byte of a result, an error, a log line, a statement or the file. The host is told once.
func TestAChangedTruthIsToldToTheHostAlone(t *testing.T) {
	changed, told := afterAChange(t, "no")
	without, silence := afterAChange(t, "")
	if one, other := strings.Split(changed, "\n"), strings.Split(without, "\n"); !slices.Equal(one, other) {
		for i := range min(len(one), len(other)) {
			check.Need(t, one[i] == other[i], "who sees this knows of a change:\n%s\n%s", one[i], other[i])
		}
		t.Fatalf("%d lines and %d", len(one), len(other))
	}
	i := slices.IndexFunc(silence, func(names []string) bool { return len(names) > 0 })
	check.That(t, i < 0, "the host has not changed its mind, and is told so: %q", silence)
	// In the second round keys that were used for a whole request are free, those of a partial one are not, and two of the
	// requests are refused before anybody is asked.
	ann := []string{"ann"}
	want := make([][]string, len(told))
	for i := range 13 {
		want[i] = ann
	}
	check.That(t, slices.EqualFunc(told, want, slices.Equal), "told %q", told)
}
