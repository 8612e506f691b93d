package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Printable returns a text without the characters that no viewer can show, and without those that
// change the direction of the text around them. It replaces control characters by spaces.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		case r == 0xfffe || r == 0xffff: // not allowed in XML
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// escaped returns a text in the form that SVG needs.
func escaped(text string) string { return html.EscapeString(Printable(text)) }

// textWidth returns the approximate width of a text in the font of any viewer.
func textWidth(text string) (w float64) {
	for _, r := range text {
		w += letterWidth
		if r >= 0x1100 { // CJK and symbols
			w += letterWidth
		}
	}
	return w
}

// Ticks returns round numbers between two numbers, in rising order: multiples of 1, 2 or 5 times a
// power of ten, at most about eight.
func Ticks(low, high float64) (all []string) {
	const most = 8
	const slack = 1e-9 // the part of a step that is allowed for rounding at the ends
	// The step is the smallest of these multiples that results in at most eight steps.
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*factor) <= most {
			step *= factor
			break
		}
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+slack)))
	for n := math.Ceil(low/step - slack); n <= high/step+slack; n++ {
		all = append(all, strconv.FormatFloat(n*step+0, 'f', decimals, 64)) // +0 turns −0 into 0
	}
	return all
}

// Shade returns the colour of bar k of n: blue, from pale to dark on a light page, and from dim to
// bright on a dark one. Neighbouring shades differ in lightness, so that they do not depend on
// colour vision.
func Shade(k, n int, dark bool) string {
	ramp := [3][3]float64{{210, 229, 244}, {0, 114, 178}, {0, 40, 70}} // RGB of the first, middle and last shade
	if dark {
		ramp = [3][3]float64{{20, 70, 105}, {60, 150, 210}, {215, 235, 250}}
	}
	at := 1.0 // the position between the three shades, from 0 to 2; a single bar has the middle one
	if n > 1 {
		at = 2 * float64(k) / float64(n-1)
	}
	from := min(int(at), 1)
	var rgb [3]int
	for i := range rgb {
		a, b := ramp[from][i], ramp[from+1][i]
		rgb[i] = int(a + (at-float64(from))*(b-a) + 0.5)
	}
	return fmt.Sprintf("#%02x%02x%02x", rgb[0], rgb[1], rgb[2])
}
