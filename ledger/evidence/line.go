package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"
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
	detail reflect.Type // the struct that says what is of the kind
	line   reflect.Type // a struct of the fields of opening, of that, and of closing
}

// Details returns an empty detail of each kind.
func Details() []Detail {
	return []Detail{
		&Created{}, &QuestionDefined{}, &PolicyDefined{}, &BuyerNamed{}, &Enrolled{}, &TruthBound{}, &Released{}, &Charged{}, &Reserved{},
		&Held{}, &SaleMade{}, &Sold{}, &Withdrawn{}, &EpochBegun{}, &TermsChanged{}, &ObjectRefused{}, &Forgotten{}, &Stated{},
	}
}

// shapes are those of all kinds, by their names.
var shapes = sync.OnceValue(func() map[string]shape {
	all := map[string]shape{}
	for _, d := range Details() {
		var fields []reflect.StructField
		for _, part := range []any{opening{}, reflect.ValueOf(d).Elem().Interface(), closing{}} {
			fields = append(fields, reflect.VisibleFields(reflect.TypeOf(part))...)
		}
		all[d.Kind()] = shape{reflect.TypeOf(d).Elem(), reflect.StructOf(fields)}
	}
	return all
})

// matched yields each field of a line with that of the part it stands for.
func matched(line reflect.Value, parts ...any) iter.Seq2[reflect.Value, reflect.Value] {
	return func(yield func(inLine, inPart reflect.Value) bool) {
		at := 0
		for _, part := range parts {
			fields := reflect.ValueOf(part).Elem()
			for i := range fields.NumField() {
				if !yield(line.Field(at), fields.Field(i)) {
					return
				}
				at++
			}
		}
	}
}

// MarshalJSON implements [json.Marshaler].
func (f Fact) MarshalJSON() ([]byte, error) {
	begin, end := opening{f.Event, f.Time, f.Kind()}, closing{f.Salt, f.Leaf}
	if f.Says == nil {
		return json.Marshal(struct {
			opening
			closing
		}{begin, end})
	}
	line := reflect.New(shapes()[begin.Kind].line)
	for inLine, inPart := range matched(line.Elem(), &begin, f.Says, &end) {
		inLine.Set(inPart)
	}
	return json.Marshal(line.Interface())
}

// UnmarshalJSON implements [json.Unmarshaler]. A kind that there is none of is an error, and so is a field that the kind has not.
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
	line, says := reflect.New(is.line), reflect.New(is.detail).Interface().(Detail)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(line.Interface()); err != nil {
		return fmt.Errorf("an event of the kind %q: %w", of.Kind, err)
	}
	var begin opening
	var end closing
	for inLine, inPart := range matched(line.Elem(), &begin, says, &end) {
		inPart.Set(inLine)
	}
	*f = Fact{begin.Event, begin.Time, says, end.Salt, end.Leaf}
	return nil
}

// noSuchKind says that a statement cannot tell something.
func noSuchKind(kind string) error {
	return fmt.Errorf("a statement has no event of the kind %q", excerpt([]byte(kind), 0))
}
