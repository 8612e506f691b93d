package finite

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

func TestDesign_Invalid_IsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		inputs int
		blocks [][]int
		names  string
	}{
		{"one input", 1, [][]int{{0}, {}}, "at least 2 inputs"},
		{"a negative number of inputs", -3, [][]int{{0}, {}}, "at least 2 inputs"},
		{"no blocks", 2, nil, "2 blocks"},
		{"one block", 2, [][]int{{0, 1}}, "2 blocks"},
		{"too many inputs", maxCells, [][]int{{0}, {1}}, "at most 4096"},
		{"too many blocks", 2, make([][]int, maxCells/2+1), "at most 4096"},
		{"an input out of range", 2, [][]int{{0}, {2}}, "block 1 "},
		{"a negative input", 2, [][]int{{-1}, {0}}, "block 0 "},
		{"an input twice", 2, [][]int{{0, 1}, {1, 0, 1}}, "block 1 has input 1, which"},
		{"out of balance", 3, [][]int{{0, 1}, {1, 2}, {2}}, "input 1 is in 2 blocks, and input 0 is in 1"},
		{"blocks independent of the input", 2, [][]int{{0, 1}, {}, {1, 0}}, "all inputs or none"},
	} {
		d := &Design{c.inputs, c.blocks}
		m, err := d.At(eps("1"))
		f, err2 := d.Family(eps("1"), eps("2"))
		if m != nil || f != nil || !errors.Is(err2, privacy.ErrInvalid) || !errors.Is(err, privacy.ErrInvalid) ||
			!strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, %v, %v; want an error that names %q", c.name, m, err, err2, c.names)
		}
	}
}

func TestSubsetSelection_AllSubsets_HaveTheirProbabilities(t *testing.T) {
	d := must(SubsetSelection(4, 2))
	want := [][]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}
	check.That(t, reflect.DeepEqual(d.Blocks, want), "blocks %v, want %v", d.Blocks, want)
	// A subset with the input has probability E/(C(k−1,d−1)E + C(k−1,d)). Each other one has 1 in
	// place of the numerator E.
	m := subsets(5, 3, rat("7/2"))
	weight := plus(times(integer(6), rat("7/2")), integer(4))
	for o, block := range must(SubsetSelection(5, 3)).Blocks {
		for x := range 5 {
			want := over(integer(1), weight)
			for _, member := range block {
				if member == x {
					want.Mul(want, rat("7/2"))
				}
			}
			check.That(t, m.At(x, o).Cmp(want) == 0, "block %v given %d: %v, want %v", block, x, m.At(x, o), want)
		}
	}
	for m := 2; m < 8; m++ {
		check.That(t, subsets(m, 1, rat("5/2")).equal(randomized(m, rat("5/2"))),
			"subsets of one of %d are not randomized response", m)
		for size := 1; size < m; size++ {
			got := len(must(SubsetSelection(m, size)).Blocks)
			want := new(big.Int).Binomial(int64(m), int64(size)).Int64()
			check.That(t, int64(got) == want, "%d subsets of %d of %d, want %d", got, size, m, want)
		}
	}
	for _, c := range [][2]int{{0, 0}, {5, 0}, {5, 5}, {1, 1}, {-1, -2}, {maxCells + 1, 1}, {65, 1}, {12, 5}, {4000, 2000}} {
		d, err := SubsetSelection(c[0], c[1])
		check.That(t, d == nil && errors.Is(err, privacy.ErrInvalid), "subsets of %d of %d: %v, %v", c[1], c[0], d, err)
	}
}

// In a Hadamard matrix every input is in half of the blocks, and two inputs share a quarter of
// them.
func TestHadamardResponse_BlocksAreBalanced(t *testing.T) {
	for _, c := range []struct{ inputs, blocks int }{{2, 4}, {3, 4}, {4, 8}, {7, 8}, {8, 16}, {31, 32}, {63, 64}} {
		blocks := must(HadamardResponse(c.inputs)).Blocks
		common := make(map[[2]int]int)
		for _, block := range blocks {
			for _, x := range block {
				for _, y := range block {
					common[[2]int{x, y}]++
				}
			}
		}
		for x := range c.inputs {
			for y := range c.inputs {
				want := c.blocks / 4
				if x == y {
					want = c.blocks / 2
				}
				if len(blocks) != c.blocks || common[[2]int{x, y}] != want {
					t.Errorf("%d inputs: %d blocks, %d of them with both %d and %d", c.inputs, len(blocks), common[[2]int{x, y}], x, y)
				}
			}
		}
	}
	for _, inputs := range []int{-1, 0, 1, 64, 100_000} {
		d, err := HadamardResponse(inputs)
		check.That(t, d == nil && errors.Is(err, privacy.ErrInvalid), "%d inputs: %v, %v", inputs, d, err)
	}
}

