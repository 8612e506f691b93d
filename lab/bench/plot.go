package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// The picture of the growth has a panel for each quantity with plot set.
const (
	panelsAcross            = 3
	panelWidth, panelHeight = 240, 160 // in points
)

// drawGrowth draws how cost grows with the number of objects. Both axes are logarithmic. The
// vertical axis has at least a decade, so that small changes look small.
func drawGrowth(path string, found results, sizes []int) error {
	var panels []*plot.Plot
	for _, q := range quantities() {
		if !q.plot {
			continue
		}
		panel, err := drawPanel(q, found, sizes)
		if err != nil {
			return fmt.Errorf("plot of %q: %w", q.name, err)
		}
		panels = append(panels, panel)
	}
	var rows [][]*plot.Plot
	for len(panels) > 0 {
		row := make([]*plot.Plot, panelsAcross)
		panels = panels[copy(row, panels):]
		rows = append(rows, row)
	}
	canvas := vgsvg.New(panelsAcross*panelWidth, vg.Length(len(rows))*panelHeight)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	const gap = 8
	tiles := draw.Tiles{Rows: len(rows), Cols: panelsAcross, PadX: gap, PadY: gap, PadTop: gap, PadBottom: gap,
		PadLeft: gap, PadRight: 2 * gap}
	for i, row := range plot.Align(rows, tiles, whole) {
		for j, at := range row {
			if rows[i][j] != nil {
				rows[i][j].Draw(at)
			}
		}
	}
	return savePlot(path, canvas)
}

// savePlot writes a plot to a file.
func savePlot(path string, canvas *vgsvg.Canvas) error {
	var text bytes.Buffer
	if _, err := canvas.WriteTo(&text); err != nil {
		return err
	}
	// Few machines have the font of gonum. The others have letters of the same widths.
	const font = "font-family:Liberation Serif"
	return os.WriteFile(path, bytes.ReplaceAll(text.Bytes(), []byte(font),
		[]byte(font+",Times New Roman,Times,serif")), 0o666)
}

func drawPanel(q quantity, found results, sizes []int) (*plot.Plot, error) {
	points := make(plotter.XYs, len(sizes))
	for i, n := range sizes {
		v, ok := found.of(growthName(n), q.unit)
		if !ok || v <= 0 {
			return nil, errors.New("nothing was measured")
		}
		points[i] = plotter.XY{X: float64(n), Y: v}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	blue := color.NRGBA{0, 114, 178, 255}
	line.LineStyle = draw.LineStyle{Color: blue, Width: vg.Points(1.4)}
	marks := &plotter.Scatter{XYs: points,
		GlyphStyle: draw.GlyphStyle{Color: blue, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}}
	grid := plotter.NewGrid()
	pale := draw.LineStyle{Color: color.Gray{225}, Width: vg.Points(0.5)}
	grid.Vertical, grid.Horizontal = pale, pale

	p := plot.New()
	p.Title.Text, p.X.Label.Text = q.name, "objects"
	p.Title.Padding, p.Title.TextStyle.Font.Size = vg.Points(5), vg.Points(10)
	p.Add(grid, line, marks)
	_, _, low, high := plotter.XYRange(points)
	p.Y.Min, p.Y.Max = around(low, high)
	p.X.Min, p.X.Max = points[0].X/1.5, points[len(points)-1].X*1.5
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = decades{}, decades{vertical: true}
	return p, nil
}

// around returns the ends of an axis that includes all values, and at least a decade.
func around(low, high float64) (least, most float64) {
	least, most = low/1.3, high*1.3
	if missing := 10 / (most / least); missing > 1 {
		least, most = least/math.Sqrt(missing), most*math.Sqrt(missing)
	}
	return least, most
}

// decades marks 1, 2 and 5 times the powers of ten, and labels the powers.
type decades struct {
	vertical bool // also labels the others on a short axis
}

// Ticks implements [plot.Ticker].
func (d decades) Ticks(least, most float64) (ticks []plot.Tick) {
	all := d.vertical && most/least < 30
	for power := math.Floor(math.Log10(least)); power <= math.Log10(most); power++ {
		for _, digit := range []float64{1, 2, 5} {
			tick := plot.Tick{Value: digit * math.Pow(10, power)}
			if digit == 1 || all {
				tick.Label = short(tick.Value)
				if d.vertical {
					tick.Label += "\u00a0\u00a0" // a viewer's letters may be wider than they are taken to be
				}
			}
			if least <= tick.Value && tick.Value <= most {
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}

// short formats a number with one significant digit.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return report.Number(v/1e6) + " M"
	case v >= 1e4:
		return report.Number(v/1e3) + " k"
	default:
		return report.Number(v)
	}
}
