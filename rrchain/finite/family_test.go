package finite

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// families returns families of all kinds. Some have levels with different numbers of outputs.
func families(t *testing.T) map[string]*Family {
	random := rand.New(rand.NewPCG(11, 12))
	top := matrixOf("1/10 2/10 3/10 4/10", "4/10 1/10 1/10 4/10", "3/10 3/10 3/10 1/10")
	middle := top.then(randomMatrix(random, 4, 2))
	bottom := middle.then(randomMatrix(random, 2, 3))
	return map[string]*Family{
		"randomized response":     rising(t, func(odds *big.Rat) *Matrix { return randomized(3, odds) }, "3/2", "2", "4"),
		"randomized, four levels": rising(t, func(odds *big.Rat) *Matrix { return randomized(2, odds) }, "3/2", "2", "4", "5"),
		"unary encoding":          rising(t, func(odds *big.Rat) *Matrix { return unary(2, odds) }, "3/2", "2", "4"),
		"Hadamard response":       rising(t, func(odds *big.Rat) *Matrix { return hadamard(3, odds) }, "3/2", "2", "4"),
		"unary beside subsets": family(t,
			subsets(3, 2, rat("11/10")), randomized(3, rat("5/4")), unary(3, rat("4"))),
		"subsets of several sizes": family(t,
			subsets(4, 3, rat("11/10")), subsets(4, 2, rat("3/2")), subsets(4, 1, rat("4"))),
		"random channels": family(t, bottom, middle, top),
		"outputs that never happen": family(t,
			matrixOf("2/5 0 3/5", "3/5 0 2/5"),
			matrixOf("3/4 0 1/4 0", "1/4 0 3/4 0")),
		"a single level": family(t, unary(2, rat("3"))),
	}
}

// rising returns the family of one mechanism at several odds.
func rising(t *testing.T, mechanism func(odds *big.Rat) *Matrix, odds ...string) *Family {
	var levels []*Matrix
	for _, text := range odds {
		levels = append(levels, mechanism(rat(text)))
	}
	return family(t, levels...)
}

// draws returns the places at which the levels of a family are drawn in some order. The neighbours
// among the levels drawn before decide whether a draw is a raise, a degradation or an insertion.
func draws(f *Family, order []int) []place {
	var places []place
	for k, at := range order {
		p := place{below: none, at: at, above: f.truth()}
		for _, other := range order[:k] {
			if other < at {
				p.below = max(p.below, other)
			} else {
				p.above = min(p.above, other)
			}
		}
		places = append(places, p)
	}
	return places
}

// joint is the law of all responses for each truth, by the text of the responses.
type joint []map[string]*big.Rat

// jointLaw multiplies the laws of the draws, in the order given.
func jointLaw(f *Family, order []int, laws func(place, []int) ([][]*big.Int, error)) joint {
	all := make(joint, f.levels[0].inputs)
	for truth := range all {
		all[truth] = make(map[string]*big.Rat)
		var extend func(places []place, responses []int, p *big.Rat)
		extend = func(places []place, responses []int, p *big.Rat) {
			if p.Sign() == 0 {
				return
			}
			if len(places) == 0 {
				all[truth][fmt.Sprint(responses[:f.truth()])] = p
				return
			}
			here := places[0]
			if here.below != none {
				here.lower = responses[here.below]
			}
			law := probabilities(must(laws(here, responses[here.above:here.above+1]))[0])
			for o, q := range law {
				next := slices.Clone(responses)
				next[here.at] = o
				extend(places[1:], next, times(p, q))
			}
		}
		responses := make([]int, f.truth()+1)
		responses[f.truth()] = truth
		extend(draws(f, order), responses, integer(1))
	}
	return all
}

// The faults that collusionFaults detects.
const (
	orderMatters  = "the order of drawing changes the joint law"
	wrongMarginal = "a response does not have the law of its ε"
	lossAdds      = "responses together cost more than the highest ε"
	ratioDiffers  = "the likelihood ratio is not that of the highest response"
)

