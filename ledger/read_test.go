package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// Reading is free: it charges no object, needs no true value and records no event. It shows what is
// recorded.

// The log has more events than one snapshot reads, and is read from several numbers on.
func TestEvents_FromAnyNumber_HaveNoGaps(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", crowd(scanSize+500)...)
	last := stats(t, l).Events
	for _, from := range []uint64{0, 1, 2, 500, scanSize, scanSize + 1, last - 1, last, last + 1, last + 2, 1 << 63, 1<<64 - 1} {
		want := max(from, 1)
		for ev, err := range l.Events(t.Context(), from) {
			must(t, err)
			check.Need(t, ev.Number == want, "from %d: event %d is in the place of event %d", from, ev.Number, want)
			want++
		}
		check.That(t, from > last || want == last+1, "from %d: the last event is %d, want %d", from, want-1, last)
	}
}

// A caller may stop an iteration at any place.
func TestIterators_StoppedEarly_DoNotFail(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann", "bob")
	raise(t, l, raiseOf(t, "k", "0.5"))
	for range l.Events(t.Context(), 1) {
		break
	}
	for range l.Responses(t.Context(), "vote", eps(t, "0.5")) {
		break
	}
}

// No snapshot is held while the caller uses an item: it may call the ledger.
func TestIterators_CallerWrites_DoesNotBlock(t *testing.T) {
	l := voters(t, newLedger(t), "9", crowd(10)...)
	raise(t, l, raiseOf(t, "k", "0.5"))
	n := 0
	for r, err := range l.Responses(t.Context(), "vote", eps(t, "0.5")) {
		must(t, err)
		release(t, l, releaseOf(t, fmt.Sprint("more ", n), r.Object, "1"))
		n++
	}
	for ev, err := range l.Events(t.Context(), 1) {
		must(t, err)
		if d, is := ev.Says.(says.Released); is && d.Epsilon.Less(eps(t, "1")) {
			release(t, l, releaseOf(t, fmt.Sprint("yet more ", ev.Number), d.Object, "2"))
		}
	}
	must(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Include: func(name string) bool {
		release(t, l, releaseOf(t, "most "+name, name, "3"))
		return true
	}})))
	check.That(t, n == 10 && len(responses(t, l, "vote", eps(t, "3"))) == 10, "%d responses were seen", n)
	auditStore(t, l.engine.Store)
}

// The events of a small log describe in full what happened.
func TestEvents_SmallLog_DescribesEveryEvent(t *testing.T) {
	l := inMemory(t, Options{Now: epoch, TruthKey: truthKey()})
	l.engine.Chances.Values = steadySampler()
	two := policy.Fixed(eps(t, "2"))
	define(t, l, vote())
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann"}, Policy: two, Cap: eps(t, "3")})
	must(t, err)
	release(t, l, releaseOf(t, "r", "ann", "0.5"))
	r := raiseOf(t, "p", "0.25", "ann", "zoe")
	r.Partial = true
	raise(t, l, r)
	three, half, quarter := eps(t, "3"), eps(t, "0.5"), eps(t, "0.25")
	at := epoch()
	want := []says.Event{
		{Number: 1, Time: at, Says: says.Created{ID: l.About().ID, Currency: "EUR"}},
		{Number: 2, Time: at, Says: says.TruthKeySet{}},
		{Number: 3, Time: at, Says: says.QuestionDefined{Number: 1, Name: "vote", Values: vote().Values, Encoding: "direct"}},
		{Number: 4, Time: at, Says: says.Settled{Key: "define vote"}},
		{Number: 5, Time: at, Says: says.PolicyDefined{Number: 1, Policy: two}},
		{Number: 6, Time: at, Says: says.Enrolled{Object: "ann", Question: "vote", Policy: &two, Cap: three}},
		{Number: 7, Time: at, Says: says.Settled{Object: "ann", Key: "e", Counts: [3]uint64{1, 0, 0}}},
		{Number: 8, Time: at, Says: says.TruthBound{Object: "ann", Question: "vote"}},
		{Number: 9, Time: at, Says: says.Released{Object: "ann", Question: "vote", Epsilon: half, Response: "yes", Method: "raise"}},
		{Number: 10, Time: at, Says: says.Settled{Object: "ann", Key: "r", Counts: [3]uint64{1, 0, 0}}},
		{Number: 11, Time: at, Says: says.Released{Object: "ann", Question: "vote", Epsilon: quarter, Response: "yes", Method: "degrade"}},
		{Number: 12, Time: at, Says: says.ObjectRefused{Question: "vote", Refusal: api.Refusal{
			Object: "zoe", Reason: api.NotEnrolled, Asked: quarter, Remedy: "enrolling",
		}}},
		{Number: 13, Time: at, Says: says.Settled{Key: "p", Counts: [3]uint64{0, 0, 1}, LeftOut: 1}},
	}
	got := events(t, l)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !isSame(got[i], want[i]) {
			t.Fatalf("event %d of %d is\n%+v\nwant\n%+v", i+1, len(got), got[i:], want[i:])
		}
	}
}

