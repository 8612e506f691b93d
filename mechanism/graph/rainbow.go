package graph

import (
	"fmt"
	"slices"
)

// maxOutputs is the largest number of outputs of a mechanism.
const maxOutputs = 1 << 10

// checkOutputs returns [privacy.ErrInvalid] unless there are 2 to 1,024 outputs.
func checkOutputs(outputs int) error {
	if outputs < 2 || outputs > maxOutputs {
		return invalid("%d outputs; 2 to %d are possible", outputs, maxOutputs)
	}
	return nil
}

// Preferences define how each vertex ranks the outputs 0 … k−1. The first of its order is its true
// answer (its colour), and earlier outputs are better. Such an order is a rainbow (zhou2022 §II).
// With two outputs it is determined by the colour.
type Preferences struct {
	outputs int
	orders  [][]int  // the rainbows
	of      []uint32 // by vertex, the index of its rainbow in orders
}

// NewPreferences returns preferences over the given number of outputs, from 2 to 1,024. orders are
// the rainbows, which must be different permutations of all outputs. The argument of gives each
// vertex the number of its rainbow. Without orders, it gives each vertex its colour. A vertex then
// ranks its own colour first and the other outputs in ascending order after it. With two outputs,
// this covers all possible preferences. The arguments are copied.
//
// NewPreferences returns [privacy.ErrInvalid] for invalid orders or outputs. For a rainbow that
// does not exist, this is an [*InputError] with the vertex.
func NewPreferences(outputs int, orders [][]int, of []uint32) (*Preferences, error) {
	if err := checkOutputs(outputs); err != nil {
		return nil, err
	}
	copies := make([][]int, 0, max(outputs, len(orders))) // without orders, one for each colour
	for color := range outputs {
		if orders == nil {
			copies = append(copies, ownFirst(outputs, color))
		}
	}
	seen := make(map[string]bool, len(orders))
	for i, order := range orders {
		if len(order) != outputs || !isPermutation(order) {
			return nil, invalid("order %d, %v, does not rank each of %d outputs once", i, order, outputs)
		}
		key := fmt.Sprint(order)
		if seen[key] {
			return nil, invalid("order %v is given twice", order)
		}
		seen[key] = true
		copies = append(copies, slices.Clone(order))
	}
	for v, number := range of {
		if int(number) >= len(copies) {
			return nil, faultAt(v, "there is no order %d", number)
		}
	}
	return &Preferences{outputs, copies, slices.Clone(of)}, nil
}

// isPermutation returns true if order has each of the numbers 0 … len(order)−1 once.
func isPermutation(order []int) bool {
	seen := make([]bool, len(order))
	for _, output := range order {
		if output < 0 || output >= len(order) || seen[output] {
			return false
		}
		seen[output] = true
	}
	return true
}

// ownFirst returns the order with a colour first, and then the other outputs in ascending order.
func ownFirst(outputs, color int) []int {
	order := make([]int, 0, outputs)
	order = append(order, color)
	for other := range outputs {
		if other != color {
			order = append(order, other)
		}
	}
	return order
}

// Outputs returns k, the number of outputs.
func (p *Preferences) Outputs() int { return p.outputs }

// Vertices returns the number of vertices.
func (p *Preferences) Vertices() int { return len(p.of) }

// Color returns the true answer at a vertex.
func (p *Preferences) Color(v int) int { return p.orders[p.of[v]][0] }

// Order returns all outputs as the vertex ranks them. The slice must not be modified.
func (p *Preferences) Order(v int) []int { return p.orders[p.of[v]] }

// Rainbow returns the number of the vertex's order.
func (p *Preferences) Rainbow(v int) int { return int(p.of[v]) }

// Rainbows returns the number of orders.
func (p *Preferences) Rainbows() int { return len(p.orders) }
