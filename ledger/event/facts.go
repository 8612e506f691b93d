package event

import (
	"encoding/hex"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Details returns an empty detail of each kind.
func Details() (all []Detail) {
	for _, k := range kinds() {
		all = append(all, k.Detail)
	}
	return all
}

// FactDetails returns an empty detail of each kind that a statement of package evidence has.
func FactDetails() []Detail {
	all := make([]Detail, 0, len(kinds()))
	for place := 1; ; place++ {
		i := slices.IndexFunc(kinds(), func(k kind) bool { return k.fact == place })
		if i < 0 {
			return all
		}
		all = append(all, kinds()[i].Detail)
	}
}

// FactFields returns the fields of a detail that a fact of a statement has, in the order and with
// the keys that they have there as JSON. The index of each is that in the type of the detail.
func FactFields(d Detail) []reflect.StructField {
	fields := reflect.VisibleFields(reflect.Indirect(reflect.ValueOf(d)).Type())
	var all []reflect.StructField
	for place := 1; ; place++ {
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return placeOf(f) == place })
		if i < 0 {
			return all
		}
		f := fields[i]
		if _, key, renamed := strings.Cut(f.Tag.Get("fact"), ","); renamed {
			f.Tag = reflect.StructTag(`json:"` + key + `"`)
		}
		all = append(all, f)
	}
}

// placeOf returns the place of a field among those of a fact, from 1; 0 if a fact does not have it.
func placeOf(f reflect.StructField) int {
	place, _, _ := strings.Cut(f.Tag.Get("fact"), ",")
	n, _ := strconv.Atoi(place) // no number is no place
	return n
}

// Hex is bytes whose text form is hexadecimal digits in lower case.
type Hex []byte

// MarshalText implements [encoding.TextMarshaler].
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}
