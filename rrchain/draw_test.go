package rrchain

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

// TestDrawsNeedNoChain draws from the neighbours alone what a chain draws, from the same words.
func TestDrawsNeedNoChain(t *testing.T) {
	const m, truth = 5, 3
	values := []Level{{eps(t, "0.5"), 1}, {eps(t, "1"), 4}, {eps(t, "2"), 3}}
	rows := []BitLevel{{eps(t, "0.5"), row(t, m, 1)}, {eps(t, "1"), row(t, m, 0, 4)}, {eps(t, "2"), row(t, m, 3)}}
	for _, at := range []string{"0.25", "0.75", "1.5", "3"} {
		for recorded := range len(values) + 1 {
			e, place := eps(t, at), 0
			for place < recorded && values[place].Epsilon.Less(e) {
				place++
			}
			raise := place == recorded
			for seed := range uint64(20) {
				direct := func(s *Sampler) (int, error) {
					if raise {
						return s.Raise(m, neighbor(values[:recorded], place-1), e, truth)
					}
					return s.Between(m, neighbor(values[:recorded], place-1), e, neighbor(values[:recorded], place))
				}
				unary := func(s *Sampler) (Bits, error) {
					if raise {
						return s.RaiseUnary(m, neighbor(rows[:recorded], place-1), e, truth)
					}
					return s.BetweenUnary(m, neighbor(rows[:recorded], place-1), e, neighbor(rows[:recorded], place))
				}
				name := fmt.Sprintf("ε=%s, %d levels, seed %d", at, recorded, seed)
				byChain, byNeighbors := inTwoWays(t, seed, direct, func(s *Sampler) (Level, error) {
					return extend(newChain(t, m, values[:recorded]...), s, e, truth)
				})
				if byChain.Response != byNeighbors {
					t.Errorf("%s: value %d, the chain draws %d", name, byNeighbors, byChain.Response)
				}
				rowByChain, rowByNeighbors := inTwoWays(t, seed, unary, func(s *Sampler) (BitLevel, error) {
					chain := newUnary(t, m, rows[:recorded]...)
					return extendRow(&chain.bitChain, s, e, func() (BitLevel, error) { return chain.Raise(s, e, truth) })
				})
				if rowByChain.Response != rowByNeighbors {
					t.Errorf("%s: bits %v, the chain draws %v", name, rowByNeighbors, rowByChain.Response)
				}
			}
		}
	}
}

// neighbor returns a level, or the zero level if there is none.
func neighbor[R any](levels []LevelOf[R], i int) LevelOf[R] {
	if i < 0 || i >= len(levels) {
		return LevelOf[R]{}
	}
	return levels[i]
}

// inTwoWays draws twice from the same words. Both ways must read as many.
func inTwoWays[R any](t *testing.T, seed uint64, neighbors func(*Sampler) (R, error), chain func(*Sampler) (LevelOf[R], error)) (LevelOf[R], R) {
	t.Helper()
	s1, read1 := countedSampler(seed)
	s2, read2 := countedSampler(seed)
	one, err1 := chain(s1)
	two, err2 := neighbors(s2)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if n1, n2 := read1(), read2(); n1 != n2 {
		t.Errorf("%d words were read, by a chain %d", n2, n1)
	}
	return one, two
}

