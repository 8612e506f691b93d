package ledger

import (
	"bytes"
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

// The second half of invariant 6: a chain belongs to the true value that it began with. With a
// truth key the ledger holds a keyed hash of it, and refuses to continue for another value.

func truthKey() []byte { return []byte("the key of the host, 32 bytes ..") }

func openWithTruthKey(t *testing.T, path string) *Ledger {
	t.Helper()
	return open(t, path, Options{TruthKey: truthKey()})
}

// One changed true value in a large raise is found before anything is drawn.
func TestRaise_OneTruthChanged_RefusesTheWhole(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "3", "ann", "bob", "cid")
	raise(t, l, raiseOf(t, "1", "0.5"))
	r := raiseOf(t, "2", "1")
	r.Truth = listOf("yes", "no", "yes")
	unchanged(t, l.engine.Store, func() {
		wantChanged(t, check.Err(l.Raise(t.Context(), r)), "bob")
	})
}

// wantChanged checks that a request is refused because the true values of these objects have
// changed. Only the caller learns that: text and reasons are those for missing values.
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

func TestOpen_WrongTruthKey_IsErrTruthKey(t *testing.T) {
	path := votersFile(t, "3", "ann")
	closed(t, openWithTruthKey(t, path))
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
	openWithTruthKey(t, path) // and the refused opens left no lock
}

func TestOpen_ShortTruthKey_IsErrInvalid(t *testing.T) {
	path := votersFile(t, "3", "ann")
	for _, length := range []int{0, 1, 15} {
		wantErr(t, check.Err(Open(t.Context(), path, Options{TruthKey: truthKey()[:length]})), api.ErrInvalid)
	}
	l := open(t, path, Options{TruthKey: truthKey()[:16]})
	n := countKind(events(t, l), "truth-key")
	check.That(t, n == 1, "%d truth-key events", n)
}

