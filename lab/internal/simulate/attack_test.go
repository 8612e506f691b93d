package simulate

import (
	"math"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

func levelsOf(t *testing.T, nano ...int64) []privacy.Epsilon {
	t.Helper()
	var levels []privacy.Epsilon
	for _, n := range nano {
		level, err := privacy.EpsilonFromNano(n)
		if err != nil {
			t.Fatal(err)
		}
		levels = append(levels, level)
	}
	return levels
}

// enumerate visits all rows of responses of a chain over m values, with their probability under
// each truth.
func enumerate(t *testing.T, m int, levels []privacy.Epsilon, visit func(responses []int, probability []float64)) {
	t.Helper()
	responses := make([]int, len(levels))
	var step func(i int, probability []float64)
	step = func(i int, probability []float64) {
		if i == len(levels) {
			visit(responses, probability)
			return
		}
		last, before := privacy.Epsilon{}, 0
		if i > 0 {
			last, before = levels[i-1], responses[i-1]
		}
		k, err := rrchain.NewKernel(m, last, levels[i])
		if err != nil {
			t.Fatal(err)
		}
		for next := range m {
			responses[i] = next
			after := make([]float64, m)
			for truth := range m {
				after[truth] = probability[truth] * moves(k, truth, before, next)
			}
			step(i+1, after)
		}
	}
	step(0, slices.Repeat([]float64{1}, m))
}

// moves is Pr(next | before, truth).
func moves(k rrchain.Kernel, truth, before, next int) float64 {
	if before == truth {
		if next == truth {
			return k.PAA
		}
		return k.OneMinusPAA / float64(k.Values-1)
	}
	switch next {
	case truth:
		return k.PBA
	case before:
		return k.PBB
	default:
		return k.PBC
	}
}

// exactErrors returns how often each attack guesses wrong, and how often it must at least, for
// equally likely truths and a real chain.
func exactErrors(t *testing.T, x Experiment) (errors []float64, least float64) {
	t.Helper()
	attacks, err := x.attacks()
	if err != nil {
		t.Fatal(err)
	}
	m := len(x.Values)
	errors, least = make([]float64, len(attacks)), 1.0
	total, scores := 0.0, make([]float64, m)
	enumerate(t, m, x.Levels, func(responses []int, probability []float64) {
		least -= slices.Max(probability) / float64(m)
		for truth, p := range probability {
			total += p / float64(m)
			for i, a := range attacks {
				errors[i] += a.miss(responses, scores, truth) * p / float64(m)
			}
		}
	})
	if math.Abs(total-1) > 1e-12 {
		t.Fatalf("all probabilities sum to %v", total)
	}
	return errors, least
}

// TestAttacks_AllRowsOfResponses_NoneIsBelowTheBound enumerates all responses of a chain, so it is
// exact: no guess errs less often than the bound of Theorem 6.1, two of the attacks exactly as
// often, and the others more often.
func TestAttacks_AllRowsOfResponses_NoneIsBelowTheBound(t *testing.T) {
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []Experiment{
		binary,
		{Values: make([]string, 3), Levels: levelsOf(t, 1e8, 2e8, 3e8, 5e8, 1e9, 15e8)},
		{Values: make([]string, 5), Levels: levelsOf(t, 1e8, 2e8, 3e8, 4e8, 1e9)},
	} {
		m, bound := len(x.Values), x.Bound()
		errors, least := exactErrors(t, x)
		if math.Abs(least-bound) > 1e-12 {
			t.Errorf("%d values: the best guess errs with %.17g, the bound is %.17g", m, least, bound)
		}
		for i, name := range Attacks() {
			reached := math.Abs(errors[i]-bound) <= 1e-12
			if reached != (i < bayes) || errors[i] < bound-1e-12 {
				t.Errorf("%d values: %s errs with %.17g, the bound is %.17g", m, name, errors[i], bound)
			}
		}
	}
}

func TestGuess_SomeResponses_ErrsAsExpected(t *testing.T) {
	x := Experiment{Values: make([]string, 3), Levels: levelsOf(t, 1e8, 2e8, 3e8, 4e8)}
	attacks, err := x.attacks()
	if err != nil {
		t.Fatal(err)
	}
	scores := make([]float64, 3)
	for _, test := range []struct {
		responses []int
		want      [4][3]float64 // by attack, how often it errs under each truth
	}{
		{[]int{0, 0, 0, 2}, [4][3]float64{{1, 1, 0}, {1, 1, 0}, {0, 1, 1}, {0, 1, 1}}},
		{[]int{0, 0, 2, 2}, [4][3]float64{{1, 1, 0}, {1, 1, 0}, {0.5, 1, 0.5}, {1, 1, 0}}},
		{[]int{1, 2, 2, 1}, [4][3]float64{{1, 0, 1}, {1, 0, 1}, {1, 0.5, 0.5}, {1, 0.5, 0.5}}}, // 0.1 + 0.4 = 0.2 + 0.3
		{[]int{1, 1, 1, 1}, [4][3]float64{{1, 0, 1}, {1, 0, 1}, {1, 0, 1}, {1, 0, 1}}},
	} {
		for i, a := range attacks {
			for truth, want := range test.want[i] {
				if got := a.miss(test.responses, scores, truth); got != want {
					t.Errorf("%v, truth %d: %s errs with %v, want %v", test.responses, truth, Attacks()[i], got, want)
				}
			}
		}
	}
}