func TestObject_ShowsBudgetAndLevels(t *testing.T) {
	l := inMemory(t, Options{})
	l.engine.Chances.Values = steadySampler()
	define(t, l, vote())
	define(t, l, smoker())
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann", "ann b", "an"}, Policy: policy.Fixed(eps(t, "2")), Cap: eps(t, "3")})
	must(t, err)
	enroll(t, l, "smoker", "3", "ann")
	release(t, l, releaseOf(t, "1", "ann", "1.5"))
	release(t, l, releaseOf(t, "2", "ann", "0.5"))
	got := objectOf(t, l, "ann")
	n := got.Chains[0].Levels[1].Event
	two := policy.Fixed(eps(t, "2"))
	want := api.ObjectState{
		Object: "ann", Cap: eps(t, "3"), Spent: eps(t, "1.5"), Remaining: eps(t, "1.5"), Currency: "EUR", Event: stats(t, l).Events,
		Chains: []api.ChainState{
			{Question: "vote", Epoch: 1, Policy: &two, Epsilon: eps(t, "1.5"), Response: "yes", Ceiling: eps(t, "2"), Levels: []api.LevelState{
				{Epsilon: eps(t, "0.5"), Response: "yes", Event: n + 2}, {Epsilon: eps(t, "1.5"), Response: "yes", Event: n},
			}},
			{Question: "smoker", Epoch: 1, Ceiling: eps(t, "3")},
		},
	}
	check.That(t, isSame(got, want), "got\n%+v\nwant\n%+v", got, want)
	for _, name := range []string{"an", "ann b"} { // neighbours among the keys
		o := objectOf(t, l, name)
		check.That(t, len(o.Chains) == 1 && len(o.Chains[0].Levels) == 0, "%q has %+v", name, o)
	}
}

// An object in 300 questions: their numbers take every form in a key, zero bytes included.
func TestObject_ManyQuestions_ShowsAll(t *testing.T) {
	const many = 300
	l := inMemory(t, Options{})
	for i := range many {
		name := fmt.Sprint("question ", i)
		define(t, l, api.Question{Name: name, Values: []string{"a", "b"}, Encoding: "direct"})
		enroll(t, l, name, "9", "ann", "ann 2")
	}
	o := objectOf(t, l, "ann")
	check.Need(t, len(o.Chains) == many, "%d chains, want %d", len(o.Chains), many)
	for i, c := range o.Chains {
		check.Need(t, c.Question == fmt.Sprint("question ", i), "chain %d is of %q", i, c.Question)
	}
	auditStore(t, l.engine.Store)
}

func TestQuestions_Many_AreListedInOrder(t *testing.T) {
	const many = scanSize + 10
	l := inMemory(t, Options{})
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) (changes []event.Change, err error) {
		for i := range uint32(many) {
			changes = append(changes, &event.QuestionDefined{Number: i + 1, Question: api.Question{Name: fmt.Sprint("question ", many-i), Values: []string{"a", "b"}, Encoding: "direct"}})
		}
		return withSettled(s.Counters.Events+1, changes), nil
	})
	must(t, err)
	all := check.Value(api.Collect(l.Questions(t.Context())))(t)
	check.Need(t, len(all) == many, "%d questions, want %d", len(all), many)
	for i, q := range all {
		check.Need(t, q.Name == fmt.Sprint("question ", many-i) && slices.Equal(q.Values, []string{"a", "b"}),
			"question %d is %+v", i, q)
	}
}

func TestStats_CountsObjectsChainsAndEvents(t *testing.T) {
	path := votersFile(t, "9", "ann", "bob")
	l := open(t, path, Options{})
	define(t, l, smoker())
	enroll(t, l, "smoker", "9", "ann")
	got := stats(t, l)
	info := check.Value(os.Stat(path))(t)
	// created; 2 × (question, settled); 3 × enrolled; 2 × settled
	want := (api.Stats{Objects: 2, Questions: 2, Chains: 3, Events: 10, Currency: "USD", Bytes: info.Size()})
	check.That(t, got == want, "got %+v, want %+v", got, want)
}

func TestReads_EveryCall_ChangeNothing(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann")
	release(t, l, releaseOf(t, "k", "ann", "0.5"))
	unchanged(t, l.engine.Store, func() {
		for name, call := range everyCall(t, l) {
			if isWrite(name) {
				continue
			}
			err := call()
			check.That(t, err == nil, "%s: %v", name, err)
		}
	})
}

