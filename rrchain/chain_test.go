package rrchain

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func newChain[R int | Bits](m int, recorded ...Level[R]) *Chain[R] {
	return must(NewChain(m, recorded...))
}

// newRows returns a chain that responds to a row of true bits. Its methods ignore the given true
// value.
func newRows(truth Bits, recorded ...Level[Bits]) *Chain[Bits] {
	c := newChain(truth.Len(), recorded...)
	c.encoding.raise = func(s *Sampler, m int, current Level[Bits], to privacy.Epsilon, _ int) (Bits, error) {
		return s.RaiseBits(m, current, to, truth)
	}
	return c
}

// extend records a level, by a raise if it is above the current one and by an insertion otherwise.
func extend[R int | Bits](c *Chain[R], s *Sampler, at privacy.Epsilon, truth int) (Level[R], error) {
	if c.Current().Epsilon.Less(at) {
		return c.Raise(s, at, truth)
	}
	return c.Insert(s, at)
}

// lawsDrawnFrom returns the laws that a sampler has drawn from.
func lawsDrawnFrom(s *Sampler) map[law]bool {
	laws := map[law]bool{}
	for l := range s.laws {
		laws[l] = true
	}
	return laws
}

// checkLaws draws four levels in all orders and checks that the sampler used exactly the laws of
// the plan, which the enumeration proves. A coin is drawn as a response to the last response.
func checkLaws[R int | Bits](t *testing.T, m int64, hasCoin bool, begin func() *Chain[R]) {
	levels := []int64{100_000_000, 500_000_000, 1_000_000_000, 2_000_000_000}
	for _, order := range permutations(len(levels)) {
		chain, sampler := begin(), new(Sampler)
		want := map[law]bool{}
		for _, step := range plan(m, levels, order) {
			drawn, err := extend(chain, sampler, fromNano(levels[step.at]), 1)
			check.Need(t, err == nil, "order %v: %v", order, err)
			recorded, found := chain.At(drawn.Epsilon)
			check.That(t, found && recorded == drawn, "order %v: %v was drawn and %v recorded", order, drawn, recorded)
			if absent, found := chain.At(fromNano(levels[step.at] + 1)); found || absent != (Level[R]{}) {
				t.Errorf("order %v: %v at an ε without a level", order, absent)
			}
			want[step.law] = true
			if hasCoin && step.above == none && step.below != none {
				want[law{m: 2, at: step.law.below, above: truthAbove}] = true
			}
			got := lawsDrawnFrom(sampler)
			check.Need(t, maps.Equal(got, want), "order %v: the sampler was asked for %v, want %v", order, got, want)
		}
		if !slices.IsSortedFunc(chain.Levels(), func(a, b Level[R]) int { return a.Epsilon.Compare(b.Epsilon) }) {
			t.Errorf("order %v: levels %v", order, chain.Levels())
		}
	}
}

func TestChain_AnyOrder_DrawsFromTheProvenLaws(t *testing.T) {
	checkLaws(t, 5, false, func() *Chain[int] { return newChain[int](5) })
	checkLaws(t, 2, true, func() *Chain[Bits] { return newChain[Bits](3) })
	checkLaws(t, 2, false, func() *Chain[Bits] { return newRows(parsed(t, "011")) })
}

func TestChain_Empty_HasNoLevel(t *testing.T) {
	if c := newChain[int](4); len(c.Levels()) != 0 || c.Current() != (Level[int]{}) {
		t.Errorf("levels %v, current %v", c.Levels(), c.Current())
	}
}

// The chain shares no memory with the slices that it was given or that it returned.
func TestChain_CallersSlicesChanged_KeepsItsLevels(t *testing.T) {
	recorded := []Level[int]{{eps("0.5"), 3}, {eps("1"), 0}}
	chain := newChain(4, recorded...)
	recorded[0].Response = 1
	chain.Levels()[1].Response = 2
	check.Equal(t, fmt.Sprint(chain.Levels(), chain.Current()), "[{0.5 3} {1 0}] {1 0}", "levels and current")
}

// newRefuses checks that NewChain refuses m values and levels with these responses, at 0.5, 1 and
// so on if at is not given.
func newRefuses[R int | Bits](t *testing.T, m int, names string, responses []R, at ...string) {
	t.Helper()
	var recorded []Level[R]
	for i, response := range responses {
		recorded = append(recorded, Level[R]{eps(append(at, "0.5", "1")[i]), response})
	}
	chain, err := NewChain(m, recorded...)
	check.That(t, chain == nil && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), names),
		"NewChain(%d, %v): %v, want an error that names %q", m, recorded, err, names)
}

