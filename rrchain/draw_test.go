package rrchain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Levels, values and true values out of range are refused before a draw. A draw would panic.
func TestSampler_InvalidArguments_AreRefused(t *testing.T) {
	half, one, two, s := eps("0.5"), eps("1"), eps("2"), noBits()
	type value = Level[int]
	type bits = Level[Bits]
	good, short := row(4), row(3)
	ofValue := func(x int, err error) error { return err }
	ofBits := func(x Bits, err error) error { return err }
	for name, err := range map[string]error{
		"one value":                    ofValue(s.Raise(1, value{}, one, 0)),
		"too many values":              ofValue(s.Raise(maxValues+1, value{}, one, 0)),
		"no rise":                      ofValue(s.Raise(4, value{one, 0}, one, 0)),
		"no rise from nothing":         ofValue(s.Raise(4, value{}, privacy.Epsilon{}, 0)),
		"a response too high":          ofValue(s.Raise(4, value{one, 4}, two, 0)),
		"a response below 0":           ofValue(s.Raise(4, value{one, -1}, two, 0)),
		"truth too high":               ofValue(s.Raise(4, value{}, one, 7777)),
		"truth below 0":                ofValue(s.Raise(4, value{}, one, -7777)),
		"between, one value":           ofValue(s.Between(1, value{}, one, value{two, 0})),
		"between, not above":           ofValue(s.Between(4, value{one, 0}, one, value{two, 0})),
		"between, not below":           ofValue(s.Between(4, value{}, two, value{two, 0})),
		"between, nothing above":       ofValue(s.Between(4, value{one, 0}, two, value{})),
		"between, at 0":                ofValue(s.Between(4, value{}, privacy.Epsilon{}, value{two, 0})),
		"between, response below":      ofValue(s.Between(4, value{half, 4}, one, value{two, 0})),
		"between, response above":      ofValue(s.Between(4, value{}, one, value{two, 4})),
		"unary, one value":             ofBits(s.RaiseUnary(1, bits{}, one, 0)),
		"unary, no rise":               ofBits(s.RaiseUnary(4, bits{two, good}, one, 0)),
		"unary, bits missing":          ofBits(s.RaiseUnary(4, bits{one, short}, two, 0)),
		"unary, no bits":               ofBits(s.RaiseUnary(4, bits{Epsilon: one}, two, 0)),
		"unary, truth too high":        ofBits(s.RaiseUnary(4, bits{}, one, 7777)),
		"bits, one":                    ofBits(s.RaiseBits(1, bits{}, one, row(1))),
		"bits, no rise":                ofBits(s.RaiseBits(4, bits{two, good}, one, good)),
		"bits, missing below":          ofBits(s.RaiseBits(4, bits{one, short}, two, good)),
		"bits, a shorter truth":        ofBits(s.RaiseBits(4, bits{}, one, short)),
		"bits, a longer truth":         ofBits(s.RaiseBits(4, bits{one, good}, two, row(5, 3))),
		"bits, no truth":               ofBits(s.RaiseBits(4, bits{}, one, Bits{})),
		"bits between, missing below":  ofBits(s.BetweenBits(4, bits{half, short}, one, bits{two, good})),
		"bits between, short above":    ofBits(s.BetweenBits(4, bits{}, one, bits{two, short})),
		"bits between, nothing above":  ofBits(s.BetweenBits(4, bits{one, good}, two, bits{})),
		"bits between, not below":      ofBits(s.BetweenBits(4, bits{}, two, bits{two, good})),
		"bits between, not above":      ofBits(s.BetweenBits(4, bits{two, good}, one, bits{two, good})),
		"bits between, of one":         ofBits(s.BetweenBits(1, bits{}, one, bits{two, good})),
		"bits between, from ε=0 alone": ofBits(s.BetweenBits(4, bits{}, privacy.Epsilon{}, bits{two, good})),
	} {
		if !errors.Is(err, privacy.ErrInvalid) {
			t.Errorf("%s: %v, want privacy.ErrInvalid", name, err)
		} else if strings.Contains(err.Error(), "7777") {
			t.Errorf("%s: the truth is in the error: %v", name, err)
		}
	}
}

