package picture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/chart"
	"github.com/sluicedp/sluice/ledger"
)

// What a picture of an estimate has room for.
const (
	mostLevels  = 6
	mostValues  = 30
	mostLetters = 28 // of a value's name
)

// bars shows an estimate: a group of bars for each value, and in it a bar for each ε.
type bars struct {
	whole      ledger.Estimate   // everybody counts once
	levels     []ledger.Estimate // by rising ε: whoever answered at that ε counts
	recorded   int               // how many levels there are, shown or not
	few        int               // how many of them are left out because few people are at them
	values     []int             // the numbers of the values shown, from the top
	confidence float64
}

// Ledger is what has estimates.
type Ledger interface {
	// Estimate is as [ledger.Ledger] has it.
	Estimate(ctx context.Context, r ledger.EstimateRequest) (ledger.Estimate, error)
	// Levels is as [ledger.Ledger] has it.
	Levels(ctx context.Context, question string) ([]ledger.LevelCount, error)
}

// SaveEstimate draws the answer to a request, and besides it the estimates at each ε that were
// asked for together, unless there is no file to draw them into.
func (f File) SaveEstimate(ctx context.Context, l Ledger, r ledger.EstimateRequest, whole ledger.Estimate) error {
	if f.out == nil {
		return nil
	}
	picture, err := newBars(ctx, l, r, whole)
	if err != nil {
		return err
	}
	if names, _ := picture.labels(); f.format == "png" && !chart.CanDraw(picture.title()+strings.Join(names, "")) {
		return output.UsageError("name a .svg file: who shows it has more letters",
			"a .png file cannot show all letters of these values")
	}
	return f.out.Save(func(w io.Writer) error { return picture.write(w, f.format) })
}

// newBars reads what the picture of an estimate shows besides it. Of a file all is of one instant,
// because nobody writes as long as it is open for reading; behind an address somebody may raise
// meanwhile.
func newBars(ctx context.Context, l Ledger, r ledger.EstimateRequest, whole ledger.Estimate) (*bars, error) {
	p := &bars{whole: whole, recorded: 1, values: shownValues(whole.Values), confidence: r.Confidence}
	if !r.Epsilon.IsZero() {
		return p, p.add(whole)
	}
	recorded, err := l.Levels(ctx, r.Question)
	if err != nil {
		return nil, err
	}
	shown, few := shownLevels(recorded)
	p.recorded, p.few = len(recorded), few
	for _, at := range shown {
		r.Epsilon = at.Epsilon
		level, err := l.Estimate(ctx, r)
		if r.Include != nil && errors.Is(err, ledger.ErrNoResponses) { // all there are of other people
			p.recorded--
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := p.add(level); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// add adds a level. Who is behind an address may be a stranger.
func (p *bars) add(level ledger.Estimate) error {
	if len(level.Levels) == 0 || len(level.Values) != len(p.whole.Values) {
		return fmt.Errorf("an estimate of %d values at %d ε, where %d values at one are expected", len(level.Values),
			len(level.Levels), len(p.whole.Values))
	}
	p.levels = append(p.levels, level)
	return nil
}

// fewest is the part of the responses of the fullest level that another one must have to be shown:
// the intervals of one with fewer would be ten times as wide, and make the others too small to see.
const fewest = 0.01

// shownLevels returns all levels that are not too empty if they are few, and else the first, the
// last and some between, evenly; and how many are too empty.
func shownLevels(all []ledger.LevelCount) (levels []ledger.LevelCount, few int) {
	most := int64(0)
	for _, l := range all {
		most = max(most, l.N)
	}
	for _, l := range all {
		if float64(l.N) >= fewest*float64(most) {
			levels = append(levels, l)
		}
	}
	if few = len(all) - len(levels); len(levels) <= mostLevels {
		return levels, few
	}
	shown := make([]ledger.LevelCount, mostLevels)
	for i := range shown {
		shown[i] = levels[i*(len(levels)-1)/(mostLevels-1)]
	}
	return shown, few
}

// shownValues returns the numbers of all values in their order if they are few, and else of those
// with the largest estimates, falling.
func shownValues(values []ledger.ValueEstimate) []int {
	shown := make([]int, len(values))
	for v := range shown {
		shown[v] = v
	}
	if len(shown) <= mostValues {
		return shown
	}
	slices.SortStableFunc(shown, func(a, b int) int { return cmp.Compare(values[b].Estimate, values[a].Estimate) })
	return shown[:mostValues]
}

// shortened makes a name fit on a line of a picture: the middle of a long one is left out.
func shortened(name string, most int) string {
	letters := []rune(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r): // would turn the text around it
			return -1
		case r == 0xfffe || r == 0xffff: // no XML can have them
			return unicode.ReplacementChar
		}
		return r
	}, name))
	if len(letters) <= most {
		return string(letters)
	}
	tail := most / 3
	return string(letters[:most-tail-1]) + "…" + string(letters[len(letters)-tail:])
}

