package event

import (
	"crypto/sha256"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// CheckQuestion returns [errs.ErrInvalid] for what cannot be defined as a question: a name or value
// that is no name, fewer than 2 values or too many, one of them twice, an encoding that the values
// do not fit, or a mechanism that is none of the question.
func CheckQuestion(q api.Question) error {
	if err := CheckName("question", q.Name); err != nil {
		return err
	}
	if len(q.Values) == 1 {
		return errs.Invalid("question %q has one value; 2 to %d are possible", q.Name, rrchain.MaxValues)
	}
	if len(q.Values) == 0 || len(q.Values) > rrchain.MaxValues {
		return errs.Invalid("question %q has %d values; 2 to %d are possible", q.Name, len(q.Values), rrchain.MaxValues)
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

// checkEncoding refuses what is no encoding of a question.
func checkEncoding(q api.Question) error {
	switch {
	case q.Encoding == api.Finite:
		return checkMechanism(q.Mechanism, len(q.Values))
	case q.Encoding != api.Direct && q.Encoding != api.Unary:
		return fmt.Errorf("the encoding %.40q is none of %q, %q and %q",
			string(q.Encoding), api.Direct, api.Unary, api.Finite)
	case q.Mechanism != nil:
		return fmt.Errorf("%s encoding, and a mechanism of its own", q.Encoding)
	case q.Encoding == api.Unary && len(q.Values) > api.MaxUnaryValues:
		return fmt.Errorf("%d values; unary encoding is possible for up to %d",
			len(q.Values), api.MaxUnaryValues)
	}
	return nil
}

// usualEpsilon is the ε, in nano-nats, for which the encoding of a question is picked.
const usualEpsilon = 2_000_000_000

// EncodingFor picks the encoding of a question that names none: that of its own mechanism, or the
// one that estimates better at the usual ε.
func EncodingFor(q api.Question) api.Encoding {
	usual, _ := privacy.EpsilonFromNano(usualEpsilon)
	switch {
	case q.Mechanism != nil:
		return api.Finite
	case len(q.Values) >= rrchain.UnaryFrom(usual) && len(q.Values) <= api.MaxUnaryValues:
		return api.Unary
	}
	return api.Direct
}

// definitionDigest returns what stands for the definition of a question: the same in every ledger.
func definitionDigest(q api.Question) [sha256.Size]byte {
	e := wire.NewDigest("definition")
	e.Text(q.Name)
	coded(wire.Writing(e), &q.Encoding, api.Encodings())
	for _, value := range q.Values {
		e.Text(value)
	}
	if q.Mechanism != nil {
		e.Raw(EncodeMechanism(q.Mechanism))
	}
	return e.Sum()
}
