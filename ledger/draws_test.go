package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 3: for an (object, question, ε) there is one response, for ever, for every buyer.

// Invariant 4: the ledger draws exactly what rrchain draws from the same random bits. What rrchain
// proves of its chains then holds for the ledger's: the laws of pan2024, and that all responses
// together reveal only what the highest one reveals. The order in which levels are sold does not
// matter.

func TestRelease_SameRandomBits_DrawsAsRRChain(t *testing.T) {
	epsilons := []string{"0.5", "1", "0.7", "2", "0.6"}
	const seeds = 4
	orders := permutations(epsilons)
	names := crowd(len(orders))
	for seed := range uint64(seeds) {
		l := voters(t, inMemory(t, Options{}), "3", names...)
		l.engine.Chances.Values, _ = sampler(seed)
		reference, _ := sampler(seed)
		for i, order := range orders {
			wantReference(t, l, reference, names[i], rand.IntN(3), order)
		}
		auditStore(t, l.engine.Store)
	}
}

// wantReference releases levels in order, from the ledger and from a chain of rrchain, and compares
// the responses.
func wantReference(t *testing.T, l *Ledger, reference *rrchain.Sampler, name string, truth int, order []string) {
	t.Helper()
	chain, err := rrchain.NewChain[int](3)
	must(t, err)
	for i, epsilon := range order {
		at := eps(t, epsilon)
		var want rrchain.Level[int]
		var how string
		switch levels := chain.Levels(); {
		case len(levels) == 0 || chain.Current().Epsilon.Less(at):
			want, err = chain.Raise(reference, at, truth)
			how = "raise"
		case at.Less(levels[0].Epsilon):
			want, err = chain.Insert(reference, at)
			how = "degrade"
		default:
			want, err = chain.Insert(reference, at)
			how = "insert"
		}
		must(t, err)
		r := releaseBy(releaseOf(t, fmt.Sprint(name, i), name, epsilon), sameTruth(vote().Values[truth]))
		got := release(t, l, r)
		if got.Value != vote().Values[want.Response] {
			t.Fatalf("levels %v: at ε=%s the ledger answers %q, rrchain %q", order, epsilon, got.Value, vote().Values[want.Response])
		}
		check.Equal(t, methodOf(eventAt(t, l, got.Event)), how, "levels %v: the method at ε=%s", order, epsilon)
	}
}

// permutations returns all orders of some items.
func permutations(items []string) (all [][]string) {
	if len(items) == 0 {
		return [][]string{nil}
	}
	for i, first := range items {
		rest := slices.Delete(slices.Clone(items), i, i+1)
		for _, order := range permutations(rest) {
			all = append(all, append([]string{first}, order...))
		}
	}
	return all
}

// The number of random words that a raise uses reveals nothing about true values. After bulk raises
// with different true values, the next random word is the same.
func TestRaise_AnyTrueValues_UsesSameRandomWords(t *testing.T) {
	const size = 500
	next := func(truth func(i int) string) uint64 {
		l := voters(t, inMemory(t, Options{}), "10", crowd(size)...)
		s, bits := sampler(11)
		l.engine.Chances.Values = s
		for i, epsilon := range []string{"0.001", "0.5", "3", "9"} {
			r := raiseOf(t, fmt.Sprint(i), epsilon)
			r.Truth = func(_ context.Context, _ string, objects []string) (values []string, err error) {
				for i := range objects {
					values = append(values, truth(i))
				}
				return values, nil
			}
			raise(t, l, r)
		}
		return bits.Uint64()
	}
	want := next(func(int) string { return "yes" })
	for name, truth := range map[string]func(i int) string{
		"all blank": func(int) string { return "blank" },
		"mixed":     func(i int) string { return vote().Values[i%3] },
	} {
		check.Equal(t, next(truth), want, "%s: the random word after those used", name)
	}
}

func TestChannel_EachEncoding_HasTheProbabilitiesOfTheDraw(t *testing.T) {
	e := math.Exp(0.5)
	direct, unary, finite := vote(), vote(), fixture.Party(t)
	direct.Encoding, unary.Encoding, finite.Encoding = "direct", "unary", "finite"
	for _, c := range []struct {
		question api.Question
		want     api.Channel
	}{
		{direct, api.Channel{Encoding: "direct", Values: 3, P: e / (e + 2), Q: 1 / (e + 2)}},
		{unary, api.Channel{Encoding: "unary", Values: 3, P: 0.5, Q: 1 / (e + 1)}},
		{finite, api.Channel{Encoding: "finite", Values: len(finite.Values)}},
	} {
		got := check.Value(c.question.Channel(eps(t, "0.5")))(t)
		check.That(t, !(math.Abs(got.P-c.want.P) > 1e-15) && !(math.Abs(got.Q-c.want.Q) > 1e-15) && got.Encoding == c.want.Encoding && got.Values == c.want.Values,
			"%s: %+v, want %+v", c.want.Encoding, got, c.want)
		wantErr(t, check.Err(c.question.Channel(privacy.Epsilon{})), api.ErrInvalid)
	}
	wantErr(t, check.Err(api.Question{Encoding: "direct"}.Channel(eps(t, "0.5"))), api.ErrInvalid)
	for _, epsilon := range []privacy.Epsilon{nano(t, 1), eps(t, "40"), privacy.MaxEpsilon()} {
		got := check.Value(direct.Channel(epsilon))(t)
		check.That(t, got.P > got.Q && got.P <= 1 && got.Q >= 0 && !(math.Abs(got.P+2*got.Q-1) > 1e-15),
			"ε=%s: %+v", epsilon, got)
	}
}

