package ledger

import (
	"crypto/sha256"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// form is a request in its canonical form, field by field, by which a repetition is recognized.
type form struct {
	wire.Encoder
	identity
	from int // where the field begins that is being written
}

// identity is what a request is recognized by.
type identity struct {
	digest [sha256.Size]byte
	marks  marks
	names  [mostFields]string // of the fields
}

// mostFields is how many fields a request may have, its kind among them.
const mostFields = 12

// marks are a byte for each field of a request. They say nothing but which fields of two requests differ: the digest says
// whether they do.
type marks struct {
	count uint8
	of    [mostFields]byte
}

// formOf begins the form of a request of a kind, whose first field that is.
func formOf(kind string) *form {
	f := &form{Encoder: wire.Encoder{Buf: make([]byte, 0, 256)}} // enough for one object
	f.names[0] = "Kind"
	f.Text(kind)
	return f
}

// field begins a field, under the name that it has in the type of the request.
func (f *form) field(name string) *wire.Encoder {
	f.endField()
	f.names[f.marks.count] = name
	return &f.Encoder
}

func (f *form) endField() {
	sum := crc32.Checksum(f.Buf[f.from:], crc32.MakeTable(crc32.Castagnoli))
	f.marks.of[f.marks.count] = byte(sum)
	f.marks.count++
	f.from = len(f.Buf)
}

// objects is the field that says whom a request is about.
func (f *form) objects(names []string, all bool) {
	e := f.field("Objects")
	e.Flag(all)
	e.Uvarint(uint64(len(names)))
	for _, name := range names {
		e.Text(name)
	}
}

// finish ends the form.
func (f *form) finish() identity {
	f.endField()
	f.digest = f.Sum()
	return f.identity
}

// differs returns the name of a field in which a request differs from one that has these marks, or "" if they do not tell.
func (id identity) differs(from marks) string {
	for i := range min(id.marks.count, from.count) {
		if id.marks.of[i] != from.of[i] {
			return id.names[i]
		}
	}
	return ""
}

func (m marks) encode(e *wire.Encoder) {
	e.U8(m.count)
	e.Raw(m.of[:m.count])
}

func decodeMarks(d *wire.Decoder) (m marks) {
	if m.count = d.U8(); m.count > mostFields {
		d.Fail("a request of %d fields", m.count)
		return marks{}
	}
	d.Array(m.of[:m.count])
	return m
}
