package rrchain

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"math/big"
	"math/bits"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// noiseKeySize is the length of a noise key in bytes.
const noiseKeySize = 32

// NoiseKey draws responses that are functions of a secret key, the encoding, the [Staircase], the ε
// and the true value, and of nothing else. A repeated draw returns the same response, in any order
// of draws and on any machine.
//
// The law of all responses of an object together is the law of a [Chain]. Let t = −ln λ(ε).
// Downwards from the true value, at t = 0, a chain is a Poisson process of rate 1 in t. Each
// arrival replaces the response by a uniform draw. The retention between two levels is e^−Δt, which
// is the probability of no arrival between them. With W₁, W₂, … uniform on (0,1) and V_j = W₁⋯W_j,
// the arrivals are at −ln V_j, and the response at ε is
//
//	the true value      if V₁ < λ(ε),
//	U_j, j = max{j : V_j ≥ λ(ε)}, otherwise,
//
// with U_j uniform on the m values. V_j and λ(ε) are compared exactly, with as many digits as
// needed.
//
// W and U are computed from the key, with AES-256 in place of a random function. Each encoding and
// staircase has its own AES key, which HMAC-SHA256 derives. Privacy is therefore computational: it
// holds against an adversary that does not know the key and can break neither AES nor HMAC. Unlike
// a random function, AES never returns the same block twice. After q blocks, this distinguishes the
// two with an advantage of at most q²/2¹²⁹. A staircase uses fewer than 2⁷ blocks for a value or a
// bit. The advantage is below 2⁻¹¹⁵ for a response of one value, and below 2⁻⁷⁵ for a response of
// 2²⁰ bits. The advantages of several staircases add up.
//
// An adversary that has both the key and the responses can in most cases compute the true value. So
// the key must not be stored with the responses.
//
// The work of a draw does not depend on the true value. It depends on the noise only if 64 bits do
// not decide. For one value or one bit, the probability of that is below 2⁻⁵⁴ + m·2⁻⁵⁷.
//
// A NoiseKey is not safe for concurrent use: every draw changes its HMAC, and it caches results for
// recent levels. It is cheap, so create one for each goroutine.
type NoiseKey struct {
	mac    hash.Hash // HMAC-SHA256 under the key
	floors map[law]floor
}

// NewNoiseKey returns the noise of a key of 32 random bytes. It returns [privacy.ErrInvalid] for
// another length.
func NewNoiseKey(key []byte) (*NoiseKey, error) {
	if len(key) != noiseKeySize {
		return nil, fmt.Errorf("%w: the noise key has %d bytes, not %d", privacy.ErrInvalid, len(key), noiseKeySize)
	}
	return &NoiseKey{hmac.New(sha256.New, key), make(map[law]floor)}, nil
}

// Staircase identifies the noise of one object in its responses to one question, at every ε (see
// [NoiseKey]).
//
// A staircase belongs to one true value. The same noise on two true values reveals both, where the
// responses differ. So Question must identify the question's definition, not only its name. An
// object whose true value changed needs another question or another name.
type Staircase struct {
	Question string // identifies the question's definition
	Object   string // the object's name
	Values   int    // the number of values of the question, from 2 to 2²⁰
}

// Response returns the response at an ε. above is the true value, or the response of this staircase
// at any higher ε; the result is the same. So a response below another one does not need the true
// value. Response returns [privacy.ErrInvalid] for ε = 0, a number of values out of range, or a
// value that the question does not have.
func (k *NoiseKey) Response(of Staircase, epsilon privacy.Epsilon, above int) (int, error) {
	n, err := k.noise("direct", of, epsilon)
	if err != nil {
		return 0, err
	}
	if err := checkTruth(above, of.Values); err != nil {
		return 0, err
	}
	return int(n.response(k.floor(of.Values, epsilon), uint64(of.Values), uint64(above))), nil
}

// UnaryResponse is [NoiseKey.Response] in unary encoding, given the true value. Each bit has its
// own staircase (m = 2). The hidden bit of the true value (see [Chain]) is computed from the key
// too.
func (k *NoiseKey) UnaryResponse(of Staircase, epsilon privacy.Epsilon, truth int) (Bits, error) {
	n, err := k.noise("unary", of, epsilon)
	if err != nil {
		return Bits{}, err
	}
	if err := checkTruth(truth, of.Values); err != nil {
		return Bits{}, err
	}
	return n.unary(k.floor(2, epsilon), of.Values, truth), nil
}

