// Package figures draws the figures of the papers' experiments: those of package simulate, and the
// laws of an answer by their distance from the boundary.
package figures

import (
	"fmt"

	"gonum.org/v1/plot"

	"github.com/sluicedp/sluice/lab/internal/chart"
	"github.com/sluicedp/sluice/lab/internal/simulate"
)

// Width and Height are the size of a figure in points.
const Width, Height = 600, 340

// Draw draws theory as lines, and measurements as marks and bars. Without measurements, the lines
// have marks.
func Draw(f simulate.Figure) (*plot.Plot, error) {
	p := chart.New(fmt.Sprintf("pan2024 Figure %s(%s): %s", f.ID[:1], f.ID[1:], f.Title), f.X, f.Y)
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	if f.Ticks != nil {
		var ticks []plot.Tick
		for _, tick := range f.Ticks {
			ticks = append(ticks, plot.Tick{Value: tick.At, Label: tick.Name})
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
	}
	measured := 0
	for _, s := range f.Series {
		if s.Measured {
			measured++
		}
	}
	beside := -float64(measured-1) / 2
	for _, s := range f.Series {
		if f.LogY {
			s = positive(s)
		}
		if len(s.X) == 0 {
			continue
		}
		x := s.X
		if s.Measured {
			x = shifted(x, beside)
			beside++
		}
		err := add(p, series{
			name: s.Name, x: x, y: s.Y, low: s.Low, high: s.High,
			line: !s.Measured, marks: s.Measured || measured == 0 && len(s.X) > 2,
			look: look{color: s.Look.Color, mark: s.Look.Color - 1, dash: s.Look.Dash},
		})
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// positive leaves out points that a logarithmic axis cannot show. The variance of a few runs can be
// 0 by chance.
func positive(s simulate.Series) simulate.Series {
	shown := s
	shown.X, shown.Y, shown.Low, shown.High = nil, nil, nil, nil
	for i, y := range s.Y {
		if y <= 0 || s.Low != nil && s.Low[i] <= 0 {
			continue
		}
		shown.X, shown.Y = append(shown.X, s.X[i]), append(shown.Y, y)
		if s.Low != nil {
			shown.Low, shown.High = append(shown.Low, s.Low[i]), append(shown.High, s.High[i])
		}
	}
	return shown
}

// shifted moves points, which are 1 apart, slightly to the side, so that the bars of several series
// do not hide each other.
func shifted(x []float64, by float64) []float64 {
	moved := make([]float64, len(x))
	for i := range x {
		moved[i] = x[i] + 0.15*by
	}
	return moved
}
