package chart

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

func TestFormat_Path_DecidesByExtension(t *testing.T) {
	for path, want := range map[string]string{"a.png": "png", "a.b.SVG": "svg", "dir.png/x.svg": "svg"} {
		if got, err := Format(path); err != nil || got != want {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"", "png", "a.jpg", "a.svg.gz", "a.png/b"} {
		if got, err := Format(path); err == nil {
			t.Errorf("%q: %q", path, got)
		}
	}
}

func TestColor_EachNumber_IsDifferent(t *testing.T) {
	seen := map[string]bool{}
	for i := range 8 {
		seen[fmt.Sprint(Color(i))] = true
	}
	if len(seen) != 8 || Color(8) != Color(0) {
		t.Errorf("%d colours", len(seen))
	}
}

func names(ticks []plot.Tick) string {
	var all []string
	for _, tick := range ticks {
		if tick.Label != "" {
			all = append(all, tick.Label)
		}
	}
	return strings.Join(all, " ")
}

func TestTicks_SomeRanges_AreRound(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		want      string
	}{
		{0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0.1, 1, "0.2 0.4 0.6 0.8 1.0"},
		{1, 20, "5 10 15 20"},
		{-0.8, 1.1, "-0.5 0.0 0.5 1.0"},
		{0, 1e6, "0 200000 400000 600000 800000 1000000"},
		{0.2581, 0.3065, "0.26 0.27 0.28 0.29 0.30"},
		{-3e-5, 4e-5, "-0.00003 -0.00002 -0.00001 0.00000 0.00001 0.00002 0.00003 0.00004"},
	} {
		ticks := Ticks{}.Ticks(test.low, test.high)
		if got := names(ticks); got != test.want {
			t.Errorf("%v to %v: %s, want %s", test.low, test.high, got, test.want)
		}
		for _, tick := range ticks {
			if value, err := strconv.ParseFloat(tick.Label, 64); err != nil || math.Abs(value-tick.Value) > 1e-12 {
				t.Errorf("%v to %v: the tick at %v is called %s", test.low, test.high, tick.Value, tick.Label)
			}
		}
	}
}

// sample is a plot with four lines.
func sample(t *testing.T) *plot.Plot {
	t.Helper()
	p := New("A <title>", "x", "y")
	for i, name := range []string{"long line", "bars", "band", "here"} {
		line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: float64(i)}, {X: 50, Y: 60}, {X: 99, Y: 90}})
		if err != nil {
			t.Fatal(err)
		}
		line.Color = Color(i)
		p.Add(line)
		p.Legend.Add("\u00a0"+name, line)
	}
	return p
}

func render(t *testing.T, p *plot.Plot, format string) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteWithLegend(&out, p, format, 600, 340); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWrite_PNG_HasSizeAndBackground(t *testing.T) {
	for _, write := range []func(*bytes.Buffer) error{
		func(out *bytes.Buffer) error { return WriteWithLegend(out, sample(t), "png", 600, 330) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(&out)
		if err != nil {
			t.Fatal(err)
		}
		if size := picture.Bounds().Size(); size.X != 800 || size.Y != 440 {
			t.Errorf("%v pixels", size)
		}
		if r, g, b, a := picture.At(799, 439).RGBA(); r&g&b&a != 0xffff {
			t.Errorf("the corner is %x %x %x %x, not white", r, g, b, a)
		}
	}
	if err := WriteWithLegend(&bytes.Buffer{}, sample(t), "bmp", 600, 330); err == nil {
		t.Error("an unknown format was written")
	}
}

var (
	svgText = regexp.MustCompile(`(?s)<text x="([-0-9.]+)" y="([-0-9.]+)"[^>]*>([^<]*)</text>`)
	svgPath = regexp.MustCompile(`<path d="([^"]*)" style="([^"]*)"`)
	svgPair = regexp.MustCompile(`[ML](-?[0-9.]+),(-?[0-9.]+)`)
)

func float(t *testing.T, text string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// The legend is to the right of all data and below the title, its lines do not overlap, and all is
// in the picture.
func TestLegend_FourLines_IsBesideTheData(t *testing.T) {
	svg := render(t, sample(t), "svg")
	left, top, last := math.Inf(1), 0.0, math.Inf(1)
	var entries []string
	for _, text := range svgText.FindAllStringSubmatch(svg, -1) {
		x, y, name := float(t, text[1]), -float(t, text[2]), text[3]
		if x < 0 || x > 590 || y < 0 || y > 340 {
			if !strings.HasPrefix(name, "y") { // it is turned by a quarter, so its coordinates are others
				t.Errorf("%q is at %v, %v", name, x, y)
			}
		}
		switch {
		case name == "A &lt;title&gt;":
			top = y
		case strings.HasPrefix(name, "\u00a0"):
			entries = append(entries, strings.TrimPrefix(name, "\u00a0"))
			if y > last-12 || y > top-12 {
				t.Errorf("%q is at a height of %v, what is above it at %v, the title at %v", name, y, last, top)
			}
			left, last = min(left, x-30), y // the sample line is 30 points wide
		}
	}
	if got := strings.Join(entries, ", "); got != "long line, bars, band, here" {
		t.Errorf("the legend has %s", got)
	}
	data := 0
	for _, path := range svgPath.FindAllStringSubmatch(svg, -1) {
		pairs := svgPair.FindAllStringSubmatch(path[1], -1)
		if len(pairs) < 3 || !strings.Contains(path[2], "fill:none") {
			continue
		}
		data++
		for _, pair := range pairs {
			if x := float(t, pair[1]); x > left-6 {
				t.Errorf("data at %v, the legend begins at %v", x, left)
			}
		}
	}
	if data < 4 {
		t.Errorf("%d lines of data", data)
	}
}

// A plot can be written twice.
func TestWrite_SecondTime_IsTheSame(t *testing.T) {
	p := sample(t)
	if one, two := render(t, p, "svg"), render(t, p, "svg"); one != two || !strings.Contains(two, "long line") {
		t.Error("the second picture is another one")
	}
}

func TestWrite_SVG_NamesFontsOfTheSameWidth(t *testing.T) {
	svg := render(t, sample(t), "svg")
	all := strings.Count(svg, "font-family:")
	if good := strings.Count(svg, "font-family:Liberation Serif,Times New Roman,Times,serif;"); good != all || all == 0 {
		t.Errorf("%d of %d fonts: %.500s", good, all, svg)
	}
}

func TestCanDraw_UnknownLetters_IsFalse(t *testing.T) {
	for text, want := range map[string]bool{"": true, "share, % of Größe ε ≥ Ж": true, "是": false, "a\U0001f600": false} {
		if got := CanDraw(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// The viewer of an SVG may have wider letters than those that the text was measured with: a title
// that is as wide as it may be is still whole then.
func TestTitle_WiderFont_IsNotCutOff(t *testing.T) {
	p := sample(t)
	p.Title.Text = strings.Repeat("wide ", 16)
	measured := p.Title.TextStyle.Width(p.Title.Text).Points()
	if measured*1.3 < 400 || measured*1.3 > 588 {
		t.Fatalf("the title is %v points wide, which shows nothing", measured)
	}
	for _, text := range svgText.FindAllStringSubmatch(render(t, p, "svg"), -1) {
		if strings.HasPrefix(text[3], "wide") {
			if x := float(t, text[1]); x < 6 || x+1.3*measured > 595 {
				t.Errorf("the title begins at %v and is up to %v wide", x, 1.3*measured)
			}
			return
		}
	}
	t.Error("there is no title")
}
