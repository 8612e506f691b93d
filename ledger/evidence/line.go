package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
)

// opening has the first JSON keys of every fact.
type opening struct {
	Event uint64    `json:"event"`
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"`
}

// closing has the last JSON keys of every fact.
type closing struct {
	Salt says.Hex  `json:"salt"`
	Leaf tlog.Hash `json:"leaf"`
}

// usualParts is the capacity for the fields of a line. All present kinds fit.
const usualParts = 20

// shape describes the JSON of the facts of one kind. A line is a struct with one field for each
// JSON key, which encoding/json encodes and decodes.
type shape struct {
	detail reflect.Type // the struct of the detail
	fields []int        // the indexes of its fields that are in a fact, in order
	line   reflect.Type // a struct of the fields of opening, these fields, and those of closing
	policy bool         // whether a field may contain a policy
}

// shapes returns the shapes of all kinds that statements contain, by the name of the kind.
var shapes = sync.OnceValue(func() map[string]shape {
	all := map[string]shape{}
	for _, d := range event.FactDetails() {
		s := shape{detail: reflect.TypeOf(d)}
		fields := reflect.VisibleFields(reflect.TypeFor[opening]())
		for _, f := range event.FactFields(d) {
			// One index is enough, because the fields of a detail are not embedded.
			fields, s.fields = append(fields, f), append(s.fields, f.Index[0])
			s.policy = s.policy || hasPolicy(f.Type)
		}
		s.line = reflect.StructOf(append(fields, reflect.VisibleFields(reflect.TypeFor[closing]())...))
		all[d.Kind()] = s
	}
	return all
})

// hasPolicy reports whether a value of a type may contain a policy.
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

// parts appends to all a pointer to each field of a fact, in the order of the fields of a line of
// the shape. kind points to the name of the kind, which is no field of Fact. Says must point to the
// struct of the shape.
func (f *Fact) parts(all []reflect.Value, of shape, kind *string) []reflect.Value {
	all = append(all, reflect.ValueOf(&f.Event), reflect.ValueOf(&f.Time), reflect.ValueOf(kind))
	detail := reflect.ValueOf(f.Says).Elem()
	for _, i := range of.fields {
		all = append(all, detail.Field(i).Addr())
	}
	return append(all, reflect.ValueOf(&f.Salt), reflect.ValueOf(&f.Leaf))
}

// line returns a struct whose JSON is the JSON of the fact, and the shape of its kind. Without a
// detail of a kind that statements contain, the struct has only the fields of opening and closing,
// and the shape is zero.
func (f Fact) line() (line any, of shape) {
	kind := f.Kind()
	of, known := shapes()[kind]
	if !known || reflect.TypeOf(f.Says) != reflect.PointerTo(of.detail) {
		return struct {
			opening
			closing
		}{opening{f.Event, f.Time, kind}, closing{f.Salt, f.Leaf}}, shape{}
	}
	all := reflect.New(of.line)
	for i, part := range f.parts(make([]reflect.Value, 0, usualParts), of, &kind) {
		all.Elem().Field(i).Set(part.Elem())
	}
	return all.Interface(), of
}

// MarshalJSON implements [json.Marshaler].
func (f Fact) MarshalJSON() ([]byte, error) {
	line, _ := f.line()
	return json.Marshal(line)
}

// equals reports whether two facts are equal in memory. If so, their JSON, which may be long, need
// not be compared. It returns false for facts that may contain policies, even for equal ones. A
// policy computes its steps at their first use, which another goroutine may do concurrently.
func (f Fact) equals(other Fact) bool {
	a, of := f.line()
	b, _ := other.line()
	return !of.policy && reflect.DeepEqual(a, b)
}

// UnmarshalJSON implements [json.Unmarshaler]. An unknown kind is an error, and so is a field that
// the kind does not have. After an error the fact is unchanged.
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
	// decode into a line, whose fields have the JSON keys, and then copy these fields to the fact
	line, read := reflect.New(is.line), Fact{Says: reflect.New(is.detail).Interface().(says.Detail)}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(line.Interface()); err != nil {
		return fmt.Errorf("an event of the kind %q: %w", of.Kind, err)
	}
	for i, part := range read.parts(make([]reflect.Value, 0, usualParts), is, &of.Kind) {
		part.Elem().Set(line.Elem().Field(i))
	}
	*f = read
	return nil
}
