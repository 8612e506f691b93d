package api

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Collect returns all elements that an iterator yields, for example the questions of a ledger. If
// the iterator yields an error, Collect returns the elements before it and the error.
func Collect[T any](each iter.Seq2[T, error]) (all []T, err error) {
	for one, err := range each {
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// List is a slice that is never null in JSON: an empty list, nil or not, is encoded as []. An empty
// list is decoded as nil, so that a decoded result is equal to the original result.
type List[T any] []T

// MarshalJSON implements [json.Marshaler].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode([]T(l))
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *List[T]) UnmarshalJSON(text []byte) error {
	var all []T
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	// JSON [] decodes to an empty slice that is not nil.
	if *l = all; len(all) == 0 {
		*l = nil
	}
	return nil
}