// UnaryBelow returns the response in unary encoding at an ε, given the response of the same
// staircase at any higher ε. It returns [privacy.ErrInvalid] for ε = 0, a number of values out of
// range, or a wrong number of bits.
func (k *NoiseKey) UnaryBelow(of Staircase, epsilon privacy.Epsilon, above Bits) (Bits, error) {
	n, err := k.noise("unary", of, epsilon)
	if err != nil {
		return Bits{}, err
	}
	if above.n != of.Values {
		return Bits{}, fmt.Errorf("%w: the response has %d bits, and the question %d values",
			privacy.ErrInvalid, above.n, of.Values)
	}
	return n.responseBits(k.floor(2, epsilon), of.Values, above.packed), nil
}

// noise returns the random function of a staircase: AES-256 with a key that HMAC derives from the
// use ("direct" or "unary") and the staircase. HMAC gets each text preceded by its length, and m. A
// number is 8 bytes, big-endian. So different questions never give the same bytes. noise returns
// [privacy.ErrInvalid] for a wrong number of values or ε = 0.
func (k *NoiseKey) noise(use string, of Staircase, epsilon privacy.Epsilon) (*noise, error) {
	if err := checkValues(of.Values); err != nil {
		return nil, err
	}
	if epsilon.IsZero() {
		return nil, fmt.Errorf("%w: ε is 0; a response needs ε > 0", privacy.ErrInvalid)
	}
	k.mac.Reset()
	message := appendTexts(make([]byte, 0, 128), "sluice noise v1", use, of.Question, of.Object)
	k.mac.Write(binary.BigEndian.AppendUint64(message, uint64(of.Values)))
	block, _ := aes.NewCipher(k.mac.Sum(nil)) // 32 bytes are a key of AES-256
	return &noise{block: block}, nil
}

// appendTexts appends each text preceded by its length in 8 bytes, big-endian.
func appendTexts(message []byte, texts ...string) []byte {
	for _, text := range texts {
		message = append(binary.BigEndian.AppendUint64(message, uint64(len(text))), text...)
	}
	return message
}

// unary returns the response of m bits at the floor, which is λ(ε), given the true value. The
// hidden bit of the true value is one bit of an AES block that no staircase uses.
func (n *noise) unary(to floor, m, truth int) Bits {
	n.lane = 0
	word, _ := n.words(0, 0) // step 0 is unused by the staircase, whose steps count from 1
	return n.responseBits(to, m, hiddenRow(m, byte(word&1), truth))
}

// responseBits returns the responses of count bits at the floor, which is λ(ε), given the packed
// bits above: a response at a higher ε, or the hidden bits. Bit i has the staircase with number i.
func (n *noise) responseBits(to floor, count int, above string) Bits {
	packed := []byte(above)
	for first := 0; first < count; first += runLanes {
		lanes := min(runLanes, count-first)
		row := packed[first/8 : first/8+packedLen(lanes)]
		if !n.respondTogether(to, first, lanes, row) {
			n.respondOneByOne(to, first, lanes, row)
		}
	}
	return Bits{count, string(packed)}
}

// runLanes is the number of bits that respondTogether processes at a time. It is a multiple of 8.
const runLanes = 512

// respondTogether replaces the bits of row by their responses at the floor, as [noise.response]
// with m = 2 does for each. The row holds the bits, or lanes, with the numbers first to
// first+lanes−1. For each step, AES in counter mode computes the words of all lanes at once, which
// is much faster than block by block. If 64 bits, or the steps of the floor, do not decide all
// lanes, it returns false and leaves the row unchanged.
func (n *noise) respondTogether(to floor, first, lanes int, row []byte) bool {
	var values [runLanes]uint64
	var products [runLanes]product
	for i := range lanes {
		values[i], products[i] = uint64(row[i/8]>>(i%8)&1), one()
	}
	n.lane = uint32(first)
	blocks := make([]byte, lanes*aes.BlockSize)
	undecided := uint64(0) // not 0 if any lane is undecided
	for j := uint32(1); j <= to.steps; j++ {
		clear(blocks)
		cipher.NewCTR(n.block, n.counter(j, 0)).XORKeyStream(blocks, blocks)
		stillAbove := uint64(0) // not 0 if any lane is above the floor after this step
		for i := range lanes {
			w, u := halves(blocks[i*aes.BlockSize:])
			products[i] = products[i].times(w)
			isAbove, open := products[i].compare(to.cell)
			// The draw of this step replaces that of the steps before, if it is above the floor.
			// u>>63 is Lemire's value for m = 2, which always fits.
			values[i] ^= isAbove & (values[i] ^ u>>63)
			undecided |= open
			stillAbove |= isAbove
		}
		if j == to.steps {
			undecided |= stillAbove // a lane needs more steps
		}
	}
	if undecided != 0 {
		return false
	}
	clear(row)
	for i := range lanes {
		row[i/8] |= byte(values[i]) << (i % 8)
	}
	return true
}

