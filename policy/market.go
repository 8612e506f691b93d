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

// Market is what a seller asks for a chain. Money is in minor units of the ledger's currency.
type Market struct {
	Max    privacy.Epsilon   // the highest level for sale, and the ceiling; above 0
	Prices []Price           // what holding a level costs, for one object; see [Terms.Price]
	Stride privacy.Epsilon   // only its multiples are for sale; 0: every level up to Max
	Levels []privacy.Epsilon // only these are for sale: above 0, rising strictly, at most Max; not with a Stride
	Floor  int64             // no level costs less; 0 to 10¹²
	Buyers []string          // who may buy; empty: everybody
	Barred []string          // who may not; see [Terms.Barred]
	From   time.Time         // when sales open; zero: they always were
	Until  time.Time         // when they close; zero: never
	// Holders is how many buyers may hold the same level of the chain; 0: any number. At most 10⁹.
	// Who holds a higher level counts where it takes a lower one too. It needs a Stride or Levels:
	// else one buyer more takes the level a nano-nat away, which says the same.
	Holders int
}

// Policy returns the policy that sells a chain up to m.Max. The ceiling is m.Max at all times,
// because what was allowed once stays allowed: the window, the buyers and the prices are a matter
// of terms.
//
// The ε of the prices must rise strictly, and their amounts must not fall: since a higher level
// gives all that a lower one does, nobody would pay more for the lower one. That is all it takes to
// exclude arbitrage. The levels of one chain do not add up: two purchases of a level are the same
// response twice, and buyers who pool what they hold know what the highest of them knows (pan2024
// Theorem 4.1). So the curve may bend either way. Upgrades cost differences, and the floor is a
// maximum with a constant, so that both leave a rising curve rising.
//
// The last price must be at m.Max or above. Names have 1 to 256 bytes of UTF-8 without control
// characters. No name may be on both lists, or twice on one. Errors wrap [privacy.ErrInvalid].
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

// market is the kind of that name.
type market struct{ *Terms }

func (market) kind() string { return "market" }

func (r market) code(c *coder) rule {
	if c.isReading {
		r.Terms = &Terms{opens: unbounded, closes: unbounded}
	}
	c.epsilon("max", &r.max)
	code(c, "price", (*[]Price)(&r.curve), readEach(readPrice), appendEach(writePrice))
	optional(c, "stride", &r.stride, isPositive, readEpsilon, appendString)
	optional(c, "levels", &r.levels, isAny, readEach(readEpsilon), appendEach(appendString[privacy.Epsilon]))
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

func (r market) shape() (shape, error) {
	for _, check := range []func() error{r.checkPrices, r.checkLevels, r.checkHolders, r.checkBuyers, r.checkWindow} {
		if err := check(); err != nil {
			return shape{}, err
		}
	}
	return shape{steps: 1, terms: r.Terms, limit: r.max}, nil
}

func (r market) line() []step { return always(r.max) }

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

func (t *Terms) checkLevels() error {
	switch {
	case t.max.Less(t.stride):
		return errors.New("stride is above max: nothing is for sale")
	case !t.stride.IsZero() && len(t.levels) > 0:
		return errors.New("it has a stride and levels: one of them says what is for sale")
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

// checkHolders refuses a limit that could be evaded by asking for a little less.
func (t *Terms) checkHolders() error {
	switch {
	case t.holders < 0 || t.holders > maxCount:
		return fmt.Errorf("%d holders; at most %d are allowed", t.holders, int64(maxCount))
	case t.holders > 0 && t.stride.IsZero() && len(t.levels) == 0:
		return errors.New("holders needs a stride or levels: else who is refused at one level takes the next, " +
			"a nano-nat away, which says the same")
	}
	return nil
}

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

// checkNames accepts a sorted list of the names that the ledger accepts for a buyer.
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
		// encoding/json puts it in the place of what it cannot read, and two such buyers would be
		// one.
		return "contains U+FFFD, the sign of broken text"
	}
	return ""
}

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

// unbounded is the end of a window that has none. No instant of a policy has this value.
const unbounded instant = math.MinInt64 + 1

// Terms are what a seller asks of a buyer. They are immutable; their methods do not allocate.
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

// Offers tells whether a level is for sale: above 0, at most the maximum, and a multiple of the
// stride, or one of the levels, if there are such.
func (t *Terms) Offers(level privacy.Epsilon) bool {
	return !level.IsZero() && t.HighestOffer(level) == level
}

// HighestOffer returns the highest level for sale that is not above another, or 0 if there is none.
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

// NextOffer returns the highest level below another that the terms name, or 0 if there is none: the
// next of the levels, or the next multiple of the stride. Where every level is for sale, it is the
// next point of the price curve.
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

// Lists reports whether a level is for sale and one of those that the terms name: the levels, the
// multiples of the stride or, where every level is for sale, the maximum and the points of the
// price curve below it. Who is answered at these levels only cannot find out by bisection how much
// budget is left.
func (t *Terms) Lists(level privacy.Epsilon) bool {
	if !t.Offers(level) {
		return false
	}
	if !t.stride.IsZero() || len(t.levels) > 0 || level == t.max {
		return true
	}
	return slices.ContainsFunc(t.curve, func(p Price) bool { return p.Epsilon == level })
}

// Price returns what holding a level costs for one object, in minor units: what the curve says, or
// the floor if that is more. Holding nothing, ε = 0, costs nothing. It is defined for levels that
// are not offered too; beyond its last point the curve is flat.
func (t *Terms) Price(level privacy.Epsilon) int64 {
	if level.IsZero() {
		return 0
	}
	return max(t.floor, t.curve.at(level.Nano()).roundedUp())
}

// Upgrade returns what a buyer who holds one level, and has paid for the object so far, pays for
// another: the price of the other less what is paid, never less than 0, and 0 if the other is not
// higher. So the way to a level does not change what it costs, and nobody pays twice if prices
// change on the way.
func (t *Terms) Upgrade(held, level privacy.Epsilon, paid int64) int64 {
	if !held.Less(level) {
		return 0
	}
	return max(0, t.Price(level)-paid)
}

// Allows tells whether a buyer may buy: not barred, and on the list of buyers if there is one.
func (t *Terms) Allows(buyer string) bool {
	return !listed(t.barred, buyer) && (len(t.buyers) == 0 || listed(t.buyers, buyer))
}

func listed(names []string, name string) bool {
	_, found := slices.BinarySearch(names, name)
	return found
}

// Buyers returns who alone may buy, in order, or nil if everybody may. The slice is the caller's.
func (t *Terms) Buyers() []string { return slices.Clone(t.buyers) }

// Barred returns who may not buy, in order. The slice is the caller's. A list of those who may not
// is advice: it knows names, and whoever is on it may come under another. A rule is a list of those
// who may ([Terms.Buyers]).
func (t *Terms) Barred() []string { return slices.Clone(t.barred) }

// Opens returns the first instant of the sale, or the zero time if it has always been open.
func (t *Terms) Opens() time.Time { return bound(t.opens) }

// Closes returns the instant at which the sale ends, itself excluded, or the zero time if never.
func (t *Terms) Closes() time.Time { return bound(t.closes) }

func bound(x instant) time.Time {
	if x == unbounded {
		return time.Time{}
	}
	return x.time()
}

// Open tells whether the sale is open at an instant.
func (t *Terms) Open(at time.Time) bool {
	x := instantOf(at)
	return (t.opens == unbounded || t.opens <= x) && (t.closes == unbounded || x < t.closes)
}

// Holders returns how many buyers may hold the same level of the chain; 0 is no limit.
func (t *Terms) Holders() int { return int(t.holders) }
