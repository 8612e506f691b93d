package policy

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func terms(t *testing.T, floor int64, points ...Price) *Terms {
	t.Helper()
	return must(t)(Market{Max: points[len(points)-1].Epsilon, Prices: points, Floor: floor}.Policy()).Terms()
}

func TestPrice_CurveFloorAndUpgrade(t *testing.T) {
	curve := terms(t, 0, Price{eps("0.5"), 100}, Price{eps("1"), 180}, Price{eps("2"), 180})
	fee := terms(t, 0, Price{eps("0"), 50}, Price{eps("1"), 51})
	floored := terms(t, 60, Price{eps("1"), 100})
	for level, want := range map[string][3]int64{
		"0": {0, 0, 0}, "1e-9": {1, 51, 60}, "0.005": {1, 51, 60}, "0.005000001": {2, 51, 60}, "0.5": {100, 51, 60}, "0.500000001": {101, 51, 60},
		"0.6": {116, 51, 60}, "0.605": {117, 51, 61}, "1": {180, 51, 100}, "1.5": {180, 51, 100}, "2": {180, 51, 100}, "1000": {180, 51, 100},
	} {
		got := [3]int64{curve.Price(eps(level)), fee.Price(eps(level)), floored.Price(eps(level))}
		check.That(t, got == want, "prices at %s: %v, want %v", level, got, want)
	}
	for _, c := range []struct {
		held, level string
		paid, want  int64
	}{
		{"0", "0", 0, 0}, {"0", "0.5", 0, 100}, {"0.5", "1", 100, 80}, {"1", "0.5", 180, 0}, {"1", "1", 180, 0}, {"1", "2", 180, 0}, {"0.5", "0.6", 100, 16},
		// An amount paid at other prices counts in full: there is no refund, and a lower level
		// costs nothing.
		{"0.5", "1", 60, 120}, {"0.5", "1", 180, 0}, {"0.5", "1", 181, 0}, {"0.5", "1", 0, 180}, {"1", "1", 0, 0}, {"1", "0.5", 0, 0},
	} {
		got := curve.Upgrade(eps(c.held), eps(c.level), c.paid)
		check.That(t, got == c.want, "from %s to %s, with %d paid: %d, want %d", c.held, c.level, c.paid, got, c.want)
	}
}

// randomCurve returns a curve of few distinct amounts, so that some pieces are flat, or of large
// amounts.
func (g generator) randomCurve() []Price {
	var points []Price
	scale := []int64{3, 1000, maxAmount / 10}[g.IntN(3)]
	level, amount := g.Int64N(2), g.Int64N(scale)
	for range 1 + g.IntN(8) {
		points = append(points, Price{nanos(level), amount})
		level += 1 + g.Int64N([]int64{3, 1e6, 1e11}[g.IntN(3)])
		amount += g.Int64N(scale)
	}
	return append(points, Price{nanos(level), amount})
}

// The price must be the least integer that is at or above the exact straight line.
func TestPrice_IsTheExactPriceRoundedUp(t *testing.T) {
	g := newGenerator(t)
	for range 300 {
		points := g.randomCurve()
		sale := terms(t, 0, points...)
		for range 20 {
			level := 1 + g.Int64N(sale.Max().Nano())
			line := lineAt(points, level)
			got := big.NewRat(sale.Price(nanos(level)), 1)
			check.Need(t, got.Cmp(line) >= 0 && got.Sub(got, big.NewRat(1, 1)).Cmp(line) < 0,
				"%v at %d: %d for %v", points, level, sale.Price(nanos(level)), line)
		}
	}
}

func lineAt(points []Price, level int64) *big.Rat {
	var p Price
	for _, q := range points {
		if q.Epsilon.Nano() >= level {
			part := big.NewRat(level-p.Epsilon.Nano(), q.Epsilon.Nano()-p.Epsilon.Nano())
			return part.Mul(part, big.NewRat(q.Amount-p.Amount, 1)).Add(part, big.NewRat(p.Amount, 1))
		}
		p = q
	}
	return nil
}

