package rrchain

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// There are two slow implementations of staircases for comparison: the one below, with big
// integers, and a program in another language, see goldenDirect. This one shares no code with the
// package: it has its own words, its own exponential and its own comparison.

// definition is the definition of a staircase: the words of one lane.
type definition struct {
	block cipher.Block
	lane  uint32
	m     int64
}

// define derives the words from a key.
func define(key []byte, use, question, object string, m int) definition {
	mac := hmac.New(sha256.New, key)
	number := func(n int) { mac.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	for _, text := range []string{"sluice noise v1", use, question, object} {
		number(len(text))
		mac.Write([]byte(text))
	}
	number(m)
	block := must(aes.NewCipher(mac.Sum(nil)))
	return definition{block, 0, int64(m)}
}

// word returns word k of W_j (half 0) or of U_j (half 1).
func (d definition) word(half int, j uint32, k uint64) uint64 {
	block := binary.BigEndian.AppendUint64(nil, k)
	block = binary.BigEndian.AppendUint64(block, uint64(j)<<32|uint64(d.lane))
	d.block.Encrypt(block, block)
	return binary.BigEndian.Uint64(block[8*half:])
}

// factor returns W_j·2⁶⁴ⁿ, rounded down to an integer.
func (d definition) factor(j uint32, n int) *big.Int {
	w := new(big.Int)
	for k := range n {
		w.Lsh(w, 64).Add(w, new(big.Int).SetUint64(d.word(0, j, uint64(k))))
	}
	return w
}

// uniform returns U_j. It skips the surplus words, of which there are 2⁶⁴ mod m.
func (d definition) uniform(j uint32) int {
	all, m := new(big.Int).Lsh(big.NewInt(1), 64), big.NewInt(d.m)
	tooMany := new(big.Int).Mod(all, m)
	for k := uint64(0); ; k++ {
		scaled := new(big.Int).Mul(m, new(big.Int).SetUint64(d.word(1, j, k)))
		value, rest := scaled.DivMod(scaled, all, new(big.Int))
		if rest.Cmp(tooMany) >= 0 {
			return int(value.Int64())
		}
	}
}

// response returns the response at an ε, given that at a higher one or the truth.
func (d definition) response(nano int64, above int) int {
	last := d.lastStep(nano)
	if last == 0 {
		return above
	}
	return d.uniform(last)
}

// lastStep returns max{j : V_j ≥ λ}, where V₀ = 1.
func (d definition) lastStep(nano int64) uint32 {
	for words := 4; ; words *= 2 {
		places := uint(64 * words)
		low, high := retained(d.m, nano, places)
		v, width := big.NewInt(1), big.NewInt(0) // v ≤ V_j·2^(places·j) ≤ v+width
		last, decided := uint32(0), true
		for decided {
			w := d.factor(last+1, words)
			// (v+width)(w+1) − v·w
			width = new(big.Int).Add(new(big.Int).Add(new(big.Int).Mul(width, w), width), v)
			v = new(big.Int).Mul(v, w)
			shift := places * uint(last) // λ is given to the places of the first step
			isAbove := v.Cmp(new(big.Int).Lsh(high, shift)) >= 0
			isBelow := new(big.Int).Add(v, width).Cmp(new(big.Int).Lsh(low, shift)) <= 0
			if isBelow {
				return last
			}
			decided = isAbove
			last++
		}
	}
}

// retained encloses λ·2^places.
func retained(m, nano int64, places uint) (low, high *big.Int) {
	one := new(big.Int).Lsh(big.NewInt(1), places+64)
	quotient := func(e *big.Int) *big.Int { // rises with e
		above := new(big.Int).Sub(e, one)
		below := new(big.Int).Add(e, new(big.Int).Mul(one, big.NewInt(m-1)))
		return above.Lsh(above, places).Quo(above, below)
	}
	e1, e2 := powerSeries(nano, places+64)
	low, high = quotient(e1), quotient(e2)
	return low, high.Add(high, big.NewInt(1))
}

// powerSeries encloses e^(nano·10⁻⁹)·2^places by the sums of the series with terms rounded down and
// up. It ends when the last term is 1 and each term is at most half of the one before, so that the
// remaining terms sum to less than 1.
func powerSeries(nano int64, places uint) (low, high *big.Int) {
	down, up := new(big.Int).Lsh(big.NewInt(1), places), new(big.Int).Lsh(big.NewInt(1), places)
	low, high = new(big.Int).Set(down), new(big.Int).Set(up)
	x := big.NewInt(nano)
	for n := int64(1); ; n++ {
		divisor := new(big.Int).Mul(big.NewInt(n), big.NewInt(1_000_000_000))
		down.Quo(down.Mul(down, x), divisor)
		up.Add(up.Quo(up.Mul(up, x), divisor), big.NewInt(1))
		low.Add(low, down)
		high.Add(high, up)
		if n > nano/500_000_000 && up.Cmp(big.NewInt(1)) == 0 {
			return low, high.Add(high, big.NewInt(1))
		}
	}
}

// stairEpsilons has the smallest ε, the largest, and some between.
var stairEpsilons = []int64{
	1, 2, 1000, 100_000_000, 500_000_000, 999_999_999, 1_000_000_000, 2_000_000_000, 4_000_000_000,
	9_000_000_000, 15_000_000_000, 40_000_000_000, 300_000_000_000, 1_000_000_000_000,
}

func newKey(key []byte) *NoiseKey { return must(NewNoiseKey(key)) }

// stairs is a staircase of a key.
type stairs struct {
	*NoiseKey
	Staircase
}

func newStairs(k *NoiseKey, question, object string, m int) stairs {
	return stairs{k, Staircase{question, object, m}}
}

func (s stairs) at(nano int64, above int) int {
	return must(s.Response(s.Staircase, fromNano(nano), above))
}

func (s stairs) bits(nano int64, truth int) Bits {
	return must(s.UnaryResponse(s.Staircase, fromNano(nano), truth))
}

func randomKey(random *rand.Rand) []byte {
	key := make([]byte, 0, noiseKeySize)
	for len(key) < noiseKeySize {
		key = binary.LittleEndian.AppendUint64(key, random.Uint64())
	}
	return key
}

// fixedKey returns the bytes 0, 1, …, 31.
func fixedKey() []byte {
	key := make([]byte, noiseKeySize)
	for i := range key {
		key[i] = byte(i)
	}
	return key
}

func TestNoiseKeyResponse_AgreesWithTheDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, m := range []int{2, 3, 4, 10, 255, 1000, 1<<20 - 1, 1 << 20} {
		moved := 0
		for i := range 12 {
			key, object := randomKey(random), fmt.Sprint("object ", i)
			slow := define(key, "direct", "question", object, m)
			fast := newStairs(newKey(key), "question", object, m)
			truth := random.IntN(m)
			for _, nano := range stairEpsilons {
				want := slow.response(nano, truth)
				got := fast.at(nano, truth)
				check.Need(t, got == want, "m=%d, ε=%d nano-nats, key %x: got %d, want %d", m, nano, key, got, want)
				if want != truth {
					moved++
				}
			}
		}
		check.That(t, moved >= 12, "m=%d: only %d responses were not the truth", m, moved)
	}
}

