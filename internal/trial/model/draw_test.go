//go:build !race

package model

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// The draws that see a true value: the number of random words that they read, and their duration.

// primitive is a kind of draw that sees one of two true values.
type primitive struct {
	name  string
	draws int // the number of draws that the long form times
	keyed bool
	// begin returns draws from a source of randomness, which keyed draws do not use.
	begin func(t testing.TB, bits *exact.Bits) drawing
}

// drawing draws for the true value 0 or 1. It returns whether the response is the true value, and
// the duration of the draw alone.
type drawing func(truth int) (right bool, took time.Duration)

// timed returns the duration of a call.
func timed(call func()) time.Duration {
	begin := time.Now()
	call()
	return time.Since(begin)
}

// rowOfWords is the number of bits and values of the longer responses.
const rowOfWords = 64

// million is the number of timed draws; slowDraws is for draws that take a millisecond.
const million, slowDraws = 1_000_000, 30_000

func primitives() []primitive {
	return []primitive{
		{"first response, 2 values", million, false, firstOf(2)},
		{"first response, 1000 values", million, false, firstOf(1000)},
		{"raise, 2 values", million, false, raiseOf(2)},
		{"raise, 1000 values", million, false, raiseOf(1000)},
		{"unary, first response", million, false, unaryFrom(rrchain.Level[rrchain.Bits]{})},
		{"unary, raise", million, false, raiseOfUnary},
		{"Bloom filter, raise", million, false, raiseOfBits},
		{"staircase, 2 values", million, true, staircaseOf(2)},
		{"staircase, 1000 values", million, true, staircaseOf(1000)},
		{"staircase, unary", million, true, unaryStaircase},
		{"own mechanism, first response", million, false, ownFirst},
		{"own mechanism, raise", million, false, ownRaise},
		{"answer of 2, at the boundary or a step away", 10 * slowDraws, false, answerOf(2, 1)},
		{"answer of 2, at the boundary or far away", 10 * slowDraws, false, answerOf(2, far)},
		{"answer of 5, at the boundary or a step away", 10 * slowDraws, false, answerOf(5, 1)},
		{"answer of 5, at the boundary or far away", 10 * slowDraws, false, answerOf(5, far)},
		{"score, first, one or the next", slowDraws, false, scoreFrom(mechanism.Score{}, 1)},
		{"score, first, near or far", slowDraws, false, scoreFrom(mechanism.Score{}, far)},
		{"score, raise, one or the next", slowDraws, false, raiseOfScore(1)},
		{"score, raise, near or far", slowDraws, false, raiseOfScore(far)},
	}
}

// places returns the numbers of the values for the two true values: the first and the last.
func places(values int) [2]int { return [2]int{0, values - 1} }

func firstOf(values int) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, bits *exact.Bits) drawing { return chainFrom(t, bits, values) }
}

// raiseOf raises a response that is the first true value.
func raiseOf(values int) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, bits *exact.Bits) drawing {
		return chainFrom(t, bits, values, rrchain.Level[int]{Epsilon: Eps(t, "0.5"), Response: 0})
	}
}

// middling returns an ε at which about half, or three quarters, of the responses are true.
func middling(t testing.TB, values int) privacy.Epsilon {
	if values == 2 {
		return Eps(t, "1")
	}
	return Eps(t, "7")
}

func chainFrom(t testing.TB, bits *exact.Bits, values int, recorded ...rrchain.Level[int]) drawing {
	s, at := &rrchain.Sampler{Random: bits}, middling(t, values)
	return func(truth int) (bool, time.Duration) {
		c, err := rrchain.NewChain[int](values, recorded...)
		check.Must(t, err)
		number := places(values)[truth]
		var level rrchain.Level[int]
		took := timed(func() { level, err = c.Raise(s, at, number) })
		check.Must(t, err)
		return level.Response == number, took
	}
}

func unaryFrom(last rrchain.Level[rrchain.Bits]) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, bits *exact.Bits) drawing {
		s, at, recorded := &rrchain.Sampler{Random: bits}, Eps(t, "1"), []rrchain.Level[rrchain.Bits](nil)
		if !last.Epsilon.IsZero() {
			recorded = append(recorded, last)
		}
		return func(truth int) (bool, time.Duration) {
			c, err := rrchain.NewChain[rrchain.Bits](rowOfWords, recorded...)
			check.Must(t, err)
			number := places(rowOfWords)[truth]
			var level rrchain.Level[rrchain.Bits]
			took := timed(func() { level, err = c.Raise(s, at, number) })
			check.Must(t, err)
			return level.Response.Bit(number) == 1, took
		}
	}
}

