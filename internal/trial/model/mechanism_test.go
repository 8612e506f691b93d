package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	rational "math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Invariant 4 for questions with a mechanism, by enumeration: in any order of sales, the responses
// at all levels have the law truth → oₙ → … → o₁ of the matrices and channels of the family, and
// together reveal what the highest reveals.
//
// The law is exact, in fractions. A draw compares one word of 64 bits with the cumulative
// probabilities. So the first word of each stretch, the last, and one between them must lead to its
// response, and the words next to them to its neighbours. The ledger is opened again for each sale.

// finiteTree is the enumeration of one order of sales; see tree. Outcomes are numbers of outputs.
type finiteTree struct {
	*tree
	law familyLaw
}

// familyLaw is the joint law of responses at some of a family's levels.
type familyLaw struct {
	inputs int
	levels []*finite.Matrix // all levels of the family, by rising ε
	down   []*finite.Matrix // down[i] leads from level i+1 to level i
}

// lawOf reads the law of a family from its JSON, which has its channels.
func lawOf(t testing.TB, f *finite.Family) familyLaw {
	t.Helper()
	var all struct{ Levels, Channels []*finite.Matrix }
	check.Must(t, json.Unmarshal(Text(t, f), &all))
	return familyLaw{all.Levels[0].Inputs(), all.Levels, all.Channels}
}

// joint returns the probability of outputs at some levels, by number, with any outputs at the
// others.
func (w familyLaw) joint(input int, outputs map[int]int) *rational.Rat {
	top := len(w.levels) - 1
	now := make([]*rational.Rat, w.levels[top].Outputs()) // of each output at the level, together with the given outputs above it
	for o := range now {
		now[o] = w.levels[top].At(input, o)
	}
	for level := top; ; level-- {
		if only, given := outputs[level]; given {
			for o := range now {
				if o != only {
					now[o] = new(rational.Rat)
				}
			}
		}
		if level == 0 {
			break
		}
		channel := w.down[level-1]
		next := make([]*rational.Rat, channel.Outputs())
		for to := range next {
			next[to] = new(rational.Rat)
			for from, p := range now {
				next[to].Add(next[to], new(rational.Rat).Mul(p, channel.At(from, to)))
			}
		}
		now = next
	}
	sum := new(rational.Rat)
	for _, p := range now {
		sum.Add(sum, p)
	}
	return sum
}

// number returns the number of a level.
func (w familyLaw) number(t testing.TB, epsilon privacy.Epsilon) int {
	t.Helper()
	for i, m := range w.levels {
		if at, err := m.Epsilon(); err == nil && at == epsilon {
			return i
		}
	}
	t.Fatalf("ε=%s is not a level of the family", epsilon)
	return 0
}

// enumerateFinite makes all histories of sales at some levels, in their order, for a question with
// a mechanism.
func enumerateFinite(t *testing.T, onFile bool, q api.Question, levels ...string) {
	t.Helper()
	law := lawOf(t, q.Mechanism.Family)
	tr := &finiteTree{newTree(t, law.inputs, onFile, levels, outcomeLaw{text: strconv.Itoa}), law}
	root, l := tr.newRoot()
	q.Name, q.Values, q.Mechanism = "q", ValuesOf(law.inputs), &api.Mechanism{Family: q.Mechanism.Family}
	Define(t, l, q)
	EnrollUnder(t, l, "q", Market(t, "3"), "3", "ann")
	tr.closeLedger(l)
	tr.grow(root, nil)
	tr.wantPrice()
}

// seeingWords returns a sampler that reads the same word repeatedly.
func seeingWords(word uint64) ledgertest.Draws {
	return ledgertest.Draws{Outputs: &finite.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := 0; i < len(p); i += 8 {
			binary.BigEndian.PutUint64(p[i:], word)
		}
	})}}
}

// probe returns the output that the next sale would record.
func (tr *finiteTree) probe(at nodeStorage, n int, truth api.TruthFunc, word uint64) (output int) {
	tr.Helper()
	text := tr.sellInCopy(at, n, truth, seeingWords(word))
	output, err := strconv.Atoi(text)
	check.Need(tr, err == nil, "the next sale would record %q, which is not an output", text)
	return output
}