// UnaryResponse and UnaryBelow must agree with the definition.
func TestUnaryResponse_AgreesWithTheDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	coins := [2]int{}
	for i := range 20 {
		key, m := randomKey(random), 2+i%12
		slow := define(key, "unary", "question", "object", m)
		fast := newStairs(newKey(key), "question", "object", m)
		truth, coin := random.IntN(m), int(slow.word(0, 0, 0)&1)
		coins[coin]++
		for _, nano := range stairEpsilons {
			want := ""
			for v := range m {
				hidden := 0
				if v == truth {
					hidden = coin
				}
				bit := definition{slow.block, uint32(v), 2}
				want += fmt.Sprint(bit.response(nano, hidden))
			}
			if got := fast.bits(nano, truth); got.String() != want {
				t.Fatalf("m=%d, ε=%d nano-nats, key %x: got %v, want %s", m, nano, key, got, want)
			}
		}
	}
	check.That(t, coins[0] != 0 && coins[1] != 0, "of the coins %v were 0 and 1", coins)
}

// For any order of ε, from the true value or from any higher response, by the same NoiseKey or a
// new one, each response is the same.
func TestNoiseKeyResponse_AnyOrder_IsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 40 {
		key, m := randomKey(random), 2+random.IntN(20)
		object, truth := fmt.Sprint(i), random.IntN(m)
		first := newStairs(newKey(key), "q", object, m)
		var direct []int
		var unary []Bits
		for _, nano := range stairEpsilons {
			direct, unary = append(direct, first.at(nano, truth)), append(unary, first.bits(nano, truth))
		}
		again := newStairs(newKey(key), "q", object, m)
		for range 3 {
			for _, at := range random.Perm(len(stairEpsilons)) {
				nano, above := stairEpsilons[at], truth
				got := again.bits(nano, truth)
				higher := at + random.IntN(len(stairEpsilons)-at+1)
				if higher < len(stairEpsilons) {
					above = direct[higher]
					got = must(again.UnaryBelow(again.Staircase, fromNano(nano), unary[higher]))
				}
				if got := again.at(nano, above); got != direct[at] {
					t.Fatalf("ε=%d nano-nats from %d: %d, but at first %d", nano, above, got, direct[at])
				}
				check.Need(t, got == unary[at],
					"ε=%d nano-nats from level %d: %v, but at first %v", nano, higher, got, unary[at])
			}
		}
	}
}