// The blocks would take hundreds of megabytes.
func TestHadamardResponse_TooLarge_IsRefusedBeforeAllocation(t *testing.T) {
	n := testing.AllocsPerRun(1, func() { _, _ = HadamardResponse(maxCells) })
	check.That(t, n <= 100, "%v allocations to refuse it", n)
}

// designs are the mechanisms of the literature, and the projective plane of order 2.
func designs() map[string]*Design {
	fano := [][]int{{0, 1, 2}, {0, 3, 4}, {0, 5, 6}, {1, 3, 5}, {1, 4, 6}, {2, 3, 6}, {2, 4, 5}}
	return map[string]*Design{
		"randomized response": must(SubsetSelection(4, 1)),
		"subset selection":    must(SubsetSelection(5, 2)),
		"Hadamard response":   must(HadamardResponse(5)),
		"projective plane":    &Design{7, fano},
	}
}

// From any ε to any lower one, the channel of a design keeps the output with λ₁/λ₂ and otherwise
// draws a block again.
func TestDesignFamily_AnyEpsilons_KeepsOrRedraws(t *testing.T) {
	epsilons := []privacy.Epsilon{fromNano(1), eps("0.1"), eps("0.5"), eps("2"), privacy.MaxEpsilon()}
	for name, d := range designs() {
		blocks := len(d.Blocks)
		lambda := func(epsilon privacy.Epsilon) *big.Rat {
			rise := minus(must(oddsAt(epsilon)), integer(1))
			each := 0
			for _, block := range d.Blocks {
				each += len(block)
			}
			rise.Mul(rise, integer(each/d.Inputs))
			return over(rise, plus(rise, integer(blocks)))
		}
		f := must(d.Family(epsilons...))
		check.That(t, reflect.DeepEqual(f.Epsilons(), epsilons), "%s: ε = %v, want %v", name, f.Epsilons(), epsilons)
		for i, channel := range f.channels {
			keep := over(lambda(epsilons[i]), lambda(epsilons[i+1]))
			redrawn := over(minus(integer(1), keep), integer(blocks))
			wantEqual(t, fmt.Sprintf("%s from ε = %v", name, epsilons[i+1]), channel, func(from, to int) *big.Rat {
				if from == to {
					return plus(keep, redrawn)
				}
				return redrawn
			})
			if _, err := byProgram(t, f.levels[i+1], f.levels[i]); err != nil {
				t.Errorf("%s: by linear program: %v", name, err)
			}
			_, err := degradation(t.Context(), f.levels[i], f.levels[i+1])
			wantGame(t, name+", back", f.levels[i], f.levels[i+1], err)
		}
	}
}

// Subsets of one size can be degraded to subsets of another size up to an E′, which the
// documentation of SubsetSelection states. The test checks both sides of this border and the
// border.
func TestSubsetSelection_OtherSize_IsDegradationUpToBorder(t *testing.T) {
	possible, impossible := 0, 0
	for m := 3; m <= 5; m++ {
		for size := 1; size < m; size++ {
			for other := 1; other < m; other++ {
				odds := rat("3")
				border := mostOdds(m, size, other, odds)
				for _, factor := range []string{"1/2", "999999/1000000", "1", "1000001/1000000", "2"} {
					e := times(border, rat(factor))
					if e.Cmp(integer(1)) <= 0 {
						continue
					}
					higher, lower := subsets(m, size, odds), subsets(m, other, e)
					name := fmt.Sprintf("m=%d, from %d at E=%v to %d at E=%v", m, size, odds, other, e)
					channel, err := degradation(t.Context(), higher, lower)
					if e.Cmp(border) <= 0 {
						possible++
						if err != nil {
							t.Errorf("%s: %v", name, err)
							continue
						}
						wantChannel(t, name, channel, higher, lower)
					} else {
						impossible++
						wantGame(t, name, higher, lower, err)
					}
				}
			}
		}
	}
	check.That(t, possible >= 50 && impossible >= 50, "%d possible, %d impossible", possible, impossible)
}

