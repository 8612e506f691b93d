package figures

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"github.com/sluicedp/sluice/lab/internal/chart"
)

func names(ticks []plot.Tick) string {
	var all []string
	for _, tick := range ticks {
		if tick.Label != "" {
			all = append(all, tick.Label)
		}
	}
	return strings.Join(all, " ")
}

func TestLogTicks_SomeRanges_AreReadable(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		all       int
		want      string
	}{
		{0.9, 99, 19, "1 2 5 10 20 50"},
		{0.0008, 0.02, 2 + 9 + 2, "0.001 0.002 0.005 0.01 0.02"},
		{3, 4, 2, ""},
		{1, 10, 10, "1 2 5 10"},
		{0, 10, 0, ""},
		{-1, 10, 0, ""},
	} {
		ticks := logTicks{}.Ticks(test.low, test.high)
		if got := names(ticks); got != test.want || len(ticks) != test.all {
			t.Errorf("%v to %v: %d ticks, %s; want %d, %s", test.low, test.high, len(ticks), got, test.all, test.want)
		}
	}
}

// A long line is marked at some of its points, the last among them; points without a line are all
// marked.
func TestMarked_LongLine_HasSomeMarksAndTheLast(t *testing.T) {
	line := series{line: true}
	for _, n := range []int{1, 2, maxMarks, maxMarks + 1, 100, 1000} {
		points := pairs(make([]float64, n), make([]float64, n))
		points[n-1].X = 7
		some := line.marked(points)
		if len(some) > maxMarks+1 || n <= maxMarks && len(some) != n || some[len(some)-1].X != 7 {
			t.Errorf("%d of %d points are marked, the last at %v", len(some), n, some[len(some)-1].X)
		}
		if all := (series{}).marked(points); len(all) != n {
			t.Errorf("%d of %d points without a line are marked", len(all), n)
		}
	}
}

// Curves of different looks are drawn in different ways.
func TestLook_DifferentRanks_AreDrawnDifferently(t *testing.T) {
	dashes, shapes := map[string]bool{}, map[string]bool{}
	for i := range 8 {
		dashes[fmt.Sprint(look{dash: i}.line(1).Dashes)] = true
		shapes[fmt.Sprintf("%T", look{mark: i}.glyph().Shape)] = true
	}
	if len(dashes) != 5 || len(shapes) != 8 {
		t.Errorf("%d kinds of dashes, %d of marks", len(dashes), len(shapes))
	}
}

func TestAdd_EmptySeries_IsAnError(t *testing.T) {
	for _, s := range []series{{x: []float64{1}, y: []float64{math.NaN()}}, {x: []float64{math.Inf(1)}, y: []float64{1}}} {
		if err := add(chart.New("", "", ""), s); err == nil {
			t.Errorf("%+v was drawn", s)
		}
	}
}

// Each kind of series is drawn, and those with a name are in the legend, in their order.
func TestAdd_EachKindOfSeries_IsDrawnAndNamed(t *testing.T) {
	p := chart.New("title", "x", "y")
	long := series{name: "long line", line: true, marks: true, look: look{color: 3, mark: 2, dash: 1}}
	for i := range 100 {
		long.x, long.y = append(long.x, float64(i)), append(long.y, 50)
	}
	few := []float64{0, 50, 99}
	for _, s := range []series{
		long,
		{name: "bars", marks: true, x: few, y: few, low: []float64{-10, 40, 90}, high: []float64{10, 60, 110}},
		{name: "band", line: true, x: few, y: few, low: []float64{-20, 30, 80}, high: []float64{20, 70, 120}, look: look{dash: 2}},
		{x: few, y: few, marks: true, look: look{color: 4, mark: 1}},
	} {
		if err := add(p, s); err != nil {
			t.Fatal(err)
		}
	}
	addVertical(p, "here", 25, look{color: 5, dash: 2})
	if p.Y.Min != -20 || p.Y.Max != 120 || p.X.Min != 0 || p.X.Max != 99 {
		t.Errorf("the axes are from %v to %v and from %v to %v", p.X.Min, p.X.Max, p.Y.Min, p.Y.Max)
	}
	var out bytes.Buffer
	if err := chart.WriteWithLegend(&out, p, "svg", Width, Height); err != nil {
		t.Fatal(err)
	}
	var entries []string
	for _, text := range regexp.MustCompile(`>\x{a0}([^<]*)</text>`).FindAllStringSubmatch(out.String(), -1) {
		entries = append(entries, text[1])
	}
	if got := strings.Join(entries, ", "); got != "long line, bars, band, here" {
		t.Errorf("the legend has %s", got)
	}
	for i, dashes := range []string{"6,3", "1.5,2.5"} { // the long line, and the band and the vertical line
		if !strings.Contains(out.String(), "stroke-dasharray:"+dashes) {
			t.Errorf("the picture has no line of dash %d", i+1)
		}
	}
}
