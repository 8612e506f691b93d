package rrchain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

// extend records a level by the operation that its neighbours call for.
func extend(c *Chain, s *Sampler, at privacy.Epsilon, truth int) (Level, error) {
	if c.Current().Epsilon.Less(at) {
		return c.Raise(s, at, truth)
	}
	if at.Less(c.Levels()[0].Epsilon) {
		return c.Degrade(s, at)
	}
	return c.Insert(s, at)
}

// TestChainDrawsByThePlan draws four levels in all orders and looks at the laws that the sampler was
// asked for: those of the plan, which the enumeration proves to be right.
func TestChainDrawsByThePlan(t *testing.T) {
	const m = 5
	levels := []int64{100_000_000, 500_000_000, 1_000_000_000, 2_000_000_000}
	for _, order := range permutations(len(levels)) {
		chain, sampler := newChain(t, m), NewSampler()
		want := map[law]bool{}
		for _, step := range plan(m, levels, order) {
			drawn, err := extend(chain, sampler, fromNano(t, levels[step.at]), 3)
			if err != nil {
				t.Fatalf("order %v: %v", order, err)
			}
			if recorded, ok := chain.At(drawn.Epsilon); !ok || recorded != drawn {
				t.Errorf("order %v: %v was drawn and %v recorded", order, drawn, recorded)
			}
			want[step.law] = true
			if got := asked(sampler); !maps.Equal(got, want) {
				t.Fatalf("order %v: the sampler was asked for %v, want %v", order, got, want)
			}
		}
		if !slices.IsSortedFunc(chain.Levels(), func(a, b Level) int { return a.Epsilon.Compare(b.Epsilon) }) {
			t.Errorf("order %v: levels %v", order, chain.Levels())
		}
	}
}

// asked returns the laws that a sampler has drawn from.
func asked(s *Sampler) map[law]bool {
	laws := map[law]bool{}
	for l := range s.laws {
		laws[l] = true
	}
	return laws
}

// TestChainPassesTheRightResponses chooses the bits such that a draw takes the response above, the
// one below, or the uniform value 0.
func TestChainPassesTheRightResponses(t *testing.T) {
	recorded := []Level{{eps(t, "1"), 1}, {eps(t, "2"), 2}}
	for _, c := range []struct {
		name         string
		law          law
		draw         func(*Chain, *Sampler) (Level, error)
		above, below int
	}{
		{
			"raise", law{4, 2_000_000_000, 3_000_000_000, truthAbove},
			func(c *Chain, s *Sampler) (Level, error) { return c.Raise(s, eps(t, "3"), 3) }, 3, 2,
		},
		{
			"insert", law{4, 1_000_000_000, 1_500_000_000, 2_000_000_000},
			func(c *Chain, s *Sampler) (Level, error) { return c.Insert(s, eps(t, "1.5")) }, 2, 1,
		},
		{
			"degrade", law{4, 0, 500_000_000, 1_000_000_000},
			func(c *Chain, s *Sampler) (Level, error) { return c.Degrade(s, eps(t, "0.5")) }, 1, none,
		},
	} {
		w := c.law.weights(prec)
		first, either := w.First.Float64(), w.Either.Float64()
		want := func(u float64, response int) {
			t.Helper()
			level, err := c.draw(newChain(t, 4, recorded...), replay(wordOf(4, u, 0)))
			if err != nil || level.Response != response {
				t.Errorf("%s with U=%v: %v, %v; want response %d", c.name, u, level, err, response)
			}
		}
		want(first/2, c.above)
		if c.below != none {
			want((first+either)/2, c.below)
		}
		want((either+1)/2, 0)
	}
}

// TestFirstResponse raises an empty chain: the truth with λ(ε), and else the uniform value, here 3.
func TestFirstResponse(t *testing.T) {
	λ := law{4, 0, 1_000_000_000, truthAbove}.weights(prec).First.Float64()
	for _, truth := range []int{0, 2, 3} {
		for _, c := range []struct {
			u    float64
			want int
		}{{0, truth}, {0.999 * λ, truth}, {1.001 * λ, 3}, {0.999, 3}} {
			level, err := newChain(t, 4).Raise(replay(wordOf(4, c.u, 3)), eps(t, "1"), truth)
			if err != nil || level != (Level{eps(t, "1"), c.want}) {
				t.Errorf("truth %d, U=%v: %v, %v; want %d", truth, c.u, level, err, c.want)
			}
		}
	}
}