// respondOneByOne does the same as [noise.respondTogether], but lane by lane, with as many words
// and steps as needed.
func (n *noise) respondOneByOne(to floor, first, lanes int, row []byte) {
	for i := range lanes {
		n.lane = uint32(first + i)
		above := row[i/8] >> (i % 8) & 1
		row[i/8] ^= (above ^ byte(n.response(to, 2, uint64(above)))) << (i % 8) // replaces the bit without a branch
	}
}

// noise is the random function of the staircases of one object and question.
type noise struct {
	block   cipher.Block
	lane    uint32              // the number of the bit that the staircase belongs to
	scratch [aes.BlockSize]byte // a field, because an argument of a cipher.Block escapes to the heap
}

// words returns the next 64 bits of W_j and of U_j, after the first k words of each. They are the
// two halves of the AES encryption of k, j and the lane, in 8, 4 and 4 bytes.
func (n *noise) words(j uint32, k uint64) (w, u uint64) {
	b := n.counter(j, k)
	n.block.Encrypt(b, b)
	return halves(b)
}

// counter returns the block that [noise.words] encrypts, in a buffer that the next call overwrites.
// As a number, the block of the next lane is one higher.
func (n *noise) counter(j uint32, k uint64) []byte {
	b := n.scratch[:]
	binary.BigEndian.PutUint64(b, k)
	binary.BigEndian.PutUint32(b[8:], j)
	binary.BigEndian.PutUint32(b[12:], n.lane)
	return b
}

// halves returns the two 64-bit halves of a block: the words of W and U.
func halves(b []byte) (w, u uint64) {
	return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
}

// floor is λ(ε), in the form in which a staircase is compared with it. Step j of a staircase is
// above the floor if V_j ≥ λ(ε) (see [NoiseKey]).
type floor struct {
	cell  uint128 // ⌊λ·2¹²⁸⌋; λ is irrational, so it is inside the cell
	steps uint32  // the least number of steps that are checked; more are above the floor with probability 2⁻⁶⁴
	law   law
}

// floor returns λ(ε) for m values, from the cache or computed. If the cache is full, it is emptied
// first.
func (k *NoiseKey) floor(m int, epsilon privacy.Epsilon) floor {
	l := upwards(m, privacy.Epsilon{}, epsilon)
	f, known := k.floors[l]
	if !known {
		if len(k.floors) >= maxCached {
			clear(k.floors)
		}
		f = newFloor(l)
		k.floors[l] = f
	}
	return f
}

