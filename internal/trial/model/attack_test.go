//go:build !race

package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// market is what an attacker can make a ledger do. It has some objects, each with a true value, in
// one question. Methods return a word for each object: what was revealed of it, or "" for nothing.
type market interface {
	// fill executes an order. The same order may be repeated.
	fill(order) []string
	// crash makes the host die during an order, and start again. It returns what had been seen
	// before.
	crash(order, moment) []string
}

// order is a request under an idempotency key.
type order struct {
	key   string
	buyer string // "" if the host itself releases; seller if terms change
	at    string // the ε; for a change of terms, the highest ε for sale from then on
}

// seller is the buyer of orders that change terms. Coalitions do not see these.
const seller = "the sellers"

// refusedOutcome is the key of the order that terms do not allow.
const refusedOutcome = "refused"

// moment is the time at which a host dies.
type moment int

const (
	never   moment = iota
	asked          // when it is asked for the true values
	between        // when the first part of the objects is done, and seen, and the others are not
	done           // when the order is executed, before the buyer has the result
)

// step is an order, executed or interrupted.
type step struct {
	order
	dies moment
}

// attack is what cooperating buyers do.
type attack []step

// mixedOrders sells levels from the middle, down, up and between, to three buyers, repeated, with a
// host that dies at each moment, and under terms that change. One order is refused until the terms
// allow it.
var mixedOrders = attack{
	{order{"1", "zeta", "1"}, asked},
	{order{"1", "zeta", "1"}, never},
	{order{"2", "acme", "0.25"}, done},
	{order{"2", "acme", "0.25"}, never},
	{order{"3", "", "1.5"}, between},
	{order{"3", "", "1.5"}, never},
	{order{"lower", seller, "0.75"}, never},
	{order{refusedOutcome, "acme", "1.5"}, never},
	{order{"4", "acme", "0.5"}, never},
	{order{"higher", seller, "2"}, never},
	{order{"5", "hooli", "1"}, never},
	{order{"1", "zeta", "1"}, never},
	{order{"6", "acme", "1.5"}, never},
}

// coalition is a set of buyers who pool what they have seen.
type coalition struct {
	name    string
	members []string
}

// coalitions returns buyers alone and together. The last one is all, including readers of what the
// host releases.
func coalitions() []coalition {
	return []coalition{
		{"acme", []string{"acme"}}, {"zeta", []string{"zeta"}}, {"zeta and hooli", []string{"zeta", "hooli"}},
		{"all", []string{"acme", "zeta", "hooli", ""}},
	}
}

// sees returns the steps that a coalition sees, and the highest ε in them.
func (a attack) sees(t testing.TB, c coalition) (steps []int, highest privacy.Epsilon) {
	for i, s := range a {
		for _, member := range c.members {
			if s.buyer != member {
				continue
			}
			steps = append(steps, i)
			if e := Eps(t, s.at); highest.Less(e) {
				highest = e
			}
		}
	}
	return steps, highest
}

// trial is an attack, with what each coalition has seen.
type trial struct {
	testing.TB
	attack
	values   int
	objects  int
	pooled   []coalition
	evidence []*tally
}

func newTrial(t testing.TB, a attack, values int) *trial {
	tr := &trial{TB: t, attack: a, values: values, pooled: coalitions()}
	for range tr.pooled {
		tr.evidence = append(tr.evidence, newTally(values))
	}
	return tr
}

// truths returns random true values.
func truths(objects, values int) []int {
	all := make([]int, objects)
	for i := range all {
		all[i] = rand.IntN(values)
	}
	return all
}

// run attacks a market whose objects have these true values. It may be called for many markets.
func (tr *trial) run(m market, truths []int) {
	tr.Helper()
	var seen [][]string
	for _, s := range tr.attack {
		words := []string(nil)
		if s.dies == never {
			words = m.fill(s.order)
		} else {
			words = m.crash(s.order, s.dies)
		}
		check.Need(tr, len(words) == len(truths), "%+v returns %d words for %d objects", s, len(words), len(truths))
		seen = append(seen, words)
	}
	for c, who := range tr.pooled {
		steps, _ := tr.sees(tr, who)
		words := make([]string, len(steps))
		for object, truth := range truths {
			for i, step := range steps {
				words[i] = seen[step][object]
			}
			tr.evidence[c].add(object, truth, words)
		}
	}
	tr.objects += len(truths)
}

