package event

import (
	"crypto/sha256"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Form is a request in its canonical form, field by field, by which a repetition is recognized.
type Form struct {
	wire.Encoder
	Identity
	from int // where the field begins that is being written
}

// Identity is what a request is recognized by.
type Identity struct {
	Digest [sha256.Size]byte  // SHA-256 of all fields
	Marks  Marks              // of which fields differ, most likely
	names  [mostFields]string // of the fields
}

// mostFields is how many fields a request may have, its kind among them.
const mostFields = 12

// Marks are a byte for each field of a request. They say nothing but which fields of two requests differ: the digest says
// whether they do.
type Marks struct {
	count uint8
	of    [mostFields]byte
}

// NewForm begins the form of a request of a kind, which is its first field.
func NewForm(kind string) *Form {
	f := &Form{Encoder: wire.Encoder{Buf: make([]byte, 0, 256)}} // enough for one object
	f.names[0] = "Kind"
	f.Text(kind)
	return f
}

// Field begins a field, under the name that it has in the type of the request. There may be 12 with the kind.
func (f *Form) Field(name string) *wire.Encoder {
	f.endField()
	f.names[f.Marks.count] = name
	return &f.Encoder
}

// endField marks the field that ends here.
func (f *Form) endField() {
	sum := crc32.Checksum(f.Buf[f.from:], crc32.MakeTable(crc32.Castagnoli))
	f.Marks.of[f.Marks.count] = byte(sum)
	f.Marks.count++
	f.from = len(f.Buf)
}

// Objects is the field that says whom a request is about: those with the names, or all.
func (f *Form) Objects(names []string, all bool) {
	e := f.Field("Objects")
	e.Flag(all)
	e.Uvarint(uint64(len(names)))
	for _, name := range names {
		e.Text(name)
	}
}

// Finish ends the form, and returns what the request is recognized by.
func (f *Form) Finish() Identity {
	f.endField()
	f.Digest = f.Sum()
	return f.Identity
}

// Differs returns the name of a field in which a request differs from one that has these marks, or "" if they do not tell.
func (id Identity) Differs(from Marks) string {
	for i := range min(id.Marks.count, from.count) {
		if id.Marks.of[i] != from.of[i] {
			return id.names[i]
		}
	}
	return ""
}

func (m *Marks) fields(x wire.Codec) {
	x.U8(&m.count)
	if d := x.Reads(); d != nil && m.count > mostFields {
		d.Fail("a request of %d fields", m.count)
		*m = Marks{}
	}
	x.Array(m.of[:m.count])
}
