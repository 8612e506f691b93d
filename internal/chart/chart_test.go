package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sample has two bars and a diamond in each of three groups. Some are below 0 and above 100.
func sample() Bars {
	series := func(name string, diamond bool, values ...float64) Series {
		s := Series{Name: name, Diamond: diamond}
		for _, v := range values {
			s.Values = append(s.Values, Interval{v - 10, v, v + 10})
		}
		return s
	}
	return Bars{Title: "A <title>", Axis: "share, %", Notes: []string{"one", "two & three"},
		Groups: []string{"first", "second", "third"},
		Series: []Series{series("low", false, -30, 50, 140), series("high", false, 20, 35, 45), series("all", true, 25, 30, 60)}}
}

func written(t *testing.T, b Bars) string {
	t.Helper()
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// box is a filled shape, described by its edges.
type box struct{ left, right, top, bottom float64 }

// barsOf returns the bars of a series without the last one, which is in the legend.
func barsOf(t *testing.T, svg string, k int) (all []box) {
	t.Helper()
	bar := regexp.MustCompile(fmt.Sprintf(`<rect class="bar%d" x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"`, k))
	for _, m := range bar.FindAllStringSubmatch(svg, -1) {
		x, y := number(t, m[1]), number(t, m[2])
		all = append(all, box{x, x + number(t, m[3]), y, y + number(t, m[4])})
	}
	return all[:len(all)-1]
}

// diamondsOf returns the diamonds without the one in the legend.
func diamondsOf(t *testing.T, svg string) (all []box) {
	t.Helper()
	diamond := regexp.MustCompile(`<path class="ink" d="M(\S+) \S+L\S+ (\S+)L(\S+) \S+L\S+ (\S+)Z"`)
	for _, m := range diamond.FindAllStringSubmatch(svg, -1) {
		all = append(all, box{number(t, m[1]), number(t, m[3]), number(t, m[2]), number(t, m[4])})
	}
	return all[:len(all)-1]
}

// Bars begin at 0, are as long as their numbers, and reach below 0 and above 100 where the numbers
// do. So do the intervals. Groups and series are drawn from the top in their order.
func TestBars_AreAsLongAsTheirNumbers(t *testing.T) {
	b := sample()
	if low, high := b.bounds(); !(-50 < low && low < -40 && 150 < high && high < 160) {
		t.Errorf("the axis goes from %v to %v", low, high)
	}
	svg := written(t, b)
	first, second, marks := barsOf(t, svg, 0), barsOf(t, svg, 1), diamondsOf(t, svg)
	if len(first) != 3 || len(second) != 3 || len(marks) != 3 {
		t.Fatalf("%d and %d bars, %d diamonds", len(first), len(second), len(marks))
	}
	zero := second[0].left
	percent := (second[0].right - zero) / 20
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.05 {
			t.Errorf("%s is at %v, not %v", name, got, want)
		}
	}
	near("the left end of a bar below 0", first[0].left, zero-30*percent)
	near("the right end of a bar below 0", first[0].right, zero)
	near("the end of a bar above 100", first[2].right, zero+140*percent)
	near("the end of the second bar of group 2", second[2].right, zero+45*percent)
	near("the middle of the diamond of group 2", (marks[2].left+marks[2].right)/2, zero+60*percent)
	for i := range 3 {
		if !(first[i].bottom < second[i].top && second[i].bottom < marks[i].top) {
			t.Errorf("group %d: the rows overlap or are not in order", i)
		}
		if i > 0 && !(marks[i-1].bottom < first[i].top) {
			t.Errorf("groups %d and %d overlap", i-1, i)
		}
	}
	whiskers := regexp.MustCompile(`class="line" d="M(\S+) \S+H(\S+?)M`).FindAllStringSubmatch(svg, -1)
	if len(whiskers) != 9 {
		t.Fatalf("%d intervals", len(whiskers))
	}
	for i, w := range whiskers {
		at := b.Series[i%3].Values[i/3]
		near("the low end of an interval", number(t, w[1]), zero+at.Low*percent)
		near("the high end of an interval", number(t, w[2]), zero+at.High*percent)
	}
}

