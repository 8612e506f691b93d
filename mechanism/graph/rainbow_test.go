package graph

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestPreferences(t *testing.T) {
	orders := [][]int{{2, 0, 1}, {0, 1, 2}}
	of := []uint32{1, 0, 0}
	p := check.Value(NewPreferences(3, orders, of))(t)
	orders[0][0], of[0] = 7, 9 // both have been copied
	check.That(t, p.Outputs() == 3 && p.Vertices() == 3 && p.Rainbows() == 2,
		"%d outputs, %d vertices, %d rainbows", p.Outputs(), p.Vertices(), p.Rainbows())
	check.That(t, p.Color(0) == 0 && p.Color(1) == 2 && p.Rainbow(0) == 1 && slices.Equal(p.Order(2), []int{2, 0, 1}),
		"colours %d, %d, rainbow %d, order %v", p.Color(0), p.Color(1), p.Rainbow(0), p.Order(2))
}

// Orders that differ in large outputs only are two orders.
func TestOrdersOfManyOutputsAreToldApart(t *testing.T) {
	order := ownFirst(300, 0)
	other := slices.Clone(order)
	other[1], other[257] = 257, 1
	p, err := NewPreferences(300, [][]int{order, other}, []uint32{0, 1})
	check.That(t, err == nil && p.Rainbows() == 2, "two orders: %v", err)
}

func TestPreferencesRefuses(t *testing.T) {
	for _, test := range []struct {
		outputs int
		orders  [][]int
		of      []uint32
		hint    string
	}{
		{1, [][]int{{0}}, nil, "1 outputs"},
		{maxOutputs + 1, nil, nil, "1025 outputs"},
		{2, [][]int{{0, 1}, {0}}, nil, "order 1"},
		{2, [][]int{{0, 0}}, nil, "order 0"},
		{2, [][]int{{0, 2}}, nil, "order 0"},
		{2, [][]int{{0, -1}}, nil, "order 0"},
		{2, [][]int{{0, 1}, {1, 0}, {0, 1}}, nil, "twice"},
		{2, [][]int{{0, 1}}, []uint32{0, 0, 1}, `vertex "2": there is no order 1`},
		{4, nil, []uint32{0, 4}, `vertex "1": there is no order 4`},
		{-1, nil, nil, "-1 outputs"},
	} {
		p, err := NewPreferences(test.outputs, test.orders, test.of)
		check.That(t, p == nil && errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), test.hint),
			"%v: %v", test, err)
	}
}

func TestNewPreferences_WithoutOrders_RanksOwnColorFirst(t *testing.T) {
	p := colorsOf(t, 4, 3, 0, 2)
	for v, want := range [][]int{{3, 0, 1, 2}, {0, 1, 2, 3}, {2, 0, 1, 3}} {
		got := p.Order(v)
		check.That(t, slices.Equal(got, want), "vertex %d: %v, want %v", v, got, want)
	}
	if p := colorsOf(t, maxOutputs, maxOutputs-1); p.Color(0) != maxOutputs-1 {
		t.Error("the most outputs")
	}
}

// TestManyOrders would take hours if each order were compared with all others.
func TestManyOrders(t *testing.T) {
	const k = 9 // 9! = 362,880 orders
	var orders [][]int
	order := make([]int, 0, k)
	var extend func()
	extend = func() {
		if len(order) == k {
			orders = append(orders, slices.Clone(order))
		}
		for output := range k {
			if len(orders) < 100_000 && !slices.Contains(order, output) {
				order = append(order, output)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
	check.OK(t, check.Err(NewPreferences(k, orders, nil)))
}
