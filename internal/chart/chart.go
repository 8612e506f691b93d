// Package chart writes charts as SVG. A chart is readable on a light and on a dark page, and has a
// title and a description for screen readers. The same data always results in the same bytes.
package chart

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// MaxRows is the largest number of bars in a group whose shades can be distinguished.
const MaxRows = 6

// Bars is a chart of horizontal bars with intervals. Each group has one row for each series.
type Bars struct {
	Title  string   // above the chart, and its name for screen readers
	Axis   string   // the quantity on the axis, such as "share, %"
	Notes  []string // lines below the chart
	Groups []string // the names of the groups, from the top
	Series []Series // the rows of each group, from the top
}

// Series is a row of each group: a bar, or a diamond that distinguishes a summary from the bars.
// Bars come before diamonds.
type Series struct {
	Name    string     // in the legend
	Diamond bool       // a diamond instead of a bar
	Values  []Interval // one for each group
}

// Interval is a number with the ends of its interval.
type Interval struct{ Low, Value, High float64 }

// Sizes in CSS pixels.
const (
	width        = 760
	margin       = 10
	lineHeight   = 16
	letterWidth  = 6.6 // the width of a letter in most fonts at 12 px; full-width letters take twice as much
	legendMark   = 26
	wideRow      = 14.0
	narrowRow    = 9.0
	manyRows     = 60 // with more rows than this, rows are narrow
	groupGap     = 1  // in rows
	barThickness = 0.84
)

// style holds the colours for a dark page. The colours for a light page are attributes of the
// elements, for viewers without style sheets.
const style = `<style>@media(prefers-color-scheme:dark){` +
	`.paper{fill:#181a1b}.ink{fill:#e8e6e3}.line{stroke:#e8e6e3}.seam{stroke:#181a1b}.grid{stroke:#3c4144}%s}</style>`

// layout is a chart with the positions of its parts.
type layout struct {
	Bars
	out               strings.Builder
	left, right       float64 // the positions of the ends of the axis
	top, row          float64 // the position of the first row, and the height of each
	smallest, largest float64 // the numbers at the ends of the axis
}

// Write writes the chart to w as one SVG document. All series must have a value for each group.
func (b Bars) Write(w io.Writer) error {
	l := &layout{Bars: b, row: wideRow}
	if len(b.Groups)*len(b.Series) > manyRows {
		l.row = narrowRow
	}
	labels, legend := 0.0, 0.0
	for _, name := range b.Groups {
		labels = max(labels, textWidth(name))
	}
	for _, s := range b.Series {
		legend = max(legend, textWidth(s.Name))
	}
	l.left = 2*margin + labels
	l.right = width - 3*margin - legendMark - legend
	l.top = margin + 2*lineHeight
	l.smallest, l.largest = b.bounds()
	bottom := l.top + l.row*float64(len(b.Groups)*(len(b.Series)+groupGap)-groupGap) + l.row/2
	l.begin(bottom + lineHeight*float64(len(b.Notes)+3))
	l.grid(bottom)
	for i := range b.Groups {
		l.group(i)
	}
	l.line(l.x(0), l.top-l.row/2, l.x(0), bottom, "line", "#000", 1)
	l.legend()
	for i, note := range b.Notes {
		l.text(margin, bottom+lineHeight*float64(i+3), "start", note)
	}
	l.out.WriteString("</svg>\n")
	_, err := io.WriteString(w, l.out.String())
	return err
}

// bounds returns the ends of the axis, low < high. The axis contains 0 and all intervals, with some
// space on either side where it does not end at 0.
func (b Bars) bounds() (low, high float64) {
	for _, s := range b.Series {
		for _, v := range s.Values {
			low, high = min(low, v.Low, v.Value), max(high, v.High, v.Value)
		}
	}
	if low == high { // all values are 0, or there are none
		high = 1
	}
	pad := (high - low) / 50
	if low < 0 {
		low -= pad
	}
	return low, high + pad
}

// x returns the horizontal position of a number on the axis.
func (l *layout) x(value float64) float64 {
	return l.left + (value-l.smallest)/(l.largest-l.smallest)*(l.right-l.left)
}

