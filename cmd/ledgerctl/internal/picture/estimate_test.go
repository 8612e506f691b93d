package picture

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image/png"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

// estimated returns an estimate at some levels, of values with given estimates, all ± 10 %.
func estimated(t *testing.T, levels string, estimates ...float64) ledger.Estimate {
	t.Helper()
	out := ledger.Estimate{Question: "q"}
	for _, text := range strings.Fields(levels) {
		e, err := privacy.ParseEpsilon(text)
		if err != nil {
			t.Fatal(err)
		}
		out.Levels = append(out.Levels, ledger.LevelCount{Epsilon: e, N: 50})
		out.N += 50
	}
	for v, x := range estimates {
		out.Values = append(out.Values, ledger.ValueEstimate{Value: fmt.Sprint("value ", v), Estimate: x, StdErr: 0.05, Low: x - 0.1, High: x + 0.1})
	}
	return out
}

// drawn returns a picture as SVG.
func drawn(t *testing.T, p *bars) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.write(&out, "svg"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// box is a filled shape of a drawing, by its corners.
type box struct{ left, right, low, high float64 }

// filled returns the shapes with a style, but for the one in the legend, which is to the right of all others.
// Those filled with black have no style.
func filled(t *testing.T, svg, style string) (boxes []box) {
	t.Helper()
	number := regexp.MustCompile(`-?[0-9.]+`)
	for _, path := range regexp.MustCompile(`<path d="([^"]*)"`+regexp.QuoteMeta(style)+` +/>`).FindAllStringSubmatch(svg, -1) {
		b := box{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
		for i, text := range number.FindAllString(path[1], -1) {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				b.left, b.right = min(b.left, x), max(b.right, x)
			} else {
				b.low, b.high = min(b.low, x), max(b.high, x)
			}
		}
		boxes = append(boxes, b)
	}
	legend := slices.MaxFunc(boxes, func(a, b box) int { return cmp.Compare(a.left, b.left) })
	return slices.DeleteFunc(boxes, func(b box) bool { return b == legend })
}

// shaded returns the style of a bar.
func shaded(k, n int) string {
	c := shade(k, n)
	return fmt.Sprintf(` style="fill:#%02X%02X%02X"`, c.R, c.G, c.B)
}

// Bars begin at 0, are as long as the estimates, and reach below 0 and above 100 % where these do; the
// intervals, too. Values come from the top, and in a group the lower ε comes first.
func TestBarsAreTrue(t *testing.T) {
	low, high := estimated(t, "0.5", -0.3, 0.5, 1.4), estimated(t, "2", 0.2, 0.35, 0.45)
	whole := estimated(t, "0.5 2", 0.25, 0.3, 0.6)
	p := &bars{whole: whole, levels: []ledger.Estimate{low, high}, recorded: 2, values: []int{0, 1, 2}, confidence: 0.95}
	if left, right, _, _ := p.DataRange(); !(-50 < left && left < -40 && 150 < right && right < 160) {
		t.Errorf("the axis goes from %v to %v %%", left, right)
	}
	svg := drawn(t, p)

	first, second, marks := filled(t, svg, shaded(0, 2)), filled(t, svg, shaded(1, 2)), filled(t, svg, "")
	if len(first) != 3 || len(second) != 3 || len(marks) != 3 {
		t.Fatalf("%d light bars, %d dark ones, %d diamonds", len(first), len(second), len(marks))
	}
	zero := second[0].left
	percent := (second[0].right - zero) / 20 // in points
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.05 {
			t.Errorf("%s is at %v, not %v", name, got, want)
		}
	}
	near("the end of a bar below 0", first[0].left, zero-30*percent)
	near("its beginning", first[0].right, zero)
	near("the end of a bar above 100 %", first[2].right, zero+140*percent)
	near("the end of the dark bar of value 2", second[2].right, zero+45*percent)
	near("the middle of the diamond of value 2", (marks[2].left+marks[2].right)/2, zero+60*percent)
	for v := range 3 {
		if !(first[v].low > second[v].high && second[v].low > marks[v].high) {
			t.Errorf("value %d: the rows overlap or are not in order", v)
		}
		if v > 0 && !(marks[v-1].low > first[v].high) {
			t.Errorf("values %d and %d overlap", v-1, v)
		}
	}
	for _, at := range []float64{-0.4, -0.2, 0.4, 0.6, 1.3, 1.5, 0.1, 0.3, 0.25, 0.45, 0.35, 0.55, 0.15, 0.35, 0.2, 0.4, 0.5, 0.7} {
		x := zero + 100*at*percent
		if !hasCap(t, svg, x) {
			t.Errorf("no interval ends at %v %%", 100*at)
		}
	}
}

