//go:build !race

package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/internal/stattest"
)

// The statistics. The truth of each object is drawn by lot, every value as likely as the others. So of the objects whose
// truth is x or y, and whose transcript is in a set S, each has the truth x with the probability
//
//	Pr(S|x) / (Pr(S|x) + Pr(S|y)),
//
// independently of all others; and the claim Pr(S|x) ≤ e^ε·Pr(S|y) says that this is e^ε/(1+e^ε) at most. It is tested by
// the binomial distribution, with nothing approximated: the same as to put the lower bound of Clopper and Pearson (1934) on
// the share, and its odds, a lower bound on the ratio of likelihoods, beside e^ε. (Bounds on Pr(S|x) and Pr(S|y) apart are
// two instead of one, and find less where S is rare.)
//
// It holds given all transcripts. So S may be chosen by looking at them, but not at the truths. Whoever does that, to take
// what is most suspicious, looks at one half of the objects and tests the other.

// alarm is the probability with which a ledger that keeps its promise is accused by one verdict. A run makes far fewer
// than a hundred of them.
const alarm = stattest.Alarm / 100

// miss is the probability with which a fault of the size that a test states is not noticed.
const miss = 1e-9

// tally counts transcripts.
type tally struct {
	values int // truths are numbers below that
	cells  map[string]*cell
}

// cell is one transcript.
type cell struct {
	words  []string // what was seen in each step
	counts [2][]int // how often, in either half of the objects, by truth
}

func newTally(values int) *tally { return &tally{values, map[string]*cell{}} }

// add counts what was seen of an object. Which half it belongs to depends on its number alone.
func (t *tally) add(object, truth int, words []string) {
	key := strings.Join(words, " ")
	c := t.cells[key]
	if c == nil {
		c = &cell{words: slices.Clone(words), counts: [2][]int{make([]int, t.values), make([]int, t.values)}}
		t.cells[key] = c
	}
	c.counts[object%2][truth]++
}

// event is a set of transcripts, with the number of objects by truth.
type event struct {
	name   string
	counts []int
}

// words are two words in their steps; or one, if the steps are the same.
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

// named returns the events that are tested for every pair of truths: each single transcript, each word in its step, and
// each two of these together. No truth has a part in which they are. They are tested on all objects.
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

// suspicion orders transcripts: the higher it is, the more one speaks for the truth x against y. It is made from the
// first half of the objects.
type suspicion func(c *cell) float64

// suspicions are ways to learn from the first half: transcript by transcript, as StatDP does, which is right where each
// has been seen often; and, where they are many, by the words in them as if these were independent, the simplest of the
// classifiers that DP-Sniper calls for.
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

// learned returns the most suspicious set of transcripts, as many as the first half of the objects suggests, with the
// counts of the second half.
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

// attackVerdict is the most incriminating of all events that were tested.
type attackVerdict struct {
	event
	x, y   int // the pair of truths
	in, of int // how many of the objects with one of them have the first
	// chance is the probability that any of the events would look as bad or worse if the claim were true; at most.
	chance float64
	bound  float64 // what the logarithm of the ratio of likelihoods surely is, but for a probability of alarm
	claim  float64 // what it may be: ε
}

func (v attackVerdict) guilty() bool { return v.chance < alarm }

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

// shareOf is the share of an event's objects that may have the first truth of a pair.
func shareOf(claim float64) float64 { return 1 / (1 + math.Exp(-claim)) }

// oddsBound is the lower bound of Clopper and Pearson on a share, if k of n were counted, as the logarithm of its odds.
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

// objectsFor returns how many objects it takes for a fault to be noticed, except with the probability miss: p and q are the
// probabilities of an event given two truths, of two, where p ≤ e^ε·q is claimed; and tests is how many events are tested.
func objectsFor(p, q, claim float64, tests int) int {
	level := alarm / float64(tests)
	noticed := func(n int) bool {
		critical := leastWith(n, func(k int) bool { return stattest.AtLeast(k, n, shareOf(claim)) < level })
		return stattest.AtLeast(critical, n, p/(p+q)) > 1-miss/2
	}
	inEvent := leastWith(1<<40, noticed)
	inEvent += inEvent / 50 // a few more may be worse by a hair, because counts are whole numbers
	return leastWith(1<<40, func(n int) bool { return stattest.AtLeast(inEvent, n, (p+q)/2) > 1-miss/2 })
}

// leastWith returns the smallest number up to n for which something holds, if it holds from there on; and n+1 if there
// is none. It looks at no number beyond twice the one that it finds.
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

// noticeable returns by how much the logarithm of the ratio must exceed the claim so that it is noticed with so many
// objects, in hundredths, up to 3: for the event that has half of them, and two truths. Beyond, it returns +Inf.
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
