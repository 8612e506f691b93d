package policy

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sluicedp/sluice/privacy"
)

// rule is one kind of policy with its parameters. To add a kind, implement rule and add it to
// [kinds].
type rule interface {
	// kind returns the name of the kind in JSON.
	kind() string
	// code reads or writes the other fields, in the order of the canonical JSON. It returns the
	// rule with the fields that were read.
	code(c *coder) rule
	// shape checks the parameters and returns the size of the rule. Its time is proportional to the
	// length of the rule's text, for any parameters, because hostile parameters are checked here.
	shape() (shape, error)
	// line returns the ceiling after all orders, as a step function of time. It is called at most
	// once, when the first ceiling is requested.
	line() []step
}

// orderRule is a rule whose ceiling depends on the number of orders.
type orderRule interface {
	rule
	// ceiling returns the ceiling at an instant after a number of orders.
	ceiling(at instant, orders uint64) privacy.Epsilon
}

// shape describes a policy before its steps are computed.
type shape struct {
	steps     int    // an upper bound of the steps in the lines of all parts
	policies  int    // the number of policies in the parts, if there are parts
	depth     int    // the depth of the deepest part
	isTimed   bool   // whether time changes it
	hasOrders bool   // whether orders change it; if so, its rule is an orderRule
	terms     *Terms // nil if it does not offer the chain for sale
	// limit is the last ceiling of the line, known without computing the line.
	limit privacy.Epsilon
}

// node is a rule with the values computed from it.
type node struct {
	rule rule
	shape
	text     string    // canonical JSON
	byOrders orderRule // the rule, if orders change it

	once  sync.Once // guards lines
	lines []step    // the line of the rule, computed by the first call of line
}

// build returns the policy of a rule.
func build(r rule) (Policy, error) {
	n, err := plan(r)
	if err != nil {
		return Policy{}, invalid(r, err)
	}
	return Policy{node: n}, nil
}

// bytesOfStep is the memory of one step. A line that needs no more memory than the text is computed
// at once. Most equal policies are then equal in every field, which helps hosts that compare events
// with reflect.DeepEqual.
const bytesOfStep = 24

// plan returns the node of a rule, or an error if the rule is not a valid policy. It computes the
// line at once only if its steps fit in the memory of the text, because a text of 100 bytes may
// have 1,024 steps.
func plan(r rule) (*node, error) {
	s, err := r.shape()
	if err != nil {
		return nil, err
	}
	s.policies++ // a rule counts only its parts
	s.depth++
	switch {
	case s.steps > maxSteps:
		return nil, fmt.Errorf("it would have more than %d steps", maxSteps)
	case s.policies > maxPolicies:
		return nil, fmt.Errorf("it has more than %d policies in it", maxPolicies)
	case s.depth > maxDepth:
		return nil, fmt.Errorf("policies nest deeper than %d", maxDepth)
	}
	n := &node{rule: r, shape: s, text: canonical(r)}
	if len(n.text) > maxJSON {
		return nil, fmt.Errorf("its canonical form has %d bytes; at most %d are allowed", len(n.text), maxJSON)
	}
	if s.hasOrders {
		n.byOrders = r.(orderRule)
	}
	if s.steps*bytesOfStep <= len(n.text) {
		n.line()
	}
	return n, nil
}

// line returns the ceiling after all orders, as a step function of time. The first call computes
// it.
func (n *node) line() []step {
	n.once.Do(func() { n.lines = n.rule.line() })
	return n.lines
}

// ceiling returns the ceiling at an instant after a number of orders.
func (n *node) ceiling(at instant, orders uint64) privacy.Epsilon {
	if n.byOrders != nil {
		return n.byOrders.ceiling(at, orders)
	}
	return ceilingAt(n.line(), at)
}

// lineAfter returns the ceiling after a number of orders, as a step function of time.
func (n *node) lineAfter(orders uint64) []step {
	if n.byOrders == nil {
		return n.line()
	}
	return n.appendLine(nil, instants([]*node{n}), orders)
}

// appendLine computes the ceiling after a number of orders at each of the instants, which rise, and
// appends the steps to an empty line. The node must depend on orders.
func (n *node) appendLine(line []step, instants []instant, orders uint64) []step {
	for _, at := range instants {
		line = appendStep(line, step{at, n.byOrders.ceiling(at, orders)})
	}
	return line
}

// instants returns the instants at which the ceilings of some nodes may rise, in ascending order.
func instants(of []*node) []instant {
	var all []instant
	for _, n := range of {
		all = n.appendInstants(all)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// appendInstants appends the instants at which the ceiling may rise. If orders change the ceiling
// of a min or sum, these are the instants of all parts. Otherwise they are those of its line.
func (n *node) appendInstants(all []instant) []instant {
	if r, ok := n.rule.(combined); ok && n.hasOrders {
		for _, part := range r.of {
			all = part.appendInstants(all)
		}
		return all
	}
	all = slices.Grow(all, n.steps)
	for _, s := range n.line() {
		all = append(all, s.at)
	}
	return all
}