// Without the key nothing is drawn for any object, and the host is not asked for true values: they
// might differ from earlier ones, and that would not be noticed. Calls that need no true value go
// on.
func TestTruthKey_Missing_AllowsNoDraw(t *testing.T) {
	path := votersFile(t, "9", "ann", "bob")
	l := openWithTruthKey(t, path)
	enrollUnder(t, l, "vote", market(t, "2"), "9", "cid")
	enrollUnder(t, l, "vote", linearPolicy(t, "0.1"), "9", "dan")
	first := release(t, l, releaseOf(t, "1", "ann", "0.5"))
	answerTo(t, l, answerRequest(t, "2", "majority:yes", "0.5", ballots("ann"), "ann", "bob"))
	sell(t, l, purchase(t, "3", "acme", "0.5", "cid"))
	closed(t, l)

	later := func() time.Time { return onDay(3) }
	l = open(t, path, Options{Now: later})
	ctx := t.Context()
	_, err := l.Reserve(ctx, api.ReserveRequest{Key: "4", Order: purchase(t, "", "acme", "1", "cid").Order, For: time.Hour})
	wantNoKey := func(what string, refused []api.Refusal, n int) {
		t.Helper()
		check.That(t, len(refused) == n, "%s: refused %+v", what, refused)
		for _, r := range refused {
			check.That(t, r.Reason == api.NoTruthKey && r.Remedy == "key", "%s is refused for %s, %s helps", what, r.Reason, r.Remedy)
		}
	}
	wantNoKey("a reservation", refusals(t, err), 1)
	one, two := []string{"ann"}, []string{"ann", "bob"}
	for name, r := range map[string]struct {
		call string
		drawing
	}{
		"a raise": {"Release", drawing{epsilon: "1", objects: one}}, "a first one": {"Release", drawing{epsilon: "1", objects: two[1:]}},
		"many": {"Raise", drawing{epsilon: "1", objects: two}}, "a sale": {"Sell", drawing{epsilon: "1", objects: []string{"cid"}}},
		"an answer": {"Answer", drawing{epsilon: "0.5", objects: two}}, "of those a part": {"Answer", drawing{epsilon: "0.5", objects: two, partial: true}},
	} {
		r.key, r.truth = "4", mustNotAsk(t)
		unchanged(t, l.engine.Store, func() {
			got, err := r.by(t, l, r.call)
			check.Need(t, err != nil, "%s: no error", name)
			wantNoKey(name, got.refused, len(r.objects))
		})
	}
	unchanged(t, l.engine.Store, func() {
		wantNoKey("an answer raised", refusals(t, check.Err(l.Answer(ctx, answerRequest(t, "4", "majority:yes", "1", mustNotAsk(t), "ann", "bob")))), 2)
	})
	again := release(t, l, releaseOf(t, "5", "ann", "0.5"))
	check.That(t, again == first, "%v, then %v", first, again)
	release(t, l, releaseOf(t, "6", "ann", "0.25"))
	release(t, l, releaseOf(t, "7", "ann", "0.4"))
	sell(t, l, purchase(t, "8", "zeta", "0.5", "cid"))
	sell(t, l, purchase(t, "9", "zeta", "0.3", "cid"))
	answerTo(t, l, answerRequest(t, "10", "majority:yes", "0.5", mustNotAsk(t), "ann", "bob"))
	answerTo(t, l, answerRequest(t, "11", "majority:yes", "0.25", mustNotAsk(t), "ann", "bob"))
	swept := check.Value(drawing{key: "12", truth: mustNotAsk(t)}.by(t, l, "Advance"))(t)
	wantNoKey("a sweep", swept.refused, 1)
	check.That(t, swept.refused[0].Object == "dan", "a sweep returned %+v", swept)
	partial := check.Value(drawing{key: "13", epsilon: "1", objects: []string{"ann", "bob", "cid"}, partial: true, truth: mustNotAsk(t)}.by(t, l, "Raise"))(t)
	wantNoKey("a partial raise", partial.refused, 3)
	check.That(t, partial.result.(api.RaiseResult).Drawn == 0, "a partial raise returned %+v", partial)
	auditStore(t, l.engine.Store)
	closed(t, l)

	reader := open(t, path, Options{ReadOnly: true, Now: later})
	q, err := reader.Quote(ctx, purchase(t, "", "acme", "1", "cid").Order)
	check.That(t, err == nil && len(q.Refused) <= 0, "a reader needs no keys: %+v, %v", q, err)
	closed(t, reader)
	l = openWithTruthKey(t, path)
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

func TestTruthKey_AddedLater_BindsChainsAtTheirNextRaise(t *testing.T) {
	path := votersFile(t, "3", "ann")
	l := open(t, path, Options{})
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)

	l = openWithTruthKey(t, path)
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

// The host may erase its copy of the key once the ledger is open.
func TestTruthKey_WipedByTheHost_StaysInUse(t *testing.T) {
	path := votersFile(t, "3", "ann")
	key := truthKey()
	l := open(t, path, Options{TruthKey: key})
	clear(key)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)
	l = openWithTruthKey(t, path)
	release(t, l, releaseOf(t, "2", "ann", "1"))
}

