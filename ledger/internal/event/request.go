package event

import (
	"crypto/sha256"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Form is a request in its canonical form, field by field, by which a repetition is recognized.
// What a request says of several objects is in fields of its own, whose digest is erased if one of
// the objects is forgotten.
type Form struct {
	section
	objects *section // of the fields about several objects; nil if there are none
	isAlone bool     // the request names one object alone
}

// section is some fields of a form.
type section struct {
	wire.Encoder
	marks Marks
	names [mostFields]string
	from  int // where the field begins that is being written
}

// Identity is what a request is recognized by.
type Identity struct {
	Sum              // of all fields but those about several objects
	Objects Sum      // of the fields about several objects; zero if there are none
	Panel   PanelSum // of the objects that a request for an answer names, if they are several
	names   [mostFields]string
	more    [mostObjectFields]string // names of the fields about several objects
}

// Sum is what a list of fields is recognized by.
type Sum struct {
	Digest [sha256.Size]byte // SHA-256 of all fields
	Marks  Marks             // of which fields differ, most likely
}

// mostFields is how many fields a section of a request may have, its kind among them.
const mostFields = 12

// mostObjectFields is how many of them may be about several objects.
const mostObjectFields = 2

// Marks are a byte for each field of a request. They say nothing but which fields of two requests
// differ: the digest says whether they do.
type Marks struct {
	count uint8
	of    [mostFields]byte
}

// NewForm begins the form of a request of a kind, which is its first field.
func NewForm(kind string) *Form {
	f := &Form{section: section{Encoder: wire.Encoder{Buf: make([]byte, 0, 256)}}} // enough for one object
	f.names[0] = "Kind"
	f.Text(kind)
	return f
}

// Field begins a field, under the name that it has in the type of the request. There may be 12 with
// the kind.
func (f *Form) Field(name string) *wire.Encoder {
	f.end()
	f.names[f.marks.count] = name
	return &f.Encoder
}

// ObjectField begins a field whose value depends on which objects the request is about. It comes
// after [Form.Objects].
func (f *Form) ObjectField(name string) *wire.Encoder {
	if f.isAlone {
		return f.Field(name) // all that identifies the request is erased with its one object
	}
	if f.objects == nil {
		f.objects = &section{}
	} else {
		f.objects.end()
	}
	f.objects.names[f.objects.marks.count] = name
	return &f.objects.Encoder
}

// Objects adds which objects a request is about: those with the names, or all.
func (f *Form) Objects(names []string, all bool) {
	e := f.Field("Objects")
	e.Flag(all)
	e.Uvarint(uint64(len(names)))
	f.isAlone = len(names) == 1 && !all
	if len(names) > 1 {
		e = f.ObjectField("Objects")
	}
	for _, name := range names {
		e.Text(name)
	}
}

// Finish ends the form, and returns what the request is recognized by.
func (f *Form) Finish() Identity {
	id := Identity{Sum: f.finish(), names: f.names}
	if f.objects != nil {
		id.Objects = f.objects.finish()
		copy(id.more[:], f.objects.names[:])
	}
	return id
}

// end marks the field that ends here.
func (s *section) end() {
	sum := crc32.Checksum(s.Buf[s.from:], crc32.MakeTable(crc32.Castagnoli))
	s.marks.of[s.marks.count] = byte(sum)
	s.marks.count++
	s.from = len(s.Buf)
}

// finish returns what the section is recognized by.
func (s *section) finish() Sum {
	s.end()
	return Sum{s.Sum(), s.marks}
}

// Differs returns the name of a field in which a request differs from one that has these sums, or
// "" if they do not say which one.
func (id Identity) Differs(from, objects Sum) string {
	if field := id.Marks.differs(from.Marks, id.names[:]); field != "" || from.Digest != id.Digest {
		return field
	}
	return id.Objects.Marks.differs(objects.Marks, id.more[:])
}

func (m Marks) differs(from Marks, names []string) string {
	for i := range min(m.count, from.count) {
		if m.of[i] != from.of[i] {
			return names[i]
		}
	}
	return ""
}

func (s *Sum) fields(x wire.Codec) {
	x.Array(s.Digest[:])
	s.Marks.fields(x)
}

func (m *Marks) fields(x wire.Codec) {
	x.U8(&m.count)
	if d := x.Reads(); d != nil && m.count > mostFields {
		d.Fail("a request of %d fields", m.count)
		*m = Marks{}
	}
	x.Array(m.of[:m.count])
}
