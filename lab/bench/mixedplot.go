package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of the picture of a mixed load, in points.
const (
	mixedWidth, mixedHeight = 760, 300
	legendWidth             = 170
)

// drawMixed draws the waits of releases over time, with the spans of large requests, and the
// checkpoints.
func (m *mixture) drawMixed(path string) error {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "how long a release takes", "seconds since the beginning", "ms"
	seconds := m.seconds()
	low, high := seconds[0].half, seconds[0].longest
	for _, s := range seconds {
		low, high = min(low, s.half), max(high, s.longest)
	}
	p.Y.Min, p.Y.Max = around(low, high)
	p.X.Min, p.X.Max = 0, m.length.Seconds()
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{vertical: true}
	p.Title.TextStyle.Font.Size = vg.Points(10)
	legend.Top, legend.Left, legend.TextStyle.Font.Size, legend.Padding = true, true, vg.Points(10), vg.Points(2)
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal = 0, draw.LineStyle{Color: color.Gray{225}, Width: vg.Points(0.5)}
	p.Add(grid)
	// The palest bars come first, because the others are drawn over them.
	for _, s := range []struct {
		kind  kind
		color color.Color
	}{{audits, color.NRGBA{204, 121, 167, 70}}, {backups, color.NRGBA{0, 158, 115, 70}}, {raises,
		color.NRGBA{230, 159, 0, 90}}} {
		if err := m.addSpans(p, &legend, s.kind, s.color); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		name  string
		color color.Color
		of    func(second) float64
	}{
		{"the longest of a second", color.Gray{150}, func(s second) float64 { return s.longest }},
		{"99 % of them", color.NRGBA{213, 94, 0, 255}, func(s second) float64 { return s.p99 }},
		{"half of them", color.NRGBA{0, 114, 178, 255}, func(s second) float64 { return s.half }},
	} {
		points := make(plotter.XYs, len(seconds))
		for i, s := range seconds {
			points[i] = plotter.XY{X: float64(s.at) + 0.5, Y: l.of(s)}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("plot of %s: %w", l.name, err)
		}
		line.LineStyle = draw.LineStyle{Color: l.color, Width: vg.Points(1)}
		p.Add(line)
		legend.Add(l.name, line)
	}
	m.addCheckpoints(p, &legend)
	canvas := vgsvg.New(mixedWidth, mixedHeight)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	const gap = 8
	p.Draw(draw.Crop(whole, gap, -legendWidth, gap, -gap))
	legend.Draw(draw.Crop(whole, mixedWidth-legendWidth, -gap, gap, -3*gap))
	return savePlot(path, canvas)
}

// addSpans adds a bar from top to bottom for each request of a kind.
func (m *mixture) addSpans(p *plot.Plot, legend *plot.Legend, k kind, c color.Color) error {
	for i, h := range m.done[k] {
		from, to := float64(h.at), min(float64(h.at+h.took), p.X.Max)
		low, high := p.Y.Min, p.Y.Max
		bar, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high},
			{X: from, Y: high}})
		if err != nil {
			return fmt.Errorf("plot of %s: %w", k, err)
		}
		bar.Color, bar.LineStyle.Color = c, c
		p.Add(bar)
		if i == 0 {
			legend.Add(string(k), bar)
		}
	}
	return nil
}

// addCheckpoints adds a mark at the bottom for each checkpoint.
func (m *mixture) addCheckpoints(p *plot.Plot, legend *plot.Legend) {
	if len(m.checkpoints) == 0 {
		return
	}
	marks := &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: color.Black, Radius: vg.Points(2),
		Shape: draw.TriangleGlyph{}}}
	for _, at := range m.checkpoints {
		marks.XYs = append(marks.XYs, plotter.XY{X: at, Y: p.Y.Min * 1.1})
	}
	p.Add(marks)
	legend.Add("checkpoint written", marks)
}
