package graph

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

func TestLaw_AgreesWithVectors(t *testing.T) {
	const tolerance = 1e-15 // absolute; 1e-12 is required
	type row struct {
		Boundary       []string
		Epsilon, Delta string
		ByDistance     [][]string `json:"by_distance"`
	}
	for _, row := range check.Vectors[row](t, "../../testdata/vectors/rainbow_line.json", 18) {
		dp := Privacy{parsed(t, row.Epsilon)[0], parsed(t, row.Delta)[0]}
		for d, want := range row.ByDistance {
			got := check.Value(dp.Law(parsed(t, row.Boundary...), d))(t)
			for j, x := range parsed(t, want...) {
				check.That(t, math.Abs(got[j]-x) <= tolerance,
					"%v, %v, distance %d: output %d has %v, want %v", row.Boundary, dp, d, j, got[j], x)
			}
		}
	}
}

func parsed(t *testing.T, text ...string) []float64 {
	x := make([]float64, len(text))
	for i, s := range text {
		var err error
		if x[i], err = strconv.ParseFloat(s, 64); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// randomLaw returns a law in which some probabilities are 0 and some very small.
func randomLaw(rng *rand.Rand, outputs int) []float64 {
	law := make([]float64, outputs)
	for {
		for j := range law {
			law[j] = rng.ExpFloat64()
			switch rng.IntN(6) {
			case 0:
				law[j] = 0
			case 1:
				law[j] *= math.Exp(-60 * rng.Float64())
			}
		}
		if total := sum(law); total > 0 {
			for j := range law {
				law[j] /= total
			}
			return law
		}
	}
}

// randomPrivacy returns an ε of whole nano-nats from 1e-4 to 40, and δ = 0 half of the time.
func randomPrivacy(rng *rand.Rand) (dp Privacy, nano int64) {
	nano = int64(1e9 * math.Exp(math.Log(1e-4)+rng.Float64()*math.Log(4e5)))
	dp.Epsilon = float64(nano) / 1e9
	if rng.IntN(2) == 0 {
		dp.Delta = math.Exp(-20 * rng.Float64())
	}
	return dp, nano
}

// expOf returns e^ε to 256 bits, from below.
func expOf(nano int64) *big.Float {
	lo, _ := exact.Exp(nano, 256).Bounds()
	return lo
}

// The definition iterates U on the prefix sums, here in 400 bits.
func TestLaw_AgreesWithDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		law := randomLaw(rng, 2+rng.IntN(7))
		dp, nano := randomPrivacy(rng)
		growth, delta := expOf(nano), bigOf(dp.Delta)
		prefix := []*big.Float{bigOf(0)}
		for _, x := range law[:len(law)-1] {
			prefix = append(prefix, bigAdd(prefix[len(prefix)-1], bigOf(x)))
		}
		prefix = append(prefix, bigOf(1))
		for d := range 40 {
			got := check.Value(dp.Law(law, d))(t)
			for j, x := range got {
				want, _ := bigSub(prefix[j+1], prefix[j]).Float64()
				check.Need(t, math.Abs(x-want) <= 4e-16*float64(len(law)),
					"%v, %v, distance %d: output %d has %v, want %v", law, dp, d, j, x, want)
			}
			for j := 1; j < len(law); j++ {
				prefix[j] = upperOf(growth, delta, prefix[j])
			}
		}
	}
}

// Neighbours on the line are compared in 256 bits. If e^ε is large, an error of 1e-16 in a small
// probability would count e^ε times.
func TestLaw_Neighbours_ArePrivateToTheLastDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	worst := 0.0
	for range 300 {
		law := randomLaw(rng, 2+rng.IntN(7))
		dp, nano := randomPrivacy(rng)
		growth := expOf(nano)
		rows := lawsByDistance(law, dp, 30)
		for d := range 30 {
			near, err := dp.Law(law, d)
			far, err2 := dp.Law(law, d+1)
			check.Need(t, err == nil && err2 == nil, "%v %v", err, err2)
			worst = max(worst, bigExcess(near, far, growth, dp.Delta), bigExcess(far, near, growth, dp.Delta),
				bigExcess(rows[d], rows[d+1], growth, dp.Delta), bigExcess(rows[d+1], rows[d], growth, dp.Delta))
		}
	}
	check.That(t, worst <= 1e-14, "(ε,δ) is exceeded by %v", worst)
	t.Logf("(ε,δ) is exceeded by at most %v", worst)
}