// wantPrivate fails if any coalition has learned more than the highest ε that it has seen allows.
func (tr *trial) wantPrivate() {
	tr.Helper()
	for c, who := range tr.pooled {
		steps, highest := tr.sees(tr, who)
		if len(steps) == 0 {
			continue
		}
		v := tr.evidence[c].judge(highest.Float64())
		check.That(tr, !v.isRejected(), "%s learned more than ε allows: %v", who.name, v)
		tr.Logf("%s, from %d transcripts: %v", who.name, len(tr.evidence[c].cells), v)
	}
}

// wantLeak fails unless all buyers together have learned more than allowed.
func (tr *trial) wantLeak() {
	tr.Helper()
	last := len(tr.pooled) - 1
	_, highest := tr.sees(tr, tr.pooled[last])
	v := tr.evidence[last].judge(highest.Float64())
	check.That(tr, v.isRejected(), "the leak is not found with %d objects: %v", tr.objects, v)
	tr.Logf("%d objects: %v", tr.objects, v)
}

func objectName(i int) string { return fmt.Sprintf("object %06d", i) }

// The statistics. The true value of each object is random, and all values are equally likely.
// Consider the objects whose true value is x or y, and whose transcript is in a set S. Each has the
// true value x with the probability
//
//	Pr(S|x) / (Pr(S|x) + Pr(S|y)),
//
// independently of all others. The claim Pr(S|x) ≤ e^ε·Pr(S|y) says that this is at most
// e^ε/(1+e^ε). It is tested with the binomial distribution, without approximation. That is
// equivalent to the lower bound of Clopper and Pearson (1934) on the share, whose odds are a lower
// bound on the ratio of likelihoods. (Separate bounds on Pr(S|x) and Pr(S|y) are two instead of
// one, and find less if S is rare.)
//
// The test holds given all transcripts. So S may be chosen from the transcripts, but not from the
// true values. A choice that uses true values, to find the most suspicious set, uses one half of
// the objects and is tested on the other.

// alarm is the probability with which one verdict rejects a right ledger. A run makes far fewer
// than a hundred verdicts.
const alarm = stattest.Alarm / 100

// miss is the probability with which a fault of the stated size is not found.
const miss = 1e-9

// tally counts transcripts.
type tally struct {
	values int // true values are numbers below that
	cells  map[string]*cell
}

// cell is one transcript.
type cell struct {
	words  []string // what was seen in each step
	counts [2][]int // the count in each half of the objects, by true value
}

func newTally(values int) *tally { return &tally{values, map[string]*cell{}} }

// add counts what was seen of an object. Its half depends only on its number.
func (t *tally) add(object, truth int, words []string) {
	key := strings.Join(words, " ")
	c := t.cells[key]
	if c == nil {
		c = &cell{words: slices.Clone(words), counts: [2][]int{make([]int, t.values), make([]int, t.values)}}
		t.cells[key] = c
	}
	c.counts[object%2][truth]++
}

// event is a set of transcripts, with the number of objects by true value.
type event struct {
	name   string
	counts []int
}

// words are two words in their steps, or one if the steps are equal.
type words struct {
	i, j int
	a, b string
}

func (w words) String() string {
	if w.i == w.j {
		return fmt.Sprintf("%q in step %d", w.a, w.i)
	}
	return fmt.Sprintf("%q in step %d and %q in step %d", w.a, w.i, w.b, w.j)
}

// named returns the events that are tested for every pair of true values: each transcript, each
// word in its step, and each pair of words. Their choice does not use true values, so they are
// tested on all objects.
func (t *tally) named() (events []event) {
	counted := map[words][]int{}
	for key, c := range t.cells {
		counts := make([]int, t.values)
		addTo(counts, c.counts[0], c.counts[1])
		events = append(events, event{fmt.Sprintf("%q", key), counts})
		for j := range c.words {
			for i := range j + 1 {
				w := words{i, j, c.words[i], c.words[j]}
				if counted[w] == nil {
					counted[w] = make([]int, t.values)
				}
				addTo(counted[w], counts)
			}
		}
	}
	for w, counts := range counted {
		events = append(events, event{w.String(), counts})
	}
	return events
}

