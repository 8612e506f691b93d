package ledger

import (
	"crypto/hmac"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
)

// response is how a chain answers at one ε.
type response struct {
	value  value
	method method
}

func encodeResponse(e *wire.Encoder, r response) {
	encodeValue(e, r.value)
	e.U8(uint8(r.method))
}

func decodeResponse(d *wire.Decoder) response { return decodeMethod(d, decodeValue(d)) }

// decodeMethod reads how a response came about.
func decodeMethod(d *wire.Decoder, v value) response {
	r := response{value: v, method: method(d.U8())}
	if (r.method < methodRaise || r.method > methodInsert) && r.method != methodResale {
		d.Fail("unknown method %d", r.method)
	}
	return r
}

// encodeResult writes an output, or a score with its sign in the last bit.
func encodeResult(e *wire.Encoder, r result) {
	e.Flag(r.scored)
	if r.scored {
		e.Uvarint(uint64(r.score<<1 ^ r.score>>63))
	} else {
		e.Uvarint(uint64(r.output))
	}
}

func decodeResult(d *wire.Decoder) result {
	if !d.Flag() {
		return result{output: d.Output()}
	}
	n := d.Uvarint()
	r := result{scored: true, score: int64(n>>1) ^ -int64(n&1)}
	if r.score < -mechanism.MaxScore || r.score > mechanism.MaxScore {
		d.Fail("a score beyond ±2^61")
	}
	return r
}

// method tells how a response came about.
type method uint8

const (
	methodRaise method = iota + 1
	methodDegrade
	methodInsert
	methodFresh  // an answer to a query drawn from the truths, whatever was answered before
	methodResale // a recorded response sold again
)

func (m method) String() string {
	names := [...]string{"", "raise", "degrade", "insert", "fresh", "resale"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// result is what a query about a panel is answered by: an output or, of a query with two outputs and a boundary
// between them, a score, which can be raised.
type result struct {
	scored bool
	output int
	score  int64
}

// answer returns the output.
func (r result) answer() int {
	if r.scored {
		return mechanism.Score{Value: r.score}.Output()
	}
	return r.output
}

// methodOf returns the method of a response by its name.
func methodOf(name string) (method, bool) {
	for _, m := range []method{methodRaise, methodDegrade, methodInsert, methodResale} {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// tag is a truncated keyed hash.
type tag [16]byte

func (t tag) equal(other tag) bool { return hmac.Equal(t[:], other[:]) }

// encodeTag writes a tag that may be absent.
func encodeTag(e *wire.Encoder, t *tag) {
	e.Flag(t != nil)
	if t != nil {
		e.Raw(t[:])
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

// encodeValue writes the number of a value or, above all of these, the number of bits and then the bits.
func encodeValue(e *wire.Encoder, v value) {
	if !v.isUnary() {
		e.Uvarint(uint64(v.index))
		return
	}
	e.Uvarint(uint64(rrchain.MaxValues + v.bits.Len()))
	e.Raw(v.bits.Pack())
}

func decodeValue(d *wire.Decoder) value { return asValue(d, d.Uvarint()) }

// asValue is decodeValue for a number that was read.
func asValue(d *wire.Decoder, n uint64) value {
	if n < rrchain.MaxValues {
		return value{index: int(n)}
	}
	if n -= rrchain.MaxValues; n > MaxUnaryValues {
		d.Fail("a response of %d bits", n)
		return value{}
	}
	bits, err := rrchain.UnpackBits(int(n), d.Take((n+7)/8))
	if err != nil {
		d.Fail("%v", err)
	}
	return value{bits: bits}
}