// hasCap tells whether there is a vertical line at x that is as short as the end of an interval.
func hasCap(t *testing.T, svg string, x float64) bool {
	t.Helper()
	for _, path := range regexp.MustCompile(`<path d="M([0-9.]+),([0-9.]+)L([0-9.]+),([0-9.]+)"`).FindAllStringSubmatch(svg, -1) {
		var at [4]float64
		for i := range at {
			var err error
			if at[i], err = strconv.ParseFloat(path[i+1], 64); err != nil {
				t.Fatal(err)
			}
		}
		if math.Abs(at[0]-x) < 0.05 && math.Abs(at[2]-x) < 0.05 && math.Abs(at[1]-at[3]) < 10 {
			return true
		}
	}
	return false
}

// Of two neighbouring shades the higher ε has the clearly darker one: that is what all can see.
func TestShadesGetDarker(t *testing.T) {
	lightness := func(k, n int) float64 { // CIE L*, from 0 to 100
		linear := func(x uint8) float64 {
			v := float64(x) / 255
			if v <= 0.04045 {
				return v / 12.92
			}
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		c := shade(k, n)
		return 116*math.Cbrt(0.2126*linear(c.R)+0.7152*linear(c.G)+0.0722*linear(c.B)) - 16
	}
	for n := 2; n <= mostLevels; n++ {
		for k := 1; k < n; k++ {
			if lightness(k-1, n)-lightness(k, n) < 10 {
				t.Errorf("shades %d and %d of %d have the lightnesses %v and %v", k-1, k, n, lightness(k-1, n), lightness(k, n))
			}
		}
	}
}

func TestShownLevelsAreEven(t *testing.T) {
	var levels []ledger.LevelCount
	for n := 1; n <= 50; n++ {
		e, err := privacy.ParseEpsilon(fmt.Sprint(n))
		if err != nil {
			t.Fatal(err)
		}
		levels = append(levels, ledger.LevelCount{Epsilon: e})
		shown, few := shownLevels(levels)
		if p := (&bars{levels: make([]ledger.Estimate, len(shown)), recorded: n, few: few}); strings.Contains(p.caption(), "few people") {
			t.Errorf("as many people are at each of %d levels, and the picture says %q", n, p.caption())
		}
		if len(shown) != min(n, mostLevels) || shown[0] != levels[0] || shown[len(shown)-1] != levels[n-1] {
			t.Fatalf("of %d levels %v are shown", n, shown)
		}
		narrowest, widest := math.Inf(1), 0.0
		for i := 1; i < len(shown); i++ {
			step := shown[i].Epsilon.Float64() - shown[i-1].Epsilon.Float64()
			narrowest, widest = min(narrowest, step), max(widest, step)
		}
		if n > 1 && (narrowest < 1 || widest-narrowest > 1) {
			t.Errorf("of %d levels %v are shown", n, shown)
		}
	}
}

func TestLargestValuesAreShown(t *testing.T) {
	few := estimated(t, "1", 0.1, 0.5, 0.4)
	if got := shownValues(few.Values); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("of few values %v are shown", got)
	}
	estimates, want := make([]float64, 100), []int(nil)
	for v := range estimates {
		estimates[v] = float64(v*37%100)/5000 - 0.002 // some are below 0
	}
	for rank := 99; rank > 99-mostValues; rank-- {
		want = append(want, slices.Index(estimates, float64(rank)/5000-0.002))
	}
	if got := shownValues(estimated(t, "1", estimates...).Values); !slices.Equal(got, want) {
		t.Errorf("%v are shown, not %v", got, want)
	}
}

