package api

import (
	"bytes"
	"encoding/json"
)

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
