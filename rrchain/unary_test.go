package rrchain

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// TestHiddenRow draws the hidden bits before the first response, where the coin is the last bit of a word: all
// bits are 0, and that of the true value is the coin.
func TestHiddenRow(t *testing.T) {
	for _, m := range []int{2, 7, 8, 9, 16, 33} {
		for truth := range m {
			for coin, want := range []Bits{row(t, m), row(t, m, truth)} {
				hidden := replay(0xfedcba9876543210+uint64(coin)).hidden(m, BitLevel{}, truth)
				if got, err := UnpackBits(m, []byte(hidden)); err != nil || got != want {
					t.Errorf("m=%d, truth %d, coin %d: hidden bits %v, %v", m, truth, coin, got, err)
				}
			}
		}
	}
}

// TestTheCoinRespondsToTheLastResponse draws the coin for every true value of a response with all kinds of
// neighbours: it is the response's bit below λ(ε), and else the uniform bit.
func TestTheCoinRespondsToTheLastResponse(t *testing.T) {
	response := parsed(t, "0110100110010110011010011001011010010110")
	for _, at := range []string{"0.000000001", "0.5", "3"} {
		current := BitLevel{eps(t, at), response}
		λ := law{m: 2, at: current.Epsilon.Nano(), above: truthAbove}.weights(prec).First.Float64()
		for truth := range response.Len() {
			for uniform := range 2 {
				for _, c := range []struct {
					u    float64
					want int
				}{{λ / 2, response.Bit(truth)}, {(1 + λ) / 2, uniform}} {
					word := wordOf(2, c.u, uniform)
					if got := replay(word).coin(current, truth); got != c.want {
						t.Errorf("ε=%s, truth %d, U=%v, uniform bit %d: the coin is %d, want %d", at, truth, c.u, uniform, got, c.want)
					}
					want := row(t, response.Len())
					if c.want == 1 {
						want = row(t, response.Len(), truth)
					}
					if got := replay(word).hidden(response.Len(), current, truth); got != want.packed {
						t.Errorf("ε=%s, truth %d: hidden bits %x, want %x", at, truth, got, want.packed)
					}
				}
			}
		}
	}
}

// TestUnaryRespondsToTheHiddenRow chooses the words such that every bit takes the hidden one, or the one of
// the last response.
func TestUnaryRespondsToTheHiddenRow(t *testing.T) {
	const m = 12
	last := parsed(t, "110010100110")
	w := law{2, 1_000_000_000, 2_000_000_000, truthAbove}.weights(prec)
	first, either, same := w.First.Float64(), w.Either.Float64(), w.Same.Float64()
	for truth := range m {
		for coin := range 2 {
			hidden := row(t, m)
			if coin == 1 {
				hidden = row(t, m, truth)
			}
			for _, u := range between01(first, either, same) {
				words := append([]uint64{wordOf(2, 1-0x1p-53, coin)}, slices.Repeat([]uint64{wordOf(2, u, 1)}, m)...)
				chain := newUnary(t, m, BitLevel{eps(t, "1"), last})
				level, err := chain.Raise(replay(words...), eps(t, "2"), truth)
				if want := wantRow(t, hidden, last, u, first, either, same); err != nil || level.Response != want {
					t.Errorf("truth %d, coin %d, U=%v: %v, %v; want %v", truth, coin, u, level.Response, err, want)
				}
			}
		}
	}
}

// countedSampler draws from fixed random words, of which no two are the same. read returns how many of
// them were used. It may be called once.
func countedSampler(seed uint64) (s *Sampler, read func() int) {
	random, index := rand.New(rand.NewPCG(seed, 15)), map[uint64]int{}
	s = ReplaySampler(exact.ReplayBits(func(p []byte) {
		for ; len(p) > 0; p = p[8:] {
			word := random.Uint64()
			index[word] = len(index)
			binary.BigEndian.PutUint64(p, word)
		}
	}))
	return s, func() int { return index[s.bits.Uint64()] }
}

