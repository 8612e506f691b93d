package event

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger/event"
)

// Details returns an empty detail of each kind, in the order of their numbers.
func Details() (all []event.Detail) {
	for _, row := range table()[1:] {
		all = append(all, row.zero)
	}
	return all
}

// FactDetails returns those of [Details] that a statement of package evidence has.
func FactDetails() (all []event.Detail) {
	for _, row := range table()[1:] {
		if row.parse != nil {
			all = append(all, row.zero)
		}
	}
	return all
}

// FactFields returns the fields of a detail that a fact of a statement has, in the order and with
// the keys that they have there as JSON: those with the tag "fact". A kind without such a field is
// in no statement. The index of each field is that in the type of the detail.
func FactFields(d event.Detail) []reflect.StructField {
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
