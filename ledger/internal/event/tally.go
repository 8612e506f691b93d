package event

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// SaleTally counts the objects of a sale by how their responses come about. Upgrades are those of
// which the buyer holds a lower level.
type SaleTally struct{ Draws, Resales, Degradations, Insertions, Upgrades uint64 }

// IsOf tells whether what is left of a tally can be that of so many erased objects. A reservation
// has none.
func (t SaleTally) IsOf(erased uint64) bool {
	return t == (SaleTally{}) || t.Counts(erased)
}

// Counts tells whether a tally can be that of so many objects.
func (t SaleTally) Counts(objects uint64) bool {
	most := max(t.Draws, t.Resales, t.Degradations, t.Insertions, t.Upgrades) // else the sum could overflow
	return most <= objects && t.Draws+t.Resales+t.Degradations+t.Insertions == objects
}

// of returns the count of the objects whose responses come about by a method.
func (t *SaleTally) of(m Method) *uint64 {
	switch m {
	case MethodRaise:
		return &t.Draws
	case MethodDegrade:
		return &t.Degradations
	case MethodInsert:
		return &t.Insertions
	default:
		return &t.Resales
	}
}

// Add counts an object by how its response comes about.
func (t *SaleTally) Add(m Method, upgrade bool) {
	*t.of(m)++
	if upgrade {
		t.Upgrades++
	}
}

// Take takes an object off by how its response came about. If none of its sort is left, that is
// [errs.ErrCorrupt].
func (t *SaleTally) Take(m Method, upgrade bool) error {
	left := t.of(m)
	if *left == 0 || upgrade && t.Upgrades == 0 {
		return errs.Corrupt(nil, "more responses by %s, or upgrades, than were counted", m)
	}
	*left--
	if upgrade {
		t.Upgrades--
	}
	return nil
}

// Fields implements [wire.Record]. Whether the counts fit a sale is not checked.
func (t *SaleTally) Fields(x wire.Codec) {
	t.methods(x)
	x.Uvarint(&t.Upgrades)
}

// methods describes the counts by how responses came about, which depend on what others bought.
func (t *SaleTally) methods(x wire.Codec) {
	x.Uvarint(&t.Draws, &t.Resales, &t.Degradations, &t.Insertions)
}