// title says what the picture is of.
func (p *bars) title() string {
	return fmt.Sprintf("Estimated shares of the values of %q", shortened(p.whole.Question, 2*mostLetters))
}

// caption says what the bars are, and what is left out.
func (p *bars) caption() string {
	covers := "these people"
	if p.whole.Covers == "population" {
		covers = "a population that they represent"
	}
	lines := []string{"share, %", "", fmt.Sprintf("The thin lines are %.4g %% intervals for %s.", 100*p.confidence,
		covers)}
	if p.pools() {
		lines = append(lines,
			"The diamond counts each person once, at the highest ε; the levels are "+p.whole.Method+".")
	}
	if n := len(p.levels); n < p.recorded {
		but := ""
		if p.few > 0 {
			but = "; not those of few people"
		}
		lines = append(lines, fmt.Sprintf("%d of %d levels of ε are shown%s.", n, p.recorded, but))
	}
	if n, all := len(p.values), len(p.whole.Values); n < all {
		lines = append(lines, fmt.Sprintf("The %d values with the largest estimates are shown, and %d are not.", n,
			all-n))
	}
	if _, numbered := p.labels(); numbered {
		lines = append(lines, "Numbers in parentheses are the places of long names in the list of values.")
	}
	return strings.Join(lines, "\n")
}

// pools tells whether the estimate of everybody is another one than that of the highest ε.
func (p *bars) pools() bool { return len(p.whole.Levels) > 1 }

// rows returns how many rows a value has.
func (p *bars) rows() int {
	if p.pools() {
		return len(p.levels) + 1
	}
	return len(p.levels)
}

// gap is the distance between the groups, in rows.
const gap = 1

// group returns the place of the middle of a value's first row, in rows; the last row of all is at
// 0.
func (p *bars) group(i int) float64 {
	below := len(p.values) - 1 - i
	return float64(below*(p.rows()+gap) + p.rows() - 1)
}

// interval is an estimate in per cent.
type interval struct{ low, estimate, high float64 }

func percentOf(v ledger.ValueEstimate) interval {
	return interval{100 * v.Low, 100 * v.Estimate, 100 * v.High}
}

// DataRange implements [plot.DataRanger]. Estimates are unbiased, so they may lie below 0 and above
// 100 %.
func (p *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	estimates := p.levels
	if p.pools() {
		estimates = append(slices.Clone(estimates), p.whole)
	}
	for _, e := range estimates {
		for _, v := range p.values {
			x := percentOf(e.Values[v])
			xmin, xmax = min(xmin, x.low), max(xmax, x.high)
		}
	}
	pad := (xmax - xmin) / 50
	if xmin < 0 {
		xmin -= pad
	}
	return xmin, xmax + pad, -1, p.group(0) + 1
}

// Plot implements [plot.Plotter].
func (p *bars) Plot(c draw.Canvas, axes *plot.Plot) {
	x, y := axes.Transforms(&c)
	row := y(1) - y(0)
	edge := draw.LineStyle{Color: color.Gray{90}, Width: vg.Points(0.4)}
	for i, v := range p.values {
		for k, level := range p.levels {
			at := percentOf(level.Values[v])
			middle := y(p.group(i) - float64(k))
			low, high := middle-0.42*row, middle+0.42*row
			bar := []vg.Point{{X: x(0), Y: low}, {X: x(at.estimate), Y: low}, {X: x(at.estimate), Y: high},
				{X: x(0), Y: high}}
			c.FillPolygon(shade(k, len(p.levels)), bar)
			c.StrokeLines(edge, append(bar, bar[0]))
			whisker(c, x(at.low), x(at.high), middle, 0.2*row)
		}
		if p.pools() {
			at := percentOf(p.whole.Values[v])
			middle := y(p.group(i) - float64(len(p.levels)))
			whisker(c, x(at.low), x(at.high), middle, 0.2*row)
			diamond(c, vg.Point{X: x(at.estimate), Y: middle}, 0.42*row)
		}
	}
	c.StrokeLine2(draw.LineStyle{Color: color.Black, Width: vg.Points(0.75)}, x(0), c.Min.Y, x(0), c.Max.Y)
}