func TestNewChain_OutOfRange_IsRefused(t *testing.T) {
	for _, m := range []int{1, 0, -1, maxValues + 1} {
		newRefuses[int](t, m, fmt.Sprint(m, " values"), nil)
		newRefuses[Bits](t, m, fmt.Sprint(m, " values"), nil)
	}
	newRefuses(t, 2, "level 0 at ε=0", []int{0}, "0")
	newRefuses(t, 2, "level 1 at ε=0.5", []int{0, 0}, "0.5", "0.5")
	newRefuses(t, 2, "level 1 at ε=0.5 is not above ε=1", []int{0, 0}, "1", "0.5")
	newRefuses(t, 2, "level 1 has response 2 instead of 0 to 1", []int{0, 2})
	newRefuses(t, 2, "level 0 has response -1 instead of 0 to 1", []int{-1})
	newRefuses(t, 2, "level 1 has 3 bits instead of 2", []Bits{row(2), row(3)})
	newRefuses(t, 2, "level 0 has 0 bits instead of 2", []Bits{{}})
	for _, m := range []int{2, maxValues} {
		newChain(m, Level[int]{fromNano(1), 0}, Level[int]{privacy.MaxEpsilon(), m - 1})
		newChain(m, Level[Bits]{fromNano(1), row(m)}, Level[Bits]{privacy.MaxEpsilon(), row(m, m-1)})
	}
}

// chainRefuses checks every call that a chain refuses. The chain is unchanged, no random bit is
// used, and the error does not contain the true value, even if that is what is invalid.
func chainRefuses[R int | Bits](t *testing.T, responses func(m int) [3]R) {
	const truth = 77_777
	type call func(*Chain[R], *Sampler, privacy.Epsilon) (Level[R], error)
	raise := func(truth int) call {
		return func(c *Chain[R], s *Sampler, at privacy.Epsilon) (Level[R], error) { return c.Raise(s, at, truth) }
	}
	for _, c := range []struct {
		name   string
		m      int
		filled bool
		call   call
		at     []string
	}{
		{"raise an empty chain to nothing", maxValues, false, raise(truth), []string{"0"}},
		{"raise downwards", 100_000, true, raise(truth), []string{"0", "0.5", "1", "2.5", "3", "2.999999999"}},
		{"raise for a truth above all values", truth, true, raise(truth), []string{"3.1", "1000"}},
		{"raise for a truth below all values", 10, true, raise(-truth), []string{"3.1"}},
		{"raise an empty chain for no truth", 10, false, raise(truth), []string{"1"}},
		{"insert into an empty chain", 10, false, (*Chain[R]).Insert, []string{"0", "1"}},
		{"insert at nothing, or above", 10, true, (*Chain[R]).Insert, []string{"0", "3.000000001", "1000"}},
		{"insert at a level", 10, true, (*Chain[R]).Insert, []string{"1", "2", "3"}},
	} {
		for _, at := range c.at {
			var levels []Level[R]
			if c.filled {
				for i, response := range responses(c.m) {
					levels = append(levels, Level[R]{fromNano(int64(i+1) * 1_000_000_000), response})
				}
			}
			chain := newChain(c.m, levels...)
			level, err := c.call(chain, noBits(), eps(at))
			if level != *new(Level[R]) || !errors.Is(err, privacy.ErrInvalid) {
				t.Errorf("%s at ε=%s: %v, %v", c.name, at, level, err)
				continue
			}
			// In one case the true value is the number of values, which is public and may be named.
			if text := strings.ReplaceAll(err.Error(), "question's 77777 values", ""); strings.Contains(text, "77777") {
				t.Errorf("%s at ε=%s: the error contains the true value: %v", c.name, at, err)
			}
			check.That(t, slices.Equal(chain.Levels(), levels),
				"%s at ε=%s changed the levels to %v", c.name, at, chain.Levels())
		}
	}
}

// zeroChainRefuses checks that the zero Chain refuses draws.
func zeroChainRefuses[R int | Bits](t *testing.T) {
	t.Helper()
	var chain Chain[R]
	raised, raiseErr := chain.Raise(noBits(), eps("1"), 0)
	inserted, insertErr := chain.Insert(noBits(), eps("1"))
	check.That(t, raised == *new(Level[R]) && errors.Is(raiseErr, privacy.ErrInvalid), "Raise: %v, %v", raised, raiseErr)
	check.That(t, inserted == *new(Level[R]) && errors.Is(insertErr, privacy.ErrInvalid), "Insert: %v, %v", inserted, insertErr)
	check.That(t, len(chain.Levels()) == 0, "the zero chain has the levels %v", chain.Levels())
}

func TestChain_ZeroValue_RefusesDraws(t *testing.T) {
	zeroChainRefuses[int](t)
	zeroChainRefuses[Bits](t)
}

func TestChain_OutOfRange_IsRefusedUnchanged(t *testing.T) {
	chainRefuses(t, func(int) [3]int { return [3]int{1, 0, 1} })
	chainRefuses(t, func(m int) [3]Bits { return [3]Bits{row(m, 1), row(m), row(m, 0, m-1)} })
}

// edges are the limits of ε, in an order with every kind of step.
var edges = []string{"1000", "0.000000001", "999.999999999", "0.000000002", "500"}

