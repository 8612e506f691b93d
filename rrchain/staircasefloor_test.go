package rrchain

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// Conversion of uint128 to big integers and back.

func (x uint128) big() *big.Int {
	n := new(big.Int).Lsh(new(big.Int).SetUint64(x.hi), 64)
	return n.Or(n, new(big.Int).SetUint64(x.lo))
}

func uint128Of(n *big.Int) uint128 {
	low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64))
	return uint128{new(big.Int).Rsh(n, 64).Uint64(), low.Uint64()}
}

// awkward are words at which carries start or stop.
var awkward = []uint64{0, 1, 2, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64}

// eachUint128 calls check with all pairs of awkward numbers and with random ones.
func eachUint128(check func(x, y uint128, random *rand.Rand)) {
	random := rand.New(rand.NewPCG(7, 8))
	var all []uint128
	for _, hi := range awkward {
		for _, lo := range awkward {
			all = append(all, uint128{hi, lo})
		}
	}
	for range 40 {
		all = append(all, uint128{random.Uint64() >> random.IntN(64), random.Uint64()})
	}
	for _, x := range all {
		for _, y := range all {
			check(x, y, random)
		}
	}
}

func TestUint128_Less(t *testing.T) {
	eachUint128(func(x, y uint128, _ *rand.Rand) {
		want := uint64(0)
		if x.big().Cmp(y.big()) < 0 {
			want = math.MaxUint64
		}
		got := x.less(y)
		check.That(t, got == want, "%x < %x: %x", x, y, got)
	})
}

// A product needs only sums below 2¹⁹², because x·w + x + w is below it.
func TestUint128_Times(t *testing.T) {
	eachUint128(func(x, y uint128, random *rand.Rand) {
		if x.less(y) != 0 {
			x, y = y, x
		}
		for _, w := range []uint64{awkward[random.IntN(len(awkward))], random.Uint64()} {
			for _, z := range []uint64{0, w} {
				exact := new(big.Int).Mul(x.big(), new(big.Int).SetUint64(w))
				exact.Add(exact, y.big()).Add(exact, new(big.Int).SetUint64(z))
				want := uint128Of(exact.Rsh(exact, 64))
				got := x.times(w, y, z)
				check.That(t, got == want, "(%x·%x + %x + %x)·2⁻⁶⁴: got %x, want %x", x, w, y, z, got, want)
			}
		}
	})
}

func TestUint128_Float64(t *testing.T) {
	eachUint128(func(x, _ uint128, _ *rand.Rand) {
		want, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(x.big()), -128).Float64()
		got := x.float64()
		check.That(t, math.Abs(got-want) <= 0x1p-52*want, "%x: %v, want %v", x, got, want)
	})
}

// Each factor is a real number whose first 64 bits are known, at either end of its cell. The exact
// product must be between the bounds, and these must be close.
func TestProduct_EnclosesTheExactProduct(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		v, low, high := one(), big.NewInt(1), big.NewInt(1) // times 2⁶⁴ for each factor
		for n := 1; n <= 40; n++ {
			w := random.Uint64() >> (random.IntN(3) * random.IntN(12))
			switch random.IntN(8) {
			case 0:
				w = awkward[random.IntN(len(awkward))]
			case 1:
				w = math.MaxUint64 - random.Uint64N(4)
			}
			v = v.times(w)
			low.Mul(low, new(big.Int).SetUint64(w))
			high.Mul(high, new(big.Int).Add(new(big.Int).SetUint64(w), big.NewInt(1)))
			lo := new(big.Int).Lsh(v.lo.big(), uint(64*n))
			hi := new(big.Int).Lsh(new(big.Int).Add(v.hi.big(), big.NewInt(1)), uint(64*n))
			check.Need(t, lo.Cmp(new(big.Int).Lsh(low, 128)) <= 0 && hi.Cmp(new(big.Int).Lsh(high, 128)) >= 0,
				"after %d factors the product is not between %x and %x", n, v.lo, v.hi)
			// The bounds are a rounding of each step apart, and what the factors leave open.
			slack := new(big.Int).Sub(new(big.Int).Lsh(high, 128), new(big.Int).Lsh(low, 128))
			slack.Add(slack, new(big.Int).Lsh(big.NewInt(int64(2*n+3)), uint(64*n)))
			check.Need(t, new(big.Int).Sub(hi, lo).Cmp(slack) <= 0,
				"after %d factors the bounds %x and %x are too far apart", n, v.lo, v.hi)
		}
	}
}