// Only one input changes at a time. At a small ε a response of 2²⁰ values is nearly all noise, so
// two independent sequences of responses agree with a probability of 10⁻¹².
func TestNoiseKey_OneInputChanged_GivesOtherNoise(t *testing.T) {
	other := fixedKey()
	other[31] ^= 1
	type name struct {
		key, question, object string
		m                     int
	}
	seen := map[string]name{}
	for _, n := range []name{
		{string(fixedKey()), "ab", "c", 1 << 20},
		{string(other), "ab", "c", 1 << 20},
		{string(fixedKey()), "a", "bc", 1 << 20},
		{string(fixedKey()), "abc", "", 1 << 20},
		{string(fixedKey()), "", "abc", 1 << 20},
		{string(fixedKey()), "ab", "C", 1 << 20},
		{string(fixedKey()), "AB", "c", 1 << 20},
		{string(fixedKey()), "c", "ab", 1 << 20},
		{string(fixedKey()), "ab\x00", "c", 1 << 20},
		{string(fixedKey()), "ab", "\x00c", 1 << 20},
		{string(fixedKey()), "ab", "c", 1<<20 - 1},
	} {
		k := newKey([]byte(n.key))
		two := fmt.Sprint(newStairs(k, n.question, n.object, n.m).at(1, 0),
			newStairs(k, n.question, n.object, n.m).at(20, 0))
		before, ok := seen[two]
		check.That(t, !ok, "%+v and %+v have the same noise, %s", before, n, two)
		seen[two] = n
	}
}

// The bit of value 1 in unary encoding and a direct response for two values would be equal if both
// used the same noise.
func TestNoiseKey_DirectAndUnary_UseDifferentNoise(t *testing.T) {
	k, equal := newKey(fixedKey()), 0
	for i := range 100 {
		if s := newStairs(k, "q", fmt.Sprint(i), 2); s.bits(1, 1).Bit(0) == s.at(1, 0) {
			equal++
		}
	}
	if equal < 10 || equal > 90 { // Pr < 10⁻¹⁶ for fair bits
		t.Errorf("%d of 100 bits agree", equal)
	}
}

func TestNewNoiseKey_CallersBytesChanged_NoiseUnchanged(t *testing.T) {
	bytes := fixedKey()
	k := newKey(bytes)
	before := newStairs(k, "q", "o", 1<<20).at(1, 0)
	clear(bytes)
	after := newStairs(k, "q", "o", 1<<20).at(1, 0)
	check.That(t, after == before, "the noise changed from %d to %d with the caller's bytes", before, after)
}