func TestOpen_ReadOnly_ReadsAndRefusesWrites(t *testing.T) {
	path := votersFile(t, "9", "ann")
	l := open(t, path, Options{})
	first := release(t, l, releaseOf(t, "k", "ann", "0.5"))
	closed(t, l)

	readers := []*Ledger{open(t, path, Options{ReadOnly: true}), open(t, path, Options{ReadOnly: true, TruthKey: truthKey()})}
	for _, l := range readers {
		unchanged(t, l.engine.Store, func() {
			for name, call := range everyCall(t, l) {
				if err := call(); isWrite(name) {
					wantErr(t, err, api.ErrReadOnly)
				} else {
					must(t, err)
				}
			}
		})
		got := responses(t, l, "vote", eps(t, "0.5"))["ann"]
		check.That(t, got == first, "got %v, want %v", got, first)
		for _, call := range []string{"Release", "Raise", "Sell", "Capture", "Answer", "Advance"} { // no true value is asked for
			_, err := drawing{key: "new", epsilon: "1", objects: []string{"ann"}, reservation: 1, truth: mustNotAsk(t)}.by(t, l, call)
			wantErr(t, err, api.ErrReadOnly)
		}
	}
	wantErr(t, check.Err(Open(t.Context(), path, Options{})), api.ErrInUse)
	for _, l := range readers {
		closed(t, l)
	}
	l = open(t, path, Options{})
	wantErr(t, check.Err(Open(t.Context(), path, Options{ReadOnly: true})), api.ErrInUse)
	n := countKind(events(t, l), "truth-key")
	check.That(t, n == 0, "a reader set the truth key")
}

func TestAbout_ReturnsWhatCreateWasGiven(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	first := l.About()
	check.That(t, first.Currency == "USD" && first.LogKey == "" && len(first.ID) == 36 && !first.Created.IsZero(),
		"%+v", first)
	closed(t, l)
	again := open(t, path, Options{}).About()
	check.That(t, again == first, "%+v, then %+v", first, again)
	other := tests.TempDir(t) + "/other.db"
	key := goldenLogKey(t, "host.example")
	must(t, Create(t.Context(), other, CreateOptions{Currency: "EUR", LogKey: key}))
	about := open(t, other, Options{}).About()
	if about.Currency != "EUR" || about.LogKey != key || about.ID == first.ID || about.Origin != "host.example" || first.Origin != "sluice-"+first.ID {
		t.Errorf("%+v", about)
	}
	for _, bad := range []string{"host+1234+key", " ", key + "x", strings.Replace(key, "host", "ghost", 1)} {
		path := tests.TempDir(t) + "/bad.db"
		err := Create(t.Context(), path, CreateOptions{Currency: "EUR", LogKey: bad})
		check.That(t, errors.Is(err, api.ErrInvalid), "a ledger of the log key %q: %v", bad, err)
		_, err = os.Stat(path)
		check.That(t, errors.Is(err, fs.ErrNotExist), "a refused Create left a file: %v", err)
	}
}

// There is one line for each commit, refusal and failure, with buyer and sale if it has them, and
// none for free requests.
func TestLogger_CommitRefusalAndFailure_WriteOneLineEach(t *testing.T) {
	var out bytes.Buffer
	path := create(t)
	closed(t, sellers(t, open(t, path, Options{}), "10", "1", "ann"))
	l, s := openShim(t, path, Options{Logger: zerolog.New(&out)})
	wantLog := func(what string, err error, parts ...string) {
		t.Helper()
		check.That(t, strings.Count(out.String(), "\n") == min(len(parts), 1), "%s: the log says %q", what, out.String())
		for _, part := range parts {
			check.That(t, strings.Contains(out.String(), part), "%s: the log says %q, want one line with %s", what, out.String(), part)
		}
		if len(parts) == 0 {
			must(t, err)
		}
		out.Reset()
	}
	out.Reset()
	release := func(key, epsilon string) error {
		return check.Err(l.Release(t.Context(), releaseOf(t, key, "ann", epsilon)))
	}
	sell := func(key, epsilon string) error {
		return check.Err(l.Sell(t.Context(), purchase(t, key, "acme", epsilon, "ann")))
	}
	wantLog("release", release("1", "0.5"), `"level":"debug"`, `"key":"1"`, `"events":2`, `"first":`, `"last":`, `"requests":1`, `"duration":`)
	wantLog("repetition", release("1", "0.5"))
	wantLog("reading", check.Err(l.Object(t.Context(), "ann")))
	wantLog("sale", sell("2", "0.5"), `"key":"2"`, `"buyer":"acme"`, `"sale":1`, `"first":`, `"last":`, `"duration":`)
	wantLog("refusal", release("3", "5"), `"level":"info"`, `"key":"3"`, "object-cap", "ann")
	wantLog("refusal of a sale", sell("4", "5"), `"level":"info"`, `"key":"4"`, `"buyer":"acme"`)
	s.set(failing, nil)
	wantLog("failure", release("5", "0.75"), `"level":"error"`, errDisk.Error())
	s.set(nil, nil)
}