// A response at ε ≥ 500 differs from the true value with a probability below 10⁻²¹¹.
func TestChain_LargestQuestionAndEpsilon_ReturnsTheTrueValue(t *testing.T) {
	chain, sampler := newChain[int](maxValues), new(Sampler)
	for _, at := range edges {
		level, err := extend(chain, sampler, eps(at), maxValues-1)
		check.That(t, err == nil && level.Response >= 0 && level.Response < maxValues, "ε=%s: %v, %v", at, level, err)
	}
	for _, level := range chain.Levels()[2:] {
		check.That(t, level.Response == maxValues-1, "at ε=%v the response is %d", level.Epsilon, level.Response)
	}
}

func TestRowChain_LargeEpsilon_ReturnsTheTrueBits(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	for _, n := range []int{2, 7, 8, 9, 64, 20_000} {
		truth, sampler := randomRow(random, n), new(Sampler)
		chain := newRows(truth)
		for _, at := range edges {
			level := must(extend(chain, sampler, eps(at), 0))
			if again, err := NewBits(n, level.Response.Pack()); err != nil || again != level.Response {
				t.Errorf("%d bits at ε=%s: packed the response is refused: %v", n, at, err)
			}
		}
		for _, level := range chain.Levels()[2:] {
			check.That(t, level.Response == truth, "%d bits: at ε=%v the response is not the true row", n, level.Epsilon)
		}
	}
}

// At ε ≥ 50 only the hidden bit of the true value is random (except with 10⁻¹⁵), and a raise must
// keep it. So writing it, reading it and the response use the same position, for rows of any width.
func TestUnaryChain_LargeEpsilon_KeepsItsHiddenBit(t *testing.T) {
	s, seen := new(Sampler), [2]int{}
	sizes := []int{maxValues}
	for i := range 200 {
		sizes = append(sizes, 257+3*i)
	}
	for _, m := range sizes {
		for _, truth := range []int{0, 255, 256, m - 3, m - 1} {
			c := newChain[Bits](m)
			first, second := must(c.Raise(s, eps("50"), truth)).Response, must(c.Raise(s, eps("1000"), truth)).Response
			check.Need(t, first == second && count(first) == first.Bit(truth),
				"m=%d, value %d: %d bits are set, and then %d", m, truth, count(first), count(second))
			seen[first.Bit(truth)]++
		}
	}
	if seen[0] < 250 || seen[1] < 250 { // 502 are expected of each; fails once in 10⁵⁰ runs
		t.Errorf("the coin came out %v", seen)
	}
}

// FuzzChain calls valid and invalid operations in any order on all kinds of chains. A refused call
// changes nothing, and an accepted one adds one level.
func FuzzChain(f *testing.F) {
	f.Add(uint32(2), []byte{0, 5, 1, 0, 9, 1, 1, 1, 1, 2, 7, 1})
	f.Add(uint32(9), []byte{1, 1, 0, 2, 1, 0, 0, 0, 0, 0, 3, 250, 2, 3, 0})
	f.Add(uint32(maxValues), []byte{0, 255, 255, 1, 1, 0, 2, 254, 0, 2, 128, 0})
	sampler := new(Sampler)
	f.Fuzz(func(t *testing.T, values uint32, program []byte) {
		n := 2 + int(values)%600
		direct, unary, rows := newChain[int](2+int(values)%(maxValues-1)), newChain[Bits](n), newRows(row(n, 1))
		for ; len(program) >= 3; program = program[3:] {
			at, truth := fromNano(int64(program[1])*3_900_000_001), int(program[2])-1
			call(t, direct, sampler, program[0], at, truth)
			call(t, unary, sampler, program[0], at, truth)
			call(t, rows, sampler, program[0], at, truth)
		}
		newChain(direct.m, direct.Levels()...)
		newChain(n, unary.Levels()...)
		newChain(n, rows.Levels()...)
	})
}

// call makes the call that a byte of the fuzzer encodes, and compares the levels before and after
// it.
func call[R int | Bits](t *testing.T, c *Chain[R], s *Sampler, op byte, at privacy.Epsilon, truth int) {
	t.Helper()
	before := c.Levels()
	draw := c.Insert
	if op%2 == 0 {
		draw = func(s *Sampler, at privacy.Epsilon) (Level[R], error) { return c.Raise(s, at, truth) }
	}
	level, err := draw(s, at)
	after := c.Levels()
	if err == nil {
		i := slices.Index(after, level)
		check.Need(t, i >= 0, "%v was drawn, and the levels are %v", level, after)
		after = slices.Delete(after, i, i+1)
	} else if !errors.Is(err, privacy.ErrInvalid) {
		t.Errorf("error %v is not privacy.ErrInvalid", err)
	}
	check.That(t, slices.Equal(after, before), "levels %v became %v with %v, %v", before, c.Levels(), level, err)
}
