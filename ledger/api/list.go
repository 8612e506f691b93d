package api

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Collect returns all elements that an iterator of a ledger yields, such as its questions. After an
// error it returns those before it, and the error.
func Collect[T any](each iter.Seq2[T, error]) (all []T, err error) {
	for one, err := range each {
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// List is a slice that is never null in JSON: a list without elements, nil included, is []. It is
// read as nil then, so that a result has the same lists wherever it comes from.
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
	if *l = all; len(all) == 0 {
		*l = nil
	}
	return nil
}