// A product that is a few cells wide is compared with the floor's cell, from below it to above it.
func TestProductCompare_AroundACell(t *testing.T) {
	at := func(cell uint128, offset int64) uint128 {
		return uint128Of(new(big.Int).Add(cell.big(), big.NewInt(offset)))
	}
	const most = math.MaxUint64
	for _, cell := range []uint128{{0, 100}, {1, 0}, {0, most}, {1 << 63, 5}, {most, most - 100}} {
		for lo := int64(-3); lo <= 3; lo++ {
			for hi := lo; hi <= 3; hi++ {
				var wantAbove, wantOpen uint64
				switch {
				case lo > 0: // the product is at cell+1 or above
					wantAbove = math.MaxUint64
				case hi >= 0: // it may be in the cell
					wantOpen = math.MaxUint64
				}
				above, open := product{at(cell, lo), at(cell, hi)}.compare(cell)
				check.That(t, above == wantAbove && open == wantOpen,
					"cell %x, product from %+d to %+d: above %x, open %x", cell, lo, hi, above, open)
			}
		}
	}
}

// The retention comes from the slow definition.
func TestNewFloor_CellContainsTheRetention(t *testing.T) {
	for _, m := range []int64{2, 3, 4, 1000, 1 << 20} {
		for _, nano := range stairEpsilons {
			f := newFloor(law{m: m, at: nano, above: truthAbove})
			const places = 2000 // at ε = 1000, λ begins with more than 1,400 ones
			low, high := retained(m, nano, places)
			cell := f.cell.big()
			start := new(big.Int).Lsh(cell, places-128)
			end := new(big.Int).Lsh(cell.Add(cell, big.NewInt(1)), places-128)
			check.That(t, start.Cmp(low) < 0 && end.Cmp(high) > 0,
				"m=%d, ε=%d nano-nats: λ is not within the cell %x", m, nano, f.cell)
		}
	}
}

// poissonTail returns the probability of n or more arrivals until t, summed from the smallest term.
func poissonTail(t float64, n uint32) float64 {
	sum := 0.0
	for k := float64(n) + 200; k >= float64(n); k-- {
		factorial, _ := math.Lgamma(k + 1)
		sum += math.Exp(k*math.Log(t) - t - factorial)
	}
	return sum
}

// More steps have a probability of at most 2⁻⁶⁴, and with two steps less it is above 2⁻⁶⁴. The
// bound by twice the first term and the rounding of 2t cost at most these two steps.
func TestStepsAbove_IsEnoughAndNotTooMany(t *testing.T) {
	for _, m := range []int64{2, 3, 4, 1000, 1 << 20} {
		for _, nano := range stairEpsilons {
			f := newFloor(law{m: m, at: nano, above: truthAbove})
			e := math.Expm1(float64(nano) / 1e9)
			time := math.Log1p(float64(m) / e) // −ln λ = ln(1 + m/(e^ε−1))
			left := poissonTail(time, f.steps)
			check.That(t, left <= 0x1p-64, "m=%d, ε=%d nano-nats: %d steps leave %.3g", m, nano, f.steps, left)
			check.That(t, f.steps <= 2 || poissonTail(time, f.steps-2) >= 0x1p-64,
				"m=%d, ε=%d nano-nats: %d steps are too many", m, nano, f.steps)
			check.That(t, f.steps >= 2 && f.steps < 128, "m=%d, ε=%d nano-nats: %d steps", m, nano, f.steps)
		}
	}
}