// The deliveries of a sale have all that an estimate needs.
func TestDeliveries_OfASale_HaveItsNumberAndChannel(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "9", "ann", "bob")
	sell(t, l, purchase(t, "1", "acme", "1", "ann", "bob"))
	sale := sell(t, l, purchase(t, "2", "acme", "0.5", "ann", "bob"))
	all := delivered(t, l, sale.Number)
	check.Need(t, len(all) == 2, "got the deliveries %v, want two", all)
	for _, d := range all {
		want := check.Value(questionsOf(t, l)[0].Channel(d.Epsilon))(t)
		check.That(t, d.Sale == sale.Number && d.Epsilon == eps(t, "0.5") && d.Channel == want && d.P != 0,
			"%+v, want the channel %+v", d, want)
	}
}

// Invariant 5: key and request seen before: the recorded result, byte for byte; key seen with
// another request: a typed conflict. Nothing is drawn or charged twice.

// A key whose record points to the events of another request, with a valid checksum, does not
// return their response.
func TestRelease_KeyRecordOfAnotherRequest_IsCorrupt(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{}), "5", "5", "ann", "bob")
	release(t, l, releaseOf(t, "one", "ann", "1"))
	release(t, l, releaseOf(t, "two", "bob", "1"))
	log := logOf(t, pairs(t, s))
	one := slices.IndexFunc(log, func(ev event.Event) bool { c, is := ev.Change.(*event.Settled); return is && c.Key == "one" })
	altered := refold(t, log)
	putRecord(t, altered, state.BucketRequests, []byte("two"), state.Request{Settled: []uint64{log[one].Number}}.Encode())
	l = openMemory(t, altered, Options{})
	for _, r := range []api.ReleaseRequest{releaseOf(t, "two", "bob", "1"), releaseOf(t, "two", "ann", "1")} {
		wantErr(t, check.Err(l.Release(t.Context(), r)), api.ErrCorrupt)
	}
	release(t, l, releaseOf(t, "one", "ann", "1"))
}

// Requests whose names give the same text when concatenated have different digests.
func TestRequestDigest_FieldsSplitDifferently_Differs(t *testing.T) {
	seen := map[[2]event.Sum]string{}
	for _, names := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"a", "b", "c"}, {"\x02ab", "c"}} {
		for _, question := range []string{"", "ab", "a"} {
			id := event.RaiseRequest(question, eps(t, "1"), false, names, false)
			sum := [2]event.Sum{id.Sum, id.Objects}
			text := fmt.Sprintf("%q of %q", question, names)
			twin, twice := seen[sum]
			check.That(t, !twice, "%s and %s have the same digest", text, twin)
			seen[sum] = text
		}
	}
}

// fieldOf returns the field that an idempotency conflict names.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var conflict *api.KeyConflictError
	check.Need(t, errors.As(err, &conflict) && conflict.Key == "the key", "got the error %v, want a KeyConflictError", err)
	if named := conflict.Field; named != "" && named != "Kind" && !strings.HasSuffix(err.Error(), "differs in "+named) {
		t.Errorf("a difference in %s is reported as %v", named, err)
	}
	return conflict.Field
}

func TestKeyConflict_RequestInParts_NamesTheField(t *testing.T) {
	names := crowd(state.PartSize + 10)
	l := voters(t, inMemory(t, Options{}), "3", names...)
	raise(t, l, raiseOf(t, "the key", "0.5", names...))
	_, err := l.Raise(t.Context(), raiseOf(t, "the key", "0.75", names...))
	check.Equal(t, fieldOf(t, err), "Epsilon", "the field of another ε")
	_, err = l.Raise(t.Context(), raiseOf(t, "the key", "0.5", names[1:]...))
	check.Equal(t, fieldOf(t, err), "Objects", "the field of other objects")
}

// Marks are stored with the digest of a request, and erased with it.
func TestForget_MarksOfRequest_AreErased(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "5", "5", "ann", "bob")
	release(t, l, releaseOf(t, "released", "ann", "0.7"))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"}))
	for _, n := range eventsOf(t, l.engine.Store) {
		if c, is := n.Change.(*event.Settled); is && c.Key == "released" && (c.Marks != event.Marks{} || n.Erased == nil) {
			t.Errorf("the settled event still has %+v", c)
		}
	}
}

func TestRelease_SameKeyConcurrently_IsOneCommit(t *testing.T) {
	const callers = 32
	l, s := openShim(t, votersFile(t, "3", crowd(50)...), Options{})
	before := s.commits.Load()
	got := make([]api.Response, callers)
	failed := race(t, callers, func(i int) (err error) {
		got[i], err = l.Release(t.Context(), releaseOf(t, "k", "person-00007", "0.5"))
		return err
	})
	check.That(t, len(failed) == 0, "some callers got errors: %v", failed)
	for _, one := range got {
		check.Need(t, one == got[0], "one caller got %v, another %v", got[0], one)
	}
	check.Equal(t, s.commits.Load()-before, 1, "commits")
	check.Equal(t, countKind(events(t, l), "released"), 1, "draws")
	auditStore(t, s)
}