// wantLawOf fails unless the next sale has the given probabilities: each output has its stretch of
// words.
func (tr *finiteTree) wantLawOf(where nodeStorage, n int, truth api.TruthFunc, law []*rational.Rat) (leads []uint64) {
	tr.Helper()
	leads = make([]uint64, len(law))
	from, below := new(rational.Int), new(rational.Rat) // the first word that is surely in the stretch
	two64 := new(rational.Rat).SetInt(new(rational.Int).Lsh(rational.NewInt(1), 64))
	for o, p := range law {
		end := new(rational.Rat).Mul(below.Add(below, p), two64)
		cut := new(rational.Int).Quo(end.Num(), end.Denom()) // the word that contains the end, if the end is not an integer
		if p.Sign() > 0 {
			last := new(rational.Int).Sub(cut, rational.NewInt(1))
			middle := new(rational.Int).Rsh(new(rational.Int).Add(from, last), 1)
			for _, word := range []*rational.Int{from, middle, last} {
				got := tr.probe(where, n, truth, word.Uint64())
				check.That(tr, got == o, "word %v of sale %d leads to output %d, want %d", word, n, got, o)
			}
			leads[o] = middle.Uint64()
		}
		from = new(rational.Int).Add(cut, rational.NewInt(1))
	}
	return leads
}

// conditional returns the law of the next output, given earlier ones.
func (w familyLaw) conditional(input, level int, before map[int]int) []*rational.Rat {
	whole := w.joint(input, before)
	law := make([]*rational.Rat, w.levels[level].Outputs())
	for o := range law {
		more := map[int]int{level: o}
		for at, output := range before {
			more[at] = output
		}
		law[o] = w.joint(input, more)
		law[o].Quo(law[o], whole)
	}
	return law
}

// grow checks the law of the next sale at a node for every true value, and makes it for every
// outcome.
func (tr *finiteTree) grow(at node, before map[int]int) {
	tr.Helper()
	n := len(at.responses)
	if n == len(tr.levels) {
		tr.leaf(at)
		at.place.removed(tr)
		return
	}
	free := slices.ContainsFunc(tr.levels[:n], tr.levels[n].Less)
	level := tr.law.number(tr, tr.levels[n])
	var leads []uint64
	for truth := range tr.m {
		found := tr.wantLawOf(at.place, n, tr.truth(free, truth), tr.law.conditional(truth, level, before))
		if truth == 0 { // sales use this true value
			leads = found
		}
	}
	for output := range leads {
		child := node{responses: append(slices.Clone(at.responses), output)}
		next := map[int]int{level: output}
		for other, o := range before {
			next[other] = o
		}
		if tr.law.joint(0, next).Sign() == 0 {
			continue // probability 0
		}
		child.place = at.place.copied(tr, fmt.Sprint(child.responses))
		tr.sellOutput(child, free, leads[output])
		tr.grow(child, next)
	}
	at.place.removed(tr)
}

// leaf records a whole history. All buyers get what one bought, without a true value. One in 16
// ledgers is audited.
func (tr *finiteTree) leaf(at node) {
	tr.Helper()
	l := tr.open(at.place, ledgertest.Draws{})
	defer tr.closeLedger(l)
	for n := range tr.levels {
		r := tr.order(n, Never(tr))
		r.Key, r.Buyer = "again "+r.Key, "initech"
		again := Sell(tr, l, r)
		if got := Delivered(tr, l, again.Number)["ann"]; again.Resales != 1 || got.Value != tr.text(at.responses[n]) {
			tr.Errorf("after the responses %v, %q got %+v", at.responses, r.Buyer, got)
		}
	}
	top := slices.MaxFunc(tr.levels, privacy.Epsilon.Compare)
	o := ObjectOf(tr, l, "ann")
	check.That(tr, o.Spent == top && o.Chains[0].Epsilon == top, "after the responses %v, %s is spent, want the highest ε", at.responses, o.Spent)
	if tr.found[fmt.Sprint(at.responses)] = at.given; len(tr.found)%16 == 1 {
		AuditAll(tr, l)
	}
}