// mostOdds returns the largest E′ at which subsets of another size are a degradation of those of
// one size at E.
func mostOdds(m, size, other int, odds *big.Rat) *big.Rat {
	if other >= size { // other·(E′−1) = size·(E−1)
		return plus(integer(1), over(times(integer(size), minus(odds, integer(1))), integer(other)))
	}
	return over(times(odds, integer(m-other)), plus(times(integer(size-other), odds), integer(m-size)))
}

// Subset selection with the best size for each ε is a family.
func TestNewFamily_LargerSubsetsBelow_IsAFamily(t *testing.T) {
	var levels []*Matrix
	for _, c := range []struct {
		size    int
		epsilon string
	}{{3, "0.2"}, {2, "1"}, {1, "2"}} { // inputs/(e^ε+1) is 2.7, 1.6 and 0.7
		d := must(SubsetSelection(6, c.size))
		levels = append(levels, must(d.At(eps(c.epsilon))))
	}
	f := family(t, levels...)
	for i, channel := range f.channels {
		wantChannel(t, fmt.Sprintf("channel %d", i), channel, levels[i+1], levels[i])
	}
}

func TestDesign_ZeroEpsilon_IsRefused(t *testing.T) {
	d := must(SubsetSelection(3, 1))
	m, err := d.At(privacy.Epsilon{})
	check.That(t, m == nil && errors.Is(err, privacy.ErrInvalid), "%v, %v", m, err)
	f, err := d.Family(eps("1"), privacy.Epsilon{})
	check.That(t, f == nil && errors.Is(err, privacy.ErrInvalid), "%v, %v", f, err)
}

// Mechanisms with these odds have exactly the requested ε.
func TestOddsAt_HaveExactlyTheEpsilon(t *testing.T) {
	for _, nano := range []int64{1, 2, 3, 1000, 1_000_003, 500_000_000, 693_147_180, 693_147_181, 1_000_000_000,
		2_302_585_093, 12_345_678_901, privacy.MaxEpsilon().Nano() - 1, privacy.MaxEpsilon().Nano()} {
		epsilon := fromNano(nano)
		odds := must(oddsAt(epsilon))
		got, err := randomized(2, odds).Epsilon()
		check.That(t, err == nil && got == epsilon, "ε = %v: odds of %v have ε = %v, %v", epsilon, odds, got, err)
	}
}

// The test searches for a fraction with a smaller denominator.
func TestOddsAt_HaveTheSmallestDenominator(t *testing.T) {
	for _, text := range []string{"0.5", "0.693147181", "1", "2", "7", "30"} {
		epsilon := eps(text)
		odds := must(oddsAt(epsilon))
		below, _ := exact.Exp(epsilon.Nano()-1, 128).Bounds()
		above, _ := exact.Exp(epsilon.Nano(), 128).Bounds()
		least := int64(0)
		for q := int64(1); least == 0; q++ {
			n, _ := new(big.Float).Mul(below, big.NewFloat(float64(q))).Int(nil)
			if next := new(big.Float).SetInt(n.Add(n, big.NewInt(1))); next.Cmp(new(big.Float).Mul(above, big.NewFloat(float64(q)))) < 0 {
				least = q
				check.That(t, odds.Cmp(new(big.Rat).SetFrac(n, big.NewInt(q))) == 0,
					"ε = %s: odds of %v; %v/%d are simpler", text, odds, n, q)
			}
		}
	}
}

func TestSimplest_FractionBetweenTwoNumbers(t *testing.T) {
	for _, c := range [][3]string{
		{"0", "1", "1/2"}, {"0", "1/2", "1/3"}, {"0", "2", "1"}, {"1", "2", "3/2"}, {"1", "3/2", "4/3"}, {"5/2", "7/2", "3"},
		{"3.1415", "3.1416", "333/106"}, {"2.71828", "2.71829", "1457/536"}, {"1/3", "1/2", "2/5"}, {"2/5", "1/2", "3/7"},
	} {
		got := simplest(rat(c[0]), rat(c[1]))
		check.That(t, got.Cmp(rat(c[2])) == 0, "between %s and %s: %v, want %s", c[0], c[1], got, c[2])
	}
}
