package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicedp/sluice/privacy"
)

// maxBuyer is the longest name of a buyer, in bytes.
const maxBuyer = 256

// Market holds the terms on which a chain is for sale. Money is in minor units of the ledger's
// currency.
type Market struct {
	Max    privacy.Epsilon   // the highest level for sale, and the ceiling; above 0
	Prices []Price           // the price of holding a level, for one object; see [Terms.Price]
	Stride privacy.Epsilon   // only its multiples are for sale; 0: every level up to Max
	Levels []privacy.Epsilon // only these are for sale: above 0, rising strictly, at most Max; not with a Stride
	Floor  int64             // the lowest price of any level; 0 to 10¹²
	Buyers []string          // the only buyers that may buy; empty: all buyers may
	Barred []string          // buyers that may not buy; see [Terms.Barred]
	From   time.Time         // when sales open; zero: open from the beginning
	Until  time.Time         // when sales close; zero: never
	// Holders limits how many buyers may hold the same level of the chain, up to 10⁹; 0: no limit.
	// A buyer who holds a higher level counts for the levels below it too. Holders needs a Stride
	// or Levels. Otherwise one more buyer could buy a level a nano-nat away, which gives the same
	// information.
	Holders int
}

// Policy returns the policy that sells a chain up to m.Max. The ceiling is m.Max at all times,
// because what was allowed once stays allowed. The window, the buyers and the prices belong to the
// terms.
//
// The ε of the prices must rise strictly, and their amounts must not fall. A higher level contains
// all the information of a lower one, so no buyer would pay more for the lower one. This condition
// is sufficient to exclude arbitrage. The levels of one chain do not add up: two purchases of a
// level return the same response twice. Buyers who pool their levels know only what the highest of
// these levels says (pan2024 Theorem 4.1). The curve may therefore be convex or concave. Upgrades
// cost differences of prices, and the floor is a maximum with a constant. Both keep a rising curve
// rising.
//
// The last price must be at m.Max or above. Names have 1 to 256 bytes of UTF-8 without control
// characters and without U+FFFD. No name may be on both lists, or twice on one. Errors wrap
// [privacy.ErrInvalid].
func (m Market) Policy() (Policy, error) {
	t := &Terms{
		max: m.Max, stride: m.Stride, levels: slices.Clone(m.Levels), floor: m.Floor, curve: newCurve(m.Prices),
		buyers: slices.Sorted(slices.Values(m.Buyers)), barred: slices.Sorted(slices.Values(m.Barred)),
		opens: unbounded, closes: unbounded, holders: int64(m.Holders),
	}
	if !m.From.IsZero() {
		t.opens = instantOf(m.From)
	}
	if !m.Until.IsZero() {
		t.closes = instantOf(m.Until)
	}
	return build(market{t})
}

// market is the rule of kind "market".
type market struct{ *Terms }

func (market) kind() string { return "market" }

// code reads or writes the terms. When reading, it also brings the curve and the lists of names
// into their canonical form.
func (r market) code(c *coder) rule {
	if c.isReading {
		r.Terms = &Terms{opens: unbounded, closes: unbounded}
	}
	c.epsilon("max", &r.max)
	code(c, "price", (*[]Price)(&r.curve), readEach(readPrice), appendEach(writePrice))
	optional(c, "stride", &r.stride, isPositive, readEpsilon, appendString)
	optional(c, "levels", &r.levels, isAny, readEach(readEpsilon), appendEach(appendString[privacy.Epsilon]))
	// Unlike other optional fields, a floor of 0 is accepted in a text. It is not written.
	if c.has("floor", r.floor != 0) {
		code(c, "floor", &r.floor, readAmount, appendInteger)
	}
	optional(c, "buyers", &r.buyers, isAny, readEach(readText), appendEach(appendText))
	optional(c, "barred", &r.barred, isAny, readEach(readText), appendEach(appendText))
	optional(c, "from", &r.opens, isBounded, readInstant, appendString)
	optional(c, "until", &r.closes, isBounded, readInstant, appendString)
	optional(c, "holders", &r.holders, func(n int64) bool { return n != 0 }, readInteger, appendInteger)
	if c.isReading {
		r.curve = newCurve(r.curve)
		slices.Sort(r.buyers)
		slices.Sort(r.barred)
	}
	return r
}

func isPositive(e privacy.Epsilon) bool { return !e.IsZero() }
func isBounded(at instant) bool         { return at != unbounded }

// shape checks the terms. The ceiling, and so the limit, is always the maximum.
func (r market) shape() (shape, error) {
	for _, check := range []func() error{r.checkPrices, r.checkLevels, r.checkHolders, r.checkBuyers, r.checkWindow} {
		if err := check(); err != nil {
			return shape{}, err
		}
	}
	return shape{steps: 1, terms: r.Terms, limit: r.max}, nil
}

