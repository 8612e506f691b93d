package event

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain"
)

// Response is how a chain answers at one ε.
type Response struct {
	Value  Value  // what was handed out
	Method Method // how it came about
}

func (r *Response) fields(x wire.Codec) {
	r.Value.Fields(x)
	r.Method.fields(x)
}

// Value is a response as it is kept, or the output of an answer.
type Value struct {
	Index int          // of one of the question's values, or of an output of its own mechanism
	Bits  rrchain.Bits // in unary encoding, where Index is 0; else none
}

// IsUnary tells whether the response has bits.
func (v Value) IsUnary() bool { return v.Bits != rrchain.Bits{} }

// String is for errors about damage; what people read is [Question.Text].
func (v Value) String() string {
	if v.IsUnary() {
		return fmt.Sprintf("%d bits", v.Bits.Len())
	}
	return fmt.Sprintf("value %d", v.Index)
}

// Fields describes the number of a value or, above all of these, the number of bits and then the
// bits.
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

// AsValue reads what [Value.Fields] writes, of which the first number was read already.
func AsValue(d *wire.Decoder, n uint64) Value {
	if n < wire.MaxValues {
		return Value{Index: int(n)}
	}
	if n -= wire.MaxValues; n > MaxUnaryValues {
		d.Fail("a response of %d bits", n)
		return Value{}
	}
	bits, err := rrchain.NewBits(int(n), d.Take((n+7)/8))
	if err != nil {
		d.Fail("%v", err)
	}
	return Value{Bits: bits}
}
