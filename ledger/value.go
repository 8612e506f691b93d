package ledger

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

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

// mostWork is how many bits one transaction may draw, or probabilities look at: some ten seconds' work, while
// others wait.
const mostWork = 1 << 28

// usualEpsilon is the ε, in nano-nats, for which the encoding of a question is picked.
const usualEpsilon = 2_000_000_000

// encodingFor picks the encoding of a question: that of its own mechanism, or the one that estimates better at the
// usual ε.
func encodingFor(q Question) Encoding {
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
		return q.Mechanism.check(len(q.Values))
	case q.Encoding != Direct && q.Encoding != Unary:
		return fmt.Errorf("the encoding %.40q is none of %q, %q and %q", string(q.Encoding), Direct, Unary, Finite)
	case q.Mechanism != nil:
		return fmt.Errorf("%s encoding, and a mechanism of its own", q.Encoding)
	case q.Encoding == Unary && len(q.Values) > MaxUnaryValues:
		return fmt.Errorf("%d values; unary encoding is possible for up to %d", len(q.Values), MaxUnaryValues)
	}
	return nil
}

// code is how events name an encoding.
func (e Encoding) code() uint8 {
	switch e {
	case Unary:
		return 2
	case Finite:
		return 3
	}
	return 1
}

func decodeEncoding(d *decoder) Encoding {
	switch code := d.u8(); code {
	case Direct.code():
		return Direct
	case Unary.code():
		return Unary
	case Finite.code():
		return Finite
	default:
		d.fail("unknown encoding %d", code)
		return ""
	}
}

// value is a response as it is kept, or the output of an answer.
type value struct {
	index int          // of one of the question's values, or of an output of its own mechanism
	bits  rrchain.Bits // in unary encoding, where index is 0; else none
}

func (v value) isUnary() bool { return v.bits != rrchain.Bits{} }

// String is for errors about damage; what people read is [question.text].
func (v value) String() string {
	if v.isUnary() {
		return fmt.Sprintf("%d bits", v.bits.Len())
	}
	return fmt.Sprintf("value %d", v.index)
}

// has tells whether a response is one that the question can have at an ε.
func (q *question) has(epsilon privacy.Epsilon, v value) bool {
	switch q.encoding {
	case Unary:
		return v.index == 0 && v.bits.Len() == len(q.values)
	case Finite:
		return !v.isUnary() && q.mechanism.possible(epsilon, v.index)
	}
	return !v.isUnary() && v.index < len(q.values)
}

// text writes a response that the question has at an ε.
func (q *question) text(epsilon privacy.Epsilon, v value) string {
	switch q.encoding {
	case Unary:
		return v.bits.String()
	case Finite:
		return q.mechanism.outputs(epsilon)[v.index]
	}
	return q.values[v.index]
}

// read reads what text writes.
func (q *question) read(epsilon privacy.Epsilon, text string) (v value, known bool) {
	switch q.encoding {
	case Unary:
		bits, err := rrchain.ParseBits(text)
		v = value{bits: bits}
		return v, err == nil && q.has(epsilon, v)
	case Finite:
		v.index = slices.Index(q.mechanism.outputs(epsilon), text)
		return v, q.has(epsilon, v)
	}
	v.index, known = q.index[text]
	return v, known
}

// encodeValue writes the number of a value or, above all of these, the number of bits and then the bits.
func encodeValue(e *encoder, v value) {
	if !v.isUnary() {
		e.uvarint(uint64(v.index))
		return
	}
	e.uvarint(uint64(rrchain.MaxValues + v.bits.Len()))
	e.raw(v.bits.Pack())
}

func decodeValue(d *decoder) value { return asValue(d, d.uvarint()) }

// asValue is decodeValue for a number that was read.
func asValue(d *decoder, n uint64) value {
	if n < rrchain.MaxValues {
		return value{index: int(n)}
	}
	if n -= rrchain.MaxValues; n > MaxUnaryValues {
		d.fail("a response of %d bits", n)
		return value{}
	}
	bits, err := rrchain.UnpackBits(int(n), d.take((n+7)/8))
	if err != nil {
		d.fail("%v", err)
	}
	return value{bits: bits}
}