// raiseOfUnary raises a response in which the bit of the first true value is set, and that of the
// second is not.
func raiseOfUnary(t testing.TB, bits *exact.Bits) drawing {
	packed := make([]byte, (rowOfWords+7)/8)
	packed[0], packed[1], packed[4] = 1, 2, 2 // bits 0, 9 and 33
	last := check.Value(rrchain.NewBits(rowOfWords, packed))(t)
	return unaryFrom(rrchain.Level[rrchain.Bits]{Epsilon: Eps(t, "0.5"), Response: last})(t, bits)
}

// raiseOfBits has rows with no bit set, or each. The first bit represents all.
func raiseOfBits(t testing.TB, bits *exact.Bits) drawing {
	var none, each rrchain.Bits
	check.Must(t, none.UnmarshalText(bytes.Repeat([]byte("0"), rowOfWords)))
	check.Must(t, each.UnmarshalText(bytes.Repeat([]byte("1"), rowOfWords)))
	s, at := &rrchain.Sampler{Random: bits}, Eps(t, "1")
	recorded := rrchain.Level[rrchain.Bits]{Epsilon: Eps(t, "0.5"), Response: none}
	return func(truth int) (bool, time.Duration) {
		row := [2]rrchain.Bits{none, each}[truth]
		var response rrchain.Bits
		var err error
		took := timed(func() { response, err = s.RaiseBits(rowOfWords, recorded, at, row) })
		check.Must(t, err)
		return response.Bit(0) == truth, took
	}
}

func newKey(t testing.TB) *rrchain.NoiseKey {
	key := check.Value(rrchain.NewNoiseKey(make([]byte, 32)))(t) // not a secret
	return key
}

func staircaseOf(values int) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, _ *exact.Bits) drawing {
		key, at, object := newKey(t), middling(t, values), 0
		return func(truth int) (bool, time.Duration) {
			object++
			of := rrchain.Staircase{Question: question, Object: objectName(object), Values: values}
			number, response := places(values)[truth], 0
			var err error
			took := timed(func() { response, err = key.Response(of, at, number) })
			check.Must(t, err)
			return response == number, took
		}
	}
}

func unaryStaircase(t testing.TB, _ *exact.Bits) drawing {
	key, at, object := newKey(t), Eps(t, "1"), 0
	return func(truth int) (bool, time.Duration) {
		object++
		of := rrchain.Staircase{Question: question, Object: objectName(object), Values: rowOfWords}
		number := places(rowOfWords)[truth]
		var response rrchain.Bits
		var err error
		took := timed(func() { response, err = key.UnaryResponse(of, at, number) })
		check.Must(t, err)
		return response.Bit(number) == 1, took
	}
}

func ownFirst(t testing.TB, bits *exact.Bits) drawing { return ownFrom(t, bits, rrchain.Level[int]{}) }

func ownRaise(t testing.TB, bits *exact.Bits) drawing {
	return ownFrom(t, bits, rrchain.Level[int]{Epsilon: Eps(t, "0.5"), Response: 0})
}

// ownFrom draws a subset of two of four values. The right one has the true value and the next one.
func ownFrom(t testing.TB, bits *exact.Bits, last rrchain.Level[int]) drawing {
	design := check.Value(finite.SubsetSelection(4, 2))(t)
	family := check.Value(design.Family(Eps(t, "0.5"), Eps(t, "1")))(t)
	s, at := &finite.Sampler{Random: bits}, Eps(t, "1")
	return func(truth int) (bool, time.Duration) {
		var level rrchain.Level[int]
		var err error
		number := places(4)[truth]
		took := timed(func() { level, err = s.Raise(family, last, at, number) })
		check.Must(t, err)
		return level.Response == [2]int{0, 5}[truth], took
	}
}

// far is a distance from the boundary at which no answer is wrong.
const far = 100_000