// begin writes everything before the first shape: the opening tag, the texts for screen readers,
// the style sheet, the background and the title.
func (l *layout) begin(height float64) {
	fmt.Fprintf(&l.out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%d" height="%.0f" `+
		`role="img" font-family="system-ui,sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&l.out, "<title>%s</title>\n", escaped(l.Title))
	fmt.Fprintf(&l.out, "<desc>%s</desc>\n", escaped(l.description()))
	var shades strings.Builder
	for k := range l.bars() {
		fmt.Fprintf(&shades, ".bar%d{fill:%s}", k, Shade(k, l.bars(), true))
	}
	fmt.Fprintf(&l.out, style+"\n", shades.String())
	fmt.Fprintf(&l.out, `<rect class="paper" width="%d" height="%.0f" fill="#fff"/>`+"\n", width, height)
	l.text(margin, margin+lineHeight-4, "start", l.Title)
}

// description returns the numbers of the chart as text for screen readers.
func (l *layout) description() string {
	var all strings.Builder
	fmt.Fprintf(&all, "Horizontal bars: %s.", l.Axis)
	for i, group := range l.Groups {
		for _, s := range l.Series {
			fmt.Fprintf(&all, " %s, %s: %s.", group, s.Name, s.Values[i])
		}
	}
	return all.String()
}

// String returns the number and its interval with four digits.
func (i Interval) String() string { return fmt.Sprintf("%.4g (%.4g to %.4g)", i.Value, i.Low, i.High) }

// bars returns the number of series that are bars.
func (l *layout) bars() (n int) {
	for _, s := range l.Series {
		if !s.Diamond {
			n++
		}
	}
	return n
}

// grid draws the axis below the rows, at the position bottom, and a line up from each of its ticks.
func (l *layout) grid(bottom float64) {
	for _, tick := range Ticks(l.smallest, l.largest) {
		value, _ := strconv.ParseFloat(tick, 64) // no error: Ticks has formatted the number
		l.line(l.x(value), l.top-l.row/2, l.x(value), bottom, "grid", "#e1e1e1", 1)
		l.text(l.x(value), bottom+lineHeight, "middle", tick)
	}
	l.text((l.left+l.right)/2, bottom+2*lineHeight, "middle", l.Axis)
}

// group draws the rows of group i, and its name to the left of them.
func (l *layout) group(i int) {
	first := l.top + l.row*float64(i*(len(l.Series)+groupGap))
	l.text(l.left-margin, first+l.row*float64(len(l.Series))/2+4, "end", l.Groups[i])
	for k, s := range l.Series {
		v := s.Values[i]
		middle := first + l.row*(float64(k)+0.5)
		fmt.Fprintf(&l.out, "<g><title>%s</title>\n", escaped(fmt.Sprintf("%s, %s: %s", l.Groups[i], s.Name, v)))
		if !s.Diamond {
			l.bar(k, min(l.x(0), l.x(v.Value)), middle, math.Abs(l.x(v.Value)-l.x(0)))
		}
		l.whisker(l.x(v.Low), l.x(v.High), middle)
		if s.Diamond {
			l.diamond(l.x(v.Value), middle)
		}
		l.out.WriteString("</g>\n")
	}
}

// bar draws a horizontal bar in the shade of series k. left is its left end, and middle its
// vertical centre.
func (l *layout) bar(k int, left, middle, length float64) {
	height := barThickness * l.row
	fmt.Fprintf(&l.out, `<rect class="bar%d" x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s" `+
		`stroke="#5a5a5a" stroke-width=".5"/>`+"\n",
		k, left, middle-height/2, length, height, Shade(k, l.bars(), false))
}

// whisker draws an interval from low to high as a line with end marks. middle is its vertical
// position. A seam in the colour of the page separates the line from dark bars.
func (l *layout) whisker(low, high, middle float64) {
	half := 0.2 * l.row
	path := fmt.Sprintf("M%.2f %.2fH%.2fM%.2f %.2fV%.2fM%.2f %.2fV%.2f", low, middle, high,
		low, middle-half, middle+half, high, middle-half, middle+half)
	fmt.Fprintf(&l.out, `<path class="seam" d="%s" fill="none" stroke="#fff" stroke-width="3"/>`+"\n", path)
	fmt.Fprintf(&l.out, `<path class="line" d="%s" fill="none" stroke="#000"/>`+"\n", path)
}

// diamond draws the mark of a summary with its centre at x and y.
func (l *layout) diamond(x, y float64) {
	half := barThickness * l.row / 2
	fmt.Fprintf(&l.out, `<path class="ink" d="M%.2f %.2fL%.2f %.2fL%.2f %.2fL%.2f %.2fZ"/>`+"\n",
		x-half, y, x, y-half, x+half, y, x, y+half)
}

// legend names the series, to the right of the rows.
func (l *layout) legend() {
	x := l.right + 2*margin
	for k, s := range l.Series {
		y := l.top + lineHeight*float64(k) + 2
		if s.Diamond {
			l.diamond(x+legendMark/2-3, y)
		} else {
			l.bar(k, x, y, legendMark-6)
		}
		l.text(x+legendMark, y+4, "start", s.Name)
	}
}

// text writes a text at x and the baseline y. anchor is the part of the text that is at x: "start",
// "middle" or "end".
func (l *layout) text(x, y float64, anchor, text string) {
	fmt.Fprintf(&l.out, `<text class="ink" x="%.2f" y="%.2f" text-anchor="%s">%s</text>`+"\n", x, y, anchor,
		escaped(text))
}

// line draws a line from (x1, y1) to (x2, y2). class selects the colour on a dark page, and color
// is the one on a light page.
func (l *layout) line(x1, y1, x2, y2 float64, class, color string, thickness float64) {
	fmt.Fprintf(&l.out, `<line class="%s" x1="%.2f" y1="%.2f" x2="%.2f" y2="%.2f" stroke="%s" stroke-width="%g"/>`+"\n",
		class, x1, y1, x2, y2, color, thickness)
}
