package policy

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/privacy"
)

// maxAmount is the largest amount of money, in minor units. A million objects at this price still
// fit 64 bits.
const maxAmount = 1_000_000_000_000

// Price is a point of a price curve: what holding a level costs for one object, in minor units of
// the ledger's currency, 0 to 10¹².
type Price struct {
	Epsilon privacy.Epsilon // the level, above 0
	Amount  int64           // cents, say
}

func (p Price) json() string {
	return "[" + quote(p.Epsilon.String()) + "," + strconv.FormatInt(p.Amount, 10) + "]"
}

// ArbitrageError says that a price curve can be beaten: a level costs less than one below it. Since
// the higher level gives all that the lower one does (the lower one is a degraded copy of it),
// nobody would pay for the lower one. It wraps [ErrInvalid].
type ArbitrageError struct {
	Lower, Higher Price // neighbouring points: Lower has the lower ε and the higher amount
}

func (e *ArbitrageError) Error() string {
	return fmt.Sprintf("the price falls from %d at ε = %v to %d at ε = %v: whoever wants the former would buy "+
		"the latter",
		e.Lower.Amount, e.Lower.Epsilon, e.Higher.Amount, e.Higher.Epsilon)
}

func (e *ArbitrageError) Unwrap() error { return ErrInvalid }

// CheckPrices tells whether points make a price curve without arbitrage. Their ε must rise strictly
// and their amounts, each 0 to 10¹², must not fall; the first fall is reported as an
// [*ArbitrageError], everything else by an error that wraps [ErrInvalid].
//
// That is all there is to check. The levels of one chain do not add up: two purchases of a level
// are the same response twice, and buyers who pool what they hold know what the highest of them
// knows (pan2024 Theorem 4.1). So the only way to undercut a price is a higher level for less, and
// the curve may bend either way. Upgrades cost differences, and the floor is a maximum with a
// constant, so that both leave a rising curve rising.
func CheckPrices(prices []Price) error {
	err := newCurve(prices).check()
	if arbitrage := (*ArbitrageError)(nil); err == nil || errors.As(err, &arbitrage) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// curve is a list of points without (0,0), which is implied if there is no other point at ε = 0.
type curve []Price

func newCurve(points []Price) curve {
	if len(points) > 0 && points[0] == (Price{}) && (len(points) == 1 || !points[1].Epsilon.IsZero()) {
		points = points[1:]
	}
	return slices.Clone(points)
}

func (c curve) check() error {
	if len(c) == 0 {
		return errors.New("there is no price")
	}
	var before Price
	for i, p := range c {
		switch {
		case p.Amount < 0 || p.Amount > maxAmount:
			return fmt.Errorf("price %d: the amount is %d; 0 to %d is allowed", i+1, p.Amount, int64(maxAmount))
		case i > 0 && !before.Epsilon.Less(p.Epsilon):
			return fmt.Errorf("price %d: ε does not rise above %v", i+1, before.Epsilon)
		case p.Amount < before.Amount:
			return &ArbitrageError{Lower: before, Higher: p}
		}
		before = p
	}
	return nil
}

// at returns the amount at a level: on the straight line between the points around it, rounded up
// to a whole unit, exactly.
func (c curve) at(level privacy.Epsilon) int64 {
	i, found := slices.BinarySearchFunc(c, level,
		func(p Price, level privacy.Epsilon) int { return p.Epsilon.Compare(level) })
	switch {
	case found:
		return c[i].Amount
	case i == len(c):
		return c[i-1].Amount
	case i == 0:
		return between(Price{}, c[0], level)
	}
	return between(c[i-1], c[i], level)
}

// between rounds p.Amount + (q.Amount−p.Amount)(level−p.ε)/(q.ε−p.ε) up, for p.ε < level < q.ε.
func between(p, q Price, level privacy.Epsilon) int64 {
	hi, lo := bits.Mul64(uint64(q.Amount-p.Amount), uint64(level.Nano()-p.Epsilon.Nano()))
	more, rest := bits.Div64(hi, lo, uint64(q.Epsilon.Nano()-p.Epsilon.Nano()))
	if rest > 0 {
		more++
	}
	return p.Amount + int64(more)
}
