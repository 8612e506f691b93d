package policy

import (
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// Min returns the policy whose ceiling is the smallest ceiling of 1 to 16 policies. At most one of
// them may offer the chain for sale. The result then has its terms.
func Min(of ...Policy) (Policy, error) { return compose("min", of) }

// Sum returns the policy whose ceiling is the sum of the ceilings of 1 to 16 policies. None of them
// may offer the chain for sale, because its prices would not cover what the others add. The sum of
// their limits must not be above 1,000.
func Sum(of ...Policy) (Policy, error) { return compose("sum", of) }

// compose returns the policy of the kind "min" or "sum" with the given parts.
func compose(name string, of []Policy) (Policy, error) {
	r := combined{name: name}
	for _, p := range of {
		r.of = append(r.of, p.node)
	}
	return build(r)
}

// combined is the rule of the kinds "min" and "sum".
type combined struct {
	name string
	of   []*node // nil for the zero policy
}

func (r combined) kind() string { return r.name }

// code reads or writes the list of parts. The field c.depth is the depth of this policy, so its
// parts have one more.
func (r combined) code(c *coder) rule {
	read := func(raw []byte) ([]*node, error) {
		// Too many parts are refused before any part is read, because a part may take much work.
		if list, err := readList(raw); err == nil && len(list) > maxOf {
			return nil, partsError(len(list))
		}
		return readEach(func(raw []byte) (*node, error) { return readPolicy(raw, c.depth+1) })(raw)
	}
	write := func(to []byte, part *node) []byte { return append(to, part.text...) }
	code(c, "of", &r.of, read, appendEach(write))
	return r
}

// partsError returns the error for a wrong number of parts.
func partsError(parts int) error {
	return fmt.Errorf("%d parts; 1 to %d are allowed", parts, maxOf)
}

// shape joins the shapes of the parts. plan adds this policy itself to the number of policies and
// the depth.
func (r combined) shape() (whole shape, err error) {
	if len(r.of) < 1 || len(r.of) > maxOf {
		return shape{}, partsError(len(r.of))
	}
	for i, part := range r.of {
		if part == nil {
			return shape{}, fmt.Errorf("part %d is the zero value, which is no policy", i+1)
		}
		if whole.terms, err = r.terms(whole.terms, part.terms); err != nil {
			return shape{}, fmt.Errorf("part %d: %w", i+1, err)
		}
		whole.steps += part.steps
		whole.policies += part.policies
		whole.depth = max(whole.depth, part.depth)
		whole.isTimed = whole.isTimed || part.isTimed
		whole.hasOrders = whole.hasOrders || part.hasOrders
	}
	whole.limit, err = r.limit()
	return whole, err
}

// limit joins the limits of the parts. Every part stays at its limit once it reaches it, so the
// joined ceiling reaches the joined limit.
func (r combined) limit() (privacy.Epsilon, error) {
	sum := int64(0)
	for _, part := range r.of {
		sum += part.limit.Nano()
	}
	if r.name == "sum" && sum > privacy.MaxEpsilon().Nano() {
		return privacy.Epsilon{}, errors.New("the limits of the parts add up to more than 1000")
	}
	return r.join(func(part *node) privacy.Epsilon { return part.limit }), nil
}

// terms joins the terms known so far, which may be nil, with the terms of another part, which may
// be nil too. It returns an error if both have terms, or for terms in a sum.
func (r combined) terms(known, more *Terms) (*Terms, error) {
	switch {
	case more == nil:
		return known, nil
	case r.name == "sum":
		return nil, errors.New("a market cannot be part of a sum, which allows more than the market sells; " +
			`put it in a "min"`)
	case known != nil:
		return nil, errors.New("it is a second market; at most one part may set prices")
	}
	return more, nil
}

// line joins the lines of the parts at every instant at which one of them rises.
func (r combined) line() []step {
	all := instants(r.of)
	line := make([]step, 0, len(all))
	for _, at := range all {
		ceiling := r.join(func(part *node) privacy.Epsilon { return ceilingAt(part.line(), at) })
		line = appendStep(line, step{at, ceiling})
	}
	return line
}

// ceiling joins the ceilings of the parts at an instant after a number of orders.
func (r combined) ceiling(at instant, orders uint64) privacy.Epsilon {
	return r.join(func(part *node) privacy.Epsilon { return part.ceiling(at, orders) })
}

// join applies a function to each part. It returns the smallest result for the kind "min", and the
// sum of the results for the kind "sum".
func (r combined) join(ceiling func(*node) privacy.Epsilon) privacy.Epsilon {
	joined := ceiling(r.of[0])
	for _, part := range r.of[1:] {
		other := ceiling(part)
		if r.name == "sum" {
			joined = nanos(joined.Nano() + other.Nano())
		} else if other.Less(joined) {
			joined = other
		}
	}
	return joined
}