// newFloor computes the floor of a law, which is upwards from ε = 0. It raises the precision until
// both ends of the enclosure are in the same cell.
func newFloor(l law) floor {
	f := floor{law: l}
	for prec := uint(192); ; prec *= 2 {
		keep := l.keep(prec)
		lo, hi := keep.Bounds()
		low, high := scaled(lo, 128), scaled(hi, 128)
		if low.Cmp(high) == 0 {
			f.cell.hi = new(big.Int).Rsh(low, 64).Uint64()
			f.cell.lo = low.And(low, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
			break
		}
	}
	f.steps = stepsAbove(f.cell.float64())
	return f
}

// keep returns λ(ε), the probability of keeping the true value instead of drawing a uniform value.
func (l law) keep(prec uint) exact.Interval { return l.retention(exact.Exp(l.at, prec)).keep }

// scaled returns ⌊x·2ⁿ⌋ for x ≥ 0.
func scaled(x *big.Float, n int) *big.Int {
	i, _ := new(big.Float).SetMantExp(x, n).Int(nil)
	return i
}

// stepsAbove returns a number of steps such that all of them are above the floor with probability
// at most 2⁻⁶⁴. The number of steps above the floor is the number of arrivals of a Poisson process
// of rate 1 until t = −ln λ. For n ≥ 2t, the probability of n or more arrivals is at most twice the
// probability of n.
func stepsAbove(lambda float64) uint32 {
	t := max(-math.Log(lambda), 0x1p-53)
	for n := math.Ceil(2*t) + 1; ; n++ {
		factorial, _ := math.Lgamma(n + 1)
		if n*math.Log(t)-t-factorial < -65*math.Ln2 {
			return uint32(n)
		}
	}
}

// response returns the response of one staircase at the floor, given a value above: the response at
// a higher ε, or the true value. It is the uniform draw of the last step that is above the floor
// or, if there is none, the value itself. It checks all steps, and selects their draws without a
// branch, so that the time does not depend on the noise. If 64 bits do not decide, it calls
// [noise.slowResponse].
func (n *noise) response(to floor, m, above uint64) uint64 {
	value, v := above, one()
	for j := uint32(1); ; j++ {
		w, u := n.words(j, 0)
		drawn, fits := exact.Lemire(u, m)
		v = v.times(w)
		isAbove, open := v.compare(to.cell)
		if open != 0 || !fits {
			return n.slowResponse(to, m, above)
		}
		value ^= isAbove & (value ^ drawn)
		if j >= to.steps && isAbove == 0 {
			return value
		}
	}
}

// slowResponse is [noise.response] with as many 64-bit words of each W as needed to decide every
// step.
func (n *noise) slowResponse(to floor, m, above uint64) uint64 {
	for words := uint64(2); ; words *= 2 {
		if last, decided := n.lastStep(to, words); decided {
			if last == 0 {
				return above
			}
			return n.uniform(last, m)
		}
	}
}

// lastStep returns the number of the last step that is above the floor, or 0 if there is none. It
// compares exact enclosures of V_j and λ(ε), with the given number of 64-bit words of each W.
// decided is false if these words are not enough.
func (n *noise) lastStep(to floor, words uint64) (last uint32, decided bool) {
	length := int(64 * words)
	lambda := to.law.keep(uint(length + 64))
	low, high := lambda.Bounds()
	lo, hi := big.NewInt(1), big.NewInt(1) // the enclosure of V_j, in units of 2^(−length·j)
	for j := uint32(1); ; j++ {
		w := new(big.Int)
		for k := range words {
			word, _ := n.words(j, k)
			w.Or(w.Lsh(w, 64), new(big.Int).SetUint64(word))
		}
		lo.Mul(lo, w)
		hi.Mul(hi, w.Add(w, big.NewInt(1)))
		switch shift := -length * int(j); {
		case fraction(hi, shift).Cmp(low) <= 0:
			return j - 1, true // V_j is certainly below the floor
		// V_j is neither certainly below nor certainly above the floor. In all other cases it is
		// above.
		case fraction(lo, shift).Cmp(high) < 0:
			return 0, false
		}
	}
}

// fraction returns n·2^shift, exactly.
func fraction(n *big.Int, shift int) *big.Float {
	f := new(big.Float).SetPrec(uint(max(n.BitLen(), 1))).SetInt(n)
	return f.SetMantExp(f, shift)
}

// uniform returns U_j, the uniform draw of step j, which is one of the m values. It discards the
// words that would favour some values.
func (n *noise) uniform(j uint32, m uint64) uint64 {
	for k := uint64(0); ; k++ {
		_, word := n.words(j, k)
		if value, fits := exact.Lemire(word, m); fits {
			return value
		}
	}
}

// uint128 is a number in units of 2⁻¹²⁸.
type uint128 struct{ hi, lo uint64 }

// float64 returns the number as a fraction of 1, rounded.
func (x uint128) float64() float64 { return float64(x.hi)*0x1p-64 + float64(x.lo)*0x1p-128 }

// less returns all ones if x < y, and zero otherwise.
func (x uint128) less(y uint128) uint64 {
	_, borrow := bits.Sub64(x.lo, y.lo, 0)
	_, borrow = bits.Sub64(x.hi, y.hi, borrow)
	return -borrow
}

// product is an enclosure of a number V in [0,1]: lo·2⁻¹²⁸ ≤ V ≤ (hi+1)·2⁻¹²⁸.
type product struct{ lo, hi uint128 }

// one returns V₀ = 1. Its lower end is slightly too low, which is safe.
func one() product {
	all := uint128{math.MaxUint64, math.MaxUint64}
	return product{all, all}
}

// times returns the enclosure of V times a real number of which w are the first 64 bits: it is
// between w·2⁻⁶⁴ and (w+1)·2⁻⁶⁴.
func (v product) times(w uint64) product {
	return product{v.lo.times(w, uint128{}, 0), v.hi.times(w, v.hi, w)}
}

// times returns ⌊(x·w + y + z)·2⁻⁶⁴⌋.
func (x uint128) times(w uint64, y uint128, z uint64) uint128 {
	carry, low := bits.Mul64(x.lo, w)
	top, mid := bits.Mul64(x.hi, w)
	mid, c := bits.Add64(mid, carry, 0)
	top += c
	low, c = bits.Add64(low, y.lo, 0)
	mid, c = bits.Add64(mid, y.hi, c)
	top += c
	_, c = bits.Add64(low, z, 0)
	mid, c = bits.Add64(mid, 0, c)
	return uint128{top + c, mid}
}

// compare compares V with a real number inside a cell of the width 2⁻¹²⁸. above is all ones if V is
// certainly above the number, and zero otherwise. open is all ones if V is neither certainly above
// nor certainly below it, and zero otherwise.
func (v product) compare(cell uint128) (above, open uint64) {
	above = cell.less(v.lo)
	return above, ^(above | v.hi.less(cell))
}
