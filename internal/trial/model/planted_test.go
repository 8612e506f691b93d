//go:build !race

package model

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Faults, planted in markets that are right otherwise, so that it is seen that the attack finds them. How many objects that
// takes follows from the fault: there is a set of transcripts, two words, for which the ratio of likelihoods can be
// computed; so many objects are asked that it is noticed, except with the probability miss.

// stall is a market in memory, for a question of two values.
type stall struct {
	testing.TB
	truths  []int
	chains  []*rrchain.Chain[int]
	sampler *rrchain.Sampler
	told    map[string][]string // by the key of an order that was filled, or by what else a fault keeps responses
	fault   fault
}

type fault int

const (
	faultless         fault = iota
	redrawsLevels           // each level is drawn from the truth, as if there were no others
	redrawsAfterCrash       // what was not told before a crash is forgotten, though it was seen
	redrawsForBuyers        // each buyer has responses of its own
	redrawsRepeats          // an order that is repeated is drawn, and charged, once more
	redrawsLow              // a level below the highest is drawn from the truth instead of the level above
	redrawsUnderTerms       // chains begin anew when their terms change
)

func newStall(t testing.TB, f fault, truths []int) *stall {
	t.Helper()
	s := &stall{TB: t, truths: truths, sampler: new(rrchain.Sampler), told: map[string][]string{}, fault: f}
	for range truths {
		s.chains = append(s.chains, newChain(t))
	}
	return s
}

func newChain(t testing.TB, levels ...rrchain.Level[int]) *rrchain.Chain[int] {
	c, err := rrchain.NewChain[int](2, levels...)
	must(t, err)
	return c
}

func (s *stall) fill(o order) []string {
	words, repeated := s.told[o.key]
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
			words[i] = s.anew(i, o)
		} else {
			words[i] = s.respond(i, o)
		}
	}
	s.told[o.key] = words
	return words
}

