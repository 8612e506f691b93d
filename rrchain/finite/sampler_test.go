package finite

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// The law has probabilities in eighths, and the test draws with each of the eight values of the
// first three random bits.
func TestRaise_AllEighths_FollowTheLaw(t *testing.T) {
	f := family(t, matrixOf("1/8 3/8 0 1/2", "1/4 1/4 0 1/2", "1/4 3/8 0 3/8"))
	level := f.Epsilons()[0]
	for truth, want := range []string{"01113333", "00113333", "00111333"} {
		got := ""
		for u := range uint64(8) {
			for _, rest := range []uint64{0, math.MaxUint64 >> 3} {
				s := replay(u<<61 | rest)
				drawn := must(s.Raise(f, rrchain.Level[int]{}, level, truth))
				if rest == 0 {
					got += fmt.Sprint(drawn.Response)
				} else if !strings.HasSuffix(got, fmt.Sprint(drawn.Response)) {
					t.Errorf("truth %d: the end of the eighth %d gives %d", truth, u, drawn.Response)
				}
			}
		}
		check.That(t, got == want, "truth %d: the eighths give %s, want %s", truth, got, want)
	}
}

// The random numbers agree with a threshold in 64, 128 and 192 bits and are then one bit above or
// below it. The side must decide the response.
func TestRaise_NearAThreshold_IsExact(t *testing.T) {
	for name, f := range families(t) {
		levels := f.Epsilons()
		top := levels[len(levels)-1]
		for truth := range f.levels[0].inputs {
			law := lawOf(f.levels[len(levels)-1], truth)
			threshold := new(big.Rat)
			for o, p := range law {
				threshold = plus(threshold, p)
				if threshold.Cmp(integer(1)) >= 0 || p.Sign() == 0 {
					continue
				}
				above := o + 1
				for law[above].Sign() == 0 {
					above++
				}
				for digits := 1; digits < 4; digits++ {
					unit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), uint(64*digits)))
					under, over := wordsOf(minus(threshold, unit), digits), wordsOf(plus(threshold, unit), digits)
					at := wordsOf(threshold, digits+2)
					for got, c := range map[string]struct {
						words []uint64
						want  int
					}{
						"below": {append(under, math.MaxUint64), o},
						"at":    {append(at, math.MaxUint64), above},
						"above": {append(over, 0), above},
					} {
						s := replay(c.words...)
						drawn := must(s.Raise(f, rrchain.Level[int]{}, top, truth))
						if drawn.Response != c.want || drawn.Epsilon != top {
							t.Errorf("%s, truth %d, %s threshold %d in digit %d: %v, want %d", name, truth, got, o, digits, drawn, c.want)
						}
					}
				}
			}
		}
	}
}

// wordsOf returns the first digits of a number in [0,1) to base 2⁶⁴.
func wordsOf(x *big.Rat, n int) []uint64 {
	var words []uint64
	scale := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64))
	for range n {
		x = times(x, scale)
		digit := new(big.Int).Quo(x.Num(), x.Denom())
		words = append(words, digit.Uint64())
		x = minus(x, new(big.Rat).SetInt(digit))
	}
	return words
}

// The cached thresholds must be those of the laws of the family, for all draws.
func TestSamplerTable_AgreesWithTheLaws(t *testing.T) {
	for name, f := range families(t) {
		for _, order := range permutations(f.truth()) {
			for _, p := range draws(f, order) {
				c := lawKey{family: f, place: p}
				table := must(new(Sampler).table(c))
				laws := must(f.laws(p, c.uppers()))
				check.Need(t, table.laws == len(laws) && len(table.cells) == table.laws*table.thresholds,
					"%s, %+v: %d laws with %d cells", name, p, table.laws, len(table.cells))
				for l, law := range laws {
					sum, single := new(big.Rat), probabilities(law)
					for o := range table.thresholds {
						sum.Add(sum, single[o])
						cell := new(big.Rat).SetInt(new(big.Int).SetUint64(table.cells[l*table.thresholds+o]))
						scaled := times(sum, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64)))
						check.That(t, scaled.Cmp(cell) >= 0 && scaled.Cmp(plus(cell, integer(1))) <= 0,
							"%s, %+v: threshold %d is in the cell %v, want %v", name, p, o, cell, scaled)
					}
				}
			}
		}
	}
}

// A draw must read the same number of random words for every true value.
func TestRaise_RandomWordsRead_DoNotDependOnTruth(t *testing.T) {
	for name, f := range families(t) {
		for truth := range f.levels[0].inputs {
			s := replay()
			last := rrchain.Level[int]{}
			for i, epsilon := range f.Epsilons() {
				s.bits.Uint64() // an even word; the draw then reads the odd word after it, below any threshold
				last = must(s.Raise(f, last, epsilon, truth))
				if next := s.bits.Uint64(); next != uint64(3*i+2) {
					t.Errorf("%s, truth %d: after draw %d comes word %d, want %d", name, truth, i, next, 3*i+2)
				}
			}
		}
	}
}