// TestDrawsRefuseWhatChainsRefuse gives levels, values and truths that are out of range. A draw would panic.
func TestDrawsRefuseWhatChainsRefuse(t *testing.T) {
	one, two, s := eps(t, "1"), eps(t, "2"), ReplaySampler(nil)
	good, short := row(t, 4), row(t, 3)
	value := func(x int, err error) error { return err }
	bits := func(x Bits, err error) error { return err }
	for name, err := range map[string]error{
		"one value":                    value(s.Raise(1, Level{}, one, 0)),
		"too many values":              value(s.Raise(MaxValues+1, Level{}, one, 0)),
		"no rise":                      value(s.Raise(4, Level{one, 0}, one, 0)),
		"no rise from nothing":         value(s.Raise(4, Level{}, privacy.Epsilon{}, 0)),
		"a response too high":          value(s.Raise(4, Level{one, 4}, two, 0)),
		"a response below 0":           value(s.Raise(4, Level{one, -1}, two, 0)),
		"truth too high":               value(s.Raise(4, Level{}, one, 7777)),
		"truth below 0":                value(s.Raise(4, Level{}, one, -7777)),
		"between, one value":           value(s.Between(1, Level{}, one, Level{two, 0})),
		"between, not above":           value(s.Between(4, Level{one, 0}, one, Level{two, 0})),
		"between, not below":           value(s.Between(4, Level{}, two, Level{two, 0})),
		"between, nothing above":       value(s.Between(4, Level{one, 0}, two, Level{})),
		"between, at 0":                value(s.Between(4, Level{}, privacy.Epsilon{}, Level{two, 0})),
		"between, response below":      value(s.Between(4, Level{eps(t, "0.5"), 4}, one, Level{two, 0})),
		"between, response above":      value(s.Between(4, Level{}, one, Level{two, 4})),
		"unary, one value":             bits(s.RaiseUnary(1, BitLevel{}, one, 0)),
		"unary, no rise":               bits(s.RaiseUnary(4, BitLevel{two, good}, one, 0)),
		"unary, bits missing":          bits(s.RaiseUnary(4, BitLevel{one, short}, two, 0)),
		"unary, no bits":               bits(s.RaiseUnary(4, BitLevel{Epsilon: one}, two, 0)),
		"unary, truth too high":        bits(s.RaiseUnary(4, BitLevel{}, one, 7777)),
		"unary between, bits missing":  bits(s.BetweenUnary(4, BitLevel{eps(t, "0.5"), short}, one, BitLevel{two, good})),
		"unary between, short above":   bits(s.BetweenUnary(4, BitLevel{}, one, BitLevel{two, short})),
		"unary between, nothing above": bits(s.BetweenUnary(4, BitLevel{one, good}, two, BitLevel{})),
		"unary between, not below":     bits(s.BetweenUnary(4, BitLevel{}, two, BitLevel{two, good})),
		"unary between, not above":     bits(s.BetweenUnary(4, BitLevel{two, good}, one, BitLevel{two, good})),
		"unary between, one value":     bits(s.BetweenUnary(1, BitLevel{}, one, BitLevel{two, good})),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		} else if strings.Contains(err.Error(), "7777") {
			t.Errorf("%s: the truth is in the error: %v", name, err)
		}
	}
}

// TestDrawsAllocateNothing counts what a draw allocates when its thresholds are there: nothing, or in unary encoding
// the row of hidden bits and the response.
func TestDrawsAllocateNothing(t *testing.T) {
	s, one, two, three := NewSampler(), eps(t, "1"), eps(t, "2"), eps(t, "3")
	response, sum := row(t, 100, 1, 2, 3), 0
	for _, c := range []struct {
		name string
		most float64
		draw func() error
	}{
		{"first", 0, func() error { x, err := s.Raise(4, Level{}, one, 2); sum += x; return err }},
		{"raise", 0, func() error { x, err := s.Raise(4, Level{one, 1}, two, 2); sum += x; return err }},
		{"raise, many values", 0, func() error { x, err := s.Raise(1<<20, Level{one, 1}, two, 2); sum += x; return err }},
		{"insert", 0, func() error { x, err := s.Between(4, Level{one, 1}, two, Level{three, 0}); sum += x; return err }},
		{"unary", 2, func() error {
			x, err := s.RaiseUnary(100, BitLevel{one, response}, two, 7)
			sum += x.Len()
			return err
		}},
		{"unary insert", 1, func() error {
			x, err := s.BetweenUnary(100, BitLevel{one, response}, two, BitLevel{three, response})
			sum += x.Len()
			return err
		}},
	} {
		var failed error
		got := testing.AllocsPerRun(1000, func() {
			if err := c.draw(); err != nil {
				failed = err
			}
		})
		if failed != nil || got > c.most {
			t.Errorf("%s: %v allocations, want %v (%v)", c.name, got, c.most, failed)
		}
	}
	if sum == 0 {
		t.Error("nothing was drawn")
	}
}

// TestRecentLawsAreTheirOwn draws in turns under two laws that share their place among the recent ones: at an ε so high
// that a response is the truth, and at one so low that it is anything.
func TestRecentLawsAreTheirOwn(t *testing.T) {
	first := func(nano int64) law { return law{m: 2, at: nano, above: truthAbove} }
	low, high := first(1), first(900_000_000_000)
	for high.place() != low.place() {
		high.at++
	}
	s, wrong := NewSampler(), 0
	for range 100 {
		if s.draw(high, 1, 0) != 1 {
			t.Error("a lie at a high ε")
		}
		wrong += 1 - s.draw(low, 1, 0)
	}
	if wrong == 0 || wrong == 100 { // once in 2⁹⁹ runs
		t.Errorf("at a low ε, %d responses of 100 are wrong", wrong)
	}
}
