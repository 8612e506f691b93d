package event

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// PanelSum is a digest of a list of objects. It is the hash of the digest of the list without its
// last object, followed by that object's name.
type PanelSum [sha256.Size]byte

// EmptyPanel returns the digest of the empty list.
func EmptyPanel() PanelSum { return wire.NewDigest("panel").Sum() }

// With returns the digest of the list with one more object at its end.
func (p PanelSum) With(name string) PanelSum {
	return sha256.Sum256(append(append(make([]byte, 0, len(p)+MaxNameBytes), p[:]...), name...))
}

// PanelOf returns the digest of objects, which must be sorted by name.
func PanelOf(names []string) PanelSum {
	sum := EmptyPanel()
	for _, name := range names {
		sum = sum.With(name)
	}
	return sum
}

// IsAskedFor reports whether panel, the digest in a recorded answer, is that of the list of p. It
// may be p itself or, if objects were left out of the answer, [PanelSum.Partly].
func (p PanelSum) IsAskedFor(panel [sha256.Size]byte) bool { return panel == p || panel == p.Partly() }

// Partly returns another digest of the same list. It is for a partial request, from which at least
// one of the listed objects was left out.
func (p PanelSum) Partly() PanelSum {
	e := wire.NewDigest("left out")
	e.Raw(p[:])
	return e.Sum()
}
