package rules

import (
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// Tops are the highest levels of objects, each once: there the number of those who can answer
// changes.
type Tops map[privacy.Epsilon]struct{}

// mostTops is how many are kept: further ones are left out, since so many are too many to be asked
// about anyway.
const mostTops = 1 << 14

func (t Tops) add(top privacy.Epsilon) {
	if !top.IsZero() && len(t) < mostTops {
		t[top] = struct{}{}
	}
}

// Levels returns at most MostLevels levels to ask about, rising: all of them, or the lowest, the
// highest and some evenly between.
func (t Tops) Levels() []privacy.Epsilon {
	all := make([]privacy.Epsilon, 0, len(t))
	for top := range t {
		all = append(all, top)
	}
	slices.SortFunc(all, privacy.Epsilon.Compare)
	if len(all) <= MostLevels {
		return all
	}
	some := make([]privacy.Epsilon, MostLevels)
	for i := range some {
		some[i] = all[i*(len(all)-1)/(MostLevels-1)]
	}
	return some
}
