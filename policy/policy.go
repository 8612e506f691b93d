package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// errInvalid begins every error about a text, or the parameters of a constructor, that make no
// policy. It is a [privacy.ErrInvalid]. The error that wraps it says why.
var errInvalid error = invalidError{}

type invalidError struct{}

func (invalidError) Error() string { return "invalid policy" }
func (invalidError) Unwrap() error { return privacy.ErrInvalid }

const (
	// maxSteps is the largest number of steps that a policy may have, summed over its parts. A part
	// that time does not change counts as one.
	maxSteps = 1024
	// maxJSON bounds the canonical text of a policy, and any text that is parsed, in bytes.
	maxJSON = 64 << 10
	// maxOf bounds the parts of one min or sum.
	maxOf = 16
	// maxDepth bounds how deep policies nest; a policy without parts has depth 1.
	maxDepth = 8
	// maxPolicies bounds the policies of a tree, the outermost one included.
	maxPolicies = 256
	// maxCount bounds the integers that count something. It fits an int on every platform, so that
	// a text is a policy on all of them or on none.
	maxCount = 1_000_000_000
)

// Policy is the ceiling of a chain as a function of time and of the buyers it has served, and the
// terms on which it is for sale. Values are immutable and safe for concurrent use; compare them
// with [Policy.Equal], not with ==, nor with reflect.DeepEqual, which also sees steps that are
// computed when they are first needed. The zero value is no policy at all (see [Policy.IsZero]);
// its ceiling is ε = 0.
type Policy struct {
	_    [0]func() // two equal policies may be two nodes: == must not compile
	node *node
}

// IsZero tells whether this is no policy at all.
func (p Policy) IsZero() bool { return p.node == nil }

// Equal tells whether two policies have the same canonical form.
func (p Policy) Equal(q Policy) bool { return p.String() == q.String() }

// Ceiling returns the largest ε that the chain may have at an instant, after it has served orders
// of that many different buyers. It never falls as either grows. Instants before 1970 are before
// everything, and those from 2262 on are after everything. The first call for a policy computes all
// its steps, in at most a millisecond; later ones do not allocate.
func (p Policy) Ceiling(at time.Time, orders uint64) privacy.Epsilon {
	if p.node == nil {
		return privacy.Epsilon{}
	}
	return p.node.ceiling(instantOf(at), orders)
}

// Limit returns the largest ε that the ceiling reaches at any instant before 2262 and after any
// number of buyers: neither waiting nor orders help beyond it.
func (p Policy) Limit() privacy.Epsilon {
	if p.node == nil {
		return privacy.Epsilon{}
	}
	return p.node.limit
}

// Releases returns the levels that the policy releases by itself up to and including an instant,
// and since when: the values above 0 that the ceiling takes on the way there after orders of that
// many buyers, rising. The last of them is the ceiling at that instant. What was there from the
// beginning has the zero time. It returns nil if no part of the policy depends on time. Whether the
// chain is for sale makes no difference. The slice is the caller's.
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

// Reaches returns the first instant at which the ceiling is at least an ε after orders of that many
// buyers: the zero time if it is so from the beginning. ever is false if it never is, whatever time
// passes.
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

// Rises returns the first instant behind another at which the ceiling is higher, after orders of
// that many buyers, and whether there is one.
func (p Policy) Rises(behind time.Time, orders uint64) (at time.Time, ever bool) {
	line := p.calendar(orders)
	n := passedBy(line, instantOf(behind))
	if n == len(line) {
		return time.Time{}, false
	}
	return line[n].at.time(), true
}

// calendar returns the ceiling after orders of that many buyers as a function of time. It returns
// nil if no part of the policy depends on time.
func (p Policy) calendar(orders uint64) []step {
	if p.node == nil || !p.node.timed {
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

// UnmarshalJSON implements [encoding/json.Unmarshaler] by [Parse]; null changes nothing.
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

// fixed is the kind of that name.
type fixed struct{ max privacy.Epsilon }

func (fixed) kind() string { return "fixed" }

func (r fixed) code(c *coder) rule {
	c.epsilon("ceiling", &r.max)
	return r
}

func (r fixed) shape() (shape, error) { return shape{steps: 1, limit: r.max}, nil }
func (r fixed) line() []step          { return always(r.max) }

// invalid wraps the reason why something is no policy.
func invalid(r rule, reason error) error {
	return fmt.Errorf("%w of kind %q: %w", errInvalid, r.kind(), reason)
}
