package chart

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// Ticks marks an axis at round numbers: multiples of 1, 2 or 5 times a power of ten, about six of
// them.
type Ticks struct{}

// Ticks implements [plot.Ticker].
func (Ticks) Ticks(low, high float64) []plot.Tick {
	const most = 8
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*factor) <= most {
			step *= factor
			break
		}
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+slack)))
	var ticks []plot.Tick
	for n := math.Ceil(low/step - slack); n <= high/step+slack; n++ {
		ticks = append(ticks, plot.Tick{Value: n * step, Label: strconv.FormatFloat(n*step+0, 'f', decimals, 64)})
	}
	return ticks
}

// slack is the fraction of a step by which rounding may move the ends of an axis.
const slack = 1e-9