func TestEmptyChain(t *testing.T) {
	chain := newChain(t, 7)
	if chain.Values() != 7 || len(chain.Levels()) != 0 || chain.Current() != (Level{}) {
		t.Errorf("an empty chain has %d values, levels %v, current %v", chain.Values(), chain.Levels(), chain.Current())
	}
	if level, ok := chain.At(privacy.Epsilon{}); ok {
		t.Errorf("an empty chain has %v at ε=0", level)
	}
}

func TestChainAt(t *testing.T) {
	recorded := []Level{{eps(t, "0.5"), 3}, {eps(t, "1"), 0}, {eps(t, "2.5"), 1}}
	chain := newChain(t, 4, recorded...)
	for _, want := range recorded {
		if got, ok := chain.At(want.Epsilon); !ok || got != want {
			t.Errorf("at ε=%v: %v, %v", want.Epsilon, got, ok)
		}
	}
	for _, missing := range []string{"0", "0.499999999", "0.500000001", "2", "1000"} {
		if got, ok := chain.At(eps(t, missing)); ok || got != (Level{}) {
			t.Errorf("at ε=%s: %v, %v", missing, got, ok)
		}
	}
	if got := chain.Current(); got != recorded[2] {
		t.Errorf("current %v, want %v", got, recorded[2])
	}
}

// TestChainKeepsItsOwnLevels checks that neither what went in nor what came out leads to the chain's
// memory.
func TestChainKeepsItsOwnLevels(t *testing.T) {
	recorded := []Level{{eps(t, "0.5"), 3}, {eps(t, "1"), 0}}
	chain := newChain(t, 4, recorded...)
	recorded[0].Response = 1
	chain.Levels()[1].Response = 2
	if got := fmt.Sprint(chain.Levels()); got != "[{0.5 3} {1 0}]" {
		t.Errorf("levels are %v", got)
	}
}

func TestNewChainRefuses(t *testing.T) {
	half, one := eps(t, "0.5"), eps(t, "1")
	for _, c := range []struct {
		m        int
		recorded []Level
		names    string
	}{
		{1, nil, "1 values"},
		{0, nil, "0 values"},
		{-1, nil, "-1 values"},
		{MaxValues + 1, nil, "1048577 values"},
		{2, []Level{{}}, "level 0 at ε=0"},
		{2, []Level{{half, 0}, {half, 0}}, "level 1 at ε=0.5"},
		{2, []Level{{one, 0}, {half, 0}}, "level 1 at ε=0.5 does not lie above ε=1"},
		{2, []Level{{half, 0}, {one, 2}}, "level 1 answers with value 2 of 2"},
		{2, []Level{{half, -1}}, "level 0 answers with value -1 of 2"},
	} {
		chain, err := NewChain(c.m, c.recorded...)
		if chain != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("NewChain(%d, %v): %v, want an error that names %q", c.m, c.recorded, err, c.names)
		}
	}
	for _, m := range []int{2, MaxValues} {
		newChain(t, m, Level{fromNano(t, 1), 0}, Level{privacy.MaxEpsilon(), m - 1})
	}
}

// TestChainRefuses goes through everything that a chain refuses. The chain stays as it was, no
// random bit is used, and the error does not tell the truth, also where the truth is what is wrong.
func TestChainRefuses(t *testing.T) {
	const truth = 777_777
	raise := func(truth int) func(*Chain, *Sampler, privacy.Epsilon) (Level, error) {
		return func(c *Chain, s *Sampler, at privacy.Epsilon) (Level, error) { return c.Raise(s, at, truth) }
	}
	levels := []Level{{eps(t, "1"), 1}, {eps(t, "2"), 0}, {eps(t, "3"), 1}}
	for _, c := range []struct {
		name   string
		m      int
		levels []Level
		call   func(*Chain, *Sampler, privacy.Epsilon) (Level, error)
		at     []string
	}{
		{"raise an empty chain to nothing", MaxValues, nil, raise(truth), []string{"0"}},
		{"raise downwards", MaxValues, levels, raise(truth), []string{"0", "0.5", "1", "2.5", "3", "2.999999999"}},
		{"raise for a truth above all values", 777_777, levels, raise(truth), []string{"3.1", "1000"}},
		{"raise for a truth below all values", 10, levels, raise(-truth), []string{"3.1"}},
		{"raise an empty chain for no truth", 10, nil, raise(truth), []string{"1"}},
		{"degrade an empty chain", 10, nil, (*Chain).Degrade, []string{"0", "1"}},
		{"degrade upwards", 10, levels, (*Chain).Degrade, []string{"1", "1.5", "3", "4"}},
		{"degrade to nothing", 10, levels, (*Chain).Degrade, []string{"0"}},
		{"insert into an empty chain", 10, nil, (*Chain).Insert, []string{"0", "1"}},
		{"insert outside", 10, levels, (*Chain).Insert, []string{"0", "0.5", "0.999999999", "3.000000001", "1000"}},
		{"insert at a level", 10, levels, (*Chain).Insert, []string{"1", "2", "3"}},
	} {
		for _, at := range c.at {
			chain := newChain(t, c.m, c.levels...)
			level, err := c.call(chain, ReplaySampler(nil), eps(t, at)) // without bits, a draw would panic
			if level != (Level{}) || !errors.Is(err, ErrInvalid) {
				t.Errorf("%s at ε=%s: %v, %v", c.name, at, level, err)
				continue
			}
			// The number of values, which is public, is 777,777 in one case and may be named.
			if text := strings.ReplaceAll(err.Error(), "question's 777777 values", ""); strings.Contains(text, "777777") {
				t.Errorf("%s at ε=%s: the error tells the truth: %v", c.name, at, err)
			}
			if !slices.Equal(chain.Levels(), c.levels) {
				t.Errorf("%s at ε=%s changed the levels to %v", c.name, at, chain.Levels())
			}
		}
	}
}

