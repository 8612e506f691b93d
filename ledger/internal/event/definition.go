package event

import (
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// CheckQuestion returns [errs.ErrInvalid] if q cannot be defined as a question. Its name and its
// values must be valid names. It has 2 to [wire.MaxValues] values, and no value occurs twice. The
// encoding must be set, and the encoding and the mechanism must fit the values.
func CheckQuestion(q api.Question) error {
	if err := CheckName("question", q.Name); err != nil {
		return err
	}
	if len(q.Values) == 1 {
		return errs.Invalid("question %q has one value; 2 to %d are possible", q.Name, wire.MaxValues)
	}
	if len(q.Values) == 0 || len(q.Values) > wire.MaxValues {
		return errs.Invalid("question %q has %d values; 2 to %d are possible", q.Name, len(q.Values), wire.MaxValues)
	}
	if err := checkEncoding(q); err != nil {
		return errs.Invalid("question %q: %v", q.Name, err)
	}
	seen := make(map[string]bool, len(q.Values))
	for _, value := range q.Values {
		if err := CheckName("value", value); err != nil {
			return fmt.Errorf("question %q: %w", q.Name, err)
		}
		if seen[value] {
			return errs.Invalid("question %q has the value %q twice", q.Name, value)
		}
		seen[value] = true
	}
	return nil
}

// checkEncoding returns an error if the encoding is unknown, if the values are too many for it, or
// if the mechanism does not fit it. The error does not name the question, which the caller adds.
func checkEncoding(q api.Question) error {
	switch {
	case q.Encoding == EncodingFinite:
		return checkMechanism(q.Mechanism, len(q.Values))
	case q.Encoding != EncodingDirect && q.Encoding != EncodingUnary:
		return fmt.Errorf("unknown encoding %.40q; the encodings are %q, %q and %q",
			q.Encoding, EncodingDirect, EncodingUnary, EncodingFinite)
	case q.Mechanism != nil:
		return fmt.Errorf("%s encoding has no mechanism of its own", q.Encoding)
	case q.Encoding == EncodingUnary && len(q.Values) > MaxUnaryValues:
		return fmt.Errorf("%d values; unary encoding is possible for up to %d",
			len(q.Values), MaxUnaryValues)
	}
	return nil
}

// usualEpsilon is the ε, in nano-nats, for which [EncodingFor] chooses the encoding of a question.
const usualEpsilon = 2_000_000_000

// EncodingFor returns the encoding for a question whose request names no encoding. With a mechanism
// it is finite. Otherwise it is the one of direct and unary encoding that has the better estimates
// at usualEpsilon.
func EncodingFor(q api.Question) string {
	// the constant is a valid ε, so there is no error
	usual, _ := privacy.EpsilonFromNano(usualEpsilon)
	switch {
	case q.Mechanism != nil:
		return EncodingFinite
	case len(q.Values) >= UnaryFrom(usual) && len(q.Values) <= MaxUnaryValues:
		return EncodingUnary
	}
	return EncodingDirect
}

// UnaryFrom returns the smallest number of values for which optimized unary encoding at an ε
// estimates better than randomized response over the values. If there is none up to
// [wire.MaxValues], it returns [wire.MaxValues]+1.
//
// Better means a smaller mean squared error, summed over all values. That sum does not depend on
// how common the values are. Let m be the number of values, n the number of responses, and E = e^ε.
// The sum is (m−1)(2E+m−2)/(n(E−1)²) for randomized response, and ((E+1)²+4(m−1)E)/(n(E−1)²) for
// unary encoding. Equating them gives a quadratic equation in m−1. Its positive solution is m = 1 +
// (2E+1+√((2E+1)²+4(E+1)²))/2. The result is 6 values for a small ε, 10 at ε=1, 21 at ε=2, and
// about (1+√2)E for a large one.
//
// Wang et al. (Locally Differentially Private Protocols for Frequency Estimation, 2017) compare the
// error for a single rare value. For that, the two are equal at m = 3E+2.
func UnaryFrom(epsilon privacy.Epsilon) int {
	// From ε = 20 on, the result is far above MaxValues. A much larger ε would overflow the int.
	e := math.Exp(min(epsilon.Float64(), 20))
	// with meet values both errors are equal; the next integer above it is the result
	meet := 1 + (2*e+1+math.Hypot(2*e+1, 2*(e+1)))/2
	return min(int(math.Floor(meet))+1, wire.MaxValues+1)
}

// definitionDigest returns a digest of the definition of a question. It is the same in every
// ledger, because it does not cover the number that the ledger gave to the question.
func definitionDigest(q api.Question) [sha256.Size]byte {
	e := wire.NewDigest("definition")
	e.Text(q.Name)
	coded(wire.Writing(e), &q.Encoding, Encodings())
	for _, value := range q.Values {
		e.Text(value)
	}
	if q.Mechanism != nil {
		e.Raw(EncodeMechanism(q.Mechanism))
	}
	return e.Sum()
}
