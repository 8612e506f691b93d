package figures

import (
	"bytes"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/lab/internal/chart"
	"github.com/sluicedp/sluice/lab/internal/simulate"
)

// Two runs that end alike have no variance, and a logarithmic axis has no 0: the other points are
// drawn.
func TestDraw_VarianceOfZero_IsLeftOut(t *testing.T) {
	figure := simulate.Figure{
		ID: "2b", Title: "title", X: "x", Y: "y", LogY: true,
		Series: []simulate.Series{
			{
				Name: "some alike", Measured: true, Look: simulate.Look{Color: 1}, X: []float64{1, 2, 3}, Y: []float64{0, 1e-4, 2e-4},
				Low: []float64{0, 5e-5, 1e-4}, High: []float64{0, 1e-3, 2e-3},
			},
			{
				Name: "all alike", Measured: true, Look: simulate.Look{Color: 2}, X: []float64{1, 2}, Y: []float64{0, 0},
				Low: []float64{0, 0}, High: []float64{0, 0},
			},
			{Name: "theory", X: []float64{1, 2, 3}, Y: []float64{1e-4, 1e-4, 1e-4}},
		},
	}
	before := slices.Clone(figure.Series[0].Y)
	drawn, err := Draw(figure)
	if err != nil {
		t.Fatal(err)
	}
	if drawn.Y.Min != 5e-5 || drawn.Y.Max != 2e-3 {
		t.Errorf("the axis is from %v to %v", drawn.Y.Min, drawn.Y.Max)
	}
	if !slices.Equal(figure.Series[0].Y, before) {
		t.Errorf("the figure has become %v", figure.Series[0].Y)
	}
	for _, format := range []string{"svg", "png"} {
		var out bytes.Buffer
		if err := chart.WriteWithLegend(&out, drawn, format, Width, Height); err != nil {
			t.Fatal(err)
		}
		if format == "svg" && (!bytes.Contains(out.Bytes(), []byte("some alike")) || bytes.Contains(out.Bytes(), []byte("all alike"))) {
			t.Error("the legend is not of what is drawn")
		}
	}
}
