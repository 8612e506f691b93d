package rappor

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

const (
	maxBits   = 1 << 20 // the most bits of a filter: as many as values of a question
	maxCounts = 1 << 24 // the most cohorts × bits, which is the number of counts of a tally
)

// Params are the parameters that all clients and the server share. They are public.
type Params struct {
	Cohorts int // the number of groups of clients, each with its own hash; at least 1
	Bits    int // k, the length of the Bloom filter; at least 2, and at most 2²⁰, and Cohorts × Bits at most 2²⁴
	Hashes  int // h, the number of bits that a string sets; at least 1, less than Bits
}

// check returns [privacy.ErrInvalid] for parameters out of range.
func (p Params) check() error {
	if p.Bits < 2 || p.Bits > maxBits {
		return fmt.Errorf("%w: a filter of %d bits; 2 to %d are possible",
			privacy.ErrInvalid, p.Bits, maxBits)
	}
	if p.Cohorts < 1 || p.Cohorts > maxCounts/p.Bits {
		return fmt.Errorf("%w: %d cohorts of filters of %d bits; 1 to %d are possible",
			privacy.ErrInvalid, p.Cohorts, p.Bits, maxCounts/p.Bits)
	}
	if p.Hashes < 1 || p.Hashes >= p.Bits {
		return fmt.Errorf("%w: %d hashes into %d bits; 1 to %d are possible",
			privacy.ErrInvalid, p.Hashes, p.Bits, p.Bits-1)
	}
	return nil
}

// checkCohort returns [privacy.ErrInvalid] for parameters out of range, or a cohort that is not
// from 0 to Cohorts−1.
func (p Params) checkCohort(cohort int) error {
	if err := p.check(); err != nil {
		return err
	}
	if cohort < 0 || cohort >= p.Cohorts {
		return fmt.Errorf("%w: cohort %d is not one of 0 to %d", privacy.ErrInvalid, cohort, p.Cohorts-1)
	}
	return nil
}

// DrawCohort draws the cohort of a new client from the operating system's randomness, each cohort
// with the same probability. A client must draw it once, independently of its string, and keep it.
// DrawCohort returns [privacy.ErrInvalid] for parameters out of range.
func (p Params) DrawCohort() (int, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	cohort, err := rand.Int(rand.Reader, big.NewInt(int64(p.Cohorts)))
	if err != nil {
		return 0, fmt.Errorf("drawing a cohort: %w", err)
	}
	return int(cohort.Int64()), nil
}

// Filter returns the Bloom filter of a string in a cohort, 0 ≤ cohort < Cohorts. Exactly Hashes of
// its Bits are set. The filter is the same on every machine and in every version of this package.
// It is public, because its computation needs no secret. Filter hashes about Bits × ln(Bits) words
// if Hashes is near Bits, and otherwise about Hashes words. It returns [privacy.ErrInvalid] for
// parameters or a cohort out of range.
func (p Params) Filter(cohort int, s string) (rrchain.Bits, error) {
	if err := p.checkCohort(cohort); err != nil {
		return rrchain.Bits{}, err
	}
	words, packed := hashWords{cohort: cohort, text: s}, make([]byte, (p.Bits+7)/8)
	for _, bit := range distinct(p.Hashes, p.Bits, words.next) {
		packed[bit/8] |= 1 << (bit % 8)
	}
	return rrchain.NewBits(p.Bits, packed)
}

// distinct returns the given number of different numbers below k, drawn uniformly. next returns
// words of 64 random bits. It discards a word that would favour some numbers, and a number that was
// drawn before.
func distinct(numbers, k int, next func() uint64) []int {
	drawn := make([]int, 0, numbers)
	seen := make(map[int]bool, numbers)
	fair := -(-uint64(k) % uint64(k)) // the largest multiple of k up to 2⁶⁴, modulo 2⁶⁴; 0 if k divides 2⁶⁴
	for len(drawn) < numbers {
		word := next()
		if number := int(word % uint64(k)); (fair == 0 || word < fair) && !seen[number] {
			seen[number] = true
			drawn = append(drawn, number)
		}
	}
	return drawn
}

// domain separates these hashes from all other hashes, and from any other version of this
// construction.
const domain = "sluice rappor filter 1"

