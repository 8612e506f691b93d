package event

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// PanelSum stands for a list of objects: it is the hash of the sum of those before the last, and
// the last.
type PanelSum [sha256.Size]byte

// EmptyPanel stands for a list of nobody.
func EmptyPanel() PanelSum { return wire.NewDigest("panel").Sum() }

// With returns the sum of a list with one object more behind it.
func (p PanelSum) With(name string) PanelSum {
	return sha256.Sum256(append(append(make([]byte, 0, len(p)+MaxNameBytes), p[:]...), name...))
}

// PanelOf stands for some objects, by rising name.
func PanelOf(names []string) PanelSum {
	sum := EmptyPanel()
	for _, name := range names {
		sum = sum.With(name)
	}
	return sum
}

// IsAskedFor reports whether an answer with a panel is one about this list: whole, or asked for in
// part.
func (p PanelSum) IsAskedFor(panel [sha256.Size]byte) bool { return panel == p || panel == p.Partly() }

// Partly stands for the same list where it is asked for in part, and somebody is left out.
func (p PanelSum) Partly() PanelSum {
	e := wire.NewDigest("left out")
	e.Raw(p[:])
	return e.Sum()
}
