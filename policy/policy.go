package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// errInvalid is wrapped by every error for a text, or for parameters of a constructor, that do not
// define a policy. It wraps [privacy.ErrInvalid]. The wrapping error gives the reason.
var errInvalid error = invalidError{}

type invalidError struct{}

func (invalidError) Error() string { return "invalid policy" }
func (invalidError) Unwrap() error { return privacy.ErrInvalid }

const (
	// maxSteps is the largest number of steps of a policy, summed over its parts. A part that does
	// not depend on time counts as one step.
	maxSteps = 1024
	// maxJSON limits the canonical text of a policy, and any text that is parsed, in bytes.
	maxJSON = 64 << 10
	// maxOf limits the number of parts of one min or sum.
	maxOf = 16
	// maxDepth limits how deep policies nest. A policy without parts has depth 1.
	maxDepth = 8
	// maxPolicies limits the number of policies in a tree, including the outermost one.
	maxPolicies = 256
	// maxCount limits the integers that count something. It fits an int on every platform, so that
	// a text is a valid policy on all platforms or on none.
	maxCount = 1_000_000_000
)

// Policy is the ceiling of a chain as a function of time and of the number of buyers served,
// together with the terms on which the chain is for sale. Values are immutable and safe for
// concurrent use.
//
// Compare policies with [Policy.Equal]. Do not use ==. Do not use reflect.DeepEqual either, because
// it also compares steps that are computed only when first needed. The zero value is no policy (see
// [Policy.IsZero]); its ceiling is ε = 0.
type Policy struct {
	_    [0]func() // makes == a compile error, because equal policies may have different nodes
	node *node
}

// IsZero returns true for the zero value, which is no policy.
func (p Policy) IsZero() bool { return p.node == nil }

// Equal returns true if both policies have the same canonical form.
func (p Policy) Equal(q Policy) bool { return p.String() == q.String() }

// Ceiling returns the largest ε that the chain may have at an instant, after orders from that many
// different buyers were served. The ceiling never falls as the time or the number of buyers grows.
// Instants before 1970 count as before all others, and those from 2262 on as after all others. The
// first call for a policy computes all its steps, in at most a millisecond. Later calls do not
// allocate.
func (p Policy) Ceiling(at time.Time, orders uint64) privacy.Epsilon {
	if p.node == nil {
		return privacy.Epsilon{}
	}
	return p.node.ceiling(instantOf(at), orders)
}

// Limit returns the largest ε that the ceiling reaches at any instant before 2262 and after any
// number of buyers. Neither time nor further orders raise the ceiling above it.
func (p Policy) Limit() privacy.Epsilon {
	if p.node == nil {
		return privacy.Epsilon{}
	}
	return p.node.limit
}

// Releases returns the levels that the policy releases by time alone up to and including an
// instant, each with the instant of its release. They are the values above 0 that the ceiling has
// taken up to then after orders from that many buyers, in ascending order. The last one is the
// ceiling at that instant. A level that was released from the beginning has the zero time.
//
// Releases returns nil if no part of the policy depends on time. It makes no difference whether the
// chain is for sale. The caller owns the slice.
func (p Policy) Releases(until time.Time, orders uint64) []Step {
	line := p.calendar(orders)
	if line == nil {
		return nil
	}
	passed := line[:passedBy(line, instantOf(until))]
	levels := make([]Step, len(passed))
	for i, s := range passed {
		levels[i] = Step{s.at.time(), s.ceiling}
	}
	return levels
}

// Reaches returns the first instant at which the ceiling is at least epsilon, after orders from
// that many buyers. It returns the zero time if the ceiling is that high from the beginning. ever
// is false if the ceiling is below epsilon at all times.
func (p Policy) Reaches(epsilon privacy.Epsilon, orders uint64) (since time.Time, ever bool) {
	if !p.Ceiling(time.Time{}, orders).Less(epsilon) {
		return time.Time{}, true
	}
	line := p.calendar(orders)
	n, _ := slices.BinarySearchFunc(line, epsilon, func(s step, e privacy.Epsilon) int { return s.ceiling.Compare(e) })
	if n == len(line) {
		return time.Time{}, false
	}
	return line[n].at.time(), true
}

// Rises returns the first instant after a given one at which the ceiling rises, after orders from
// that many buyers. ever is false if the ceiling does not rise again.
func (p Policy) Rises(after time.Time, orders uint64) (at time.Time, ever bool) {
	line := p.calendar(orders)
	n := passedBy(line, instantOf(after))
	if n == len(line) {
		return time.Time{}, false
	}
	return line[n].at.time(), true
}

// calendar returns the ceiling after orders from that many buyers as a function of time. It returns
// nil if no part of the policy depends on time.
func (p Policy) calendar(orders uint64) []step {
	if p.node == nil || !p.node.isTimed {
		return nil
	}
	return p.node.lineAfter(orders)
}

// Terms returns the terms on which the chain is for sale, or nil if it is not.
func (p Policy) Terms() *Terms {
	if p.node == nil {
		return nil
	}
	return p.node.terms
}

// String returns the canonical JSON form, or "" for the zero value.
func (p Policy) String() string {
	if p.node == nil {
		return ""
	}
	return p.node.text
}

// MarshalJSON implements [encoding/json.Marshaler] with the canonical form; the zero value is null.
func (p Policy) MarshalJSON() ([]byte, error) {
	return []byte(cmp.Or(p.String(), "null")), nil
}

// UnmarshalJSON implements [encoding/json.Unmarshaler] by [Parse]. The JSON value null leaves the
// policy unchanged.
func (p *Policy) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	parsed, err := Parse(text)
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

// Fixed returns the policy that allows a chain the same ε at all times. ε = 0 allows nothing.
func Fixed(ceiling privacy.Epsilon) Policy {
	p, _ := build(fixed{ceiling}) // no ε is refused
	return p
}

// fixed is the rule of kind "fixed".
type fixed struct{ max privacy.Epsilon }

func (fixed) kind() string { return "fixed" }

func (r fixed) code(c *coder) rule {
	c.epsilon("ceiling", &r.max)
	return r
}

func (r fixed) shape() (shape, error) { return shape{steps: 1, limit: r.max}, nil }
func (r fixed) line() []step          { return always(r.max) }

// invalid wraps the reason why a rule is not a valid policy.
func invalid(r rule, reason error) error {
	return fmt.Errorf("%w of kind %q: %w", errInvalid, r.kind(), reason)
}