// bigExcess returns Σ max(0, p − e^ε q) − δ.
func bigExcess(p, q []float64, growth *big.Float, delta float64) float64 {
	total := bigOf(-delta)
	for j := range p {
		if excess := bigSub(bigOf(p[j]), bigMul(growth, bigOf(q[j]))); excess.Sign() > 0 {
			total.Add(total, excess)
		}
	}
	x, _ := total.Float64()
	return x
}

// After some steps, a prefix sum is just below or just above the threshold 1/(e^ε+1). The next
// output then gets very little of the part below the threshold, and is nearly at the limit that ε
// allows.
func TestLaw_PrefixAtTheThreshold_IsPrivate(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, nano := range []int64{1e8, 1e9, 1e10, 3e10} {
		dp, growth := Privacy{Epsilon: float64(nano) / 1e9}, expOf(nano)
		for _, steps := range []int{0, 1, 2, 3, 4, int(600 / dp.Epsilon)} {
			for range 200 {
				off := 1 + (rng.Float64()-0.5)*math.Exp(-35*rng.Float64())
				first := math.Exp(-dp.Epsilon*float64(steps)) / (math.Exp(dp.Epsilon) + 1) * off
				law := []float64{first / 2, first / 2, 0.6 * (1 - first), 0.4 * (1 - first)}
				for d := max(0, steps-3); d < steps+4; d++ {
					near, err := dp.Law(law, d)
					far, err2 := dp.Law(law, d+1)
					check.Need(t, err == nil && err2 == nil, "%v %v", err, err2)
					excess := max(bigExcess(near, far, growth, 0), bigExcess(far, near, growth, 0))
					check.Need(t, excess <= 1e-14,
						"ε = %v, %v, distance %d: ε is exceeded by %v: %v, %v", dp.Epsilon, law, d, excess, near, far)
				}
			}
		}
	}
}

func TestLaw_AnyDistance_IsALaw(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		law := randomLaw(rng, 2+rng.IntN(6))
		dp := Privacy{Epsilon: math.Exp(-20 + 26*rng.Float64())}
		if rng.IntN(2) == 0 {
			dp.Delta = math.Exp(-20 * rng.Float64())
		}
		before := law
		for _, d := range []int{1, 10, 1000, 1e6, 1 << 30, math.MaxInt} {
			got := check.Value(dp.Law(law, d))(t)
			reason := lawFault(got, len(got))
			check.Need(t, reason == "", "%v, %v, distance %d: %v: %s", law, dp, d, got, reason)
			for j := range got {
				if sum(got[:j]) < sum(before[:j])-1e-15 {
					t.Fatalf("%v, %v, distance %d: the first %d outputs are less likely: %v after %v", law, dp, d, j, got, before)
				}
				check.Need(t, dp.Delta != 0 || (got[j] == 0) == (law[j] == 0),
					"%v, %v, distance %d: output %d has become possible or impossible: %v", law, dp, d, j, got)
			}
			before = got
		}
	}
}

func TestLaw_LargestDistance_IsFast(t *testing.T) {
	law := make([]float64, maxOutputs)
	for j := range law {
		law[j] = 1.0 / maxOutputs
	}
	start := time.Now()
	check.Must(t, check.Err((Privacy{Epsilon: 1e-9}).Law(law, math.MaxInt)))
	elapsed := time.Since(start)
	check.That(t, elapsed <= 5*time.Second, "took %v", elapsed)
}

// Where e^ε is 1 in float64, a single step does not change a prefix sum just below the threshold.
func TestLaw_TinyEpsilon_KeepsTheSumOfSteps(t *testing.T) {
	law := []float64{0.5, 0.5}
	for _, epsilon := range []float64{1e-300, 1e-20, 1e-17} {
		for _, delta := range []float64{0, 1e-18, 1e-17} {
			const distance = 1 << 40 // step by step it would take hours
			got, err := (Privacy{epsilon, delta}).Law(law, distance)
			want := 0.5 + distance*delta + distance*epsilon/2 // to the first order, and all others are below 1e-10
			check.That(t, err == nil && math.Abs(got[0]-want) <= 1e-9,
				"ε = %v, δ = %v: %v, want %v, %v", epsilon, delta, got, want, err)
		}
	}
}