// sellOutput makes the sale that leads to a node.
func (tr *finiteTree) sellOutput(child node, free bool, word uint64) {
	tr.Helper()
	tr.sales++
	n := len(child.responses) - 1
	l := tr.open(child.place, seeingWords(word))
	defer tr.closeLedger(l)
	before := ObjectOf(tr, l, "ann")
	sold := Sell(tr, l, tr.order(n, tr.truth(free, 0)))
	after, got := ObjectOf(tr, l, "ann"), Delivered(tr, l, sold.Number)["ann"]
	check.Need(tr, got.Value == tr.text(child.responses[n]) && got.Epsilon == tr.levels[n],
		"want the responses %v, the buyer got %+v", child.responses, got)
	cost, want := after.Spent.Nano()-before.Spent.Nano(), int64(0)
	if !free {
		want = tr.levels[n].Nano() - before.Spent.Nano()
	}
	check.That(tr, cost == want && (sold.Draws == 0) == free,
		"responses %v: %d draws for ε=%s cost %d nano-nats, want %d", child.responses, sold.Draws, tr.levels[n], cost, want)
}

// wantPrice compares, in fractions, what all responses together reveal with what the highest
// reveals: no likelihood ratio exceeds e^ε for the highest ε, and the largest is that of the
// highest mechanism.
func (tr *finiteTree) wantPrice() {
	tr.Helper()
	numbers := make([]int, len(tr.levels))
	most := 1
	for i, epsilon := range tr.levels {
		numbers[i] = tr.law.number(tr, epsilon)
		most *= tr.law.levels[numbers[i]].Outputs()
	}
	top := slices.Max(numbers)
	largest, ofTop := new(rational.Rat), new(rational.Rat)
	sums := make([]*rational.Rat, tr.m)
	for x := range sums {
		sums[x] = new(rational.Rat)
	}
	seen := 0
	tr.eachHistory(numbers, func(outputs map[int]int) {
		all := make([]*rational.Rat, tr.m)
		for x := range all {
			all[x] = tr.law.joint(x, outputs)
			sums[x].Add(sums[x], all[x])
		}
		if all[0].Sign() == 0 {
			return
		}
		seen++
		for x, p := range all {
			for y, q := range all {
				ratio := new(rational.Rat).Quo(p, q)
				alone := new(rational.Rat).Quo(tr.law.levels[top].At(x, outputs[top]), tr.law.levels[top].At(y, outputs[top]))
				check.That(tr, ratio.Cmp(alone) == 0,
					"%v: the likelihood ratio of the true values %d and %d is %v, want that of the highest alone, %v", outputs, x, y, ratio, alone)
				if ratio.Cmp(largest) > 0 {
					largest = ratio
				}
				if alone.Cmp(ofTop) > 0 {
					ofTop = alone
				}
			}
		}
	})
	for x, sum := range sums {
		check.That(tr, sum.Cmp(rational.NewRat(1, 1)) == 0, "truth %d: the probabilities add up to %v", x, sum)
	}
	low, _ := exact.Exp(slices.MaxFunc(tr.levels, privacy.Epsilon.Compare).Nano(), 128).Bounds()
	bound, _ := low.Rat(nil)
	check.That(tr, largest.Cmp(bound) <= 0 && largest.Cmp(ofTop) == 0,
		"the largest ratio is %v, of the highest alone %v; e^ε is at least %v", largest, ofTop, bound)
	check.That(tr, seen == len(tr.found), "%d of %d histories are possible; %d were sold", seen, most, len(tr.found))
	tr.Logf("%d histories of %d sales, %d probes; the largest ratio is %v", seen, tr.sales, tr.probes, largest.FloatString(9))
}

