package event

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// SaleTally counts the objects of a sale by how their responses were made. Upgrades counts those
// of which the buyer held a lower level.
type SaleTally struct{ Draws, Resales, Degradations, Insertions, Upgrades uint64 }

// IsOf reports whether t can be the tally of so many erased objects, whose methods are unknown. t
// is what is left of the tally of a sale after [SaleTally.Take] for each of its other objects.
// Every reservation passes, because it has no tally.
func (t SaleTally) IsOf(erased uint64) bool {
	return t == (SaleTally{}) || t.Counts(erased)
}

// Counts reports whether t can be the tally of so many objects: the counts by method add up to that
// number, and no more of them are upgrades.
func (t SaleTally) Counts(objects uint64) bool {
	// compared first, because the sum could overflow
	most := max(t.Draws, t.Resales, t.Degradations, t.Insertions, t.Upgrades)
	return most <= objects && t.Draws+t.Resales+t.Degradations+t.Insertions == objects
}

// of returns a pointer to the count for a method. Methods other than raise, degrade and insert are
// resales.
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

// Add counts one object by the method of its response, and as an upgrade if the buyer held a lower
// level.
func (t *SaleTally) Add(m Method, upgrade bool) {
	*t.of(m)++
	if upgrade {
		t.Upgrades++
	}
}

// Take undoes one [SaleTally.Add] with the same arguments. It returns [errs.ErrCorrupt] if the
// count for the method, or the count of upgrades if upgrade is set, is 0.
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

// Fields implements [wire.Record]. It does not check that the counts fit a sale.
func (t *SaleTally) Fields(x wire.Codec) {
	t.methods(x)
	x.Uvarint(&t.Upgrades)
}

// methods describes the counts by method, which depend on what others bought.
func (t *SaleTally) methods(x wire.Codec) {
	x.Uvarint(&t.Draws, &t.Resales, &t.Degradations, &t.Insertions)
}