// Even where 1/(e^ε+1) is below all float64, an output with probability 0 at the boundary gets at
// most δ.
func TestLaw_ThresholdBelowFloat64_IsPrivate(t *testing.T) {
	for _, epsilon := range []float64{700, 740, 746, 1000} {
		dp := Privacy{epsilon, 0.25}
		for _, law := range [][]float64{{0, 1}, {0, 0, 1}, {0, 0.5, 0.5}} {
			near, err := dp.Law(law, 0)
			far, err2 := dp.Law(law, 1)
			check.Need(t, err == nil && err2 == nil, "%v %v", err, err2)
			for _, rows := range [][2][]float64{{near, far}, {far, near}} {
				if excess, _ := largestExcess(rows[0], rows[1], dp); excess > 1e-15 {
					t.Errorf("ε = %v: %v beside %v exceeds (ε,δ) by %v", epsilon, rows[0], rows[1], excess)
				}
			}
			check.That(t, math.Abs(far[0]-dp.Delta) <= 1e-15,
				"ε = %v, %v: %v, want δ for the first output", epsilon, law, far)
		}
	}
}

func TestLaw_LeapsAgreeWithSingleSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		law := randomLaw(rng, 2+rng.IntN(5))
		dp, _ := randomPrivacy(rng)
		for d, row := range lawsByDistance(law, dp, 300) {
			got := check.Value(dp.Law(law, d))(t)
			for j := range got {
				check.Need(t, math.Abs(got[j]-row[j]) <= 1e-15*float64(d+4),
					"%v, %v, distance %d: %v and %v", law, dp, d, got, row)
			}
		}
	}
}

func badLaws() [][]float64 {
	return [][]float64{
		nil, {}, {1}, {0.5, 0.4}, {0.5, 0.5 + 1e-11}, {-0.1, 1.1}, {math.NaN(), 1}, {math.Inf(1), 0},
		{math.Inf(1), math.Inf(-1)}, {1, math.NaN()}, {0, 0}, make([]float64, maxOutputs+1),
	}
}

func badPrivacy() []Privacy {
	return []Privacy{
		{}, {Epsilon: -1}, {Epsilon: math.NaN()}, {Epsilon: math.Inf(1)}, {Epsilon: 1001},
		{1, 1}, {1, -1e-300}, {1, math.NaN()}, {1, math.Inf(1)},
	}
}

func TestLaw_InvalidArguments_AreRefused(t *testing.T) {
	good, dp := []float64{0.5, 0.3, 0.2}, Privacy{1, 0.1}
	refuse := func(law []float64, dp Privacy, distance int) {
		t.Helper()
		got, err := dp.Law(law, distance)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && got == nil, "%v.Law(%v, %d) = %v, %v", law, dp, distance, got, err)
	}
	for _, law := range badLaws() {
		refuse(law, dp, 1)
	}
	for _, dp := range badPrivacy() {
		refuse(good, dp, 1)
	}
	refuse(good, dp, -1)
	kept := slices.Clone(good)
	_, err := dp.Law(good, 5)
	check.That(t, err == nil && slices.Equal(good, kept), "the argument is now %v, %v", good, err)
}

// ε is so small that δ/(e^ε − 1) is far larger than the probabilities that grow.
func TestLaw_DeltaFarAboveEpsilon_SumsTo1(t *testing.T) {
	law, err := (Privacy{1e-16, 0.44}).Law([]float64{0.134, 0.764, 0, 0.1015, 0.0005}, 2)
	check.That(t, err == nil && math.Abs(sum(law)-1) <= 1e-14, "%v sums to %v, %v", law, sum(law), err)
}

// zhou2022 Examples 1 and 2 (Fig. 2). The numbers printed there are 3/55, 9/55 and 43/55, cut to
// four digits (they sum to 0.9999), and ε = ln 1.2. Blue grows by e^ε up to τ_B, and blue and red
// together up to τ_R.
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
