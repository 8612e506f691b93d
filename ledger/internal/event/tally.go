package event

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// SaleTally counts the objects of a sale by how their responses were made. Upgrades counts those
// of which the buyer held a lower level.
type SaleTally struct{ Draws, Resales, Degradations, Insertions, Upgrades uint64 }

// IsOf reports whether a remaining tally can be that of so many erased objects. The tally of a
// reservation is zero.
func (t SaleTally) IsOf(erased uint64) bool {
	return t == (SaleTally{}) || t.Counts(erased)
}

// Counts reports whether a tally can be that of so many objects.
func (t SaleTally) Counts(objects uint64) bool {
	// compared first, because the sum could overflow
	most := max(t.Draws, t.Resales, t.Degradations, t.Insertions, t.Upgrades)
	return most <= objects && t.Draws+t.Resales+t.Degradations+t.Insertions == objects
}

// of returns a pointer to the count for a method.
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

// Add counts an object by the method of its response.
func (t *SaleTally) Add(m Method, upgrade bool) {
	*t.of(m)++
	if upgrade {
		t.Upgrades++
	}
}

// Take subtracts an object by the method of its response. It returns [errs.ErrCorrupt] if no such
// object is left.
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