func (s *stall) crash(o order, when moment) []string {
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

// respond returns what an order gets of an object.
func (s *stall) respond(i int, o order) string {
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

// draw draws a response of a chain as it should be.
func (s *stall) draw(c *rrchain.Chain[int], at privacy.Epsilon, truth int) (level rrchain.Level[int]) {
	var err error
	if c.Current().Epsilon.Less(at) {
		level, err = c.Raise(s.sampler, at, truth)
	} else {
		level, err = c.Insert(s.sampler, at)
	}
	must(s, err)
	return level
}

// anew draws a response from the truth alone.
func (s *stall) anew(i int, o order) string {
	return strconv.Itoa(s.draw(newChain(s), Eps(s, o.at), s.truths[i]).Response)
}

// kept draws a response from the truth alone, once for a name.
func (s *stall) kept(name string, i int, o order) string {
	words := s.told[name]
	if words == nil {
		words = make([]string, len(s.truths))
		s.told[name] = words
	}
	if words[i] == "" {
		words[i] = s.anew(i, o)
	}
	return words[i]
}

// mostTests is more than the number of events in the transcripts of an attack, over both pairs of two truths.
const mostTests = 4000

// truthful is the probability of a true response at ε, of two values.
func truthful(e float64) float64 { return shareOf(e) }

// TestPlantedFaultsAreNoticed attacks stalls as ledgers are attacked. Their fault shows in two words that are both the
// truth: p is the probability of these, and q that of the same words if the other value is the truth.
func TestPlantedFaultsAreNoticed(t *testing.T) {
	both := func(e1, e2 float64) (p, q float64) {
		return truthful(e1) * truthful(e2), (1 - truthful(e1)) * (1 - truthful(e2))
	}
	raise, err := rrchain.NewKernel(2, Eps(t, "1"), Eps(t, "1.5"))
	must(t, err)
	after := func() (p, q float64) { // twice raised from 1, of half of the objects
		p = truthful(1)*raise.PAA*raise.PAA + (1-truthful(1))*raise.PBA*raise.PBA
		q = truthful(1)*raise.OneMinusPAA*raise.OneMinusPAA + (1-truthful(1))*raise.PBB*raise.PBB
		return p / 2, q / 2
	}
	for _, c := range []struct {
		name  string
		fault fault
		law   func() (p, q float64)
	}{
		{"each level drawn anew", redrawsLevels, func() (p, q float64) { return both(1, 1.5) }},
		{"drawn anew after a crash", redrawsAfterCrash, after},
		{"each buyer has other responses", redrawsForBuyers, func() (p, q float64) { return both(1.5, 1.5) }},
		{"a repeated order drawn anew", redrawsRepeats, func() (p, q float64) { return both(1, 1.5) }},
		{"lower levels drawn from the truth", redrawsLow, func() (p, q float64) { return both(0.5, 1.5) }},
		{"drawn anew under other terms", redrawsUnderTerms, func() (p, q float64) { return both(1.5, 1.5) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, q := c.law()
			tr := newTrial(t, oddOrders, 2)
			for want := objectsFor(p, q, 1.5, mostTests); tr.objects < want; {
				lots := truths(min(20_000, want-tr.objects), 2)
				tr.run(newStall(t, c.fault, lots), lots)
			}
			t.Logf("the ratio is e^%.3f instead of e^1.5", math.Log(p/q))
			tr.wantGuilty()
		})
	}
}

// TestAStallWithoutFaultIsInnocent has as many objects as any fault needs.
func TestAStallWithoutFaultIsInnocent(t *testing.T) {
	tr := newTrial(t, oddOrders, 2)
	for range pace.Tries(2, 5, 100) {
		lots := truths(20_000, 2)
		tr.run(newStall(t, faultless, lots), lots)
	}
	tr.wantInnocent()
}

// skew is a market whose responses lean to the truth more than they should. It raises objects from ε=0.1 to 0.2, or asks
// once at ε=1; a small ε has the bound e^ε reached by many of the transcripts.
type skew struct {
	truths []int
	last   []int // nil before the first response
	tells  func(last, truth int) float64
}

// fill implements market. The probability of a true response is what tells says.
func (s *skew) fill(order) []string {
	words, next := make([]string, len(s.truths)), make([]int, len(s.truths))
	for i, truth := range s.truths {
		last := noLast
		if s.last != nil {
			last = s.last[i]
		}
		next[i] = truth
		if rand.Float64() >= s.tells(last, truth) {
			next[i] = 1 - truth
		}
		words[i] = strconv.Itoa(next[i])
	}
	s.last = next
	return words
}

const noLast = -1

func (s *skew) crash(o order, _ moment) []string { return s.fill(o) }

// TestAKernelThatIsOffIsNoticed has three faults of 3 %: the true value comes by 3 % too often in a raise; the same, but only
// if the last response was true; and what is sold at ε=1 is drawn at 1.03. Without a fault the same market is innocent. The quick form has
// one of the faults, another one in each run.
func TestAKernelThatIsOffIsNoticed(t *testing.T) {
	const off = 1.03
	step := pace.Tries(3, 1, 1)
	turn := rand.IntN(step)
	k, err := rrchain.NewKernel(2, Eps(t, "0.1"), Eps(t, "0.2"))
	must(t, err)
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
		tells func(last, truth int) float64
		p, q  float64 // of responses that are all 1, if the truth is 1 and if it is 0
	}{
		{"the truth in a raise", raise, 0.2, kernel(off*k.PAA, off*k.PBA), truthful(0.1) * off * k.PAA, (1 - truthful(0.1)) * (1 - off*k.PBA)},
		{"the truth in a raise from the truth", raise, 0.2, kernel(off*k.PAA, k.PBA), truthful(0.1) * off * k.PAA, (1 - truthful(0.1)) * k.PBB},
		{"ε", once, 1, single(off), truthful(off), 1 - truthful(off)},
	} {
		if i%step != turn {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			// The transcripts are few: two or four, in which there are at most 8 words or pairs of words.
			want := objectsFor(c.p, c.q, c.claim, 2*(4+8+2))
			tr := newTrial(t, c.do, 2)
			lots := truths(want, 2)
			tr.run(&skew{truths: lots, tells: c.tells}, lots)
			t.Logf("the ratio is e^%.4f instead of e^%v", math.Log(c.p/c.q), c.claim)
			tr.wantGuilty()
		})
	}
	t.Run("none", func(t *testing.T) {
		tr, lots := newTrial(t, raise, 2), truths(pace.Tries(100_000, 500_000, 5_000_000), 2)
		tr.run(&skew{truths: lots, tells: kernel(k.PAA, k.PBA)}, lots)
		tr.wantInnocent()
	})
}