// hashWords are the 64-bit words of SHA-256 over the domain, the cohort, the string and the number
// of the block, four words a block. Each text is preceded by its length. Numbers have 8 bytes.
// Everything is big-endian.
type hashWords struct {
	cohort int
	text   string
	block  uint64 // the number of the next block
	unread []byte // the bytes of the last block that were not returned
}

// next returns the next word. It computes the next block if all words of the last one were
// returned.
func (w *hashWords) next() uint64 {
	if len(w.unread) == 0 {
		message := appendText(nil, domain)
		message = binary.BigEndian.AppendUint64(message, uint64(w.cohort))
		message = appendText(message, w.text)
		message = binary.BigEndian.AppendUint64(message, w.block)
		digest := sha256.Sum256(message)
		w.block, w.unread = w.block+1, digest[:]
	}
	word := binary.BigEndian.Uint64(w.unread)
	w.unread = w.unread[8:]
	return word
}

// appendText appends a text preceded by its length in 8 bytes, big-endian.
func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
}

// Distance returns D = 2·min(h, k−h), the largest number of bits in which the filters of two
// strings can differ: all have h bits set.
func (p Params) Distance() int { return 2 * min(p.Hashes, p.Bits-p.Hashes) }

// BitEpsilon returns the ε of each bit in a report at ε: ε/D, rounded down to a nano-nat so that
// the report never costs more. It returns [privacy.ErrInvalid] if the result is 0, or if parameters
// are out of range.
func (p Params) BitEpsilon(report privacy.Epsilon) (privacy.Epsilon, error) {
	if err := p.check(); err != nil {
		return privacy.Epsilon{}, err
	}
	bit, err := privacy.EpsilonFromNano(report.Nano() / int64(p.Distance()))
	if err != nil {
		return privacy.Epsilon{}, err
	}
	if bit.IsZero() {
		return bit, fmt.Errorf("%w: a report at ε=%v has ε=0 for each bit, because two filters differ in up to %d bits",
			privacy.ErrInvalid, report, p.Distance())
	}
	return bit, nil
}

// ReportEpsilon returns D·ε, the cost of a report whose bits each have this ε. It returns
// [privacy.ErrInvalid] for parameters out of range and [privacy.ErrRange] for a cost above the
// largest ε.
func (p Params) ReportEpsilon(bit privacy.Epsilon) (privacy.Epsilon, error) {
	if err := p.check(); err != nil {
		return privacy.Epsilon{}, err
	}
	return times(p.Distance(), bit)
}

// times returns n·ε for n ≥ 0. It returns [privacy.ErrRange] if the result is above the largest ε.
func times(n int, epsilon privacy.Epsilon) (privacy.Epsilon, error) {
	if n > 0 && epsilon.Nano() > privacy.MaxEpsilon().Nano()/int64(n) {
		return privacy.Epsilon{}, fmt.Errorf("%d times ε=%v: %w", n, epsilon, privacy.ErrRange)
	}
	return privacy.EpsilonFromNano(int64(n) * epsilon.Nano())
}

// atMost returns the largest possible cost of a report that is not above the given ε, and the ε of
// each of its bits. The cost is a multiple of D nano-nats ([Params.Distance]). Errors are those of
// [Params.BitEpsilon].
func (p Params) atMost(report privacy.Epsilon) (cost, bit privacy.Epsilon, err error) {
	if bit, err = p.BitEpsilon(report); err != nil {
		return cost, bit, err
	}
	cost, err = p.ReportEpsilon(bit)
	return cost, bit, err
}

// Loss returns the exact privacy loss between two strings in one cohort, of a report at ε and all
// reports below it. It is the ε of a bit times the number of bits in which their filters differ,
// which is at most ε. It returns the errors of [Params.Filter] and [Params.BitEpsilon].
func (p Params) Loss(cohort int, a, b string, report privacy.Epsilon) (privacy.Epsilon, error) {
	bit, err := p.BitEpsilon(report)
	if err != nil {
		return privacy.Epsilon{}, err
	}
	first, err := p.Filter(cohort, a)
	if err != nil {
		return privacy.Epsilon{}, err
	}
	second, err := p.Filter(cohort, b)
	if err != nil {
		return privacy.Epsilon{}, err
	}
	differ := 0 // the number of bits in which the filters differ
	for i := range p.Bits {
		differ += first.Bit(i) ^ second.Bit(i)
	}
	return times(differ, bit)
}
