package estimate

import (
	"fmt"
	"math"

	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/internal/strata"
)

// Options say how levels are combined, and what intervals cover.
type Options struct {
	// Confidence is the nominal coverage of the intervals, such as 0.95: above 0 and below 1.
	Confidence float64
	// Pool combines levels with the weights of least variance. It assumes that the level of an
	// object is independent of its value: that who allows a higher ε is no likelier to have any
	// value. Otherwise the estimate is biased, and its interval too short. [Disagreement] tests the
	// assumption.
	//
	// Without Pool the estimate is stratified, and needs no assumption: the estimate of each level
	// counts in proportion to the objects at that level.
	Pool bool
	// Population makes intervals cover the shares in a large population of which the objects are a
	// random sample. Without it they cover the shares among these objects, and only the noise of
	// the responses is random.
	Population bool
}

// internal checks the options.
func (o Options) internal() (strata.Options, error) {
	if !(o.Confidence > 0 && o.Confidence < 1) {
		return strata.Options{}, fmt.Errorf("%w: confidence %v is not between 0 and 1",
			rrchain.ErrInvalid, o.Confidence)
	}
	return strata.Options{Pool: o.Pool, Population: o.Population, Z: math.Sqrt2 * math.Erfinv(o.Confidence)}, nil
}
