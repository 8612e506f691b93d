package figures

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"

	"github.com/sluicedp/sluice/lab/internal/chart"
	"github.com/sluicedp/sluice/privacy"
)

// MaxCurves is the largest number of answers that a picture can distinguish. maxPoints is the
// largest number of points of each.
const (
	MaxCurves = 16
	maxPoints = 1000
)

// Rainbow has the laws of an answer by the distance from the boundary. Each law begins with the
// probability of the preferred answer.
type Rainbow struct {
	Answers    int             // number of answers
	Epsilon    privacy.Epsilon // of the mechanism
	Delta      privacy.Delta   // of the mechanism
	ByDistance [][]float64     // the laws, by rank of the answers, from distance 0 on
}

// Height returns the height of the picture in points. Each entry of the legend has a height of 15.
func (r Rainbow) Height() float64 {
	entries := 2*r.Answers - 1 // at most
	return float64(max(Height, 15*entries+50))
}

// Draw draws the probability of each answer against the distance, after zhou2022 Figure 2.
func (r Rainbow) Draw() (*plot.Plot, error) {
	bounds := fmt.Sprintf("ε = %v", r.Epsilon)
	if !r.Delta.IsZero() {
		bounds += fmt.Sprintf(", δ = %v", r.Delta)
	}
	p := chart.New("The answers at a distance from the boundary, "+bounds+" (zhou2022 Figure 2)",
		"distance from the boundary", "probability")
	p.Y.Min, p.Y.Max = 0, 1
	for rank := range r.Answers {
		s := series{name: rankName(rank), line: true, marks: true, look: rankLook(rank)}
		for _, distance := range spread(len(r.ByDistance), maxPoints) {
			s.x, s.y = append(s.x, float64(distance)), append(s.y, r.ByDistance[distance][rank])
		}
		if err := add(p, s); err != nil {
			return nil, err
		}
	}
	for i, tau := range r.thresholds() {
		if tau == 0 {
			continue
		}
		name := fmt.Sprintf("τ = %d (%s)", tau, rankName(0))
		if i > 0 {
			name = fmt.Sprintf("τ = %d (first %d together)", tau, i+1)
		}
		style := rankLook(i)
		style.dash = thresholdDash
		addVertical(p, name, float64(tau), style)
	}
	return p, nil
}

// thresholdDash is the dash of vertical lines. Curves do not use it.
const thresholdDash = 2

// spread returns at most most evenly spaced numbers below n, including the first and the last. It
// returns all if n is at most most.
func spread(n, most int) []int {
	var numbers []int
	for i := range min(n, most) {
		at := i
		if n > most {
			at = i * (n - 1) / (most - 1)
		}
		numbers = append(numbers, at)
	}
	return numbers
}

// rankLook returns the look for a rank, with the colours of the paper: blue, red, green. Where
// colours repeat, the marks differ.
func rankLook(rank int) look {
	dashes := [...]int{0, 1, 3, 4}
	return look{color: rank + 1, mark: rank + rank/8, dash: dashes[rank%len(dashes)]}
}

func rankName(rank int) string {
	if rank == 0 {
		return "preferred"
	}
	return fmt.Sprintf("rank %d", rank+1)
}

// thresholds returns a distance τ for each number of first answers except all. Up to τ, the
// probability of these answers together grows as much as ε and δ allow, which is the case while it
// is at most (1−δ)/(e^ε+1) at the step before. τ is 0 if the probability is larger at the boundary,
// or if it never gets larger up to the last distance. For the first two of three answers and δ=0
// these are τ_B and τ_R of zhou2022 Eqs. (2) and (3), whose brackets are floors.
func (r Rainbow) thresholds() []int {
	limit := (1 - r.Delta.Float64()) / (math.Exp(r.Epsilon.Float64()) + 1)
	taus := make([]int, r.Answers-1)
	for i := range taus {
		for distance, at := range r.ByDistance {
			first := 0.0
			for _, probability := range at[:i+1] {
				first += probability
			}
			if first > limit {
				taus[i] = distance
				break
			}
		}
	}
	return taus
}
