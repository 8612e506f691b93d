package ledgerhttp

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluicedp/sluice/ledger/api"
)

// [api.List] and [api.Mechanism] have methods for encoding/json. Called by the server, these
// methods would read without the options of the request, and so accept unknown members. The method
// of a list would also write each list, and each list inside it, to a buffer of its own first.

// strictLists returns options that read each [api.List] and [api.Mechanism] with the options of the
// decoder, so that unknown members inside them are errors too. A list without elements becomes nil.
func strictLists() json.Options {
	// The decoder calls this for each type with a method UnmarshalJSON. ErrUnsupported makes it
	// read a type that is no list in the usual way.
	list := func(d *jsontext.Decoder, list stdjson.Unmarshaler) error {
		v := reflect.ValueOf(list).Elem()
		if !isList(v.Type()) {
			return errors.ErrUnsupported
		}
		plain := reflect.New(reflect.SliceOf(v.Type().Elem())) // a slice type without the method
		if err := json.UnmarshalDecode(d, plain.Interface()); err != nil {
			return err
		}
		if v.SetZero(); plain.Elem().Len() > 0 {
			v.Set(plain.Elem().Convert(v.Type()))
		}
		return nil
	}
	mechanism := func(d *jsontext.Decoder, m *api.Mechanism) error {
		text, err := d.ReadValue()
		if err != nil {
			return err
		}
		// This decoding only refuses unknown members: the method below accepts them.
		var members struct {
			Family  jsontext.Value `json:"family"`
			Outputs jsontext.Value `json:"outputs"`
		}
		if err := json.Unmarshal(text, &members, d.Options()); err != nil {
			if fault, is := errors.AsType[*json.SemanticError](err); is {
				fault.JSONPointer = d.StackPointer() + fault.JSONPointer // from the start of the body
			}
			return err
		}
		return m.UnmarshalJSON(text)
	}
	return json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(mechanism), json.UnmarshalFromFunc(list)))
}

// listsOut returns options that write each [api.List] with the options of the encoder, and without
// a buffer. ErrUnsupported makes the encoder write a type that is no list in the usual way.
func listsOut() json.Options {
	write := func(e *jsontext.Encoder, list stdjson.Marshaler) error {
		v := reflect.Indirect(reflect.ValueOf(list)) // not valid if list is a nil pointer
		if !v.IsValid() || !isList(v.Type()) {
			return errors.ErrUnsupported
		}
		return json.MarshalEncode(e, v.Convert(reflect.SliceOf(v.Type().Elem())).Interface())
	}
	return json.WithMarshalers(json.MarshalToFunc(write))
}

// isList reports whether t is an [api.List] of any element type.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && strings.HasPrefix(t.Name(), "List[") &&
		t.PkgPath() == reflect.TypeFor[api.List[string]]().PkgPath()
}
