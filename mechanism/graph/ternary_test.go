package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestTernaryExamples are zhou2022 Examples 1 and 2 (Fig. 2). The numbers printed there are 3/55, 9/55
// and 43/55, cut to four digits (they sum to 0.9999), and ε = ln 1.2.
func TestTernaryExamples(t *testing.T) {
	epsilon := math.Log(1.2)
	const blue, red, green = 0, 1, 2
	type span struct {
		last  int    // distance
		order [3]int // from the least likely on
	}
	for name, example := range map[string]struct {
		boundary   [3]float64
		tauB, tauR int
		orders     []span
	}{
		"1": {[3]float64{3. / 55, 9. / 55, 43. / 55}, 12, 5,
			[]span{{5, [3]int{blue, red, green}}, {8, [3]int{blue, green, red}}, {11, [3]int{green, blue, red}}, {40, [3]int{green, red, blue}}}},
		"2": {[3]float64{9. / 55, 3. / 55, 43. / 55}, 6, 5,
			[]span{{5, [3]int{red, blue, green}}, {40, [3]int{red, green, blue}}}},
	} {
		if got := turn(example.boundary[0], epsilon); got != example.tauB {
			t.Errorf("Example %s: τ_B = %d, want %d", name, got, example.tauB)
		}
		if got := turn(example.boundary[0]+example.boundary[1], epsilon); got != example.tauR {
			t.Errorf("Example %s: τ_R = %d, want %d", name, got, example.tauR)
		}
		d := 0
		for _, span := range example.orders {
			for ; d <= span.last; d++ {
				got, err := Ternary(example.boundary, epsilon, d)
				if o := span.order; err != nil || !(got[o[0]] <= got[o[1]] && got[o[1]] <= got[o[2]]) {
					t.Errorf("Example %s, distance %d: %v is not in the order %v, %v", name, d, got, o, err)
				}
			}
		}
	}
}

// TestTernaryExampleShapes tests what the text of Example 1 says about the curves.
func TestTernaryExampleShapes(t *testing.T) {
	at := func(d int) [3]float64 {
		got, err := Ternary([3]float64{3. / 55, 9. / 55, 43. / 55}, math.Log(1.2), d)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for d := 1; d < 40; d++ {
		near, far := at(d-1), at(d)
		if growth := far[0] / near[0]; (math.Abs(growth-1.2) < 1e-12) != (d <= 12) {
			t.Errorf("distance %d: blue grows by %v", d, growth)
		}
		if growth := far[1] / near[1]; (math.Abs(growth-1.2) < 1e-12) != (d <= 5) || (math.Abs(growth*1.2-1) < 1e-12) != (d > 12) {
			t.Errorf("distance %d: red grows by %v", d, growth)
		}
		if growth := far[2] / near[2]; (math.Abs(growth*1.2-1) < 1e-12) != (d > 5) {
			t.Errorf("distance %d: green grows by %v", d, growth)
		}
	}
}

func TestTernaryIsLine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 3000 {
		law := randomLaw(rng, 3)
		epsilon := math.Exp(-7 + 10*rng.Float64())
		for _, d := range []int{0, 1, 2, 3, rng.IntN(20), rng.IntN(300), rng.IntN(math.MaxInt)} {
			want, err := Line(law, Privacy{Epsilon: epsilon}, d)
			got, err2 := Ternary([3]float64(law), epsilon, d)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			for j := range want {
				if math.Abs(got[j]-want[j]) > 1e-13 {
					t.Fatalf("%v, ε = %v, distance %d: %v, want %v", law, epsilon, d, got, want)
				}
			}
		}
	}
}

func TestTernaryRefuses(t *testing.T) {
	good := [3]float64{0.5, 0.3, 0.2}
	check := func(law [3]float64, epsilon float64, distance int) {
		t.Helper()
		if got, err := Ternary(law, epsilon, distance); !errors.Is(err, ErrInvalid) || got != [3]float64{} {
			t.Errorf("Ternary(%v, %v, %d) = %v, %v", law, epsilon, distance, got, err)
		}
	}
	for _, epsilon := range []float64{0, -1, math.NaN(), math.Inf(1), 1001} {
		check(good, epsilon, 1)
	}
	for _, law := range [][3]float64{{}, {1, 1, 1}, {math.NaN(), 0.5, 0.5}, {-0.5, 0.5, 1}, {math.Inf(1), 0, 0}} {
		check(law, 1, 1)
	}
	check(good, 1, -1)
}