// Chains are drawn with the randomness of the operating system: the two outer levels, then the one
// between. The statistical test must detect a sampler that ignores the response below.
func TestSampler_Chains_HaveTheJointLaw(t *testing.T) {
	const n = 20_000
	for name, samplers := range map[string][]bool{"subsets of several sizes": {false, true}, "random channels": {false}} {
		f := families(t)[name]
		for truth, exactly := range jointLaw(f, []int{0, 1, 2}, f.laws) {
			law := map[string]float64{}
			for responses, p := range exactly {
				law[responses], _ = p.Float64()
			}
			for _, ignoresBelow := range samplers {
				v := stattest.Fit(drawChains(f, truth, n, ignoresBelow), law)
				if ignoresBelow {
					v.Fails(t, "%s, truth %d, ignoring the response below", name, truth)
				} else {
					v.Holds(t, "%s, truth %d", name, truth)
				}
			}
		}
	}
}

// drawChains counts the responses of n chains of three levels. If ignoresBelow, the middle level is
// drawn without regard to the one below.
func drawChains(f *Family, truth, n int, ignoresBelow bool) map[string]int {
	s, counts, levels := new(Sampler), make(map[string]int), f.Epsilons()
	for range n {
		low := must(s.Raise(f, rrchain.Level[int]{}, levels[0], truth))
		high := must(s.Raise(f, low, levels[2], truth))
		below := low
		if ignoresBelow {
			below = rrchain.Level[int]{}
		}
		middle := must(s.Between(f, below, high, levels[1]))
		counts[fmt.Sprint([]int{low.Response, middle.Response, high.Response})]++
	}
	return counts
}

func TestRaise_InvalidArguments_AreRefused(t *testing.T) {
	f := families(t)["outputs that never happen"]
	low, high := f.Epsilons()[0], f.Epsilons()[1]
	for _, c := range []struct {
		name  string
		last  rrchain.Level[int]
		to    privacy.Epsilon
		names string
	}{
		{"to an unknown level", rrchain.Level[int]{}, eps("0.25"), "ε = 0.25"},
		{"to nothing", rrchain.Level[int]{}, privacy.Epsilon{}, "ε = 0"},
		{"from an unknown level", rrchain.Level[int]{Epsilon: eps("0.25")}, high, "ε = 0.25"},
		{"from a response at ε = 0", rrchain.Level[int]{Response: 1}, high, "ε = 0"},
		{"not upwards", rrchain.Level[int]{Epsilon: low}, low, "ε = 0.405465109"},
		{"downwards", rrchain.Level[int]{Epsilon: high}, low, "ε = 1.098612289"},
		{"a response out of range", rrchain.Level[int]{Epsilon: low, Response: 3}, high, "response 3"},
		{"a negative response", rrchain.Level[int]{Epsilon: low, Response: -1}, high, "response -1"},
		{"a response that never occurs", rrchain.Level[int]{Epsilon: low, Response: 1}, high, "never occurs"},
	} {
		for truth := range 2 {
			s := replay()
			got, err := s.Raise(f, c.last, c.to, truth)
			if got != (rrchain.Level[int]{}) || !errors.Is(err, privacy.ErrInvalid) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%s: %v, %v; want an error that names %q", c.name, got, err, c.names)
			}
			check.That(t, s.bits.Uint64() == 0, "%s: randomness was used", c.name)
		}
	}
	for _, truth := range []int{-987654, 2, 987654} {
		_, err := new(Sampler).Raise(f, rrchain.Level[int]{}, low, truth)
		want := "invalid argument: the true value is not one of the 2 inputs"
		check.That(t, err != nil && err.Error() == want, "the error for another truth is %v, want %s", err, want)
	}
	_, err := new(Sampler).Raise(new(Family), rrchain.Level[int]{}, low, 0)
	check.That(t, errors.Is(err, privacy.ErrInvalid), "in a family without levels: %v", err)
}

func TestBetween_InvalidArguments_AreRefused(t *testing.T) {
	f := family(t, randomized(2, rat("5/4")),
		matrixOf("2/5 3/5 0", "3/5 2/5 0"),
		matrixOf("3/4 0 1/4", "1/4 0 3/4"))
	levels := f.Epsilons()
	at := func(i, response int) rrchain.Level[int] {
		return rrchain.Level[int]{Epsilon: levels[i], Response: response}
	}
	none := rrchain.Level[int]{}
	for _, c := range []struct {
		name         string
		below, above rrchain.Level[int]
		at           privacy.Epsilon
		names        string
	}{
		{"below nothing", none, none, levels[0], "ε = 0 "},
		{"below an unknown level", none, rrchain.Level[int]{Epsilon: eps("3")}, levels[0], "ε = 3 "},
		{"at an unknown level", none, at(2, 0), eps("1"), "ε = 1 "},
		{"at the one above", none, at(2, 0), levels[2], "not a level of the family below"},
		{"at one higher than the one above", none, at(1, 0), levels[2], "not a level of the family below"},
		{"above an unknown level", rrchain.Level[int]{Epsilon: eps("0.1")}, at(2, 0), levels[1], "ε = 0.1 "},
		{"at the one below", at(1, 0), at(2, 0), levels[1], "ε = "},
		{"at one lower than the one below", at(1, 0), at(2, 0), levels[0], "ε = "},
		{"a response above that is none", none, at(2, 3), levels[0], "response 3"},
		{"a negative response above", none, at(2, -1), levels[0], "response -1"},
		{"a response above that never occurs", none, at(2, 1), levels[0], "never occurs"},
		{"a response below that is none", at(0, 2), at(2, 0), levels[1], "response 2"},
	} {
		got, err := new(Sampler).Between(f, c.below, c.above, c.at)
		check.That(t, got == none && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"%s: %v, %v; want an error that names %q", c.name, got, err, c.names)
	}
}

