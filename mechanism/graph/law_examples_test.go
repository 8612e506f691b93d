package graph

import (
	"math"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// zhou2022 Examples 1 and 2 (Fig. 2). The numbers printed there are 3/55, 9/55 and 43/55, cut to four digits (they
// sum to 0.9999), and ε = ln 1.2. Blue grows by e^ε up to τ_B, and blue and red together up to τ_R.
func TestLaw_ExamplesOfZhou2022(t *testing.T) {
	dp := Privacy{Epsilon: math.Log(1.2)}
	const blue, red, green = 0, 1, 2
	type span struct {
		last  int    // distance
		order [3]int // from the least likely on
	}
	for name, example := range map[string]struct {
		boundary   []float64
		tauB, tauR int
		orders     []span
	}{
		"1": {[]float64{3. / 55, 9. / 55, 43. / 55}, 12, 5,
			[]span{{5, [3]int{blue, red, green}}, {8, [3]int{blue, green, red}}, {11, [3]int{green, blue, red}}, {40, [3]int{green, red, blue}}}},
		"2": {[]float64{9. / 55, 3. / 55, 43. / 55}, 6, 5,
			[]span{{5, [3]int{red, blue, green}}, {40, [3]int{red, green, blue}}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := example.boundary
			spans := example.orders
			for d := range 41 {
				got := check.Value(dp.Law(example.boundary, d))(t)
				if d > spans[0].last {
					spans = spans[1:]
				}
				if o := spans[0].order; !(got[o[0]] <= got[o[1]] && got[o[1]] <= got[o[2]]) {
					t.Errorf("distance %d: %v is not in the order %v", d, got, o)
				}
				if d == 0 {
					continue
				}
				by := func(color int, factor float64) bool { return math.Abs(got[color]/before[color]/factor-1) < 1e-12 }
				if by(blue, 1.2) != (d <= example.tauB) || by(red, 1.2) != (d <= example.tauR) ||
					by(red, 1/1.2) != (d > example.tauB) || by(green, 1/1.2) != (d > example.tauR) {
					t.Errorf("distance %d: %v after %v", d, got, before)
				}
				before = got
			}
		})
	}
}