// Equal tags would reveal which objects have the same value, in one ledger or across two.
func TestTruthTags_OfEqualValues_Differ(t *testing.T) {
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
func TestTruthKey_LaterRaises_RecordNoSecondTag(t *testing.T) {
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

// viewsAfterChange makes all kinds of requests of a host that has said yes for ann once, and now
// gives another value or none. It returns everything that is visible outside the host's process,
// and the objects that each call reported to the host as changed.
func viewsAfterChange(t *testing.T, anns string) (seen string, reported [][]string) {
	t.Helper()
	s, log := &kv.Memory{}, &bytes.Buffer{}
	signer, _, public := logKey(t, "example.com/office", 1)
	beginWithKey(t, s, public)
	clock := newClock(epoch())
	l := openMemory(t, s, Options{Now: clock.read, Signer: signer, Logger: zerolog.New(log).Level(zerolog.TraceLevel)})
	l.engine.Chances.Values, l.requests.Sampler, l.engine.Salts = steadySampler(), medians(), steadySalts(9)
	must(t, l.useKeys(t.Context(), truthKey(), nil, api.NoiseKeys{}))
	define(t, l, vote())
	define(t, l, smoker())
	enrollUnder(t, l, "vote", market(t, "2"), "9", "ann", "bob")
	enrollUnder(t, l, "smoker", linearPolicy(t, "0.1"), "9", "ann", "bob")
	raise(t, l, raiseOf(t, "1", "0.5", "ann", "bob"))
	clock.set(onDay(1))
	must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "2", Truth: sameTruth("yes")})))
	held := reserve(t, l, api.ReserveRequest{Key: "3", Order: purchase(t, "", "acme", "1.5", "ann", "bob").Order, For: 100 * 24 * time.Hour})

	show := func(what string, result any, err error, changed []string) {
		var refused *api.RefusedError
		_ = errors.As(err, &refused)
		seen += fmt.Sprintf("%s: %s %v %s\n", what, string(text(t, result)), err, string(text(t, refused)))
		reported = append(reported, changed)
	}
	truth := truthsOf(map[string]string{"ann": anns, "bob": "yes"})
	did := func(call string, d drawing) {
		d.truth = truth
		got, err := d.by(t, l, call)
		show(call, got.result, err, got.changed)
	}
	both := []string{"ann", "bob"}
	for range 2 { // the second time by its key
		did("Release", drawing{key: "4", epsilon: "1", objects: both})
		for _, partial := range []bool{false, true} {
			did("Raise", drawing{key: fmt.Sprint("5", partial), epsilon: "1", objects: both, partial: partial})
			did("Sell", drawing{key: fmt.Sprint("6", partial), buyer: "zeta", epsilon: "1", objects: both, partial: partial})
			did("Answer", drawing{key: fmt.Sprint("7", partial), epsilon: "0.5", objects: both, partial: partial})
			did("Capture", drawing{key: fmt.Sprint("8", partial), reservation: held.Number, partial: partial})
		}
		clock.set(onDay(2))
		did("Advance", drawing{key: "9"})
	}
	statement, err := l.Statement(t.Context(), api.ObjectRequest{Key: "10", Object: "ann"})
	show("Statement", statement, err, nil)
	for _, ev := range events(t, l) {
		show("Watch", ev, nil, nil)
	}
	return seen + regexp.MustCompile(`"duration":[0-9.e+-]+`).ReplaceAllString(log.String(), "") + dump(t, s), reported
}

// A changed value is a fact about two true values. Outside the host's process it cannot be
// distinguished from a missing value: not by any byte of a result, an error, a log line, a
// statement or the file. The host gets it once.
func TestTruthChanged_EveryCall_IsReportedToTheHostOnly(t *testing.T) {
	changed, reported := viewsAfterChange(t, "no")
	without, silence := viewsAfterChange(t, "")
	if one, other := strings.Split(changed, "\n"), strings.Split(without, "\n"); !slices.Equal(one, other) {
		for i := range min(len(one), len(other)) {
			check.Need(t, one[i] == other[i], "a change is visible in this:\n%s\n%s", one[i], other[i])
		}
		t.Fatalf("%d lines and %d", len(one), len(other))
	}
	i := slices.IndexFunc(silence, func(names []string) bool { return len(names) > 0 })
	check.That(t, i < 0, "no value has changed, but reported is %q", silence)
	// In the second round the keys that were used for a whole request are free, those of a partial
	// one are not, and two of the requests are refused before any true value is requested.
	ann := []string{"ann"}
	want := make([][]string, len(reported))
	for i := range 13 {
		want[i] = ann
	}
	check.That(t, slices.EqualFunc(reported, want, slices.Equal), "reported %q", reported)
}
