package wire

import (
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Codec either encodes fields or decodes them, so that one description of a record serves for both.
// Each method encodes or decodes one kind of field.
type Codec struct {
	e *Encoder
	d *Decoder
}

// Writing returns a codec that appends fields to an encoder.
func Writing(e *Encoder) Codec { return Codec{e: e} }

// Reading returns a codec that sets fields from a decoder.
func Reading(d *Decoder) Codec { return Codec{d: d} }

// Reads returns the decoder, or nil if the codec encodes.
func (c Codec) Reads() *Decoder { return c.d }

// field encodes *v with write, or sets *v to the result of read.
func field[T any](c Codec, v *T, read func(*Decoder) T, write func(*Encoder, T)) {
	if c.d != nil {
		*v = read(c.d)
	} else {
		write(c.e, *v)
	}
}

// U8 is a field of one byte.
func (c Codec) U8(v *uint8) {
	if c.d != nil {
		*v = c.d.U8()
	} else {
		c.e.U8(*v)
	}
}

// U32 is one or several numbers of 4 bytes each.
func (c Codec) U32(all ...*uint32) {
	for _, v := range all {
		if c.d != nil {
			*v = c.d.U32()
		} else {
			c.e.U32(*v)
		}
	}
}

// Uvarint is one or several numbers of 1 to 10 bytes each.
func (c Codec) Uvarint(all ...*uint64) {
	for _, v := range all {
		if c.d != nil {
			*v = c.d.Uvarint()
		} else {
			c.e.Uvarint(*v)
		}
	}
}

// Short is a number below 2³² with the encoding of [Codec.Uvarint]. Decoding fails for a larger
// number.
func (c Codec) Short(v *uint32) {
	n := uint64(*v)
	if c.Uvarint(&n); c.d != nil {
		*v = c.d.In32(n)
	}
}

// Epsilon is one or several ε.
func (c Codec) Epsilon(all ...*privacy.Epsilon) {
	for _, v := range all {
		if c.d != nil {
			*v = c.d.Epsilon()
		} else {
			c.e.Epsilon(*v)
		}
	}
}

// Text is a text, preceded by its length.
func (c Codec) Text(v *string) {
	if c.d != nil {
		*v = c.d.Text()
	} else {
		c.e.Text(*v)
	}
}

// Flag is a byte that is 0 or 1. It returns the value of the field, after it was decoded if c
// decodes.
func (c Codec) Flag(v *bool) bool {
	field(c, v, (*Decoder).Flag, (*Encoder).Flag)
	return *v
}

// Time is a time in nanoseconds since 1970.
func (c Codec) Time(v *time.Time) { field(c, v, (*Decoder).Time, (*Encoder).Time) }

// Array is a field of fixed length: the bytes of v. If c decodes, it overwrites them.
func (c Codec) Array(v []byte) {
	if c.d != nil {
		c.d.Array(v)
	} else {
		c.e.Raw(v)
	}
}

// Numbers is a list of numbers, preceded by its length.
func (c Codec) Numbers(v *[]uint64) { field(c, v, (*Decoder).Numbers, (*Encoder).Numbers) }

// List encodes or decodes a list: its length, and then each item, for which it calls one. smallest
// is the least number of bytes that an item takes, which bounds the length of a decoded list. To
// decode, *v must be nil; it stays nil if the list is empty.
func List[T any](c Codec, v *[]T, smallest int, one func(*T)) {
	if c.d == nil {
		c.e.Uvarint(uint64(len(*v)))
	} else if n := c.d.Count(smallest); n > 0 {
		*v = make([]T, n)
	}
	for i := range *v {
		one(&(*v)[i])
	}
}

// Record is a type that describes its encoding by its fields.
type Record interface {
	// Fields passes each field to the codec, in order, which encodes or decodes it.
	Fields(c Codec)
}

// Encode returns the encoding of a record.
func Encode(r Record) []byte {
	e := &Encoder{}
	r.Fields(Writing(e))
	return e.Buf
}

// Decode decodes a record from the result of [Encode]. T is the type of the record, and P the
// pointer to it, which has the method Fields. It returns [errs.ErrCorrupt] for invalid bytes, and
// if bytes are left over.
func Decode[T any, P interface {
	*T
	Record
}](payload []byte) (record T, err error) {
	d := &Decoder{Rest: payload}
	P(&record).Fields(Reading(d))
	return record, d.Done()
}