func (r market) line() []step { return always(r.max) }

// checkPrices returns an error for invalid prices, floor or maximum (see [Market.Policy]).
func (t *Terms) checkPrices() error {
	switch {
	case t.max.IsZero():
		return errors.New("max is 0: nothing is for sale")
	case t.floor < 0 || t.floor > maxAmount:
		return fmt.Errorf("floor is %d; 0 to %d is allowed", t.floor, int64(maxAmount))
	}
	if err := t.curve.check(); err != nil {
		return err
	}
	if last := t.curve[len(t.curve)-1].Epsilon; last.Less(t.max) {
		return fmt.Errorf("the price curve ends at ε = %v, below max, which is %v", last, t.max)
	}
	return nil
}

// checkLevels returns an error for a stride or levels that [Market] does not allow.
func (t *Terms) checkLevels() error {
	switch {
	case t.max.Less(t.stride):
		return errors.New("stride is above max: nothing is for sale")
	case !t.stride.IsZero() && len(t.levels) > 0:
		return errors.New("it has both a stride and levels; give only one of them")
	}
	var before privacy.Epsilon
	for i, level := range t.levels {
		switch {
		case !before.Less(level):
			return fmt.Errorf("level %d: ε does not rise above %v", i+1, before)
		case t.max.Less(level):
			return fmt.Errorf("level %d: ε is %v, above max, which is %v", i+1, level, t.max)
		}
		before = level
	}
	return nil
}

// checkHolders returns an error for a limit out of range, or one that a buyer could evade by
// ordering a slightly lower level.
func (t *Terms) checkHolders() error {
	switch {
	case t.holders < 0 || t.holders > maxCount:
		return fmt.Errorf("%d holders; at most %d are allowed", t.holders, int64(maxCount))
	case t.holders > 0 && t.stride.IsZero() && len(t.levels) == 0:
		return errors.New("holders needs a stride or levels: otherwise a buyer who is refused at one level could " +
			"buy the next, a nano-nat away, with the same information")
	}
	return nil
}

// checkBuyers returns an error for invalid or repeated names, or a name on both lists.
func (t *Terms) checkBuyers() error {
	if err := checkNames("buyers", t.buyers); err != nil {
		return err
	}
	if err := checkNames("barred", t.barred); err != nil {
		return err
	}
	for _, name := range t.buyers {
		if listed(t.barred, name) {
			return fmt.Errorf("buyer %.40q is both allowed and barred", name)
		}
	}
	return nil
}

// checkNames returns an error unless names, which must be sorted, are distinct and acceptable to
// the ledger as names of buyers. field is the name of their list.
func checkNames(field string, names []string) error {
	for i, name := range names {
		if reason := badName(name); reason != "" {
			return fmt.Errorf("%s: the name %.40q %s", field, name, reason)
		}
		if i > 0 && name == names[i-1] {
			return fmt.Errorf("%s: %.40q is given twice", field, name)
		}
	}
	return nil
}

// badName returns what is wrong with the name of a buyer, or "" if it is valid.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxBuyer:
		return fmt.Sprintf("has more than %d bytes", maxBuyer)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "contains a control character"
	case strings.ContainsRune(name, utf8.RuneError):
		// encoding/json replaces bytes that it cannot read by U+FFFD, so two such buyers would get
		// the same name.
		return "contains U+FFFD, the sign of broken text"
	}
	return ""
}

// checkWindow returns an error unless the ends of the window are from 1970 to 2261, and the first
// is before the second.
func (t *Terms) checkWindow() error {
	if t.opens != unbounded {
		if err := t.opens.check("from"); err != nil {
			return err
		}
	}
	if t.closes != unbounded {
		if err := t.closes.check("until"); err != nil {
			return err
		}
	}
	if t.opens != unbounded && t.closes != unbounded && t.opens >= t.closes {
		return errors.New("from is not before until")
	}
	return nil
}

// unbounded is the value of opens or closes if the window has no such end. No instant of a policy
// has this value.
const unbounded instant = math.MinInt64 + 1

// Terms are the conditions of a sale. They are immutable. Only Buyers and Barred allocate.
type Terms struct {
	max, stride    privacy.Epsilon
	levels         []privacy.Epsilon // rising; nil: every level, or every multiple of the stride
	floor          int64
	curve          curve
	buyers, barred []string // sorted
	opens, closes  instant
	holders        int64
}

// Max returns the highest level for sale.
func (t *Terms) Max() privacy.Epsilon { return t.max }

// Offers returns true if a level is for sale. Such a level is above 0, at most the maximum, and a
// multiple of the stride or one of the levels, if there are any.
func (t *Terms) Offers(level privacy.Epsilon) bool {
	return !level.IsZero() && t.HighestOffer(level) == level
}