// TestWordsReadDoNotTellTheTruth replays the same words for every truth. How many of them a step takes depends
// on nothing but the number of bits: one for each bit, and for a raise in unary encoding one for the coin. So the words of all later steps, and of other objects, do not move either.
func TestWordsReadDoNotTellTheTruth(t *testing.T) {
	for _, m := range []int{2, 9, 70} {
		for truth := range m {
			levels := []struct {
				at    string
				words int
			}{{"0.5", 1 + m}, {"2", 1 + m}, {"0.1", m}, {"1", m}, {"2.000000001", 1 + m}}
			for steps := range len(levels) + 1 {
				sampler, read := countedSampler(uint64(m))
				chain, want := newUnary(t, m), 0
				for _, step := range levels[:steps] {
					extendUnary(t, chain, sampler, eps(t, step.at), truth)
					want += step.words
				}
				if got := read(); got != want {
					t.Errorf("m=%d, truth %d, %d steps: %d words were read, want %d", m, truth, steps, got, want)
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(16, 17))
	for _, n := range []int{1, 9, 128} {
		for _, truth := range []Bits{row(t, n), row(t, n, 0), row(t, n, n-1), randomRow(t, random, n), randomRow(t, random, n)} {
			sampler, read := countedSampler(uint64(n))
			chain := newBits(t, n)
			for _, at := range []string{"0.5", "2", "3"} {
				if _, err := chain.Raise(sampler, eps(t, at), truth); err != nil {
					t.Fatal(err)
				}
			}
			if got := read(); got != 3*n {
				t.Errorf("bits %v: %d words were read, want %d", truth, got, 3*n)
			}
		}
	}
}

func extendUnary(t *testing.T, c *UnaryChain, s *Sampler, at privacy.Epsilon, truth int) {
	t.Helper()
	if _, err := extendRow(&c.bitChain, s, at, func() (BitLevel, error) { return c.Raise(s, at, truth) }); err != nil {
		t.Fatal(err)
	}
}

// TestUnaryWithTheLargestQuestion goes to the limits of m and ε at once. At ε = 1,000 the bit of the true value
// is a fair coin, any other is set with a probability below 10⁻⁴³⁴ and so none of them is; it is the same
// coin at ε = 999, which is as sure.
func TestUnaryWithTheLargestQuestion(t *testing.T) {
	const truth = MaxValues - 3
	chain, sampler := newUnary(t, MaxValues), NewSampler()
	for _, at := range []string{"999", "1000"} {
		extendUnary(t, chain, sampler, eps(t, at), truth)
	}
	first, second := chain.Levels()[0].Response, chain.Levels()[1].Response
	for i := range first.Ones() {
		if i != truth {
			t.Errorf("bit %d is set", i)
		}
	}
	if first != second || first.Count() > 1 {
		t.Errorf("%d bits are set, then %d", first.Count(), second.Count())
	}
}

// TestUnaryFirstResponse checks, with chosen words, that a first response at U just below and
// above λ is the hidden bit or the uniform one, for a coin of either side.
func TestUnaryFirstResponse(t *testing.T) {
	λ := law{2, 0, 1_000_000_000, truthAbove}.weights(prec).First.Float64()
	for coin := range uint64(2) {
		for _, c := range []struct {
			u       float64
			uniform int
			want    string
		}{
			{0, 1, []string{"000", "010"}[coin]},
			{0.999 * λ, 1, []string{"000", "010"}[coin]},
			{1.001 * λ, 0, "000"},
			{1.001 * λ, 1, "111"},
		} {
			word := wordOf(2, c.u, c.uniform)
			level, err := newUnary(t, 3).Raise(replay(coin, word, word, word), eps(t, "1"), 1)
			if got := fmt.Sprint(level.Response); err != nil || got != c.want {
				t.Errorf("coin %d, U=%v: %s, %v; want %s", coin, c.u, got, err, c.want)
			}
		}
	}
}

// At ε=50 and above nothing but the coin is left to chance (but for 10⁻¹⁵), and it must not be tossed again: so the
// place of the true value is the same for its writing, its reading and the response, however wide the row.
func TestTheCoinLiesInItsPlace(t *testing.T) {
	s, seen := NewSampler(), [2]int{}
	for i := range 200 {
		m := 257 + 3*i
		for _, truth := range []int{0, 255, 256, m - 1} {
			c, err := NewUnaryChain(m)
			if err != nil {
				t.Fatal(err)
			}
			first, err1 := c.Raise(s, eps(t, "50"), truth)
			second, err2 := c.Raise(s, eps(t, "100"), truth)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if first.Response != second.Response || first.Response.Count() != first.Response.Bit(truth) {
				t.Fatalf("m=%d, value %d: %d bits are set, and then %d", m, truth, first.Response.Count(), second.Response.Count())
			}
			seen[first.Response.Bit(truth)]++
		}
	}
	if seen[0] < 200 || seen[1] < 200 { // 400 are expected of each; fails once in 10⁴⁰ runs
		t.Errorf("the coin came out %v", seen)
	}
}