// TestChainWithTheLargestQuestion goes to the limits of m and ε at once.
func TestChainWithTheLargestQuestion(t *testing.T) {
	chain, sampler := newChain(t, MaxValues), NewSampler()
	for _, at := range []string{"1000", "0.000000001", "999.999999999", "0.000000002", "500"} {
		level, err := extend(chain, sampler, eps(t, at), MaxValues-1)
		if err != nil || level.Response < 0 || level.Response >= MaxValues {
			t.Errorf("ε=%s: %v, %v", at, level, err)
		}
	}
	// A response at ε ≥ 500 is a lie with a probability below 10⁻²¹¹.
	for _, level := range chain.Levels()[2:] {
		if level.Response != MaxValues-1 {
			t.Errorf("at ε=%v the response is %d", level.Epsilon, level.Response)
		}
	}
}

// FuzzChain calls operations in any order, right and wrong ones. A chain never panics and keeps its
// levels in rising order; a refused call changes nothing and an accepted one adds one level.
func FuzzChain(f *testing.F) {
	f.Add(uint32(2), []byte{0, 5, 1, 0, 9, 1, 1, 1, 1, 2, 7, 1})
	f.Add(uint32(4), []byte{1, 1, 0, 2, 1, 0, 0, 0, 0, 0, 3, 250, 2, 3, 0})
	f.Add(uint32(MaxValues), []byte{0, 255, 255, 1, 1, 0, 2, 254, 0, 2, 128, 0})
	sampler := NewSampler()
	f.Fuzz(func(t *testing.T, values uint32, program []byte) {
		m := 2 + int(values)%(MaxValues-1)
		chain := newChain(t, m)
		for ; len(program) >= 3; program = program[3:] {
			before := chain.Levels()
			at := fromNano(t, int64(program[1])*3_900_000_001)
			level, err := call(chain, sampler, program[0], at, int(program[2])-1)
			checkStep(t, chain, before, level, err)
		}
		if again, err := NewChain(m, chain.Levels()...); err != nil || !slices.Equal(again.Levels(), chain.Levels()) {
			t.Errorf("levels %v are not a chain: %v", chain.Levels(), err)
		}
	})
}

// call makes the call that a byte of the fuzzer stands for.
func call(c *Chain, s *Sampler, op byte, at privacy.Epsilon, truth int) (Level, error) {
	switch op % 3 {
	case 0:
		return c.Raise(s, at, truth)
	case 1:
		return c.Degrade(s, at)
	}
	return c.Insert(s, at)
}

// checkStep compares the levels before and after a call.
func checkStep(t *testing.T, c *Chain, before []Level, level Level, err error) {
	t.Helper()
	after := c.Levels()
	if err == nil {
		i := slices.Index(after, level)
		if i < 0 {
			t.Fatalf("%v was drawn, and the levels are %v", level, after)
		}
		after = slices.Delete(after, i, i+1)
	} else if !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v is not ErrInvalid", err)
	}
	if !slices.Equal(after, before) {
		t.Errorf("levels %v became %v with %v, %v", before, c.Levels(), level, err)
	}
}

func newChain(t testing.TB, m int, recorded ...Level) *Chain {
	t.Helper()
	chain, err := NewChain(m, recorded...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}