// collusionFaults enumerates the joint law of the responses for each true value, for every order of
// drawing and every coalition of buyers. It returns the faults.
func collusionFaults(f *Family, laws func(place, []int) ([][]*big.Int, error)) []string {
	wrong := map[string]bool{}
	var first joint
	for _, order := range permutations(f.truth()) {
		all := jointLaw(f, order, laws)
		if first == nil {
			first = all
		}
		if !sameJoint(first, all) {
			wrong[orderMatters] = true
		}
		for coalition := uint(1); coalition < 1<<f.truth(); coalition++ {
			coalitionFaults(f, all, coalition, wrong)
		}
	}
	var found []string
	for what := range wrong {
		found = append(found, what)
	}
	slices.Sort(found)
	return found
}

func sameJoint(a, b joint) bool {
	for truth := range a {
		if len(a[truth]) != len(b[truth]) {
			return false
		}
		for responses, p := range a[truth] {
			if q, ok := b[truth][responses]; !ok || p.Cmp(q) != 0 {
				return false
			}
		}
	}
	return true
}

// coalitionFaults adds the faults of the law of the responses that one coalition sees.
func coalitionFaults(f *Family, all joint, coalition uint, wrong map[string]bool) {
	highest := bits.Len(coalition) - 1
	top := f.levels[highest]
	most := big.NewRat(1, 1) // the largest ratio of probabilities at the highest level
	for o := range top.outputs {
		if low, high := top.extremes(o); low.Sign() > 0 && over(high, low).Cmp(most) > 0 {
			most = over(high, low)
		}
	}
	seen := make(joint, len(all))
	for truth := range all {
		seen[truth] = make(map[string]*big.Rat)
		for text, p := range all[truth] {
			key := visibleTo(text, coalition)
			if seen[truth][key] == nil {
				seen[truth][key] = new(big.Rat)
			}
			seen[truth][key].Add(seen[truth][key], p)
		}
	}
	for key, p := range seen[0] {
		best := output(key, highest)
		for a := range seen {
			pa := seen[a][key]
			if pa == nil {
				wrong[lossAdds] = true
				continue
			}
			if bits.OnesCount(coalition) == 1 && pa.Cmp(top.at(a, best)) != 0 {
				wrong[wrongMarginal] = true
			}
			if times(pa, top.at(0, best)).Cmp(times(p, top.at(a, best))) != 0 {
				wrong[ratioDiffers] = true
			}
			for b := range seen {
				if pb := seen[b][key]; pb == nil || pa.Cmp(times(most, pb)) > 0 {
					wrong[lossAdds] = true
				}
			}
		}
	}
}

// visibleTo replaces the responses of the levels that are not in a coalition by "-".
func visibleTo(responses string, coalition uint) string {
	fields := strings.Fields(strings.Trim(responses, "[]"))
	for level := range fields {
		if coalition>>level&1 == 0 {
			fields[level] = "-"
		}
	}
	return strings.Join(fields, " ")
}

// output returns the response at a level from a result of [visibleTo].
func output(key string, level int) (o int) {
	_, _ = fmt.Sscan(strings.Fields(key)[level], &o)
	return o
}

// For small families, the promise of the package is proven by enumeration in rational numbers, over
// all responses, orders of drawing, pairs of true values and coalitions of buyers.
func TestFamily_AnyCoalition_LearnsOnlyTheHighestLevel(t *testing.T) {
	for name, f := range families(t) {
		t.Run(name, func(t *testing.T) {
			for _, fault := range collusionFaults(f, f.laws) {
				t.Error(fault)
			}
		})
	}
}

