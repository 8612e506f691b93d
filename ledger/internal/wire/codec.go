package wire

import (
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Codec writes fields or reads them, whichever it is made for: so that one description of a record serves for both.
type Codec struct {
	e *Encoder
	d *Decoder
}

// Writing returns a codec that appends what it is given.
func Writing(e *Encoder) Codec { return Codec{e: e} }

// Reading returns a codec that sets what it is given.
func Reading(d *Decoder) Codec { return Codec{d: d} }

// Reads returns where it reads from, or nil if it writes.
func (c Codec) Reads() *Decoder { return c.d }

// field writes a field or reads it.
func field[T any](c Codec, v *T, read func(*Decoder) T, write func(*Encoder, T)) {
	if c.d != nil {
		*v = read(c.d)
	} else {
		write(c.e, *v)
	}
}

// U8 is a byte.
func (c Codec) U8(v *uint8) {
	if c.d != nil {
		*v = c.d.U8()
	} else {
		c.e.U8(*v)
	}
}

// U32 is a number of 4 bytes, or several.
func (c Codec) U32(all ...*uint32) {
	for _, v := range all {
		if c.d != nil {
			*v = c.d.U32()
		} else {
			c.e.U32(*v)
		}
	}
}

// Uvarint is a number of 1 to 10 bytes, or several.
func (c Codec) Uvarint(all ...*uint64) {
	for _, v := range all {
		if c.d != nil {
			*v = c.d.Uvarint()
		} else {
			c.e.Uvarint(*v)
		}
	}
}

// Short is a number below 2³² that is written as [Codec.Uvarint] does.
func (c Codec) Short(v *uint32) {
	n := uint64(*v)
	if c.Uvarint(&n); c.d != nil {
		*v = c.d.In32(n)
	}
}

// Epsilon is an ε, or several.
func (c Codec) Epsilon(all ...*privacy.Epsilon) {
	for _, v := range all {
		if c.d != nil {
			*v = c.d.Epsilon()
		} else {
			c.e.Epsilon(*v)
		}
	}
}

// Text is a text behind its length.
func (c Codec) Text(v *string) {
	if c.d != nil {
		*v = c.d.Text()
	} else {
		c.e.Text(*v)
	}
}

// Flag is a byte that is 0 or 1. It returns what the field is then.
func (c Codec) Flag(v *bool) bool {
	field(c, v, (*Decoder).Flag, (*Encoder).Flag)
	return *v
}

// Time is a time in nanoseconds since 1970.
func (c Codec) Time(v *time.Time) { field(c, v, (*Decoder).Time, (*Encoder).Time) }

// Array is as many bytes as there are.
func (c Codec) Array(v []byte) {
	if c.d != nil {
		c.d.Array(v)
	} else {
		c.e.Raw(v)
	}
}

// Numbers is a list of numbers.
func (c Codec) Numbers(v *[]uint64) { field(c, v, (*Decoder).Numbers, (*Encoder).Numbers) }

// List is a list of what takes at least so many bytes each. An empty one is read as nil.
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

// Record is what is described by its fields.
type Record interface {
	// Fields reads or writes each field in turn, as the codec does.
	Fields(c Codec)
}

// Encode returns the bytes of a record.
func Encode(r Record) []byte {
	e := &Encoder{}
	r.Fields(Writing(e))
	return e.Buf
}

// Decode reads what [Encode] returned, all of it.
func Decode[T any, P interface {
	*T
	Record
}](payload []byte) (record T, err error) {
	d := &Decoder{Rest: payload}
	P(&record).Fields(Reading(d))
	return record, d.Done()
}