// script is a random function with given words of W and U for each step. Other words are zero. It
// counts its blocks.
type script struct {
	cipher.Block
	w, u   map[uint32][]uint64
	blocks int
}

func (s *script) Encrypt(to, from []byte) {
	s.blocks++
	k, j := binary.BigEndian.Uint64(from), binary.BigEndian.Uint32(from[8:])
	word := func(words []uint64) uint64 {
		if k < uint64(len(words)) {
			return words[k]
		}
		return 0
	}
	w, u := word(s.w[j]), word(s.u[j])
	binary.BigEndian.PutUint64(to, w)
	binary.BigEndian.PutUint64(to[8:], u)
}

// wordsOfRetention returns the first n words of λ·2^shift.
func wordsOfRetention(m, nano int64, shift, n int) []uint64 {
	const places = 4096
	low, _ := retained(m, nano, places)
	digits := new(big.Int).Rsh(low, uint(places-shift-64*n))
	words := make([]uint64, n)
	for k := n - 1; k >= 0; k-- {
		words[k] = new(big.Int).And(digits, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		digits.Rsh(digits, 64)
	}
	return words
}

// W of a step is chosen so that the product agrees with λ in exactly n words. With zeros after them
// the product is below λ, with ones above. If there is a step before, its W is 1/2, and the second
// W agrees with 2λ.
func TestNoiseResponse_Ties_AreDecidedByMoreWords(t *testing.T) {
	const m = 5
	ones := []uint64{math.MaxUint64, math.MaxUint64, math.MaxUint64}
	for _, nano := range []int64{1, 500_000_000, 1_000_000_000} { // λ < 1/2
		to := newFloor(law{m: m, at: nano, above: truthAbove})
		for n := 1; n <= 6; n++ {
			for before := range 2 {
				for _, c := range []struct {
					tail []uint64
					last int // the last step that is above the floor
				}{{nil, before}, {ones, before + 1}} {
					tied := uint32(before + 1)
					words := append(wordsOfRetention(m, nano, before, n), c.tail...)
					random := &script{
						w: map[uint32][]uint64{1: {1 << 63}, tied: words},
						u: map[uint32][]uint64{1: {1 << 62}, 2: {1 << 63}},
					}
					want := []uint64{4, 1, 2}[c.last]
					name := fmt.Sprintf("ε=%d nano-nats, step %d, %d words, then %x", nano, tied, n, c.tail)
					got := (&noise{block: random}).response(to, m, 4)
					check.That(t, got == want, "%s: got %d, want %d", name, got, want)
					if got := (definition{random, 0, m}).response(nano, 4); got != int(want) {
						t.Errorf("%s: the definition says %d, want %d", name, got, want)
					}
				}
			}
		}
	}
}

// Random keys are drawn with both methods. In addition, the floor's cell is moved to a product, so
// that the fast method cannot decide and calls the slow one.
func TestSlowResponse_AgreesWithFastResponse(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	gaveUp := 0
	for range 150 {
		key, m := randomKey(random), int64(2+random.IntN(1000))
		nano := stairEpsilons[random.IntN(len(stairEpsilons))]
		counted := &counter{Block: define(key, "direct", "q", "o", int(m)).block}
		n := &noise{block: counted}
		to := newFloor(law{m: m, at: nano, above: truthAbove})
		above := uint64(random.Int64N(m))
		want := n.response(to, uint64(m), above)
		got := n.slowResponse(to, uint64(m), above)
		check.Need(t, got == want, "m=%d, ε=%d nano-nats, key %x: %d slowly, %d else", m, nano, key, got, want)
		for step := uint32(1); step <= 3; step++ {
			v := one()
			for j := uint32(1); j <= step; j++ {
				w, _ := n.words(j, 0)
				v = v.times(w)
			}
			for _, cell := range []uint128{v.lo, v.hi} {
				moved := floor{cell, to.steps, to.law}
				counted.blocks = 0
				if got := n.response(moved, uint64(m), above); got != want {
					t.Fatalf("m=%d, ε=%d nano-nats, key %x, moved: %d, but %d else", m, nano, key, got, want)
				}
				if counted.blocks != int(to.steps) {
					gaveUp++
				}
			}
		}
	}
	if gaveUp < 800 { // of 900; the two ways may happen to take the same number of blocks
		t.Errorf("only %d times the quick way gave up", gaveUp)
	}
}

// For three values, the word 0 of U is refused, because 2⁶⁴ is 1 modulo 3. The next word replaces
// it, no matter whether the refused word belongs to the last step above the floor or to another
// one.
func TestNoiseResponse_RefusedWords_AreReplaced(t *testing.T) {
	const m, nano = 3, 100_000_000 // λ = 0.034
	to := newFloor(law{m: m, at: nano, above: truthAbove})
	const third = math.MaxUint64 / 3
	for _, c := range []struct {
		name string
		u    map[uint32][]uint64
		want uint64
	}{
		{"none", map[uint32][]uint64{1: {third / 2}, 2: {third + third/2}}, 1},
		{"the first", map[uint32][]uint64{1: {0, third / 2}, 2: {third + third/2}}, 1},
		{"the last", map[uint32][]uint64{1: {third / 2}, 2: {0, 2*third + third/2}}, 2},
		{"the last, again and again", map[uint32][]uint64{1: {third / 2}, 2: {0, 0, 0, third + third/2}}, 1},
		{"those below", map[uint32][]uint64{1: {third / 2}, 2: {2*third + third/2}, 3: {0}, 4: {0}}, 2},
	} {
		random := &script{w: map[uint32][]uint64{1: {1 << 63}, 2: {1 << 63}}, u: c.u} // V₂ = 1/4, V₃ = 0
		got := (&noise{block: random}).response(to, m, 0)
		check.That(t, got == c.want, "%s: got %d, want %d", c.name, got, c.want)
		if got := (definition{random, 0, m}).response(nano, 0); got != int(c.want) {
			t.Errorf("%s: the definition says %d, want %d", c.name, got, c.want)
		}
	}
}

// More steps are above the floor than the number of steps that every draw checks.
func TestNoiseResponse_MoreStepsThanUsual_AllCount(t *testing.T) {
	const m = 2
	to := newFloor(law{m: m, at: 1_000_000_000, above: truthAbove})
	for _, more := range []uint32{0, 1, 2, 7} {
		last := to.steps + more
		random := &script{w: map[uint32][]uint64{}, u: map[uint32][]uint64{last: {1 << 63}}}
		for j := uint32(1); j <= last; j++ {
			random.w[j] = []uint64{math.MaxUint64}
		}
		got := (&noise{block: random}).response(to, m, 0)
		check.That(t, got == 1, "%d more steps: the last one does not count", more)
		check.That(t, random.blocks == int(last)+1, "%d more steps: %d blocks, want %d", more, random.blocks, last+1)
	}
}

// counter counts the blocks of a random function.
type counter struct {
	cipher.Block
	blocks int
}

func (c *counter) Encrypt(to, from []byte) {
	c.blocks++
	c.Block.Encrypt(to, from)
}

// inLane uses given words for one lane, and AES for the other lanes.
type inLane struct {
	cipher.Block
	lane    uint32
	written *script
}

func (l inLane) Encrypt(to, from []byte) {
	if binary.BigEndian.Uint32(from[12:]) == l.lane && binary.BigEndian.Uint32(from[8:]) > 0 {
		l.written.Encrypt(to, from)
		return
	}
	l.Block.Encrypt(to, from)
}

// Rows of more and of fewer bits than are processed together must agree with the definition: with
// all bits from AES, with a tie in one bit, or with more steps than usual in one bit.
func TestResponseBits_LongRows_AgreeWithTheDefinition(t *testing.T) {
	const nano = 1_000_000_000
	to := newFloor(law{m: 2, at: nano, above: truthAbove})
	long := map[uint32][]uint64{}
	for j := range to.steps + 3 {
		long[j+1] = []uint64{math.MaxUint64}
	}
	tie := wordsOfRetention(2, nano, 0, 2)
	scripts := map[string]*script{
		"a tie from below": {w: map[uint32][]uint64{1: tie}, u: map[uint32][]uint64{1: {math.MaxUint64}}},
		"a tie from above": {
			w: map[uint32][]uint64{1: {tie[0], tie[1], math.MaxUint64, math.MaxUint64}},
			u: map[uint32][]uint64{1: {math.MaxUint64}},
		},
		"many steps to 1": {w: long, u: map[uint32][]uint64{to.steps + 3: {math.MaxUint64}}},
		"many steps to 0": {w: long},
	}
	for _, m := range []int{2, 7, 8, 9, runLanes - 1, runLanes, runLanes + 1, 2*runLanes + 3} {
		for _, lane := range []int{0, m - 1} {
			for name, written := range scripts {
				block := inLane{define(fixedKey(), "unary", "q", "o", m).block, uint32(lane), written}
				got := (&noise{block: block}).unary(to, m, m-1)
				slow := definition{block, 0, 2}
				hidden := int(slow.word(0, 0, 0) & 1)
				for v := range m {
					slow.lane = uint32(v)
					above := 0
					if v == m-1 {
						above = hidden
					}
					if want := slow.response(nano, above); got.Bit(v) != want {
						t.Fatalf("m=%d, %s at %d: bit %d is %d, want %d", m, name, lane, v, got.Bit(v), want)
					}
				}
			}
		}
	}
}

// A response always uses as many blocks as its floor has steps. In unary encoding the number
// depends only on m and ε. One of these draws needs more with a probability below 10⁻¹¹, and the
// keys are fixed.
func TestNoise_BlocksUsed_DoNotDependOnTruth(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	values := map[int]bool{}
	for range 30 {
		k, m := newKey(randomKey(random)), 2+random.IntN(20)
		counted := func(use string) (*noise, *counter) {
			n := must(k.noise(use, Staircase{"q", "o", m}, fromNano(1)))
			blocks := &counter{Block: n.block}
			n.block = blocks
			return n, blocks
		}
		direct, ofDirect := counted("direct")
		unary, ofUnary := counted("unary")
		for _, nano := range stairEpsilons {
			to, toBits := k.floor(m, fromNano(nano)), k.floor(2, fromNano(nano))
			each := 0 // blocks of a unary response without the one of the coin
			for truth := range m {
				ofDirect.blocks, ofUnary.blocks = 0, 0
				values[int(direct.response(to, uint64(m), uint64(truth)))] = true
				row := unary.unary(toBits, m, truth)
				check.Need(t, ofDirect.blocks == int(to.steps),
					"m=%d, truth %d: %d blocks, want %d", m, truth, ofDirect.blocks, to.steps)
				if truth == 0 {
					each = ofUnary.blocks - 1
				}
				check.Need(t, ofUnary.blocks == each+1 && each >= m*int(toBits.steps),
					"m=%d, truth %d, unary: %d blocks, want %d", m, truth, ofUnary.blocks, each+1)
				ofUnary.blocks = 0
				if unary.responseBits(toBits, m, row.packed); ofUnary.blocks != each {
					t.Fatalf("m=%d, truth %d, below: %d blocks, want %d", m, truth, ofUnary.blocks, each)
				}
			}
		}
	}
	check.That(t, len(values) >= 20, "only %d different responses", len(values))
}
