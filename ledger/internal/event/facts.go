package event

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger/event"
)

// Details returns an empty detail of each kind, in the order of the numbers of the kinds. No kind
// has the number 0.
func Details() (all []event.Detail) {
	for _, row := range table()[1:] {
		all = append(all, row.zero)
	}
	return all
}

// FactDetails returns the empty details of the kinds that statements of package evidence contain.
func FactDetails() (all []event.Detail) {
	for _, row := range table()[1:] {
		if row.parse != nil {
			all = append(all, row.zero)
		}
	}
	return all
}

// FactFields returns the fields of a detail that a fact of a statement contains, in the order of
// the fact. They have the tag "fact": the position, from 1, and after a comma the JSON key and
// options if they differ from those of the tag "json". In the result, the tag "json" is that of the
// fact. A kind without such a field is in no statement, and the result is nil. The index of each
// field refers to the type of the detail.
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

// placeOf returns the position of a field in a fact, from 1, or 0 if facts do not contain it.
func placeOf(f reflect.StructField) int {
	place, _, _ := strings.Cut(f.Tag.Get("fact"), ",")
	n, _ := strconv.Atoi(place) // an invalid number is 0, which means no position
	return n
}