// Buyers who pool their levels know only what the highest of these levels says. For any purchases
// and upgrades, they must have paid at least its price.
func TestUpgrade_PooledBuyers_PayAtLeastTheHighestLevel(t *testing.T) {
	g := newGenerator(t)
	tight := 0
	for range 2000 {
		points := g.randomCurve()
		wantValid(t, points)
		sale := terms(t, g.Int64N(1+points[len(points)-1].Amount), points...)
		held := make([]privacy.Epsilon, 1+g.IntN(3))
		spent := make([]int64, len(held))
		var paid int64
		var best privacy.Epsilon
		for range 1 + g.IntN(10) {
			buyer, level := g.IntN(len(held)), nanos(1+g.Int64N(sale.Max().Nano()))
			due := sale.Upgrade(held[buyer], level, spent[buyer])
			paid, spent[buyer] = paid+due, spent[buyer]+due
			if held[buyer].Less(level) {
				held[buyer] = level
			}
			if best.Less(level) {
				best = level
			}
			check.Need(t, paid >= sale.Price(best),
				"%v: for %d they hold %v, which costs %d", points, paid, best, sale.Price(best))
			tight += count(paid == sale.Price(best))
		}
	}
	check.That(t, tight >= 1000, "the bound was met only %d times: the bundles are no test", tight)
}

// curveFault returns the error of a market with these prices.
func curveFault(points []Price) error {
	_, err := Market{Max: nanos(1), Prices: points}.Policy()
	return err
}

// A curve that falls somewhere is refused, and the error names two neighbouring levels where a
// bundle is cheaper: a buyer who wants the lower level buys the higher one, gets the lower one with
// it, and keeps the difference.
func TestMarket_PricesThatFall_AreRefused(t *testing.T) {
	g := newGenerator(t)
	found := 0
	for range 1000 {
		points := g.randomCurve()
		i := g.IntN(len(points))
		points[i].Amount = g.Int64N(1 + min(maxAmount, 2*points[i].Amount))
		want := ""
		for j := len(points) - 1; j > 0; j-- {
			low, high := points[j-1], points[j]
			if high.Amount >= low.Amount {
				continue
			}
			want = fmt.Sprintf("falls from %d at ε = %v to %d at ε = %v:", low.Amount, low.Epsilon, high.Amount, high.Epsilon)
			beaten := &Terms{max: points[len(points)-1].Epsilon, curve: newCurve(points)}
			bundle := beaten.Upgrade(privacy.Epsilon{}, high.Epsilon, 0) + beaten.Upgrade(high.Epsilon, low.Epsilon, beaten.Price(high.Epsilon))
			if direct := beaten.curve.at(low.Epsilon.Nano()).roundedUp(); bundle != high.Amount || bundle >= direct {
				t.Fatalf("%v: the bundle costs %d, the level itself %d", points, bundle, direct)
			}
		}
		if want == "" {
			wantValid(t, points)
			continue
		}
		found++
		if err := curveFault(points); !errors.Is(err, errInvalid) || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v: %v, want %q", points, err, want)
		}
	}
	check.That(t, found >= 100, "only %d curves fall", found)
}

func wantValid(t *testing.T, points []Price) {
	t.Helper()
	check.Equal(t, curveFault(points), nil, "the fault of %v", points)
}

func TestMarket_InvalidPrices_AreRefused(t *testing.T) {
	one, two := eps("1"), eps("2")
	wantValid(t, []Price{{eps("0"), 0}, {one, 5}, {two, 5}})
	for _, test := range []struct {
		points []Price
		want   string
	}{
		{[]Price{{eps("0"), 9}, {one, 5}}, "the price falls from 9 at ε = 0 to 5 at ε = 1: a buyer who wants the former would buy the latter"},
		{nil, "the price curve is empty"},
		{[]Price{{one, 5}, {one, 6}}, "price 2: ε does not rise above 1"},
		{[]Price{{one, -1}}, "price 1: the amount is -1"},
		{[]Price{{one, maxAmount + 1}}, "price 1: the amount is 1000000000001"},
		{[]Price{{two, 1}, {one, 1}}, "price 2: ε does not rise above 2"},
		// A second point at ε = 0 is refused, for any amount, so that the canonical form parses
		// back to the same curve.
		{[]Price{{}, {}, {one, 180}}, "price 2: ε does not rise"},
		{[]Price{{}, {Amount: 5}, {one, 180}}, "price 2: ε does not rise"},
		{[]Price{{Amount: 5}, {Amount: 5}, {one, 180}}, "price 2: ε does not rise"},
	} {
		if err := curveFault(test.points); !errors.Is(err, errInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.points, err, test.want)
		}
	}
}
