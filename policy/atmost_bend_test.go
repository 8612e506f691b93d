package policy

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// Terms of sale that are as dear at the least and the highest level, and cheaper in between, sell for less.
func TestAtMost_PriceIsLowerBetweenTheEnds_IsMore(t *testing.T) {
	market := func(prices ...Price) Policy {
		return made(t)(Market{Max: nanos(2_000_000_000), Stride: nanos(1000), Prices: prices}.Policy())
	}
	straight := market(Price{nanos(200_000_000), 100_000}, Price{nanos(2_000_000_000), 1_000_000})
	bent := market(Price{nanos(200_000_000), 100_000}, Price{nanos(1_000_000_000), 900_000}, Price{nanos(2_000_000_000), 1_000_000})
	err := straight.AtMost(bent, time.Time{})
	check.That(t, err != nil, "a price that is lower where the other bends is taken for at most as generous")
	if err := bent.AtMost(straight, time.Time{}); err != nil {
		t.Errorf("a price that is nowhere lower: %v", err)
	}
}
