package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Look tells a series from the others even without colours: by its marks and dashes.
type Look struct {
	Color int // see [Color]
	Mark  int // one of eight shapes, the first again after the last
	Dash  int // one of five kinds of lines, the first being solid and again after the last
}

// Series is a row of points to draw.
type Series struct {
	Name      string    // in the legend; none if empty
	X, Y      []float64 // the points, from left to right for a line
	Low, High []float64 // bars around Y, or, beside a line, two thin lines; may be nil
	Line      bool      // join the points
	Marks     bool      // mark them; on a line, some of them if they are many
	Look      Look      // as in a figure of package simulate
}

// marks is how many points of a line are marked at most.
const marks = 25

// Add draws a series into a plot, above what is there already, and adds it to the legend.
func Add(p *plot.Plot, s Series) error {
	points, err := plotter.NewLine(pairs(s.X, s.Y))
	if err != nil {
		return err
	}
	points.LineStyle = s.Look.line(1.4)
	var thumbnails []plot.Thumbnailer
	if s.Line {
		p.Add(points)
		thumbnails = append(thumbnails, points)
	}
	if err := s.around(p); err != nil {
		return err
	}
	if s.Marks {
		marks := &plotter.Scatter{XYs: s.marked(points.XYs), GlyphStyle: s.Look.glyph()}
		p.Add(marks)
		thumbnails = append(thumbnails, marks)
	}
	if s.Name != "" {
		enter(p, s.Name, thumbnails...)
	}
	return nil
}

// enter adds to the legend, with a space before the name that no viewer leaves out.
func enter(p *plot.Plot, name string, thumbnails ...plot.Thumbnailer) {
	p.Legend.Add("\u00a0"+name, thumbnails...)
}

// around draws Low and High.
func (s Series) around(p *plot.Plot) error {
	if s.Low == nil {
		return nil
	}
	if !s.Line {
		bars := &plotter.YErrorBars{XYs: pairs(s.X, s.Y), LineStyle: s.Look.line(1.2), CapWidth: vg.Points(7)}
		bars.Dashes = nil
		for i, y := range s.Y {
			bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{y - s.Low[i], s.High[i] - y})
		}
		p.Add(bars)
		return nil
	}
	for _, edge := range [][]float64{s.Low, s.High} {
		line, err := plotter.NewLine(pairs(s.X, edge))
		if err != nil {
			return err
		}
		line.LineStyle = s.Look.line(0.8)
		p.Add(line)
	}
	return nil
}

// marked picks the points to mark.
func (s Series) marked(points plotter.XYs) plotter.XYs {
	if !s.Line || len(points) <= marks {
		return points
	}
	step := (len(points) + marks - 1) / marks
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

func (l Look) line(width float64) draw.LineStyle {
	dashes := [...][]vg.Length{nil, {6, 3}, {1.5, 2.5}, {8, 2.5, 1.5, 2.5}, {12, 4}}
	return draw.LineStyle{Color: Color(l.Color), Width: vg.Points(width), Dashes: dashes[l.Dash%len(dashes)]}
}

func (l Look) glyph() draw.GlyphStyle {
	shapes := [...]draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
		draw.CrossGlyph{}, draw.SquareGlyph{}, draw.PlusGlyph{}, draw.TriangleGlyph{},
	}
	return draw.GlyphStyle{Color: Color(l.Color), Radius: vg.Points(3.2), Shape: shapes[l.Mark%len(shapes)]}
}

// AddVertical draws a vertical line through the whole plot, and adds it to the legend.
func AddVertical(p *plot.Plot, name string, x float64, look Look) {
	line := vertical{x, look.line(1)}
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
