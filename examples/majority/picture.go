package main

import (
	"fmt"
	"math"
	"strings"
)

// The picture, in pixels.
const (
	width, height = 900, 850
	top           = 146.0 // of the triangle, where all choose A
	side          = 672.0
	middle        = width / 2.0
)

// hues are the colours of the options, from the palette of Okabe and Ito, which the colour-blind can tell
// apart.
var hues = [][3]float64{{0x00, 0x72, 0xB2}, {0xD5, 0x5E, 0x00}, {0x00, 0x9E, 0x73}}

// point is a place in the picture.
type point struct{ x, y float64 }

// picture is an SVG being written.
type picture struct{ strings.Builder }

// draw returns the triangle as an SVG.
func (t *triangle) draw() []byte {
	p := &picture{}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="How surely a private answer names the commonest of three options" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" fill="#222">
<rect width="%d" height="%d" fill="#fff"/>
`, width, height, width, height, width, height)
	p.text(point{40, 44}, `font-size="25" font-weight="bold"`, "Which option is the commonest?")
	p.text(point{40, 70}, `font-size="15"`, "%d people, three options, one private answer at ε = %g", t.people, t.epsilon)
	t.drawCells(p)
	t.drawLines(p)
	t.drawRankings(p)
	t.drawRim(p)
	t.drawScale(p, point{40, 134})
	drawLineLegend(p, point{640, 134})
	t.drawCaption(p)
	p.WriteString("</svg>\n")
	return []byte(p.String())
}

// text writes a line of text.
func (p *picture) text(at point, attributes, format string, values ...any) {
	text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(fmt.Sprintf(format, values...))
	fmt.Fprintf(p, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", at.x, at.y, attributes, text)
}

// pitch is the distance between two neighbours.
func (t *triangle) pitch() float64 { return side / float64(t.people) }

// center returns the place of a split.
func (t *triangle) center(row, column int) point {
	return point{
		middle + t.pitch()*(float64(column)-float64(row)/2),
		top + t.pitch()*float64(row)*math.Sqrt(3)/2,
	}
}

// drawCells draws a hexagon for each split, with its numbers for a reader that points at it.
func (t *triangle) drawCells(p *picture) {
	p.WriteString("<g stroke=\"#c4c8cc\" stroke-width=\"0.45\">\n")
	for row, column := range t.splits() {
		v := vertex(row, column)
		counts, law := t.counts(row, column), t.table.At(v)
		fmt.Fprintf(p, "<polygon class=\"cell\" points=\"%s\" fill=\"%s\"><title>%d A, %d B, %d C: the answer is A with %.1f %%, B %.1f %%, C %.1f %%</title></polygon>\n",
			t.hexagon(t.center(row, column)), t.shade(t.preferences.Color(v), t.sure(v)),
			counts[0], counts[1], counts[2], 100*law[0], 100*law[1], 100*law[2])
	}
	p.WriteString("</g>\n")
}

// hexagon returns the corners of a cell, which has one on top.
func (t *triangle) hexagon(center point) string {
	var corners []string
	for i := range 6 {
		sin, cos := math.Sincos(math.Pi / 3 * float64(i))
		radius := t.pitch() / math.Sqrt(3)
		corners = append(corners, fmt.Sprintf("%.2f,%.2f", center.x+radius*sin, center.y-radius*cos))
	}
	return strings.Join(corners, " ")
}

// shade mixes an option's hue with white: none of it for a mere guess, all of it for certainty.
func (t *triangle) shade(option int, sure float64) string {
	guess := 1 / float64(len(options))
	part := (sure - guess) / (1 - guess)
	mixed := [3]any{}
	for i, channel := range hues[option] {
		mixed[i] = int(math.Round(255 + part*(channel-255)))
	}
	return fmt.Sprintf("#%02x%02x%02x", mixed[:]...)
}

// drawLines draws the sides of cells at which the ranking changes: broad if its first place does.
func (t *triangle) drawLines(p *picture) {
	broad, thin := &strings.Builder{}, &strings.Builder{}
	for row, column := range t.splits() {
		for _, next := range [][2]int{{row, column + 1}, {row + 1, column}, {row + 1, column + 1}} {
			if next[0] > t.people || next[1] > next[0] {
				continue
			}
			a, b := vertex(row, column), vertex(next[0], next[1])
			switch {
			case t.preferences.Color(a) != t.preferences.Color(b):
				t.sideBetween(broad, t.center(row, column), t.center(next[0], next[1]))
			case t.preferences.Rainbow(a) != t.preferences.Rainbow(b):
				t.sideBetween(thin, t.center(row, column), t.center(next[0], next[1]))
			}
		}
	}
	p.line(thinLine, thin.String())
	p.line(broadLine, broad.String())
}

const (
	broadLine = `stroke="#000" stroke-width="2.6"`
	thinLine  = `stroke="#555" stroke-width="1.1"`
)

func (p *picture) line(attributes, path string) {
	fmt.Fprintf(p, "<path fill=\"none\" stroke-linecap=\"round\" %s d=\"%s\"/>\n", attributes, path)
}

// sideBetween draws the side that two neighbouring cells share.
func (t *triangle) sideBetween(path *strings.Builder, a, b point) {
	half := 0.5 / math.Sqrt(3) // of the side, in distances of neighbours
	x, y := (a.x+b.x)/2, (a.y+b.y)/2
	dx, dy := half*(a.y-b.y), half*(b.x-a.x)
	fmt.Fprintf(path, "M%.2f %.2fL%.2f %.2f", x-dx, y-dy, x+dx, y+dy)
}

const haloed = `font-size="16" font-weight="bold" text-anchor="middle" fill="#000" stroke="#fff" stroke-width="4" stroke-linejoin="round" stroke-opacity="0.85" paint-order="stroke"`

// drawRankings writes each ranking in the middle of its region.
func (t *triangle) drawRankings(p *picture) {
	for i, ranking := range rankings {
		var sum point
		cells := 0.0
		for row, column := range t.splits() {
			if at := t.center(row, column); t.preferences.Rainbow(vertex(row, column)) == i {
				sum, cells = point{sum.x + at.x, sum.y + at.y}, cells+1
			}
		}
		at := point{sum.x / cells, sum.y/cells + 5}
		p.text(at, haloed, "%s", rankingText(ranking))
	}
}

// drawRim labels the corners and the middles of the sides.
func (t *triangle) drawRim(p *picture) {
	a, b, c := t.center(0, 0), t.center(t.people, 0), t.center(t.people, t.people)
	const corner = `font-size="17" font-weight="bold" text-anchor="middle"`
	p.text(point{a.x, a.y - 16}, corner, "all A")
	p.text(point{b.x, b.y + 30}, corner, "all B")
	p.text(point{c.x, c.y + 30}, corner, "all C")
	const small = `font-size="14" text-anchor="%s"`
	p.text(point{(a.x+b.x)/2 - 18, (a.y + b.y) / 2}, fmt.Sprintf(small, "end"), "half A, half B")
	p.text(point{(a.x+c.x)/2 + 18, (a.y + c.y) / 2}, fmt.Sprintf(small, "start"), "half A, half C")
	p.text(point{(b.x + c.x) / 2, b.y + 28}, fmt.Sprintf(small, "middle"), "half B, half C")
}

// drawScale explains the colours.
func (t *triangle) drawScale(p *picture, at point) {
	const steps, step, bar = 50, 4.0, 15.0
	guess := 1 / float64(len(options))
	p.text(at, `font-size="14" font-weight="bold"`, "Probability of the true answer")
	for option := range options {
		y := at.y + 14 + float64(option)*(bar+4)
		p.text(point{at.x, y + 12}, `font-size="14"`, "%c", options[option])
		for i := range steps {
			sure := guess + (1-guess)*(float64(i)+0.5)/steps
			fmt.Fprintf(p, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", at.x+18+float64(i)*step, y, step, bar, t.shade(option, sure))
		}
		fmt.Fprintf(p, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#999\" stroke-width=\"0.7\"/>\n", at.x+18, y, steps*step, bar)
	}
	ticks := point{at.x + 18, at.y + 10 + float64(len(options))*(bar+4)}
	drawTicks(p, ticks, steps*step)
	low, high := t.bounds()
	p.text(point{ticks.x, ticks.y + 40}, `font-size="13"`, "here from %.2f to %.2f", low, high)
}

// drawTicks puts numbers under the scale, which begins at a mere guess.
func drawTicks(p *picture, at point, length float64) {
	const guess = 1.0 / 3
	for _, tick := range []struct {
		sure float64
		text string
	}{{guess, "⅓"}, {0.5, "0.5"}, {0.75, "0.75"}, {1, "1"}} {
		x := at.x + length*(tick.sure-guess)/(1-guess)
		fmt.Fprintf(p, "<path d=\"M%.1f %.1fv5\" stroke=\"#222\"/>\n", x, at.y)
		p.text(point{x, at.y + 19}, `font-size="13" text-anchor="middle"`, "%s", tick.text)
	}
}

// drawLineLegend explains the lines.
func drawLineLegend(p *picture, at point) {
	p.text(at, `font-size="14" font-weight="bold"`, "One changed vote changes")
	p.line(broadLine, fmt.Sprintf("M%.1f %.1fh30", at.x+2, at.y+22))
	p.text(point{at.x + 42, at.y + 27}, `font-size="14"`, "the true answer")
	p.line(thinLine, fmt.Sprintf("M%.1f %.1fh30", at.x+2, at.y+44))
	p.text(point{at.x + 42, at.y + 49}, `font-size="14"`, "the order of the others")
}

func (t *triangle) drawCaption(p *picture) {
	for i, line := range []string{
		"Each cell is one way in which the votes can split; the more votes would have to change to reach a line,",
		"the surer the answer. In a corner all agree, but one vote decides who is second, so that it lies on a line.",
	} {
		p.text(point{40, 802 + 22*float64(i)}, `font-size="15"`, "%s", line)
	}
}