// eachHistory passes every combination of outputs at some levels to visit.
func (tr *finiteTree) eachHistory(numbers []int, visit func(outputs map[int]int)) {
	all := []map[int]int{{}}
	for _, number := range numbers {
		var longer []map[int]int
		for _, outputs := range all {
			for o := range tr.law.levels[number].Outputs() {
				more := map[int]int{number: o}
				for at, output := range outputs {
					more[at] = output
				}
				longer = append(longer, more)
			}
		}
		all = longer
	}
	for _, outputs := range all {
		visit(outputs)
	}
}

// On a file, which is closed and opened between sales: from pairs of four inputs up to single ones,
// with fewer outputs.
func TestMechanismSales_OnDisk_HaveTheJointLaw(t *testing.T) {
	enumerateFinite(t, true, fixture.Party(t), fewer(1, "0.5", "2")...)
}

// Raised twice, inserted, degraded and raised again, degraded twice.
func TestMechanismSales_SeveralOrders_HaveTheJointLaw(t *testing.T) {
	orders := [][]string{{"0.5", "1", "2"}, {"0.5", "2", "1"}, {"1", "0.5", "2"}, {"2", "1", "0.5"}}
	step := testenv.Tries(len(orders), 1, 1) // the quick form tries the beginning of one order, another one in each run
	for i := rand.IntN(step); i < len(orders); i += step {
		enumerateFinite(t, false, fixture.Party(t), fewer(1, orders[i]...)...)
	}
}

// Levels of a family may be skipped: a raise from the first to the last, or a response below that,
// uses the channels between them.
func TestMechanismSales_SkippedLevels_HaveTheJointLaw(t *testing.T) {
	q := api.Question{Mechanism: &api.Mechanism{Family: fixture.Skewed(t)}}
	enumerateFinite(t, false, q, "1.098612289", "0.405465109")
	enumerateFinite(t, false, q, "0.405465109", "1.609437913", "0.693147181", "1.098612289")
}

// Responses below others are derived with the channels of the first definition of the question, not
// of a later one.
func TestMechanismSales_Redefined_UseTheFirstChannels(t *testing.T) {
	one, other := fixture.Skewed(t), fixture.OtherChannels(t, fixture.Skewed(t))
	for _, f := range []*finite.Family{one, other} {
		q := api.Question{Name: "q", Values: ValuesOf(2), Mechanism: &api.Mechanism{Family: f}}
		enumerateFinite(t, false, q, "1.609437913", "1.098612289")
	}
	for _, at := range []nodeStorage{newNodeStorage(t, false), newNodeStorage(t, true)} {
		l := opened(t, at)
		q := api.Question{Name: "q", Values: ValuesOf(2), Mechanism: &api.Mechanism{Family: one}}
		Define(t, l, q)
		q.Mechanism = &api.Mechanism{Family: other}
		check.Must(t, l.DefineQuestion(t.Context(), "again", q))
		check.Must(t, l.Close())
		l = opened(t, at)
		known := check.Value(api.Collect(l.Questions(t.Context())))(t)
		check.That(t, bytes.Equal(Text(t, known[0].Mechanism.Family), Text(t, one)), "the question does not have the channels of its first definition")
		check.Must(t, l.Close())
	}
}

// The enumeration detects a law that is slightly wrong: other channels between the same levels, and
// independent levels.
func TestFamilyLaw_OtherLaws_AreDetected(t *testing.T) {
	one, other := lawOf(t, fixture.Skewed(t)), lawOf(t, fixture.OtherChannels(t, fixture.Skewed(t)))
	numbers := map[int]int{0: 0, 3: 0}
	check.That(t, one.joint(0, numbers).Cmp(other.joint(0, numbers)) != 0, "other channels have the same law")
	apart := new(rational.Rat).Mul(one.joint(0, map[int]int{0: 0}), one.joint(0, map[int]int{3: 0}))
	check.That(t, one.joint(0, numbers).Cmp(apart) != 0, "the levels are independent")
	for _, only := range []map[int]int{{0: 0}, {3: 0}} {
		check.That(t, one.joint(0, only).Cmp(other.joint(0, only)) == 0, "the law of %v alone differs", only)
	}
}