// The test before relies on collusionFaults, which must detect a raise that ignores the last
// response, and an insertion that ignores the response below.
func TestCollusionFaults_WrongLaws_AreDetected(t *testing.T) {
	f := families(t)["subsets of several sizes"]
	spoilt := func(spoil func(place) bool) func(place, []int) ([][]*big.Int, error) {
		return func(p place, uppers []int) ([][]*big.Int, error) {
			if spoil(p) {
				p.below = none
			}
			return f.laws(p, uppers)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(place) bool
		want  []string
	}{
		{"raise that ignores the last response", func(p place) bool { return p.above == f.truth() }, []string{orderMatters, wrongMarginal, lossAdds, ratioDiffers}},
		{"insertion that ignores the response below", func(p place) bool { return p.above != f.truth() }, []string{orderMatters, lossAdds, ratioDiffers}},
		{"correct", func(place) bool { return false }, nil},
	} {
		slices.Sort(c.want)
		got := collusionFaults(f, spoilt(c.spoil))
		check.That(t, slices.Equal(got, c.want), "%s: found %q, want %q", c.name, got, c.want)
	}
}

// A raise that skips a level has the same law as two raises by way of that level.
func TestKernel_SkippedLevel_IsTheSameLaw(t *testing.T) {
	for name, f := range families(t) {
		levels := f.Epsilons()
		if len(levels) < 3 {
			continue
		}
		without := must(f.Kernel(levels[0], levels[2], 1, 0))
		sums := make([]*big.Rat, len(without))
		for i := range sums {
			sums[i] = new(big.Rat)
		}
		for middle, p := range must(f.Kernel(levels[0], levels[1], 1, 0)) {
			for o, q := range must(f.Kernel(levels[1], levels[2], 1, middle)) {
				sums[o].Add(sums[o], times(p, q))
			}
		}
		for o, want := range sums {
			check.That(t, without[o].Cmp(want) == 0,
				"%s: output %d with probability %v, want %v", name, o, without[o], want)
		}
	}
}

func TestFamily_Levels_AreFoundByEpsilon(t *testing.T) {
	levels := []*Matrix{randomized(3, rat("3/2")), randomized(3, rat("2"))}
	low, high := levels[0], levels[1]
	f := family(t, levels...)
	levels[0], levels[1] = nil, nil // the family has its own list
	f.Epsilons()[0] = privacy.Epsilon{}
	want := []privacy.Epsilon{eps("0.405465109"), eps("0.693147181")}
	check.That(t, reflect.DeepEqual(f.Epsilons(), want), "ε = %v, want %v", f.Epsilons(), want)
	for i, want := range []*Matrix{low, high} {
		got, ok := f.Level(f.Epsilons()[i])
		check.That(t, ok && got == want, "level %d is %v, %v", i, got, ok)
	}
	m, ok := f.Level(eps("0.5"))
	check.That(t, m == nil && !ok, "a level at ε = 0.5: %v, %v", m, ok)
}

func TestNewFamily_InvalidLevels_AreRefused(t *testing.T) {
	two := func(text string) *Matrix { return randomized(2, rat(text)) }
	flat := matrixOf("1/2 1/2", "1/2 1/2")
	for _, c := range []struct {
		name   string
		levels []*Matrix
		names  string
	}{
		{"nothing", nil, "no mechanisms"},
		{"a missing one", []*Matrix{two("2"), nil}, "mechanism 1: "},
		{"ε = 0", []*Matrix{flat}, "mechanism 0 has ε = 0"},
		{"falling ε", []*Matrix{two("2"), two("3"), two("5/2")}, "mechanism 2 has ε = 0.916290732"},
		{"the same ε", []*Matrix{two("2"), two("1/2")}, "mechanism 1 has ε = 0.693147181"},
		{"not private", []*Matrix{two("2"), matrixOf("1 0", "0 1")}, "mechanism 1: "},
		{"other inputs", []*Matrix{two("2"), randomized(3, rat("3"))}, "has 3 inputs and the lower one 2"},
	} {
		f, err := NewFamily(t.Context(), c.levels...)
		check.That(t, f == nil && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"%s: %v, %v; want an error that names %q", c.name, f, err, c.names)
	}
	first, second := randomized(3, rat("29/10")), unary(3, rat("3"))
	f, err := NewFamily(t.Context(), randomized(3, rat("2")), first, second)
	if f != nil || !strings.Contains(err.Error(), "mechanism 1, at ε = 1.064710737, and the next, at ε = 1.098612289") {
		t.Errorf("%v, %v", f, err)
	}
	wantGame(t, "no degradation of the next", second, first, err)
}

func TestKernel_InvalidArguments_AreRefused(t *testing.T) {
	f := families(t)["outputs that never happen"]
	low, high := f.Epsilons()[0], f.Epsilons()[1]
	for _, c := range []struct {
		name        string
		from, to    privacy.Epsilon
		truth, last int
	}{
		{"down", high, low, 0, 0},
		{"nowhere", low, low, 0, 0},
		{"from an unknown level", eps("0.3"), high, 0, 0},
		{"from nothing", privacy.Epsilon{}, high, 0, 0},
		{"to an unknown level", low, eps("7"), 0, 0},
		{"a true value out of range", low, high, 2, 0},
		{"a negative truth", low, high, -1, 0},
		{"a response out of range", low, high, 0, 3},
		{"a negative response", low, high, 0, -1},
		{"a response that never occurs", low, high, 0, 1},
	} {
		law, err := f.Kernel(c.from, c.to, c.truth, c.last)
		check.That(t, law == nil && errors.Is(err, privacy.ErrInvalid), "%s: %v, %v", c.name, law, err)
	}
	law, err := new(Family).Kernel(low, high, 0, 0)
	check.That(t, law == nil && errors.Is(err, privacy.ErrInvalid), "of a family without levels: %v, %v", law, err)
}

// Several goroutines draw from one family, and the race detector checks their memory accesses.
func TestFamily_ConcurrentUse_HasNoRace(t *testing.T) {
	f := families(t)["random channels"]
	levels := f.Epsilons()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s := new(Sampler)
			for truth := range 3 {
				low, err := s.Raise(f, rrchain.Level[int]{}, levels[0], truth)
				check.OK(t, err)
				high, err := s.Raise(f, low, levels[2], truth)
				check.OK(t, err)
				check.OK(t, check.Err(s.Between(f, low, high, levels[1])))
			}
		})
	}
	all.Wait()
}

