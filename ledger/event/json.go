package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// head has the JSON keys that all kinds share.
type head struct {
	Number uint64    `json:"event"`
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	Erased bool      `json:"erased,omitempty"`
}

// MarshalJSON implements [json.Marshaler]. The keys of head come first, and then those of the
// detail. For an erased event it writes only the fields that are kept.
func (e Event) MarshalJSON() ([]byte, error) {
	text, err := write(head{e.Number, e.Time, e.Kind(), e.Erased})
	if err != nil || e.Says == nil || e.Erased && !outlives(e.Says) {
		return text, err
	}
	detail, err := write(e.Says)
	if err != nil || string(detail) == "{}" {
		return text, err
	}
	// join both objects: {head} and {detail} become {head,detail}
	text[len(text)-1] = ','
	return append(text, detail[1:]...), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It reads the output of MarshalJSON; null changes
// nothing. An unknown kind or key, and an invalid value of a key, are api.ErrInvalid. The event is
// then unchanged.
func (e *Event) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	var top head
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &top); err != nil {
		return errs.Invalid("an event: %w", err)
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return errs.Invalid("an event: %w", err)
	}
	if err := exactly(keys); err != nil {
		return errs.Invalid("an event: %w", err)
	}
	// the keys that are left belong to the detail
	for _, key := range []string{"event", "time", "kind", "erased"} {
		delete(keys, key)
	}
	kind, known := detailOf(top.Kind)
	if !known {
		return errs.Invalid("event %d: unknown kind %.40q", top.Number, top.Kind)
	}
	if top.Number == 0 || top.Time.IsZero() {
		return errs.Invalid("an event of the kind %s has no number or no time", top.Kind)
	}
	detail, err := read(kind, keys, top.Erased)
	if err != nil {
		return errs.Invalid("event %d, %s: %w", top.Number, top.Kind, err)
	}
	*e = Event{Number: top.Number, Time: top.Time, Erased: top.Erased, Says: detail}
	return nil
}

// detailOf returns an empty detail of the named kind, and false if there is no such kind.
func detailOf(name string) (d Detail, known bool) {
	for _, k := range kinds() {
		if k.Kind() == name {
			return k, true
		}
	}
	return nil, false
}

// read decodes a detail from the keys that are not in head. kind is an empty detail of the kind to
// decode. An erased event must be of a kind that can be erased, and have no fields but those that
// are kept. read returns an error otherwise, and for an unknown key.
func read(kind Detail, keys map[string]json.RawMessage, erased bool) (Detail, error) {
	switch {
	case erased && !erasable(kind):
		return nil, errors.New("events of this kind are never erased")
	case erased && !outlives(kind) && len(keys) > 0:
		return nil, errors.New("it is erased, but has other fields")
	case erased && !outlives(kind):
		return kind, nil
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	detail := reflect.New(reflect.TypeOf(kind))
	if err := strictly(text, detail.Interface()); err != nil {
		return nil, err
	}
	d := detail.Elem().Interface().(Detail)
	if erased && objectOf(d) != "" {
		return nil, errors.New("it is erased, but names its object")
	}
	return d, nil
}

// exactly returns an error for two things that encoding/json accepts. One is a key with characters
// that no key of this package has, such as capitals, because encoding/json ignores case. The other
// is null as a value.
func exactly(keys map[string]json.RawMessage) error {
	for key, value := range keys {
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return fmt.Errorf("unknown key %.40q", key)
		}
		if string(value) == "null" {
			return fmt.Errorf("the key %.40q is null", key)
		}
	}
	return nil
}

// outlives reports whether some fields of a detail are kept when the object of its event is
// forgotten.
func outlives(d Detail) bool {
	switch d.(type) {
	case Held, Sold, Settled:
		return true
	}
	return false
}

// erasable reports whether a detail is erased, wholly or in part, when the object of its event is
// forgotten. A [Forgotten] is about an object, but is kept.
func erasable(d Detail) bool {
	_, personal := d.(personal)
	_, stays := d.(Forgotten)
	return personal && !stays
}

// refused is the JSON of an [ObjectRefused]. Its key refused has a list, as in the results of
// requests.
type refused struct {
	Object   string        `json:"object,omitempty"`
	Question string        `json:"question,omitempty"`
	Refused  []api.Refusal `json:"refused"`
}

// MarshalJSON implements [json.Marshaler].
func (d ObjectRefused) MarshalJSON() ([]byte, error) {
	return write(refused{d.Refusal.Object, d.Question, []api.Refusal{d.Refusal}})
}

// UnmarshalJSON implements [json.Unmarshaler]. It accepts only the output of MarshalJSON.
func (d *ObjectRefused) UnmarshalJSON(text []byte) error {
	var in refused
	if err := strictly(text, &in); err != nil {
		return err
	}
	if len(in.Refused) != 1 || in.Refused[0].Object != in.Object {
		return errors.New("the field refused must have one refusal, of the same object")
	}
	*d = ObjectRefused{Question: in.Question, Refusal: in.Refused[0]}
	return nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It accepts only the output of [encoding/json], with
// exactly 3 counts.
func (d *Settled) UnmarshalJSON(text []byte) error {
	// without the methods of Settled, so that decoding does not call this method again
	type fields Settled
	var in struct {
		fields
		Counts []uint64 `json:"counts"` // a slice, because encoding/json would pad or cut an array
	}
	if err := strictly(text, &in); err != nil {
		return err
	}
	if len(in.Counts) != len(d.Counts) {
		return fmt.Errorf("the field counts has %d numbers, and should have %d", len(in.Counts), len(d.Counts))
	}
	*d = Settled(in.fields)
	d.Counts = [3]uint64(in.Counts)
	return nil
}

// write returns the JSON of a value, in which <, > and & are not escaped. The caller that prints
// the JSON decides about escaping.
func write(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// strictly decodes JSON into value, a pointer. It returns an error for keys that the value does not
// have.
func strictly(text []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}
