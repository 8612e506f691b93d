package ledger

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// panelSum stands for a list of objects: it is the hash of the sum of those before the last, and the last.
type panelSum [sha256.Size]byte

func noPanel() panelSum { return wire.Digest("panel").Sum() }

// with returns the sum of a list with one object more behind it.
func (p panelSum) with(name string) panelSum {
	return sha256.Sum256(append(append(make([]byte, 0, len(p)+names.MaxBytes), p[:]...), name...))
}

func sumOf(names []string) panelSum {
	sum := noPanel()
	for _, name := range names {
		sum = sum.with(name)
	}
	return sum
}

// partly stands for the same list where it is asked for in part, and somebody is left out.
func (p panelSum) partly() panelSum {
	e := wire.Digest("left out")
	e.Raw(p[:])
	return e.Sum()
}
