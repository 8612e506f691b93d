package event

import (
	"crypto/sha256"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Form is the canonical form of a request, field by field. It identifies a repeated request.
// Fields about several objects are in a section of their own, whose digest is erased if one of the
// objects is forgotten.
type Form struct {
	section
	objects *section // the fields about several objects; nil if there are none
	isAlone bool     // whether the request names exactly one object
}

// section is some of the fields of a form.
type section struct {
	wire.Encoder
	marks Marks
	names [mostFields]string // of the fields, in the type of the request
	from  int                // start of the current field
}

// Identity identifies a request.
type Identity struct {
	Sum                              // of all fields except those about several objects
	Objects Sum                      // of the fields about several objects; zero if there are none
	Panel   PanelSum                 // of the objects that a panel query names, if there are several
	names   [mostFields]string       // names of the other fields
	more    [mostObjectFields]string // names of the fields about several objects
}

// Sum identifies a list of fields.
type Sum struct {
	Digest [sha256.Size]byte // SHA-256 of all fields
	Marks  Marks             // show which fields differ, with high probability
}

// mostFields is the maximum number of fields in a section of a request, including its kind.
const mostFields = 12

// mostObjectFields is the maximum number of fields about several objects.
const mostObjectFields = 2

// Marks have one checksum byte for each field of a request. They only show which fields of two
// requests differ. Whether the requests differ is decided by the digest.
type Marks struct {
	count uint8
	of    [mostFields]byte
}

// NewForm starts the form of a request. Its kind is the first field.
func NewForm(kind string) *Form {
	// large enough for a request about one object
	f := &Form{section: section{Encoder: wire.Encoder{Buf: make([]byte, 0, 256)}}}
	f.names[0] = "Kind"
	f.Text(kind)
	return f
}

// Field starts a field, and returns the encoder for its value. name is the name of the field in the
// type of the request, for error texts. A form has at most 12 fields, including the kind; one more
// is a panic.
func (f *Form) Field(name string) *wire.Encoder {
	f.end()
	f.names[f.marks.count] = name
	return &f.Encoder
}

// ObjectField starts a field whose value depends on the objects of the request, and returns the
// encoder for its value. It must be called after [Form.Objects].
func (f *Form) ObjectField(name string) *wire.Encoder {
	// With a single object, the whole identity of the request is erased with that object. So the
	// field needs no section of its own.
	if f.isAlone {
		return f.Field(name)
	}
	if f.objects == nil {
		f.objects = &section{}
	} else {
		f.objects.end()
	}
	f.objects.names[f.objects.marks.count] = name
	return &f.objects.Encoder
}

// Objects adds the objects of a request: those with the names or, if all is true, all objects. The
// number of names stays part of the identity when an object is forgotten. If there are several
// names, they are in the section that is then erased.
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

// Finish ends the form, and returns the identity of the request.
func (f *Form) Finish() Identity {
	id := Identity{Sum: f.finish(), names: f.names}
	if f.objects != nil {
		id.Objects = f.objects.finish()
		copy(id.more[:], f.objects.names[:]) // of at most mostObjectFields fields
	}
	return id
}

// end ends the current field. It adds its checksum to the marks: the lowest byte of its CRC-32C.
func (s *section) end() {
	sum := crc32.Checksum(s.Buf[s.from:], crc32.MakeTable(crc32.Castagnoli))
	s.marks.of[s.marks.count] = byte(sum)
	s.marks.count++
	s.from = len(s.Buf)
}

// finish ends the section, and returns its digest and its marks.
func (s *section) finish() Sum {
	s.end()
	return Sum{s.Sum(), s.marks}
}

// Differs returns the name of the first field in which the request differs from another one. from
// and objects are the sums of the other request: of its fields, and of those about several objects.
// It returns "" if no mark differs. The digests may differ nevertheless, because a mark is only one
// byte.
func (id Identity) Differs(from, objects Sum) string {
	if field := id.Marks.differs(from.Marks, id.names[:]); field != "" || from.Digest != id.Digest {
		return field // "" if the difference is in these fields, but the marks do not show it
	}
	return id.Objects.Marks.differs(objects.Marks, id.more[:])
}

// differs returns the name of the first field whose mark is not that in from, or "" if there is
// none. names are those of the fields of m. It compares only fields that both requests have.
func (m Marks) differs(from Marks, names []string) string {
	for i := range min(m.count, from.count) {
		if m.of[i] != from.of[i] {
			return names[i]
		}
	}
	return ""
}

// fields describes the digest, and then the marks.
func (s *Sum) fields(x wire.Codec) {
	x.Array(s.Digest[:])
	s.Marks.fields(x)
}

// fields describes the number of the marks, and then the marks. Decoding fails for more than 12
// marks.
func (m *Marks) fields(x wire.Codec) {
	x.U8(&m.count)
	if d := x.Reads(); d != nil && m.count > mostFields {
		d.Fail("a request has %d fields", m.count)
		*m = Marks{}
	}
	x.Array(m.of[:m.count])
}