func TestLongNamesAreCut(t *testing.T) {
	for name, want := range map[string]string{
		"short": "short", "": "", "1234567890": "1234567890", "12345678901": "123456…901", "ééééééééééé": "éééééé…ééé", "a\nb\tc": "a b c",
	} {
		if got := shortened(name, 10); got != want {
			t.Errorf("%q became %q, not %q", name, got, want)
		}
	}
	p := &bars{whole: estimated(t, "1", 0.5, 0.3, 0.2), values: []int{0, 1, 2}}
	if names, numbered := p.labels(); numbered || !slices.Equal(names, []string{"value 0", "value 1", "value 2"}) {
		t.Errorf("short names became %q", names)
	}
	long := strings.Repeat("x", 20)
	p.whole.Values[0].Value, p.whole.Values[2].Value = long+"1"+long, long+"2"+long
	cut := strings.Repeat("x", 18) + "…" + strings.Repeat("x", 9)
	if names, numbered := p.labels(); !numbered || !slices.Equal(names, []string{cut + " (1)", "value 1", cut + " (3)"}) {
		t.Errorf("names alike became %q", names)
	}
	if !strings.Contains(p.caption(), "\nNumbers in parentheses") {
		t.Errorf("the caption is %q", p.caption())
	}
}

func TestPictureAsPNG(t *testing.T) {
	whole := estimated(t, "1", 0.6, 0.4)
	p := &bars{whole: whole, levels: []ledger.Estimate{whole}, recorded: 1, values: []int{0, 1}, confidence: 0.95}
	var out bytes.Buffer
	if err := p.write(&out, "png"); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	blue, want := 0, shade(0, 1)
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if r, g, b, _ := picture.At(x, y).RGBA(); uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
				blue++
			}
		}
	}
	if width := picture.Bounds().Dx(); width != 853 || blue < 5000 {
		t.Errorf("%d pixels wide, %d of them blue", width, blue)
	}
}

// stranger is a ledger behind an address, whose estimates at an ε are not those that were asked for.
type stranger struct {
	at  []ledger.LevelCount
	one ledger.Estimate
}

func (s stranger) Levels(context.Context, string) ([]ledger.LevelCount, error) { return s.at, nil }

func (s stranger) Estimate(context.Context, ledger.EstimateRequest) (ledger.Estimate, error) {
	return s.one, nil
}

func TestEstimatesOfOtherValuesAreNotDrawn(t *testing.T) {
	whole := estimated(t, "1", 0.4, 0.6)
	for _, one := range []ledger.Estimate{{}, estimated(t, "1", 1), estimated(t, "", 0.4, 0.6)} {
		if p, err := newBars(t.Context(), stranger{whole.Levels, one}, ledger.EstimateRequest{}, whole); err == nil {
			t.Errorf("drawn is %+v", p.levels)
		}
	}
	if p, err := newBars(t.Context(), stranger{whole.Levels, whole}, ledger.EstimateRequest{}, whole); err != nil || len(p.levels) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestLevelsOfFewAreNotShown(t *testing.T) {
	at := func(epsilon string, n int64) ledger.LevelCount {
		e, err := privacy.ParseEpsilon(epsilon)
		if err != nil {
			t.Fatal(err)
		}
		return ledger.LevelCount{Epsilon: e, N: n}
	}
	got, few := shownLevels([]ledger.LevelCount{at("1", 10), at("2", 1000), at("3", 9), at("4", 500)})
	if want := []ledger.LevelCount{at("1", 10), at("2", 1000), at("4", 500)}; !slices.Equal(got, want) || few != 1 {
		t.Errorf("shown are %v but for %d, want %v", got, few, want)
	}
}

func TestNamesAreFitForAPicture(t *testing.T) {
	for name, want := range map[string]string{
		"a\tb": "a b", "x\ufffey": "x\ufffdy", "left\u202eright": "leftright", "naïve ε": "naïve ε",
	} {
		if got := shortened(name, 28); got != want {
			t.Errorf("%q is written %q, want %q", name, got, want)
		}
	}
}