// whisker draws an interval. A white seam sets it off from dark bars.
func whisker(c draw.Canvas, low, high, y, half vg.Length) {
	for _, style := range []draw.LineStyle{
		{Color: color.White, Width: vg.Points(2.2)}, {Color: color.Black, Width: vg.Points(0.8)},
	} {
		c.StrokeLine2(style, low, y, high, y)
		c.StrokeLine2(style, low, y-half, low, y+half)
		c.StrokeLine2(style, high, y-half, high, y+half)
	}
}

func diamond(c draw.Canvas, at vg.Point, half vg.Length) {
	c.FillPolygon(color.Black, []vg.Point{
		{X: at.X - half, Y: at.Y}, {X: at.X, Y: at.Y - half}, {X: at.X + half, Y: at.Y}, {X: at.X, Y: at.Y + half},
	})
}

// shade returns the colour of the k-th of n levels: blue, the higher the darker, so that they can
// be told apart by anyone, in black and white too.
func shade(k, n int) color.NRGBA {
	ramp := [...]color.NRGBA{{210, 229, 244, 255}, chart.Color(1), {0, 40, 70, 255}}
	if n == 1 {
		return ramp[1]
	}
	at := 2 * float64(k) / float64(n-1)
	from := min(int(at), 1)
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + (at-float64(from))*(float64(b)-float64(a)) + 0.5) }
	a, b := ramp[from], ramp[from+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// mark is what the legend shows beside the text for a row: a bar of some shade, or the diamond if
// it has none.
type mark struct{ shade color.Color }

// Thumbnail implements [plot.Thumbnailer].
func (m mark) Thumbnail(c *draw.Canvas) {
	if m.shade == nil {
		diamond(*c, c.Center(), c.Size().Y/2)
		return
	}
	c.FillPolygon(m.shade, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
}

// addLegend names the rows of a group, in their order.
func (p *bars) addLegend(legend *plot.Legend) {
	for k, level := range p.levels {
		legend.Add(fmt.Sprintf("ε = %s, n = %d", level.Levels[0].Epsilon, level.N), mark{shade(k, len(p.levels))})
	}
	if p.pools() {
		legend.Add(fmt.Sprintf("all, n = %d", p.whole.N), mark{})
	}
}

// labels returns the names of the values shown. Where shortening makes names alike, the numbers of
// the values tell them apart, and numbered is true.
func (p *bars) labels() (names []string, numbered bool) {
	alike := map[string]int{}
	for _, v := range p.values {
		name := shortened(p.whole.Values[v].Value, mostLetters)
		names = append(names, name)
		alike[name]++
	}
	for i, v := range p.values {
		if alike[names[i]] > 1 {
			names[i], numbered = fmt.Sprintf("%s (%d)", names[i], v+1), true
		}
	}
	return names, numbered
}

// write draws the picture.
func (p *bars) write(w io.Writer, format string) error {
	axes := chart.New(p.title(), p.caption(), "")
	axes.Add(p)
	p.addLegend(&axes.Legend)
	var names []plot.Tick
	width := vg.Length(0)
	labels, _ := p.labels()
	for i, name := range labels {
		names = append(names, plot.Tick{Value: p.group(i) - float64(p.rows()-1)/2, Label: name})
		width = max(width, axes.Y.Tick.Label.Width(name))
	}
	axes.Y.Tick.Marker = plot.ConstantTicks(names)
	axes.Y.Tick.Length, axes.Y.LineStyle.Width = 0, 0
	if format == "svg" {
		axes.Y.Padding += width / 5 // whoever shows it may have another font, with wider letters
	}
	row := 11.0 // points
	if len(p.values)*p.rows() > 60 {
		row = 7
	}
	height := row*(p.group(0)+2) + axes.X.Label.TextStyle.Height(p.caption()).Points() + 65
	return chart.WriteWithLegend(w, axes, format, 640, height)
}
