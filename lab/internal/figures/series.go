package figures

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sluicedp/sluice/lab/internal/chart"
)

// look is the colour, marks and dashes of a series, which distinguish it even without colours.
type look struct {
	color int // see [chart.Color]
	mark  int // number of one of eight shapes, which repeat
	dash  int // number of one of five kinds of lines, which repeat; the first is solid
}

// series is a row of points to draw.
type series struct {
	name      string    // in the legend; none if empty
	x, y      []float64 // the points, from left to right for a line
	low, high []float64 // bars around y, or, for a line, two thin lines; may be nil
	line      bool      // join the points
	marks     bool      // mark the points; on a line with many points, only some
	look      look      // as in a figure of package simulate
}

// maxMarks is the largest number of marks on a line.
const maxMarks = 25

// add draws a series above the existing content of a plot, and adds it to the legend.
func add(p *plot.Plot, s series) error {
	points, err := plotter.NewLine(pairs(s.x, s.y))
	if err != nil {
		return err
	}
	points.LineStyle = s.look.line(1.4)
	var thumbnails []plot.Thumbnailer
	if s.line {
		p.Add(points)
		thumbnails = append(thumbnails, points)
	}
	if err := s.around(p); err != nil {
		return err
	}
	if s.marks {
		marks := &plotter.Scatter{XYs: s.marked(points.XYs), GlyphStyle: s.look.glyph()}
		p.Add(marks)
		thumbnails = append(thumbnails, marks)
	}
	if s.name != "" {
		enter(p, s.name, thumbnails...)
	}
	return nil
}

// enter adds an entry to the legend, with a space before the name that viewers do not remove.
func enter(p *plot.Plot, name string, thumbnails ...plot.Thumbnailer) {
	p.Legend.Add("\u00a0"+name, thumbnails...)
}

// around draws low and high.
func (s series) around(p *plot.Plot) error {
	if s.low == nil {
		return nil
	}
	if !s.line {
		bars := &plotter.YErrorBars{XYs: pairs(s.x, s.y), LineStyle: s.look.line(1.2), CapWidth: vg.Points(7)}
		bars.Dashes = nil
		for i, y := range s.y {
			bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{y - s.low[i], s.high[i] - y})
		}
		p.Add(bars)
		return nil
	}
	for _, edge := range [][]float64{s.low, s.high} {
		line, err := plotter.NewLine(pairs(s.x, edge))
		if err != nil {
			return err
		}
		line.LineStyle = s.look.line(0.8)
		p.Add(line)
	}
	return nil
}

// marked returns the points to mark.
func (s series) marked(points plotter.XYs) plotter.XYs {
	if !s.line || len(points) <= maxMarks {
		return points
	}
	step := (len(points) + maxMarks - 1) / maxMarks
	var some plotter.XYs
	last := len(points) - 1
	for i := 0; i < last; i += step {
		some = append(some, points[i])
	}
	return append(some, points[last])
}

func pairs(x, y []float64) plotter.XYs {
	points := make(plotter.XYs, len(x))
	for i := range points {
		points[i] = plotter.XY{X: x[i], Y: y[i]}
	}
	return points
}

func (l look) line(width float64) draw.LineStyle {
	dashes := [...][]vg.Length{nil, {6, 3}, {1.5, 2.5}, {8, 2.5, 1.5, 2.5}, {12, 4}}
	return draw.LineStyle{Color: chart.Color(l.color), Width: vg.Points(width), Dashes: dashes[l.dash%len(dashes)]}
}

func (l look) glyph() draw.GlyphStyle {
	shapes := [...]draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
		draw.CrossGlyph{}, draw.SquareGlyph{}, draw.PlusGlyph{}, draw.TriangleGlyph{},
	}
	return draw.GlyphStyle{Color: chart.Color(l.color), Radius: vg.Points(3.2), Shape: shapes[l.mark%len(shapes)]}
}

// addVertical draws a vertical line through the whole plot, and adds it to the legend.
func addVertical(p *plot.Plot, name string, x float64, l look) {
	line := vertical{x, l.line(1)}
	p.Add(line)
	enter(p, name, line)
}

// vertical is a line at an x. It does not widen the axes.
type vertical struct {
	x     float64
	style draw.LineStyle
}

// Plot implements [plot.Plotter].
func (v vertical) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	c.StrokeLine2(v.style, toX(v.x), c.Min.Y, toX(v.x), c.Max.Y)
}

// Thumbnail implements [plot.Thumbnailer].
func (v vertical) Thumbnail(c *draw.Canvas) {
	y := c.Center().Y
	c.StrokeLine2(v.style, c.Min.X, y, c.Max.X, y)
}

// logTicks marks a logarithmic axis at the multiples of the powers of ten. Those at 1, 2 and 5
// times a power have labels.
type logTicks struct{}

// Ticks implements [plot.Ticker].
func (logTicks) Ticks(low, high float64) []plot.Tick {
	if low <= 0 { // a logarithmic axis cannot include 0
		return nil
	}
	var ticks []plot.Tick
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for n := 1.0; n < 10; n++ {
			tick := plot.Tick{Value: n * power}
			if tick.Value < low || tick.Value > high {
				continue
			}
			if n == 1 || n == 2 || n == 5 {
				tick.Label = strconv.FormatFloat(tick.Value, 'g', 3, 64)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}
