package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
)

// opening and closing are what every fact begins and ends with, as JSON.
type opening struct {
	Event uint64    `json:"event"`
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"`
}

type closing struct {
	Salt Hex       `json:"salt"`
	Leaf tlog.Hash `json:"leaf"`
}

// shape is how facts of one kind are written.
type shape struct {
	detail reflect.Type // the struct with what a fact of the kind says
	fields []int        // those of its fields that a fact has, in their order
	line   reflect.Type // a struct of the fields of opening, of these, and of closing
	policy bool         // a policy may be among them
}

// shapes are those of all kinds, by their names.
var shapes = sync.OnceValue(func() map[string]shape {
	all := map[string]shape{}
	for _, d := range says.FactDetails() {
		s := shape{detail: reflect.TypeOf(d)}
		fields := reflect.VisibleFields(reflect.TypeFor[opening]())
		for _, f := range says.FactFields(d) {
			fields, s.fields = append(fields, f), append(s.fields, f.Index[0])
			s.policy = s.policy || hasPolicy(f.Type)
		}
		s.line = reflect.StructOf(append(fields, reflect.VisibleFields(reflect.TypeFor[closing]())...))
		all[d.Kind()] = s
	}
	return all
})

// hasPolicy reports whether a value of a type may have a policy in it.
func hasPolicy(t reflect.Type) bool {
	switch {
	case t == reflect.TypeFor[policy.Policy]():
		return true
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
		return hasPolicy(t.Elem())
	case t.Kind() != reflect.Struct:
		return false
	}
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		return f.IsExported() && hasPolicy(f.Type)
	})
}

// matched yields each field of a line with that of the fact it is of. detail is a pointer to the
// shape's struct.
func (s shape) matched(line reflect.Value, begin *opening, detail any, end *closing) iter.Seq2[reflect.Value, reflect.Value] {
	return func(yield func(inLine, inFact reflect.Value) bool) {
		at := 0
		each := func(part reflect.Value, fields []int) bool {
			for _, i := range fields {
				if !yield(line.Field(at), part.Field(i)) {
					return false
				}
				at++
			}
			return true
		}
		_ = each(reflect.ValueOf(begin).Elem(), []int{0, 1, 2}) &&
			each(reflect.ValueOf(detail).Elem(), s.fields) && each(reflect.ValueOf(end).Elem(), []int{0, 1})
	}
}

// line returns a struct with what a fact has, which [encoding/json] writes as the fact is written.
// It has no shape if the fact says nothing.
func (f Fact) line() (line any, of shape) {
	begin, end := opening{f.Event, f.Time, f.Kind()}, closing{f.Salt, f.Leaf}
	of, known := shapes()[begin.Kind]
	if !known || reflect.TypeOf(f.Says) != reflect.PointerTo(of.detail) {
		return struct {
			opening
			closing
		}{begin, end}, shape{}
	}
	all := reflect.New(of.line)
	for inLine, inFact := range of.matched(all.Elem(), &begin, f.Says, &end) {
		inLine.Set(inFact)
	}
	return all.Interface(), of
}

// MarshalJSON implements [json.Marshaler].
func (f Fact) MarshalJSON() ([]byte, error) {
	line, _ := f.line()
	return json.Marshal(line)
}

// equals reports whether two facts are equal in memory, so that their texts, which may be long,
// need not be compared. It returns false for facts that may have policies: these compute their
// steps when they are first needed, perhaps in another goroutine.
func (f Fact) equals(other Fact) bool {
	a, of := f.line()
	b, _ := other.line()
	return !of.policy && reflect.DeepEqual(a, b)
}

// UnmarshalJSON implements [json.Unmarshaler]. A kind that does not exist is an error, and so is a
// field that the kind does not have.
func (f *Fact) UnmarshalJSON(data []byte) error {
	var of struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return err
	}
	is, known := shapes()[of.Kind]
	if !known {
		return noSuchKind(of.Kind)
	}
	line, detail := reflect.New(is.line), reflect.New(is.detail)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(line.Interface()); err != nil {
		return fmt.Errorf("an event of the kind %q: %w", of.Kind, err)
	}
	var begin opening
	var end closing
	for inLine, inFact := range is.matched(line.Elem(), &begin, detail.Interface(), &end) {
		inFact.Set(inLine)
	}
	*f = Fact{begin.Event, begin.Time, detail.Interface().(Detail), end.Salt, end.Leaf}
	return nil
}
