package ledger

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 3: for an (object, question, ε) there is one response, for ever, for every buyer.

// Invariant 4: the ledger draws exactly what rrchain draws, from the same bits. What rrchain proves
// of its chains (the laws of pan2024, and that all responses together tell what the highest tells)
// then holds for the ledger's, in whatever order the levels were sold.

func TestTheLedgerDrawsWhatRRChainDraws(t *testing.T) {
	epsilons := []string{"0.5", "1", "0.7", "2", "0.6"}
	const seeds = 4
	orders := permutations(epsilons)
	names := crowd(len(orders))
	for seed := range uint64(seeds) {
		l := voters(t, inMemory(t, Options{}), "3", names...)
		l.engine.Chances.Sampler, _ = sampler(seed)
		reference, _ := sampler(seed)
		for i, order := range orders {
			wantReference(t, l, reference, names[i], rand.IntN(3), order)
		}
		auditStore(t, l.engine.Store)
	}
}

// wantReference sells the levels in order, here and on a chain of rrchain.
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
		r := releaseOf(t, fmt.Sprint(name, i), name, epsilon)
		r.Truth = sameTruth(vote().Values[truth])
		got := release(t, l, r)
		if got.Value != vote().Values[want.Response] {
			t.Fatalf("levels %v: at ε=%s the ledger answers %q, rrchain %q", order, epsilon, got.Value, vote().Values[want.Response])
		}
		check.Equal(t, methodOf(eventAt(t, l, got.Event)), how, "levels %v: ε=%s came about by", order, epsilon)
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

// How many random words a raise consumes tells nothing about the truth: after bulk raises of the
// same crowd with different truths the next word of the tape is the same.
func TestRandomWordsUsedDoNotDependOnTheTruth(t *testing.T) {
	const size = 500
	next := func(truth func(i int) string) uint64 {
		l := voters(t, inMemory(t, Options{}), "10", crowd(size)...)
		s, bits := sampler(11)
		l.engine.Chances.Sampler = s
		for i, epsilon := range []string{"0.001", "0.5", "3", "9"} {
			r := order(t, fmt.Sprint(i), epsilon)
			r.Truth = func(_ context.Context, _ string, objects []string) (values []string, err error) {
				for i := range objects {
					values = append(values, truth(i))
				}
				return values, nil
			}
			carryOut(t, l, r)
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
	direct.Encoding, unary.Encoding, finite.Encoding = api.Direct, api.Unary, api.Finite
	for _, c := range []struct {
		question api.Question
		want     api.Channel
	}{
		{direct, api.Channel{Encoding: api.Direct, Values: 3, P: e / (e + 2), Q: 1 / (e + 2)}},
		{unary, api.Channel{Encoding: api.Unary, Values: 3, P: 0.5, Q: 1 / (e + 1)}},
		{finite, api.Channel{Encoding: api.Finite, Values: len(finite.Values)}},
	} {
		got := check.Value(c.question.Channel(eps(t, "0.5")))(t)
		check.That(t, !(math.Abs(got.P-c.want.P) > 1e-15) && !(math.Abs(got.Q-c.want.Q) > 1e-15) && got.Encoding == c.want.Encoding && got.Values == c.want.Values,
			"%s: %+v, want %+v", c.want.Encoding, got, c.want)
		wantErr(t, check.Err(c.question.Channel(privacy.Epsilon{})), api.ErrInvalid)
	}
	wantErr(t, check.Err(api.Question{Encoding: api.Direct}.Channel(eps(t, "0.5"))), api.ErrInvalid)
	for _, epsilon := range []privacy.Epsilon{nano(t, 1), eps(t, "40"), privacy.MaxEpsilon()} {
		got := check.Value(direct.Channel(epsilon))(t)
		check.That(t, got.P > got.Q && got.P <= 1 && got.Q >= 0 && !(math.Abs(got.P+2*got.Q-1) > 1e-15),
			"ε=%s: %+v", epsilon, got)
	}
}

// TestDeliveries_OfASale_HaveItsNumberAndChannel reads what an estimate needs from the deliveries alone.
func TestDeliveries_OfASale_HaveItsNumberAndChannel(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "9", "ann", "bob")
	sell(t, l, purchase(t, "1", "acme", "1", "ann", "bob"))
	sale := sell(t, l, purchase(t, "2", "acme", "0.5", "ann", "bob"))
	all := delivered(t, l, sale.Number)
	check.Need(t, len(all) == 2, "delivered %v", all)
	for _, d := range all {
		want := check.Value(questionsOf(t, l)[0].Channel(d.Epsilon))(t)
		check.That(t, d.Sale == sale.Number && d.Epsilon == eps(t, "0.5") && d.Channel == want && d.P != 0,
			"%+v, want the channel %+v", d, want)
	}
}
