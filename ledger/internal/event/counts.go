package event

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// The tallies of a sweep.
const (
	SweepRaised = iota
	SweepUnchanged
)

// SweptQuestion is what a sweep did in one question.
type SweptQuestion struct {
	SweptCount
	Refusals []vocabulary.Refusal
}

// Verdict is what a request means for an object that is not refused.
type Verdict uint8

const (
	Drawn    Verdict = iota // above the current level, from the truth
	Reused                  // recorded already
	Derived                 // below the current level, without the truth
	Verdicts = 3
)

// IsOf tells whether what is left of a tally can be that of so many erased objects. A reservation has none.
func (t SaleTally) IsOf(erased uint64) bool {
	return t == (SaleTally{}) || t.Counts(erased)
}

// Counts tells whether a tally can be that of so many objects.
func (t SaleTally) Counts(objects uint64) bool {
	return t.Upgrades <= objects && t.Draws <= objects && t.Resales <= objects && t.Degradations <= objects && t.Insertions <= objects &&
		t.Draws+t.Resales+t.Degradations+t.Insertions == objects
}

// Take takes an object of the tally off by how its response came about.
func (t *SaleTally) Take(m Method, upgrade bool) error {
	var left *uint64
	switch m {
	case MethodRaise:
		left = &t.Draws
	case MethodDegrade:
		left = &t.Degradations
	case MethodInsert:
		left = &t.Insertions
	default:
		left = &t.Resales
	}
	if *left == 0 || upgrade && t.Upgrades == 0 {
		return errs.Corrupt(nil, "more responses by %s, or upgrades, than were counted", m)
	}
	*left--
	if upgrade {
		t.Upgrades--
	}
	return nil
}
