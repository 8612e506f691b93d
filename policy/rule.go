package policy

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// rule is one kind of policy with its parameters. To add a kind, write one and name it in [kinds].
type rule interface {
	// kind is its name in JSON.
	kind() string
	// write appends its other fields to the canonical JSON, in their order.
	write(w *writer)
	// shape checks the parameters and tells what the rule would cost. It must itself be cheap,
	// whatever the parameters are: hostile ones get this far.
	shape() (shape, error)
	// line returns the ceiling once all orders are in, as a step function of time. It is called
	// once, after the shape of the whole policy was accepted.
	line() ([]step, error)
}

// orderly is a rule whose ceiling depends on the number of orders.
type orderly interface {
	rule
	ceiling(at instant, orders uint64) privacy.Epsilon
}

// shape is what is known of a policy before its steps are computed.
type shape struct {
	steps    int    // at least as many as the lines of all parts have
	policies int    // in the parts, if it has any
	depth    int    // of the deepest part
	timed    bool   // whether time changes it
	ordered  bool   // whether orders change it; its rule is then orderly
	terms    *Terms // nil if it does not offer the chain for sale
}

// node is a rule with what was computed from it.
type node struct {
	rule rule
	shape
	text     string  // canonical JSON
	line     []step  // of the rule; there once done is set
	byOrders orderly // the rule, if orders change it
	done     bool
}

// build makes a policy of a rule.
func build(r rule) (Policy, error) {
	n, err := plan(r)
	if err == nil {
		err = n.finish()
	}
	if err != nil {
		return Policy{}, invalid(r, err)
	}
	return Policy{node: n}, nil
}

// plan does all of build that is cheap. It is separate so that the cost of a whole tree is known
// before any of it is paid.
func plan(r rule) (*node, error) {
	s, err := r.shape()
	if err != nil {
		return nil, err
	}
	s.policies++
	s.depth++
	switch {
	case s.steps > MaxSteps:
		return nil, fmt.Errorf("it would have more than %d steps", MaxSteps)
	case s.policies > maxPolicies:
		return nil, fmt.Errorf("it has more than %d policies in it", maxPolicies)
	case s.depth > maxDepth:
		return nil, fmt.Errorf("policies nest deeper than %d", maxDepth)
	}
	n := &node{rule: r, shape: s, text: canonical(r)}
	if len(n.text) > maxJSON {
		return nil, fmt.Errorf("its canonical form has %d bytes; at most %d are allowed", len(n.text), maxJSON)
	}
	if s.ordered {
		n.byOrders = r.(orderly)
	}
	return n, nil
}

// finish computes the line. A node that is part of a policy already is left untouched, because
// others may be reading it.
func (n *node) finish() (err error) {
	if !n.done {
		n.line, err = n.rule.line()
		n.done = err == nil
	}
	return err
}

func (n *node) ceiling(at instant, orders uint64) privacy.Epsilon {
	if n.byOrders != nil {
		return n.byOrders.ceiling(at, orders)
	}
	return ceilingAt(n.line, at)
}

// lineAfter returns the ceiling after some orders as a step function of time.
func (n *node) lineAfter(orders uint64) []step {
	if n.byOrders == nil {
		return n.line
	}
	var line []step
	for _, at := range n.instants() {
		line = appendStep(line, step{at, n.byOrders.ceiling(at, orders)})
	}
	return line
}

// instants returns when the ceiling may rise, in order.
func (n *node) instants() []instant {
	var all []instant
	if parts, ok := n.rule.(combined); ok {
		for _, part := range parts.of {
			all = append(all, part.instants()...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	for _, s := range n.line {
		all = append(all, s.at)
	}
	return all
}

func (n *node) limit() privacy.Epsilon { return ceilingAt(n.line, endOfTime) }
