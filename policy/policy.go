// Package policy says how much may be released of a chain, and when.
//
// A [Policy] is an immutable value with a canonical JSON form. Its ceiling is a pure function of an
// instant that never falls as time goes on: what was allowed once stays allowed, and a clock that
// jumps back can only forbid.
//
// There is one kind so far, "fixed":
//
//	{"kind":"fixed","ceiling":"2"}
package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// ErrInvalid says that a text is not a policy. The error that wraps it says why.
var ErrInvalid = errors.New("invalid policy")

// maxJSON bounds the text of a policy, in bytes.
const maxJSON = 64 << 10

// Policy is the ceiling of a chain as a function of time. The zero value is no policy at all (see
// [Policy.IsZero]); its ceiling is ε = 0. Values may be compared with ==.
type Policy struct {
	kind    string
	ceiling privacy.Epsilon
}

// Fixed returns the policy that allows a chain the same ε at all times. ε = 0 allows nothing.
func Fixed(ceiling privacy.Epsilon) Policy { return Policy{kind: "fixed", ceiling: ceiling} }

// Parse reads a policy from JSON. Unknown kinds, unknown, missing or repeated fields, other
// spellings of a field's name and text after the object are errors that wrap [ErrInvalid].
func Parse(text []byte) (Policy, error) {
	fields, err := object(text)
	if err != nil {
		return Policy{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var kind string
	if err := take(fields, "kind", &kind); err != nil {
		return Policy{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if kind != "fixed" {
		return Policy{}, fmt.Errorf("%w: unknown kind %.40q (there is: fixed)", ErrInvalid, kind)
	}
	policy := Policy{kind: kind}
	if err := take(fields, "ceiling", &policy.ceiling); err != nil {
		return Policy{}, fmt.Errorf("%w of kind %q: %w", ErrInvalid, kind, err)
	}
	for name := range fields {
		return Policy{}, fmt.Errorf("%w of kind %q: unknown field %.40q", ErrInvalid, kind, name)
	}
	return policy, nil
}

// IsZero tells whether this is no policy at all.
func (p Policy) IsZero() bool { return p == Policy{} }

// Ceiling returns the largest ε that the chain may have at an instant.
func (p Policy) Ceiling(time.Time) privacy.Epsilon { return p.ceiling }

// Limit returns the largest ε that the ceiling will ever reach: waiting does not help beyond it.
func (p Policy) Limit() privacy.Epsilon { return p.ceiling }

// String returns the canonical JSON form, or "" for the zero value.
func (p Policy) String() string {
	if p.IsZero() {
		return ""
	}
	return fmt.Sprintf(`{"kind":%q,"ceiling":%q}`, p.kind, p.ceiling)
}

// MarshalJSON implements [json.Marshaler] with the canonical form; the zero value is null.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.IsZero() {
		return []byte("null"), nil
	}
	return []byte(p.String()), nil
}

// UnmarshalJSON implements [json.Unmarshaler] by [Parse].
func (p *Policy) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

// object takes a JSON object apart. Unlike a struct given to encoding/json it tells upper from
// lower case and refuses a field given twice: of two ceilings neither is the one that was meant.
func object(text []byte) (map[string]json.RawMessage, error) {
	if len(text) > maxJSON {
		return nil, fmt.Errorf("%d bytes of JSON; at most %d are read", len(text), maxJSON)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New(`not a JSON object such as {"kind":"fixed","ceiling":"1"}`)
	}
	fields := map[string]json.RawMessage{}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, fmt.Errorf("broken JSON: %w", err)
		}
		key := name.(string) // between { and } the decoder yields only strings as names
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("field %.40q given twice", key)
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, fmt.Errorf("broken JSON: %w", err)
		}
		fields[key] = value
	}
	if _, err := in.Token(); err != nil {
		return nil, fmt.Errorf("broken JSON: %w", err)
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, errors.New("text after the JSON object")
	}
	return fields, nil
}

// take moves one field out of fields.
func take(fields map[string]json.RawMessage, name string, into any) error {
	value, ok := fields[name]
	if !ok {
		return fmt.Errorf("field %q is missing", name)
	}
	delete(fields, name)
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("field %q: %w", name, err)
	}
	return nil
}