// answerOf has the same true answer at the boundary and at a distance from it.
func answerOf(outputs int, distance int64) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, bits *exact.Bits) drawing {
		s, at := &mechanism.Sampler{Random: bits}, Eps(t, "0.5")
		var ranking []int
		for o := range outputs {
			ranking = append(ranking, o)
		}
		return func(truth int) (bool, time.Duration) {
			var answer int
			var err error
			place := mechanism.Place{Order: ranking, Distance: [2]int64{0, distance}[truth]}
			took := timed(func() { answer, err = s.Draw(place, at) })
			check.Must(t, err)
			return answer == 0, took
		}
	}
}

// scoreFrom draws scores of two positions, 0 and another.
func scoreFrom(last mechanism.Score, other int64) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, bits *exact.Bits) drawing {
		s, at := &mechanism.Sampler{Random: bits}, Eps(t, "1")
		return func(truth int) (bool, time.Duration) {
			var score mechanism.Score
			var err error
			position := [2]int64{0, other}[truth]
			place := mechanism.Place{Order: []int{1, 0}, Distance: position}
			took := timed(func() { score, err = s.Raise(last, at, place) })
			check.Must(t, err)
			return score.Value == position, took
		}
	}
}

// raiseOfScore raises a score that is near the first position.
func raiseOfScore(other int64) func(testing.TB, *exact.Bits) drawing {
	return func(t testing.TB, bits *exact.Bits) drawing {
		return scoreFrom(mechanism.Score{Epsilon: Eps(t, "0.5"), Value: 1}, other)(t, bits)
	}
}

// odd is the step through all words of 64 bits.
const odd = 0x9e3779b97f4a7c15

// counted returns bits whose words are all different, and a function that returns the number of
// words before a word.
func counted(seed uint64) (bits *exact.Bits, number func(word uint64) uint64) {
	inverse := uint64(odd)
	for range 6 { // each round doubles the number of right digits
		inverse *= 2 - odd*inverse
	}
	next := seed
	bits = exact.ReplayBits(func(page []byte) {
		for i := range page {
			if i%8 == 0 {
				next += odd
			}
			page[i] = byte(next >> (56 - 8*(i%8)))
		}
	})
	return bits, func(word uint64) uint64 { return (word - seed) * inverse }
}

// wordsRead returns the number of words that a draw for a true value reads, and whether it was
// right.
func wordsRead(t testing.TB, begin func(testing.TB, *exact.Bits) drawing, seed uint64, truth int) (n uint64, right bool) {
	bits, number := counted(seed)
	right, _ = begin(t, bits)(truth)
	return number(bits.Uint64()) - 1, right
}

// readsTheSame returns whether draws read equally many words for both true values. The words are
// fixed.
func readsTheSame(t testing.TB, p primitive) bool {
	const seeds = 20
	random, outcomes := rand.New(rand.NewPCG(8, 9)), map[bool]bool{}
	same := true
	for range seeds {
		seed := random.Uint64()
		zero, right0 := wordsRead(t, p.begin, seed, 0)
		one, right1 := wordsRead(t, p.begin, seed, 1)
		same = same && zero == one && zero > 0
		outcomes[right0], outcomes[right1] = true, true
	}
	check.That(t, len(outcomes) == 2, "%s: all responses were right, or all wrong, so the test sees one outcome only", p.name)
	return same
}

// The same words are used for either true value, and equally many must be read. Staircases read no
// words; package rrchain counts their blocks.
func TestDraw_WordsRead_DoNotDependOnTheTruth(t *testing.T) {
	for _, p := range primitives() {
		check.That(t, p.keyed || readsTheSame(t, p), "%s: the number of words read depends on the truth", p.name)
	}
	for name, leak := range leaks() {
		check.That(t, !readsTheSame(t, primitive{name: name, begin: leak}), "%s: the check does not find it", name)
	}
}

// leaks returns draws that read one word more for the true value 1, or for a true response.
func leaks() map[string]func(testing.TB, *exact.Bits) drawing {
	leaky := func(when func(truth int, right bool) bool) func(testing.TB, *exact.Bits) drawing {
		return func(t testing.TB, bits *exact.Bits) drawing {
			draw := firstOf(2)(t, bits)
			return func(truth int) (right bool, took time.Duration) {
				if right, took = draw(truth); when(truth, right) {
					bits.Uint64()
				}
				return right, took
			}
		}
	}
	return map[string]func(testing.TB, *exact.Bits) drawing{
		"a word more for one truth":       leaky(func(truth int, _ bool) bool { return truth == 1 }),
		"a word more for a true response": leaky(func(_ int, right bool) bool { return right }),
	}
}
