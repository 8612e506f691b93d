// Package privacy holds the two quantities in which privacy is accounted: ε, the largest
// log-likelihood ratio an observer may gain, and δ, the probability by which that may be exceeded.
//
// Both are integer counts of 10⁻⁹: a budget is added, compared and stored without rounding, and
// the text form is an exact decimal ("0.1" is 100,000,000 nano-nats). There is no float in their
// state, and no way to put one in: values come from text ([ParseEpsilon]) or from an integer count
// ([EpsilonFromNano]).
package privacy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// nanos is the number of counts in one whole unit.
const nanos = 1_000_000_000

const (
	maxEpsilonNano = 1_000 * nanos
	maxDeltaNano   = nanos - 1
)

// ErrInvalid is returned by the packages over this one (rrchain, mechanism and those below them)
// for an argument outside the domain of a function. The error that wraps it says which and why; it
// never contains a true value.
var ErrInvalid = errors.New("invalid argument")

// ErrNoCertificate is returned by the packages rrchain/finite and mechanism/graph when they give up
// a linear program without a proven answer.
var ErrNoCertificate = errors.New("no certified solution")

// ErrRange says that a count or a sum is below zero or above the largest value of its kind.
var ErrRange = errors.New("out of range")

// Epsilon is a privacy loss from 0 to 1,000 nats, an exact multiple of 10⁻⁹. The zero value is
// ε = 0. Values may be compared with == and used as map keys.
type Epsilon struct{ nano int64 }

// EpsilonFromNano returns the ε of n nano-nats. It returns [ErrRange] for n below 0 or above 10¹².
func EpsilonFromNano(n int64) (Epsilon, error) {
	if n < 0 || n > maxEpsilonNano {
		return Epsilon{}, fmt.Errorf("epsilon of %d nano-nats: %w (0 to %d)", n, ErrRange, int64(maxEpsilonNano))
	}
	return Epsilon{n}, nil
}

// MaxEpsilon returns the largest ε, 1,000 nats. As a ceiling it is as good as none.
func MaxEpsilon() Epsilon { return Epsilon{maxEpsilonNano} }

// ParseEpsilon reads an exact decimal such as "0.1", "2" or "5e-3": a JSON number without a sign,
// of at most 64 characters, an exponent of at most 3 digits (so "1e0001" is refused), and at most 9
// decimals once the exponent is carried out. It never rounds; what it cannot hold exactly, and what
// is above 1,000, it refuses with a [*ParseError].
func ParseEpsilon(text string) (Epsilon, error) {
	n, err := parse("epsilon", text, maxEpsilonNano, "1000")
	return Epsilon{n}, err
}

// MustEpsilon is [ParseEpsilon] for constants of a program. It panics where that gives an error, so
// it is not for input.
func MustEpsilon(text string) Epsilon {
	e, err := ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}

// Nano returns ε in nano-nats.
func (e Epsilon) Nano() int64 { return e.nano }

// Float64 returns the float64 nearest to ε in nats, for display and for statistics; the ledger
// decides nothing by it.
func (e Epsilon) Float64() float64 { return float64(e.nano) / nanos }

// IsZero tells whether ε is 0.
func (e Epsilon) IsZero() bool { return e.nano == 0 }

// Compare returns −1, 0 or +1 as e is below, equal to or above f.
func (e Epsilon) Compare(f Epsilon) int { return cmp.Compare(e.nano, f.nano) }

// Less tells whether e is below f.
func (e Epsilon) Less(f Epsilon) bool { return e.nano < f.nano }

// Add returns e + f, or [ErrRange] when the sum is above 1,000.
func (e Epsilon) Add(f Epsilon) (Epsilon, error) { return EpsilonFromNano(e.nano + f.nano) }

// Sub returns e − f, or [ErrRange] when f is above e.
func (e Epsilon) Sub(f Epsilon) (Epsilon, error) { return EpsilonFromNano(e.nano - f.nano) }

// String returns the shortest exact decimal, such as "0.5" or "2"; [ParseEpsilon] reads it back.
func (e Epsilon) String() string { return format(e.nano) }

// MarshalText implements [encoding.TextMarshaler] with the form of [Epsilon.String], so that JSON
// holds ε as a string and no decoder turns it into a float.
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

// UnmarshalJSON accepts ε as a JSON string only: a JSON number, and null, are refused, because on
// its way here a number may already have been rounded by somebody else's float.
func (e *Epsilon) UnmarshalJSON(data []byte) error {
	return unmarshalString("epsilon", data, e.UnmarshalText)
}

// Delta is an additive slack δ in [0, 1), an exact multiple of 10⁻⁹. The zero value is δ = 0, pure
// differential privacy. Values may be compared with == and used as map keys.
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

// IsZero tells whether δ is 0.
func (d Delta) IsZero() bool { return d.nano == 0 }

// String returns the shortest exact decimal; [ParseDelta] reads it back.
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

// UnmarshalJSON accepts δ as a JSON string only, for the reason given at [Epsilon.UnmarshalJSON].
func (d *Delta) UnmarshalJSON(data []byte) error {
	return unmarshalString("delta", data, d.UnmarshalText)
}

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
