// Package privacy defines the two quantities of differential privacy, ε and δ. ε is the largest
// log-likelihood ratio that an observer may gain. δ is the probability with which the observer may
// gain more.
//
// Both are integer counts of 10⁻⁹. A budget is therefore added, compared and stored without
// rounding, and its text form is an exact decimal ("0.1" is 100,000,000 nano-nats). Neither type
// holds or accepts a float: values are created from text ([ParseEpsilon]) or from an integer count
// ([EpsilonFromNano]).
package privacy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// nanos is the number of counts in one unit.
const nanos = 1_000_000_000

const (
	maxEpsilonNano = 1_000 * nanos
	maxDeltaNano   = nanos - 1
)

// ErrInvalid is returned by the packages that use this one (rrchain, mechanism and their
// subpackages) for an argument outside the domain of a function. The error that wraps it names the
// argument and the reason. It never contains a true value.
var ErrInvalid = errors.New("invalid argument")

// ErrNoCertificate is returned by the packages rrchain/finite and mechanism/graph when they abandon
// a linear program without a proven answer.
var ErrNoCertificate = errors.New("no certified solution")

// ErrRange is wrapped by the error for a count or a sum that is below zero or above the largest
// value of its type.
var ErrRange = errors.New("out of range")

// Epsilon is a privacy loss from 0 to 1,000 nats, an exact multiple of 10⁻⁹. The zero value is ε =
// 0. Values may be compared with == and used as map keys.
type Epsilon struct{ nano int64 }

// EpsilonFromNano returns the ε of n nano-nats. It returns [ErrRange] for n below 0 or above 10¹².
func EpsilonFromNano(n int64) (Epsilon, error) {
	if n < 0 || n > maxEpsilonNano {
		return Epsilon{}, fmt.Errorf("epsilon of %d nano-nats: %w (0 to %d)", n, ErrRange, int64(maxEpsilonNano))
	}
	return Epsilon{n}, nil
}

// MaxEpsilon returns the largest ε, 1,000 nats. A ceiling of this size is in practice no limit.
func MaxEpsilon() Epsilon { return Epsilon{maxEpsilonNano} }

// ParseEpsilon reads an exact decimal such as "0.1", "2" or "5e-3". The text must be a JSON number
// without a sign, of at most 64 characters. Its exponent has at most 3 digits (so "1e0001" is
// refused), and after applying the exponent there may be at most 9 decimals. ParseEpsilon never
// rounds. It returns a [*ParseError] for a value that is not exactly representable or above 1,000.
func ParseEpsilon(text string) (Epsilon, error) {
	n, err := parse("epsilon", text, maxEpsilonNano, "1000")
	return Epsilon{n}, err
}

// MustEpsilon is [ParseEpsilon] for constants in a program. It panics if the text is invalid, so it
// must not be used for input.
func MustEpsilon(text string) Epsilon {
	e, err := ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}

// Nano returns ε in nano-nats.
func (e Epsilon) Nano() int64 { return e.nano }

// Float64 returns the float64 nearest to ε in nats, for display and statistics. The ledger bases no
// decision on it.
func (e Epsilon) Float64() float64 { return float64(e.nano) / nanos }

// IsZero returns true if ε is 0.
func (e Epsilon) IsZero() bool { return e.nano == 0 }

// Compare returns −1 if e is below f, 0 if they are equal, and +1 if e is above f.
func (e Epsilon) Compare(f Epsilon) int { return cmp.Compare(e.nano, f.nano) }

// Less returns true if e is below f.
func (e Epsilon) Less(f Epsilon) bool { return e.nano < f.nano }

// Add returns e + f. It returns [ErrRange] if the sum is above 1,000.
func (e Epsilon) Add(f Epsilon) (Epsilon, error) { return EpsilonFromNano(e.nano + f.nano) }

// Sub returns e − f. It returns [ErrRange] if f is above e.
func (e Epsilon) Sub(f Epsilon) (Epsilon, error) { return EpsilonFromNano(e.nano - f.nano) }

// String returns the shortest exact decimal, such as "0.5" or "2". [ParseEpsilon] reads it.
func (e Epsilon) String() string { return format(e.nano) }

// MarshalText implements [encoding.TextMarshaler] with the form of [Epsilon.String]. JSON then
// holds ε as a string, so that no decoder converts it to a float.
func (e Epsilon) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseEpsilon].
func (e *Epsilon) UnmarshalText(text []byte) error {
	parsed, err := ParseEpsilon(string(text))
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}

// UnmarshalJSON accepts ε only as a JSON string. It refuses a JSON number, because another program
// may already have rounded the number to a float. It also refuses null.
func (e *Epsilon) UnmarshalJSON(data []byte) error {
	return unmarshalString("epsilon", data, e.UnmarshalText)
}

// Delta is an additive privacy loss δ in [0, 1), an exact multiple of 10⁻⁹. The zero value is δ =
// 0, which is pure differential privacy. Values may be compared with == and used as map keys.
type Delta struct{ nano int64 }

// ParseDelta reads an exact decimal in [0, 1) by the rules of [ParseEpsilon].
func ParseDelta(text string) (Delta, error) {
	n, err := parse("delta", text, maxDeltaNano, "0.999999999")
	return Delta{n}, err
}

// Nano returns δ in counts of 10⁻⁹.
func (d Delta) Nano() int64 { return d.nano }

// Float64 returns the float64 nearest to δ, for display and for statistics.
func (d Delta) Float64() float64 { return float64(d.nano) / nanos }

// IsZero returns true if δ is 0.
func (d Delta) IsZero() bool { return d.nano == 0 }

// String returns the shortest exact decimal. [ParseDelta] reads it.
func (d Delta) String() string { return format(d.nano) }

// MarshalText implements [encoding.TextMarshaler] with the form of [Delta.String].
func (d Delta) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseDelta].
func (d *Delta) UnmarshalText(text []byte) error {
	parsed, err := ParseDelta(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// UnmarshalJSON accepts δ only as a JSON string, for the reason given at [Epsilon.UnmarshalJSON].
func (d *Delta) UnmarshalJSON(data []byte) error {
	return unmarshalString("delta", data, d.UnmarshalText)
}

// unmarshalString calls set with the text of a JSON string. It returns a [*ParseError] for any
// other JSON. kind is "epsilon" or "delta".
func unmarshalString(kind string, data []byte, set func([]byte) error) error {
	if len(data) == 0 || data[0] != '"' {
		return &ParseError{Kind: kind, Text: shorten(string(data)), Reason: `must be a JSON string such as "0.1"`}
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return set([]byte(text))
}