// HighestOffer returns the highest level for sale that is not above most, or 0 if there is none.
func (t *Terms) HighestOffer(most privacy.Epsilon) privacy.Epsilon {
	if t.max.Less(most) {
		most = t.max
	}
	switch {
	case !t.stride.IsZero():
		return nanos(most.Nano() - most.Nano()%t.stride.Nano())
	case len(t.levels) > 0:
		at, found := slices.BinarySearchFunc(t.levels, most, privacy.Epsilon.Compare)
		if found {
			return most
		}
		if at == 0 {
			return privacy.Epsilon{}
		}
		return t.levels[at-1]
	}
	return most
}

// NextOffer returns the highest level below a given one that the terms name, or 0 if there is none.
// This is the next lower of the listed levels, or the next lower multiple of the stride. Where
// every level is for sale, it is the next lower point of the price curve.
func (t *Terms) NextOffer(level privacy.Epsilon) privacy.Epsilon {
	switch {
	case level.IsZero():
		return level
	case !t.stride.IsZero() || len(t.levels) > 0:
		return t.HighestOffer(nanos(level.Nano() - 1))
	}
	i, _ := slices.BinarySearchFunc(t.curve, level,
		func(p Price, level privacy.Epsilon) int { return p.Epsilon.Compare(level) })
	if i == 0 {
		return privacy.Epsilon{}
	}
	return t.HighestOffer(t.curve[i-1].Epsilon)
}

// Lists returns true if a level is for sale and named by the terms. The terms name the listed
// levels or the multiples of the stride. Where every level is for sale, they name the maximum and
// the points of the price curve below it. A buyer who gets answers only at these levels cannot find
// the budget that is left by bisection.
func (t *Terms) Lists(level privacy.Epsilon) bool {
	if !t.Offers(level) {
		return false
	}
	if !t.stride.IsZero() || len(t.levels) > 0 || level == t.max {
		return true
	}
	return slices.ContainsFunc(t.curve, func(p Price) bool { return p.Epsilon == level })
}

// Price returns the price of holding a level for one object, in minor units: the price of the
// curve, or the floor if that is more. The price of ε = 0 is 0. Price is also defined for levels
// that are not for sale. Above its last point the curve is flat.
func (t *Terms) Price(level privacy.Epsilon) int64 {
	if level.IsZero() {
		return 0
	}
	return max(t.floor, t.curve.at(level.Nano()).roundedUp())
}

// Upgrade returns the price of a level for a buyer who holds another level and has paid an amount
// for the object so far. It is the price of the new level less the paid amount, but at least 0. It
// is 0 if the new level is not above the held one. The total price of a level is therefore the same
// for every sequence of purchases, and a change of prices makes no buyer pay twice.
func (t *Terms) Upgrade(held, level privacy.Epsilon, paid int64) int64 {
	if !held.Less(level) {
		return 0
	}
	return max(0, t.Price(level)-paid)
}

// Allows returns true if a buyer may buy: it is not barred, and it is on the list of buyers if
// there is one.
func (t *Terms) Allows(buyer string) bool {
	return !listed(t.barred, buyer) && (len(t.buyers) == 0 || listed(t.buyers, buyer))
}

// listed returns true if name is one of names, which are sorted.
func listed(names []string, name string) bool {
	_, found := slices.BinarySearch(names, name)
	return found
}

// Buyers returns the only buyers that may buy, sorted, or nil if every buyer may. The caller owns
// the slice.
func (t *Terms) Buyers() []string { return slices.Clone(t.buyers) }

// Barred returns the buyers that may not buy, sorted. The caller owns the slice. This list is only
// advice: it contains names, and a barred buyer may order under another name. A list of allowed
// buyers ([Terms.Buyers]) is a rule.
func (t *Terms) Barred() []string { return slices.Clone(t.barred) }

// Opens returns the first instant of the sale, or the zero time if it is open from the beginning.
func (t *Terms) Opens() time.Time { return bound(t.opens) }

// Closes returns the instant at which the sale ends, or the zero time if it never ends. The sale is
// closed at this instant.
func (t *Terms) Closes() time.Time { return bound(t.closes) }

// bound converts an end of the window to a time, which is zero if there is no such end.
func bound(at instant) time.Time {
	if at == unbounded {
		return time.Time{}
	}
	return at.time()
}

// Open returns true if the sale is open at an instant.
func (t *Terms) Open(at time.Time) bool {
	x := instantOf(at)
	return (t.opens == unbounded || t.opens <= x) && (t.closes == unbounded || x < t.closes)
}

// Holders returns the number of buyers that may hold the same level of the chain; 0 means no limit.
func (t *Terms) Holders() int { return int(t.holders) }