// With cached thresholds, a draw allocates nothing, or a row of bits, and in unary encoding also
// the row of hidden bits.
func TestSampler_CachedLaw_DrawsWithoutAllocation(t *testing.T) {
	s, one, two, three := new(Sampler), eps("1"), eps("2"), eps("3")
	response, sum := row(100, 1, 2, 3), 0
	low, high := Level[Bits]{one, response}, Level[Bits]{three, response}
	values := func(x int, err error) error { sum += x; return err }
	bits := func(x Bits, err error) error { sum += x.Len(); return err }
	for _, c := range []struct {
		name string
		most float64
		draw func() error
	}{
		{"first", 0, func() error { return values(s.Raise(4, Level[int]{}, one, 2)) }},
		{"raise", 0, func() error { return values(s.Raise(4, Level[int]{one, 1}, two, 2)) }},
		{"raise, many values", 0, func() error { return values(s.Raise(1<<20, Level[int]{one, 1}, two, 2)) }},
		{"insert", 0, func() error { return values(s.Between(4, Level[int]{one, 1}, two, Level[int]{three, 0})) }},
		{"unary", 2, func() error { return bits(s.RaiseUnary(100, low, two, 7)) }},
		{"bits", 1, func() error { return bits(s.RaiseBits(100, low, two, response)) }},
		{"insert bits", 1, func() error { return bits(s.BetweenBits(100, low, two, high)) }},
	} {
		var failed error
		got := testing.AllocsPerRun(1000, func() {
			if err := c.draw(); err != nil {
				failed = err
			}
		})
		check.That(t, failed == nil && got <= c.most, "%s: %v allocations, want %v (%v)", c.name, got, c.most, failed)
	}
	check.That(t, sum != 0, "nothing was drawn")
}

// Draws alternate between two laws that share a slot of the small cache: one with an ε so high that
// a response is the true value, and one with an ε so low that it is uniform.
func TestSampler_LawsInOneSlot_AreNotConfused(t *testing.T) {
	first := func(nano int64) law { return law{m: 2, at: nano, above: truthAbove} }
	low, high := first(1), first(900_000_000_000)
	for high.slot() != low.slot() {
		high.at++
	}
	s, wrong := new(Sampler), 0
	for range 100 {
		check.That(t, s.draw(high, 1, 0) == 1, "a false value at a high ε")
		wrong += 1 - s.draw(low, 1, 0)
	}
	if wrong == 0 || wrong == 100 { // once in 2⁹⁹ runs
		t.Errorf("at a low ε, %d responses of 100 are wrong", wrong)
	}
}

// between01 returns a number in each interval between neighbouring thresholds in [0,1].
func between01(thresholds ...float64) (inside []float64) {
	edges := append(thresholds, 0, 1)
	slices.Sort(edges)
	for i, edge := range edges[1:] {
		if edge-edges[i] > 1e-9 {
			inside = append(inside, (edge+edges[i])/2)
		}
	}
	return inside
}

// passesResponses replays words for which every bit is the bit of the response above, of the one
// below, or the uniform bit, here 1. The first words that draw reads are given.
func passesResponses(
	t *testing.T, name string, l law, above, below Bits, draw func(*Sampler) (Level[Bits], error), words ...uint64,
) {
	t.Helper()
	w := l.weights(prec)
	first, either, same := w.First.Float64(), w.Either.Float64(), w.Same.Float64()
	for _, u := range between01(first, either, same) {
		var ones []int
		for i := range above.Len() {
			a, b, bit := above.Bit(i), below.Bit(i), 1
			switch {
			case a == b && u < same, a != b && u < first:
				bit = a
			case a != b && u < either:
				bit = b
			}
			if bit == 1 {
				ones = append(ones, i)
			}
		}
		want := row(above.Len(), ones...)
		level, err := draw(replay(append(words, slices.Repeat([]uint64{wordOf(2, u, 1)}, above.Len())...)...))
		check.That(t, err == nil && level.Response == want,
			"%s with U=%v: %v, %v; want %v", name, u, level.Response, err, want)
	}
}

// The rows have every combination of the bits of the true row and of the responses above and below.
func TestRowChain_EachDraw_UsesTheRightNeighbours(t *testing.T) {
	low, high, truth := parsed(t, "000000111111"), parsed(t, "000111000111"), parsed(t, "001001001001")
	recorded := []Level[Bits]{{eps("1"), low}, {eps("2"), high}}
	draw := func(at string, recorded ...Level[Bits]) func(*Sampler) (Level[Bits], error) {
		return func(s *Sampler) (Level[Bits], error) { return extend(newRows(truth, recorded...), s, eps(at), 0) }
	}
	raise := law{2, 2_000_000_000, 3_000_000_000, truthAbove}
	passesResponses(t, "raise", raise, truth, high, draw("3", recorded...))
	insert := law{2, 1_000_000_000, 1_500_000_000, 2_000_000_000}
	passesResponses(t, "insert", insert, high, low, draw("1.5", recorded...))
	passesResponses(t, "degrade", law{2, 0, 500_000_000, 1_000_000_000}, low, low, draw("0.5", recorded...))
	passesResponses(t, "first", law{2, 0, 1_000_000_000, truthAbove}, truth, truth, draw("1"))
}

