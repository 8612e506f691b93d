package vocabulary

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// MaxPanel is the largest number of objects of one answer, sale or reservation: each is one transaction. It is also the
// largest number of refusals that a result or an error lists.
const MaxPanel = 1 << 18

// Question is a function of an object with a fixed list of labelled values.
type Question struct {
	Name   string   `json:"question"`
	Values []string `json:"values"`
	// Encoding is what a response is. If it is empty when the question is defined, the ledger picks the one
	// that estimates better at ε = 2: unary from 21 values on, see [rrchain.UnaryFrom]. A host that means to
	// release less or more may know better: unary is better from 10 values on at ε = 1, from 135 at ε = 4.
	Encoding Encoding `json:"encoding"`
	// Mechanism is how the question is answered, in finite encoding, which is the one that the ledger picks if there
	// is a mechanism. Else it is nil.
	Mechanism *Mechanism `json:"mechanism,omitempty"`
}

func CheckQuestion(q Question) error {
	if err := names.Check("question", q.Name); err != nil {
		return err
	}
	if len(q.Values) < 2 || len(q.Values) > rrchain.MaxValues {
		return errs.Invalid("question %q has %d values; 2 to %d are possible", q.Name, len(q.Values), rrchain.MaxValues)
	}
	if err := checkEncoding(q); err != nil {
		return errs.Invalid("question %q: %v", q.Name, err)
	}
	seen := make(map[string]bool, len(q.Values))
	for _, value := range q.Values {
		if err := names.Check("value", value); err != nil {
			return fmt.Errorf("question %q: %w", q.Name, err)
		}
		if seen[value] {
			return errs.Invalid("question %q has the value %q twice", q.Name, value)
		}
		seen[value] = true
	}
	return nil
}

// Encoding tells what a response to a question is.
type Encoding string

const (
	// Direct: a response is one of the question's values, drawn by randomized response.
	Direct Encoding = "direct"
	// Unary: a response has a bit for each of the question's values, drawn in optimized unary encoding (see
	// [rrchain.UnaryChain]). It is written as a 0 or 1 for each value, in the order of the values. For
	// questions with many values it tells more at the same ε.
	Unary Encoding = "unary"
	// Finite: a response is an output of the question's own mechanism (see [Mechanism]).
	Finite Encoding = "finite"
)

// MaxUnaryValues is the largest number of values a question in unary encoding may have: every response takes
// a bit, and a draw, for each of them. For longer lists, strings say, there is package rrchain/rappor.
const MaxUnaryValues = 1 << 12

// usualEpsilon is the ε, in nano-nats, for which the encoding of a question is picked.
const usualEpsilon = 2_000_000_000

// EncodingFor picks the encoding of a question: that of its own mechanism, or the one that estimates better at the
// usual ε.
func EncodingFor(q Question) Encoding {
	usual, _ := privacy.EpsilonFromNano(usualEpsilon)
	switch {
	case q.Mechanism != nil:
		return Finite
	case len(q.Values) >= rrchain.UnaryFrom(usual) && len(q.Values) <= MaxUnaryValues:
		return Unary
	}
	return Direct
}

// checkEncoding refuses what is no encoding of a question.
func checkEncoding(q Question) error {
	switch {
	case q.Encoding == Finite:
		return q.Mechanism.Check(len(q.Values))
	case q.Encoding != Direct && q.Encoding != Unary:
		return fmt.Errorf("the encoding %.40q is none of %q, %q and %q", string(q.Encoding), Direct, Unary, Finite)
	case q.Mechanism != nil:
		return fmt.Errorf("%s encoding, and a mechanism of its own", q.Encoding)
	case q.Encoding == Unary && len(q.Values) > MaxUnaryValues:
		return fmt.Errorf("%d values; unary encoding is possible for up to %d", len(q.Values), MaxUnaryValues)
	}
	return nil
}