// In this family, the highest response restricts which lowest responses are possible.
func TestBetween_ImpossibleResponses_AreRefused(t *testing.T) {
	top := matrixOf("3/5 1/5 1/5", "1/5 1/5 3/5")
	apart := matrixOf("1/2 1/2 0", "1/2 0 1/2", "0 1/2 1/2")
	middle := top.then(apart)
	low := middle.then(matrixOf("1 0", "1/2 1/2", "0 1"))
	f := family(t, low, middle, top)
	for upper := range 3 {
		for lower := range 2 {
			below := rrchain.Level[int]{Epsilon: f.epsilons[0], Response: lower}
			above := rrchain.Level[int]{Epsilon: f.epsilons[2], Response: upper}
			chance := f.likelihood(2, 0, lower)[upper]
			drawn, err := new(Sampler).Between(f, below, above, f.epsilons[1])
			if chance.Sign() == 0 && !errors.Is(err, privacy.ErrInvalid) || chance.Sign() != 0 && err != nil {
				t.Errorf("%d below and %d above, with probability %v: %v, %v", lower, upper, chance, drawn, err)
			}
		}
	}
	impossible := place{below: 0, at: 1, above: 2}
	f.channels[1] = matrixOf("0 0 1", "1 0 0", "1 0 0")
	f.channels[0] = matrixOf("1 0", "1 0", "0 1")
	laws, err := f.laws(impossible, []int{0})
	check.That(t, laws == nil && errors.Is(err, privacy.ErrInvalid), "%v, %v", laws, err)
	below, above := rrchain.Level[int]{Epsilon: f.epsilons[0]}, rrchain.Level[int]{Epsilon: f.epsilons[2]}
	drawn, err := new(Sampler).Between(f, below, above, f.epsilons[1])
	check.That(t, drawn == (rrchain.Level[int]{}) && errors.Is(err, privacy.ErrInvalid), "%v, %v", drawn, err)
}

// The test uses more laws than a sampler caches.
func TestSampler_ManyLaws_CacheIsBounded(t *testing.T) {
	f := family(t, randomized(32, rat("2")), randomized(32, rat("3")))
	s := new(Sampler)
	most := 0
	for i := range cachedCells/(32*31+tableCells) + 20 {
		c := lawKey{family: f, place: place{below: 0, lower: i % 32, at: 1, above: f.truth()}, upper: -i}
		check.Must(t, check.Err(s.table(c)))
		cells := 0
		if most < len(s.tables) {
			most = len(s.tables)
			continue
		}
		for _, table := range s.tables {
			cells += len(table.cells) + tableCells
		}
		check.Need(t, cells == s.cells && cells <= cachedCells,
			"the sampler has %d thresholds, counts %d, may have %d", cells, s.cells, cachedCells)
	}
	check.That(t, most == cachedCells/(32*31+tableCells) && len(s.tables) < most,
		"%d tables at most, %d now", most, len(s.tables))
}

// One table serves all true values.
func TestSampler_SameLaw_UsesOneTable(t *testing.T) {
	f := families(t)["random channels"]
	s := new(Sampler)
	for i := range 300 {
		low := must(s.Raise(f, rrchain.Level[int]{}, f.epsilons[0], i%3))
		if must(s.Raise(f, low, f.epsilons[2], i%3)); len(s.tables) > 4 {
			t.Fatalf("%d tables for a first response and a raise from each of 3", len(s.tables))
		}
	}
}

// BenchmarkRaise raises a response of 16 outputs, with cached laws and with new ones.
func BenchmarkRaise(b *testing.B) {
	d := must(SubsetSelection(16, 1))
	f := must(d.Family(eps("0.5"), eps("1"), eps("2")))
	s := new(Sampler)
	b.Run("again", func(b *testing.B) {
		for i := range b.N {
			low := must(s.Raise(f, rrchain.Level[int]{}, f.epsilons[0], i%16))
			must(s.Raise(f, low, f.epsilons[2], i%16))
		}
	})
	b.Run("first", func(b *testing.B) {
		for i := range b.N {
			s := new(Sampler)
			low := must(s.Raise(f, rrchain.Level[int]{}, f.epsilons[0], i%16))
			must(s.Raise(f, low, f.epsilons[2], i%16))
		}
	})
}