// Every bit is the hidden bit or the bit of the last response.
func TestUnaryChain_Raise_RespondsToTheHiddenBits(t *testing.T) {
	last := parsed(t, "110010100110")
	recorded := Level[Bits]{eps("1"), last}
	for truth := range last.Len() {
		for coin, hidden := range []Bits{row(last.Len()), row(last.Len(), truth)} {
			name := fmt.Sprintf("truth %d, coin %d", truth, coin)
			raise := law{2, 1_000_000_000, 2_000_000_000, truthAbove}
			passesResponses(t, name, raise, hidden, last, func(s *Sampler) (Level[Bits], error) {
				return newChain(last.Len(), recorded).Raise(s, eps("2"), truth)
			}, wordOf(2, 1-0x1p-53, coin))
			first := law{2, 0, 1_000_000_000, truthAbove} // the coin is the last bit of a word
			passesResponses(t, name+", first", first, hidden, hidden, func(s *Sampler) (Level[Bits], error) {
				return newChain[Bits](last.Len()).Raise(s, eps("1"), truth)
			}, 0xfedcba9876543210+uint64(coin))
		}
	}
}

// For every true value, the coin is the response's bit if U is below λ(ε), and otherwise the
// uniform bit.
func TestCoin_AfterAResponse_RespondsToIt(t *testing.T) {
	response := parsed(t, "0110100110010110011010011001011010010110")
	for _, at := range []string{"0.000000001", "0.5", "3"} {
		current := Level[Bits]{eps(at), response}
		λ := law{m: 2, at: current.Epsilon.Nano(), above: truthAbove}.weights(prec).First.Float64()
		for truth := range response.Len() {
			for uniform := range 2 {
				for _, c := range []struct {
					u    float64
					want int
				}{{λ / 2, response.Bit(truth)}, {(1 + λ) / 2, uniform}} {
					want := row(response.Len())
					if c.want == 1 {
						want = row(response.Len(), truth)
					}
					if got := replay(wordOf(2, c.u, uniform)).hidden(response.Len(), current, truth); got != want.packed {
						t.Errorf("ε=%s, truth %d, U=%v, uniform bit %d: hidden bits %x, want %x", at, truth, c.u, uniform,
							got, want.packed)
					}
				}
			}
		}
	}
}

// countedSampler returns a sampler with fixed, distinct random words. read returns how many of them
// were used, and may be called once.
func countedSampler(seed uint64) (s *Sampler, read func() int) {
	random, index := rand.New(rand.NewPCG(seed, 15)), map[uint64]int{}
	s = &Sampler{bits: exact.ReplayBits(func(p []byte) {
		for ; len(p) > 0; p = p[8:] {
			word := random.Uint64()
			index[word] = len(index)
			binary.BigEndian.PutUint64(p, word)
		}
	})}
	return s, func() int { return index[s.bits.Uint64()] }
}

// The same words are replayed for every true value. A draw reads one word for each bit, and a raise
// in unary encoding one more for the coin. So the true value does not shift the words of later
// draws or of other objects.
func TestSampler_WordsRead_DoNotDependOnTruth(t *testing.T) {
	read := func(name string, chain *Chain[Bits], truth, coins int) {
		t.Helper()
		sampler, read := countedSampler(uint64(chain.m))
		for _, at := range []string{"0.5", "2", "0.1", "1", "2.000000001"} {
			must(extend(chain, sampler, eps(at), truth))
		}
		got, want := read(), 5*chain.m+coins
		check.That(t, got == want, "%s: %d words were read, want %d", name, got, want)
	}
	random := rand.New(rand.NewPCG(16, 17))
	for _, m := range []int{2, 9, 70} {
		for truth := range m {
			read(fmt.Sprintf("m=%d, truth %d", m, truth), newChain[Bits](m), truth, 3)
		}
		for _, truth := range []Bits{row(m), row(m, 0), row(m, m-1), randomRow(random, m)} {
			read(fmt.Sprint("bits ", truth), newRows(truth), 0, 0)
		}
	}
}