// Two responses can occur together if the channel between their levels maps one to the other with a
// probability above 0.
func TestCanOccur_ResponsesThatExcludeEachOther_IsFalse(t *testing.T) {
	var f Family // the channel maps outputs 1 and 2 always to 1
	check.Must(t, f.UnmarshalJSON([]byte(`{"levels":[[["1/2","1/2"],["1/4","3/4"]],[["1/2","1/4","1/4"],["1/4","5/8","1/8"]]],
		"channels":[[["1","0"],["0","1"],["0","1"]]]}`)))
	at := f.Epsilons()
	for higher, leads := range [][2]bool{{true, false}, {false, true}, {false, true}} {
		for lower, want := range leads {
			if got := f.CanOccur(rrchain.Level[int]{Epsilon: at[0], Response: lower}, rrchain.Level[int]{Epsilon: at[1], Response: higher}); got != want {
				t.Errorf("outputs %d and %d: %v, want %v", higher, lower, got, want)
			}
		}
	}
	for name, pair := range map[string][2]rrchain.Level[int]{
		"the wrong order":     {{Epsilon: at[1], Response: 0}, {Epsilon: at[0], Response: 0}},
		"one level twice":     {{Epsilon: at[0], Response: 0}, {Epsilon: at[0], Response: 0}},
		"no output":           {{Epsilon: at[0], Response: 2}, {Epsilon: at[1], Response: 0}},
		"a negative output":   {{Epsilon: at[0], Response: 0}, {Epsilon: at[1], Response: -1}},
		"no level of the two": {{}, {Epsilon: at[1], Response: 0}},
	} {
		check.That(t, !f.CanOccur(pair[0], pair[1]), "%s: possible", name)
	}
}
