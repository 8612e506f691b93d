package event

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain"
)

// Response is the response of a chain at one ε.
type Response struct {
	Value  Value  // the value of the response
	Method Method // how it was made
}

// fields describes the value, and then the method.
func (r *Response) fields(x wire.Codec) {
	r.Value.Fields(x)
	r.Method.fields(x)
}

// Value is the stored form of a response, or of the output of an answer.
type Value struct {
	Index int          // index of a value of the question, or of an output of its mechanism
	Bits  rrchain.Bits // the bits in unary encoding, where Index is 0; otherwise empty
}

// IsUnary reports whether the response has bits.
func (v Value) IsUnary() bool { return v.Bits != rrchain.Bits{} }

// String returns a text for errors about damage. Use [Question.Text] for the text form of a
// response.
func (v Value) String() string {
	if v.IsUnary() {
		return fmt.Sprintf("%d bits", v.Bits.Len())
	}
	return fmt.Sprintf("value %d", v.Index)
}

// Fields describes a response as a number n. In direct and finite encoding, n is the index of a
// value or an output, which is below [wire.MaxValues]. In unary encoding, n is [wire.MaxValues]
// plus the number of bits, and the bits follow.
func (v *Value) Fields(x wire.Codec) {
	if d := x.Reads(); d != nil {
		*v = AsValue(d, d.Uvarint())
		return
	}
	n := uint64(v.Index)
	if !v.IsUnary() {
		x.Uvarint(&n)
		return
	}
	n = uint64(wire.MaxValues + v.Bits.Len())
	x.Uvarint(&n)
	x.Array(v.Bits.Pack())
}

// AsValue decodes the output of [Value.Fields], of which the first number n was already read. d has
// the bits, if there are any, and fails if they are too many or invalid.
func AsValue(d *wire.Decoder, n uint64) Value {
	if n < wire.MaxValues {
		return Value{Index: int(n)}
	}
	if n -= wire.MaxValues; n > MaxUnaryValues {
		d.Fail("a response has %d bits", n)
		return Value{}
	}
	bits, err := rrchain.NewBits(int(n), d.Take((n+7)/8))
	if err != nil {
		d.Fail("%v", err)
	}
	return Value{Bits: bits}
}