func addTo(sum []int, counts ...[]int) {
	for _, some := range counts {
		for i, n := range some {
			sum[i] += n
		}
	}
}

// suspicion orders transcripts: the higher it is, the more a transcript suggests x instead of y. It
// is made from the first half of the objects.
type suspicion func(c *cell) float64

// suspicions returns ways to learn from the first half. The first goes transcript by transcript, as
// in StatDP, which is right if each has been seen often. The second, for many transcripts, treats
// their words as independent: the simplest of the classifiers of DP-Sniper.
func (t *tally) suspicions(x, y int) map[string]suspicion {
	lean := func(counts []int) float64 { return math.Log(float64(counts[x])+0.5) - math.Log(float64(counts[y])+0.5) }
	counted := map[words][]int{}
	for _, c := range t.cells {
		for i, word := range c.words {
			w := words{i, i, word, word}
			if counted[w] == nil {
				counted[w] = make([]int, t.values)
			}
			addTo(counted[w], c.counts[0])
		}
	}
	return map[string]suspicion{
		"suspicious transcripts": func(c *cell) float64 { return lean(c.counts[0]) },
		"suspicious words": func(c *cell) (sum float64) {
			for i, word := range c.words {
				sum += lean(counted[words{i, i, word, word}])
			}
			return sum
		},
	}
}

// learned returns the most suspicious set of transcripts, of the size that the first half of the
// objects suggests, with the counts of the second half.
func (t *tally) learned(name string, s suspicion, x, y int, share float64) event {
	keys := slices.SortedFunc(maps.Keys(t.cells), func(a, b string) int {
		return cmp.Or(cmp.Compare(s(t.cells[b]), s(t.cells[a])), cmp.Compare(a, b))
	})
	seen, best, most := make([]int, t.values), 0, math.Inf(-1)
	for i, key := range keys {
		addTo(seen, t.cells[key].counts[0])
		in, of := float64(seen[x]), float64(seen[x]+seen[y])
		if excess := (in - share*of) / math.Sqrt(share*(1-share)*of); of > 0 && excess > most {
			best, most = i+1, excess
		}
	}
	e := event{fmt.Sprintf("the %d most %s of %d", best, name, len(keys)), make([]int, t.values)}
	for _, key := range keys[:best] {
		addTo(e.counts, t.cells[key].counts[1])
	}
	return e
}

// attackVerdict is the event that contradicts the claim most.
type attackVerdict struct {
	event
	x, y   int // the pair of true values
	in, of int // the number of objects with one of them, and of those with x
	// chance is an upper bound of the probability that any of the events looks as bad or worse if
	// the claim is true.
	chance float64
	bound  float64 // a lower bound of the logarithm of the ratio of likelihoods, wrong with probability alarm
	claim  float64 // what it may be: ε
}

func (v attackVerdict) isRejected() bool { return v.chance < alarm }

func (v attackVerdict) String() string {
	return fmt.Sprintf("%s: %d of %d have truth %d and not %d: ε ≥ %.3f, where %.3f is claimed (by chance: %.2g)",
		v.name, v.in, v.of, v.x, v.y, v.bound, v.claim, v.chance)
}

// judge tests the claim that all transcripts together are ε-differentially private.
func (t *tally) judge(claim float64) attackVerdict {
	share := shareOf(claim)
	named := t.named()
	tests := float64(t.values * (t.values - 1) * (len(named) + 2))
	worst := attackVerdict{chance: math.Inf(1), claim: claim}
	for x := range t.values {
		for y := range t.values {
			if x == y {
				continue
			}
			events := named
			for name, s := range t.suspicions(x, y) {
				events = append(slices.Clip(events), t.learned(name, s, x, y, share))
			}
			for _, e := range events {
				in, of := e.counts[x], e.counts[x]+e.counts[y]
				if chance := stattest.AtLeast(in, of, share) * tests; chance < worst.chance {
					worst = attackVerdict{e, x, y, in, of, chance, 0, claim}
				}
			}
		}
	}
	worst.bound, worst.chance = oddsBound(worst.in, worst.of, alarm/tests), min(worst.chance, 1)
	return worst
}