// The SVG is well-formed, and its description for screen readers has the numbers.
func TestBars_AreWellFormedWithDescription(t *testing.T) {
	svg := written(t, sample())
	if again := written(t, sample()); again != svg {
		t.Error("two charts of the same data differ")
	}
	for in := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`role="img"`, "<title>A &lt;title&gt;</title>", "third, all: 60 (50 to 70).", "prefers-color-scheme:dark",
		">two &amp; three</text>", ">share, %</text>", ">high</text>", ">second</text>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the SVG has no %q", want)
		}
	}
}

// The legend is to the right of all bars and below the title. All text is inside the picture.
func TestBars_FitIntoThePicture(t *testing.T) {
	b := sample()
	b.Groups[1], b.Series[0].Name = strings.Repeat("w", 33), "ε = 0.123456789, n = 123456789"
	svg := written(t, b)
	height := number(t, regexp.MustCompile(`viewBox="0 0 760 (\d+)"`).FindStringSubmatch(svg)[1])
	for _, m := range regexp.MustCompile(`<text class="ink" x="(.*?)" y="(.*?)" text-anchor="(.*?)">(.*?)</text>`).FindAllStringSubmatch(svg, -1) {
		x, y, wide := number(t, m[1]), number(t, m[2]), textWidth(m[4])
		left := map[string]float64{"start": x, "middle": x - wide/2, "end": x - wide}[m[3]]
		if left < 0 || left+wide > width || y < lineHeight/2 || y > height {
			t.Errorf("%q is at %v, %v", m[4], left, y)
		}
	}
	boxes := append(barsOf(t, svg, 0), barsOf(t, svg, 1)...)
	legend := regexp.MustCompile(`<rect class="bar0" x="(.*?)"`).FindAllStringSubmatch(svg, -1)
	if right := slices.MaxFunc(boxes, func(a, b box) int { return int(a.right - b.right) }).right; number(t, legend[3][1]) <= right {
		t.Errorf("the legend begins at %s, left of the end of a bar at %v", legend[3][1], right)
	}
}

func TestBars_NoData_HaveNoNaN(t *testing.T) {
	for _, b := range []Bars{{}, {Groups: []string{"x"}, Series: []Series{{Name: "y", Values: make([]Interval, 1)}}}} {
		if svg := written(t, b); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s", svg)
		}
	}
}

func TestTicks_AreRoundNumbers(t *testing.T) {
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
		if got := strings.Join(Ticks(test.low, test.high), " "); got != test.want {
			t.Errorf("%v to %v: %s, want %s", test.low, test.high, got, test.want)
		}
	}
}

// lightness returns CIE L*, from 0 to 100.
func lightness(t *testing.T, color string) float64 {
	t.Helper()
	rgb, err := strconv.ParseUint(color[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(x uint64) float64 {
		v := float64(x&255) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 116*math.Cbrt(0.2126*linear(rgb>>16)+0.7152*linear(rgb>>8)+0.0722*linear(rgb)) - 16
}

// Of two neighbouring shades, the later one is clearly darker on a light page and lighter on a dark
// page, so that the chart does not depend on colour vision.
func TestShades_DifferInLightness(t *testing.T) {
	for n := 2; n <= MaxRows; n++ {
		for k := 1; k < n; k++ {
			light := lightness(t, Shade(k-1, n, false)) - lightness(t, Shade(k, n, false))
			dark := lightness(t, Shade(k, n, true)) - lightness(t, Shade(k-1, n, true))
			if light < 10 || dark < 10 {
				t.Errorf("shades %d and %d of %d differ by %v on a light page and by %v on a dark one", k-1, k, n, light, dark)
			}
		}
	}
}

func TestPrintable_ReplacesInvisibleCharacters(t *testing.T) {
	for name, want := range map[string]string{
		"a\tb": "a b", "x\ufffey": "x\ufffdy", "left\u202eright": "leftright", "naïve ε": "naïve ε",
	} {
		if got := Printable(name); got != want {
			t.Errorf("%q is written %q, want %q", name, got, want)
		}
	}
}