// A log that prints a NoiseKey must not contain the key.
func TestNoiseKey_Printed_HidesTheKey(t *testing.T) {
	k := newKey(slices.Repeat([]byte{0xab}, noiseKeySize))
	s := newStairs(k, "q", "o", 2)
	for _, format := range []string{"%v", "%+v", "%#v", "%x", "%s"} {
		for _, x := range []any{k, *k, s} {
			text := strings.ToLower(fmt.Sprintf(format, x))
			for _, part := range []string{"171 171", "abab", "0xab, 0xab"} {
				check.That(t, !strings.Contains(text, part), "%s of %T prints the key", format, x)
			}
		}
	}
}

// The test uses more levels than a key caches.
func TestNoiseKey_ManyLevels_CacheIsBounded(t *testing.T) {
	k := newKey(fixedKey())
	s := newStairs(k, "q", "o", 1<<20)
	first := s.at(1_000_000_000, 7)
	for i := range int64(maxCached + 10) {
		s.at(1_000_000_000+i, 7)
		if want := min(int(i)+1, maxCached); i < maxCached && len(k.floors) != want || len(k.floors) > maxCached {
			t.Fatalf("the key keeps %d levels after %d", len(k.floors), i+1)
		}
	}
	s.at(1_000_000_000, 7)
	levels := maps.Clone(k.floors)
	check.Equal(t, s.at(1_000_000_000, 7), first, "the response, requested again")
	check.That(t, maps.Equal(k.floors, levels), "a known level was computed again")
}

func TestNoiseKey_InvalidArguments_AreRefused(t *testing.T) {
	for n := range 2*noiseKeySize + 1 {
		k, err := NewNoiseKey(make([]byte, n))
		if right := n == noiseKeySize; right != (err == nil) || !right && (!errors.Is(err, privacy.ErrInvalid) || k != nil) {
			t.Errorf("a key of %d bytes: %v", n, err)
		}
	}
	k, one := newKey(fixedKey()), fromNano(1_000_000_000)
	refused := func(m int, epsilon privacy.Epsilon, truth int, above Bits) {
		t.Helper()
		of := Staircase{"q", "o", m}
		_, err := k.Response(of, epsilon, truth)
		_, err2 := k.UnaryResponse(of, epsilon, truth)
		_, err3 := k.UnaryBelow(of, epsilon, above)
		for _, err := range []error{err, err2, err3} {
			check.That(t, errors.Is(err, privacy.ErrInvalid) && !strings.Contains(err.Error(), "7777"),
				"m=%d, ε=%v, truth %d, %d bits: %v", m, epsilon, truth, above.Len(), err)
		}
	}
	for _, m := range []int{-1, 0, 1, maxValues + 1} {
		refused(m, one, 0, row(1))
	}
	refused(9, privacy.Epsilon{}, 1, row(9))
	for _, truth := range []int{-7777, -1, 9, 10, 7777} {
		for _, above := range []Bits{{}, row(1), row(8), row(10), row(16)} {
			refused(9, one, truth, above)
		}
	}
}

func TestNoiseKey_LargestQuestions_FollowTheirLaws(t *testing.T) {
	k := newKey(fixedKey())
	row := newStairs(k, "q", "o", maxValues).bits(4_000_000_000, maxValues-1)
	share := 1 / (math.Exp(4) + 1) // except the bit of the true value, which is set with probability 1/2
	stattest.Share(count(row), maxValues, share, share).Holds(t, "bits that are set")
	seen := map[int]bool{}
	for i := range 100 {
		seen[newStairs(k, "q", fmt.Sprint(i), maxValues).at(1, 0)] = true
	}
	check.That(t, len(seen) >= 95, "100 objects have only %d responses at ε=10⁻⁹", len(seen))
}

// BenchmarkStaircase compares a response from a key with a raise in a chain.
func BenchmarkStaircase(b *testing.B) {
	s, key, one := new(Sampler), newKey(fixedKey()), fromNano(1_000_000_000)
	few, many := Staircase{"question", "object", 4}, Staircase{"question", "object", 500}
	for name, draw := range map[string]func(){
		"response":       func() { must(key.Response(few, one, 1)) },
		"Raise":          func() { must(s.Raise(4, Level[int]{}, one, 1)) },
		"unary 500":      func() { must(key.UnaryResponse(many, one, 1)) },
		"RaiseUnary 500": func() { must(s.RaiseUnary(500, Level[Bits]{}, one, 1)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				draw()
			}
		})
	}
}
