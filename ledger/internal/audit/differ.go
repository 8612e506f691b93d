package audit

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// part is a part of a record. name is what it is, and at is where it is if several have this name,
// such as " at ε=0.5". verb is "is" or "are", and is the value as text.
type part struct{ name, at, verb, is string }

// description is a record as a list of parts. The name of a field is its tag "audit" or, without a
// tag, "the" and its name. Fields with the tag "-" are left out, because they follow from the
// others.
type description struct {
	parts   []part
	at      string                                    // where in the record the next parts are
	epsilon privacy.Epsilon                           // of the level that the next parts belong to
	value   func(privacy.Epsilon, event.Value) string // returns the name of a response at an ε
}

// add adds a part with a name and a value, at the current place.
func (d *description) add(name, is string) { d.parts = append(d.parts, part{name, d.at, "is", is}) }

// describe adds the value v of a field as a part with this name. A struct without a name is
// replaced by its fields. A [state.Position] is added as two parts.
func (d *description) describe(name string, v reflect.Value) {
	if p, is := v.Interface().(state.Position); is {
		d.add("the number of events", fmt.Sprint(p.Events))
		d.add("the root of their tree", p.Root.String())
		return
	}
	if v.Kind() == reflect.Struct && name == "" {
		d.describeFields(v)
		return
	}
	switch value := v.Interface().(type) {
	case time.Time:
		d.add(name, value.Format(time.RFC3339Nano))
	case *event.Tag:
		if value == nil {
			d.add(name, "none")
			return
		}
		d.add(name, fmt.Sprintf("%x", value[:]))
	case event.Value:
		d.add(name, d.value(d.epsilon, value))
	case *api.Mechanism:
		d.add(name, string(event.EncodeMechanism(value)))
	case string, fmt.Stringer:
		d.add(name, fmt.Sprint(value))
		d.plural(v)
	default:
		d.describeKind(name, v)
	}
}

// describeKind adds a field whose type has no text form of its own: a list of structs, a hash, a
// number or a flag.
func (d *description) describeKind(name string, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		d.describeList(name, v)
	case v.Kind() == reflect.Array:
		d.add(name, fmt.Sprintf("%x", v.Interface()))
	default:
		d.add(name, fmt.Sprintf("%+v", v.Interface()))
		d.plural(v)
	}
}

// plural changes the verb of the last part to "are" if it is a list.
func (d *description) plural(v reflect.Value) {
	if v.Kind() == reflect.Slice {
		d.parts[len(d.parts)-1].verb = "are"
	}
}

// describeList adds the items of a list of structs. Levels and answers are identified by their ε.
// Other items are identified by their index, and their number is a part of its own.
func (d *description) describeList(name string, v reflect.Value) {
	// The type is nil if the items have no field Epsilon.
	at, _ := v.Type().Elem().FieldByName("Epsilon")
	if at.Type == nil {
		d.add("the number of "+name+"s", fmt.Sprint(v.Len()))
	}
	before := *d
	for i := range v.Len() {
		if one := v.Index(i); at.Type == nil {
			d.at = fmt.Sprintf("%s in %s %d", before.at, name, i)
		} else {
			d.epsilon = one.FieldByIndex(at.Index).Interface().(privacy.Epsilon)
			d.at = fmt.Sprintf("%s at ε=%s", before.at, d.epsilon)
		}
		d.describe("", v.Index(i))
	}
	d.at, d.epsilon = before.at, before.epsilon
}

// describeFields adds the fields of a struct under the names that [description] documents. Embedded
// structs, and structs of the same package without a tag, are replaced by their fields.
func (d *description) describeFields(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, tagged := f.Tag.Lookup("audit")
		switch {
		case name == "-":
		case tagged:
			d.describe(name, v.Field(i))
		case f.Anonymous || f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == v.Type().PkgPath():
			d.describe("", v.Field(i))
		default:
			d.describe("the "+strings.ToLower(f.Name), v.Field(i))
		}
	}
}

// differences returns a sentence for each part in which the stored record differs from the one
// derived from the events. If a whole place is only in one of the two, such as a level, it has one
// sentence.
func differences(stored, derived []part) (texts []string) {
	// unmatched has the derived parts by name and place. missing is the last place with a sentence
	// of its own.
	unmatched, missing := map[[2]string]part{}, ""
	for _, e := range derived {
		unmatched[[2]string{e.name, e.at}] = e
	}
	for _, s := range stored {
		id := [2]string{s.name, s.at}
		e, both := unmatched[id]
		switch {
		case !both && s.at != missing:
			texts = append(texts, fmt.Sprintf("something is stored%s, but the events give nothing", s.at))
			missing = s.at
		case both && s.is != e.is:
			texts = append(texts, fmt.Sprintf("%s%s %s %s, the events say %s", s.name, s.at, s.verb, s.is, e.is))
		}
		delete(unmatched, id)
	}
	for _, e := range derived {
		if _, left := unmatched[[2]string{e.name, e.at}]; left && e.at != missing {
			texts = append(texts, fmt.Sprintf("nothing is stored%s, but the events give something", e.at))
			missing = e.at
		}
	}
	return texts
}