// shareOf returns the largest share of an event's objects that may have the first true value of a
// pair.
func shareOf(claim float64) float64 { return 1 / (1 + math.Exp(-claim)) }

// oddsBound returns the lower bound of Clopper and Pearson on a share, as the logarithm of its
// odds, if k of n were counted.
func oddsBound(k, n int, chance float64) float64 {
	if k == 0 {
		return math.Inf(-1)
	}
	low, high := 0.0, float64(k)/float64(n)
	for range 60 {
		if middle := (low + high) / 2; stattest.AtLeast(k, n, middle) < chance {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Log(low) - math.Log1p(-low)
}

// objectsFor returns the number of objects with which a fault is found, except with probability
// miss. p and q are the probabilities of an event for two true values, where p ≤ e^ε·q is claimed.
// tests is the number of tested events.
func objectsFor(p, q, claim float64, tests int) int {
	level := alarm / float64(tests)
	noticed := func(n int) bool {
		critical := leastWith(n, func(k int) bool { return stattest.AtLeast(k, n, shareOf(claim)) < level })
		return stattest.AtLeast(critical, n, p/(p+q)) > 1-miss/2
	}
	inEvent := leastWith(1<<40, noticed)
	inEvent += inEvent / 50 // slightly more may be slightly worse, because counts are whole numbers
	return leastWith(1<<40, func(n int) bool { return stattest.AtLeast(inEvent, n, (p+q)/2) > 1-miss/2 })
}

// leastWith returns the smallest number up to n for which holds is true, if it is true from there
// on, and n+1 if there is none. It tries no number beyond twice the result.
func leastWith(n int, holds func(int) bool) int {
	low, high := 0, 1
	for high <= n && !holds(high) {
		low, high = high+1, 2*high
	}
	high = min(high, n+1)
	for low < high {
		if middle := low + (high-low)/2; holds(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// noticeable returns by how much the logarithm of the ratio must exceed the claim to be found with
// this many objects, in hundredths. It assumes two true values, and an event with half of the
// objects. Above 3 it returns +Inf.
func noticeable(objects int, claim float64, tests int) float64 {
	const grain, most = 100, 300
	excess := leastWith(most, func(n int) bool {
		p := shareOf(claim + float64(n)/grain)
		return n > 0 && objectsFor(p, 1-p, claim, tests) <= objects
	})
	if excess > most {
		return math.Inf(1)
	}
	return float64(excess) / grain
}

// Faults planted in markets that are otherwise right, to show that the attack finds them. The
// number of objects follows from the fault: there is a set of transcripts, two words, for which the
// ratio of likelihoods can be computed.

// memoryMarket is a market in memory, for a question with two values.
type memoryMarket struct {
	testing.TB
	truths  []int
	chains  []*rrchain.Chain[int]
	sampler *rrchain.Sampler
	seen    map[string][]string // by the key of an executed order, or by what else a fault keeps responses under
	fault   fault
}

type fault int

const (
	faultless         fault = iota
	redrawsLevels           // each level is drawn from the true value, as if there were no others
	redrawsAfterCrash       // what was not returned before a crash is lost, although it was seen
	redrawsForBuyers        // each buyer has its own responses
	redrawsRepeats          // a repeated order is drawn, and charged, once more
	redrawsLow              // a level below the highest is drawn from the true value instead of the level above
	redrawsUnderTerms       // chains begin again when their terms change
)

func newMemoryMarket(t testing.TB, f fault, truths []int) *memoryMarket {
	t.Helper()
	s := &memoryMarket{TB: t, truths: truths, sampler: new(rrchain.Sampler), seen: map[string][]string{}, fault: f}
	for range truths {
		s.chains = append(s.chains, newChain(t))
	}
	return s
}

func newChain(t testing.TB, levels ...rrchain.Level[int]) *rrchain.Chain[int] {
	return check.Value(rrchain.NewChain[int](2, levels...))(t)
}

func (s *memoryMarket) fill(o order) []string {
	words, repeated := s.seen[o.key]
	if repeated && s.fault != redrawsRepeats {
		return words
	}
	words = make([]string, len(s.truths))
	for i := range words {
		if o.buyer == seller && s.fault == redrawsUnderTerms {
			s.chains[i] = newChain(s)
		}
		if o.buyer == seller || o.key == refusedOutcome {
			continue
		}
		if repeated {
			words[i] = s.redraw(i, o)
		} else {
			words[i] = s.respond(i, o)
		}
	}
	s.seen[o.key] = words
	return words
}

func (s *memoryMarket) crash(o order, when moment) []string {
	seen := make([]string, len(s.truths))
	switch when {
	case done:
		s.fill(o)
	case between:
		for i := range len(seen) / 2 {
			before := newChain(s, s.chains[i].Levels()...)
			seen[i] = s.respond(i, o)
			if s.fault == redrawsAfterCrash {
				s.chains[i] = before
			}
		}
	}
	return seen
}

// respond returns the response of an object to an order.
func (s *memoryMarket) respond(i int, o order) string {
	at, c := Eps(s, o.at), s.chains[i]
	switch {
	case s.fault == redrawsLevels:
		return s.kept(o.at, i, o)
	case s.fault == redrawsForBuyers:
		return s.kept(o.buyer+" at "+o.at, i, o)
	case s.fault == redrawsLow && at.Less(c.Current().Epsilon):
		return s.kept(o.at, i, o)
	}
	level, known := c.At(at)
	if !known {
		level = s.draw(c, at, s.truths[i])
	}
	return strconv.Itoa(level.Response)
}

// draw draws a response of a chain correctly.
func (s *memoryMarket) draw(c *rrchain.Chain[int], at privacy.Epsilon, truth int) (level rrchain.Level[int]) {
	var err error
	if c.Current().Epsilon.Less(at) {
		level, err = c.Raise(s.sampler, at, truth)
	} else {
		level, err = c.Insert(s.sampler, at)
	}
	check.Must(s, err)
	return level
}

// redraw draws a response from the true value alone.
func (s *memoryMarket) redraw(i int, o order) string {
	return strconv.Itoa(s.draw(newChain(s), Eps(s, o.at), s.truths[i]).Response)
}

// kept draws a response from the true value alone, once for a name.
func (s *memoryMarket) kept(name string, i int, o order) string {
	words := s.seen[name]
	if words == nil {
		words = make([]string, len(s.truths))
		s.seen[name] = words
	}
	if words[i] == "" {
		words[i] = s.redraw(i, o)
	}
	return words[i]
}

// mostTests is more than the number of events in the transcripts of an attack, for both pairs of
// two true values.
const mostTests = 4000

// truthful returns the probability of a true response at ε, with two values.
func truthful(e float64) float64 { return shareOf(e) }

// Markets in memory with a fault are attacked as ledgers are. The fault shows in two words that are
// both the true value: p is the probability of these words, and q their probability if the other
// value is true.
func TestAttack_PlantedFaults_AreDetected(t *testing.T) {
	both := func(e1, e2 float64) (p, q float64) {
		return truthful(e1) * truthful(e2), (1 - truthful(e1)) * (1 - truthful(e2))
	}
	raise := check.Value(rrchain.NewKernel(2, Eps(t, "1"), Eps(t, "1.5")))(t)
	after := func() (p, q float64) { // raised twice from 1, for half of the objects
		p = truthful(1)*raise.PAA*raise.PAA + (1-truthful(1))*raise.PBA*raise.PBA
		q = truthful(1)*raise.OneMinusPAA*raise.OneMinusPAA + (1-truthful(1))*raise.PBB*raise.PBB
		return p / 2, q / 2
	}
	for _, c := range []struct {
		name  string
		fault fault
		law   func() (p, q float64)
	}{
		{"each level is redrawn", redrawsLevels, func() (p, q float64) { return both(1, 1.5) }},
		{"redrawn after a crash", redrawsAfterCrash, after},
		{"each buyer has other responses", redrawsForBuyers, func() (p, q float64) { return both(1.5, 1.5) }},
		{"a repeated order is redrawn", redrawsRepeats, func() (p, q float64) { return both(1, 1.5) }},
		{"lower levels drawn from the truth", redrawsLow, func() (p, q float64) { return both(0.5, 1.5) }},
		{"redrawn under other terms", redrawsUnderTerms, func() (p, q float64) { return both(1.5, 1.5) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, q := c.law()
			tr := newTrial(t, mixedOrders, 2)
			for want := objectsFor(p, q, 1.5, mostTests); tr.objects < want; {
				lots := truths(min(20_000, want-tr.objects), 2)
				tr.run(newMemoryMarket(t, c.fault, lots), lots)
			}
			t.Logf("the ratio is e^%.3f instead of e^1.5", math.Log(p/q))
			tr.wantLeak()
		})
	}
}

// The attack accepts a right market with as many objects as any fault needs.
func TestAttack_RightMarket_IsAccepted(t *testing.T) {
	tr := newTrial(t, mixedOrders, 2)
	for range testenv.Tries(2, 5, 100) {
		lots := truths(20_000, 2)
		tr.run(newMemoryMarket(t, faultless, lots), lots)
	}
	tr.wantPrivate()
}

// biasedMarket is a market whose responses are the true value too often. It raises objects from
// ε=0.1 to 0.2, or sells once at ε=1. At a small ε many transcripts reach the bound e^ε.
type biasedMarket struct {
	truths []int
	last   []int // nil before the first response
	pTrue  func(last, truth int) float64
}

// fill implements market. pTrue returns the probability of a true response.
func (s *biasedMarket) fill(order) []string {
	words, next := make([]string, len(s.truths)), make([]int, len(s.truths))
	for i, truth := range s.truths {
		last := noLast
		if s.last != nil {
			last = s.last[i]
		}
		next[i] = truth
		if rand.Float64() >= s.pTrue(last, truth) {
			next[i] = 1 - truth
		}
		words[i] = strconv.Itoa(next[i])
	}
	s.last = next
	return words
}

const noLast = -1

func (s *biasedMarket) crash(o order, _ moment) []string { return s.fill(o) }

// The attack finds three faults of 3 %: the true value is too likely in a raise; the same only if
// the last response was true; and a sale at ε=1 is drawn at 1.03. Without a fault, the same market
// is accepted. The quick form has one of the faults, another one in each run.
func TestAttack_KernelOffByThreePercent_IsDetected(t *testing.T) {
	const off = 1.03
	step := testenv.Tries(3, 1, 1)
	turn := rand.IntN(step)
	k := check.Value(rrchain.NewKernel(2, Eps(t, "0.1"), Eps(t, "0.2")))(t)
	raise := attack{{order{"1", "zeta", "0.1"}, never}, {order{"2", "acme", "0.2"}, never}}
	once := attack{{order{"1", "zeta", "1"}, never}}
	kernel := func(paa, pba float64) func(last, truth int) float64 {
		return func(last, truth int) float64 {
			switch last {
			case noLast:
				return truthful(0.1)
			case truth:
				return paa
			}
			return pba
		}
	}
	single := func(e float64) func(last, truth int) float64 { return func(int, int) float64 { return truthful(e) } }
	for i, c := range []struct {
		name  string
		do    attack
		claim float64
		pTrue func(last, truth int) float64
		p, q  float64 // the probabilities of responses that are all 1, if the true value is 1 and if it is 0
	}{
		{"the truth in a raise", raise, 0.2, kernel(off*k.PAA, off*k.PBA), truthful(0.1) * off * k.PAA, (1 - truthful(0.1)) * (1 - off*k.PBA)},
		{"the truth in a raise from the truth", raise, 0.2, kernel(off*k.PAA, k.PBA), truthful(0.1) * off * k.PAA, (1 - truthful(0.1)) * k.PBB},
		{"ε", once, 1, single(off), truthful(off), 1 - truthful(off)},
	} {
		if i%step != turn {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			// There are two or four transcripts, with at most 8 words or pairs of words.
			want := objectsFor(c.p, c.q, c.claim, 2*(4+8+2))
			tr := newTrial(t, c.do, 2)
			lots := truths(want, 2)
			tr.run(&biasedMarket{truths: lots, pTrue: c.pTrue}, lots)
			t.Logf("the ratio is e^%.4f instead of e^%v", math.Log(c.p/c.q), c.claim)
			tr.wantLeak()
		})
	}
	t.Run("none", func(t *testing.T) {
		tr, lots := newTrial(t, raise, 2), truths(testenv.Tries(100_000, 500_000, 5_000_000), 2)
		tr.run(&biasedMarket{truths: lots, pTrue: kernel(k.PAA, k.PBA)}, lots)
		tr.wantPrivate()
	})
}

// A share at the bound has a count as high with exactly the given probability. If all were counted,
// it is the n-th root of that.
func TestOddsBound_HasTheGivenProbability(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {3, 10}, {700, 1000}, {60_000, 100_000}, {50, 50}} {
		bound := oddsBound(c[0], c[1], 1e-6)
		if got := stattest.AtLeast(c[0], c[1], shareOf(bound)); math.Abs(got-1e-6) > 1e-9 {
			t.Errorf("%d of %d: the bound %v has %g", c[0], c[1], bound, got)
		}
	}
	got, want := shareOf(oddsBound(50, 50, 1e-6)), math.Pow(1e-6, 1./50)
	check.That(t, !(math.Abs(got-want) > 1e-9), "50 of 50: %v, want %v", got, want)
}

// The verdicts of a market that reaches its ε in every transcript are calibrated: of 2000 verdicts,
// at most one in a hundred has a chance below a hundredth. So the choice of suspicious sets is
// accounted for. The test fails by chance with a probability below 1e-9.
func TestJudge_MarketAtItsBound_IsCalibrated(t *testing.T) {
	const verdicts, objects, claim, level = 2000, 400, 0.5, 0.01
	below, least := 0, math.Inf(1)
	for range verdicts {
		ta := newTally(2)
		for i := range objects {
			truth := rand.IntN(2)
			words := make([]string, 3)
			for step := range words {
				words[step] = strconv.Itoa(rand.IntN(2))
			}
			if words[2] = strconv.Itoa(truth); rand.Float64() > shareOf(claim) {
				words[2] = strconv.Itoa(1 - truth)
			}
			ta.add(i, truth, words)
		}
		v := ta.judge(claim)
		if least = min(least, v.chance); v.chance < level {
			below++
		}
	}
	stattest.Share(below, verdicts, 0, level).Holds(t, "verdicts with a chance below %v", level)
	check.That(t, least != 1, "no verdict has a chance below 1, so no event was tested")
}

// An experiment of the computed size finds its fault, which shows in one word.
func TestObjectsFor_ThatManyObjects_FindTheFault(t *testing.T) {
	const claim, fact = 0.5, 1.0
	n := objectsFor(shareOf(fact), 1-shareOf(fact), claim, 100)
	for range 10 {
		ta := newTally(2)
		for i, truth := range truths(n, 2) {
			word := truth
			if rand.Float64() > shareOf(fact) {
				word = 1 - truth
			}
			ta.add(i, truth, []string{strconv.Itoa(word)})
		}
		v := ta.judge(claim)
		check.That(t, v.isRejected() && !(v.bound > fact), "%d objects: %v", n, v)
	}
	for _, fewer := range []int{n / 10, n / 4} { // with fewer objects the same formulas, at the mean, do not find it
		if in := float64(fewer) / 2 * shareOf(fact); stattest.AtLeast(int(in), fewer/2, shareOf(claim)) < alarm/100 {
			t.Errorf("%d objects would be enough, where %d are required", fewer, n)
		}
	}
}

func TestNoticeable_MoreObjects_FindsSmallerExcess(t *testing.T) {
	many, few := noticeable(1_000_000, 0.6, 100), noticeable(10_000, 0.6, 100)
	check.That(t, !(many <= 0) && !(many > 0.05) && !(few < 8*many) && !(few > 12*many),
		"with a million objects %v is noticed, with ten thousand %v: want about a tenth of it", many, few)
}
