package event

import (
	"crypto/hmac"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
)

// Response is how a chain answers at one ε.
type Response struct {
	Value  Value
	Method Method
}

func encodeResponse(e *wire.Encoder, r Response) {
	EncodeValue(e, r.Value)
	e.U8(uint8(r.Method))
}

func decodeResponse(d *wire.Decoder) Response { return decodeMethod(d, decodeValue(d)) }

// decodeMethod reads how a response came about.
func decodeMethod(d *wire.Decoder, v Value) Response {
	r := Response{Value: v, Method: Method(d.U8())}
	if (r.Method < MethodRaise || r.Method > MethodInsert) && r.Method != MethodResale {
		d.Fail("unknown method %d", r.Method)
	}
	return r
}

// EncodeResult writes an output, or a score with its sign in the last bit.
func EncodeResult(e *wire.Encoder, r Result) {
	e.Flag(r.Scored)
	if r.Scored {
		e.Uvarint(uint64(r.Score<<1 ^ r.Score>>63))
	} else {
		e.Uvarint(uint64(r.Output))
	}
}

func DecodeResult(d *wire.Decoder) Result {
	if !d.Flag() {
		return Result{Output: d.Output()}
	}
	n := d.Uvarint()
	r := Result{Scored: true, Score: int64(n>>1) ^ -int64(n&1)}
	if r.Score < -mechanism.MaxScore || r.Score > mechanism.MaxScore {
		d.Fail("a score beyond ±2^61")
	}
	return r
}

// Method tells how a response came about.
type Method uint8

const (
	MethodRaise Method = iota + 1
	MethodDegrade
	MethodInsert
	MethodFresh  // an answer to a query drawn from the truths, whatever was answered before
	MethodResale // a recorded response sold again
)

func (m Method) String() string {
	names := [...]string{"", "raise", "degrade", "insert", "fresh", "resale"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// Result is what a query about a panel is answered by: an output or, of a query with two outputs and a boundary
// between them, a score, which can be raised.
type Result struct {
	Scored bool
	Output int
	Score  int64
}

// answer returns the output.
func (r Result) answer() int {
	if r.Scored {
		return mechanism.Score{Value: r.Score}.Output()
	}
	return r.Output
}

// MethodOf returns the method of a response by its name.
func ParseMethod(name string) (Method, bool) {
	for _, m := range []Method{MethodRaise, MethodDegrade, MethodInsert, MethodResale} {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// Tag is a truncated keyed hash.
type Tag [16]byte

func (t Tag) Equal(other Tag) bool { return hmac.Equal(t[:], other[:]) }

// EncodeTag writes a tag that may be absent.
func EncodeTag(e *wire.Encoder, t *Tag) {
	e.Flag(t != nil)
	if t != nil {
		e.Raw(t[:])
	}
}

// Value is a response as it is kept, or the output of an answer.
type Value struct {
	Index int          // of one of the question's values, or of an output of its own mechanism
	Bits  rrchain.Bits // in unary encoding, where index is 0; else none
}

func (v Value) IsUnary() bool { return v.Bits != rrchain.Bits{} }

// String is for errors about damage; what people read is [question.text].
func (v Value) String() string {
	if v.IsUnary() {
		return fmt.Sprintf("%d bits", v.Bits.Len())
	}
	return fmt.Sprintf("value %d", v.Index)
}

// EncodeValue writes the number of a value or, above all of these, the number of bits and then the bits.
func EncodeValue(e *wire.Encoder, v Value) {
	if !v.IsUnary() {
		e.Uvarint(uint64(v.Index))
		return
	}
	e.Uvarint(uint64(rrchain.MaxValues + v.Bits.Len()))
	e.Raw(v.Bits.Pack())
}

func decodeValue(d *wire.Decoder) Value { return AsValue(d, d.Uvarint()) }

// AsValue is decodeValue for a number that was read.
func AsValue(d *wire.Decoder, n uint64) Value {
	if n < rrchain.MaxValues {
		return Value{Index: int(n)}
	}
	if n -= rrchain.MaxValues; n > vocabulary.MaxUnaryValues {
		d.Fail("a response of %d bits", n)
		return Value{}
	}
	bits, err := rrchain.UnpackBits(int(n), d.Take((n+7)/8))
	if err != nil {
		d.Fail("%v", err)
	}
	return Value{Bits: bits}
}

// MethodAt returns how a response comes about that gets this place among the levels of a chain.
func MethodAt(place, levels int) Method {
	switch place {
	case levels:
		return MethodRaise
	case 0:
		return MethodDegrade
	default:
		return MethodInsert
	}
}
