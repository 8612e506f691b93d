package figures

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"

	"github.com/sluicedp/sluice/lab/internal/chart"
	"github.com/sluicedp/sluice/privacy"
)

// MaxCurves is how many answers a picture can tell apart, and maxPoints how many points of each it
// shows at most.
const (
	MaxCurves = 16
	maxPoints = 1000
)

// Rainbow is the laws of an answer by the distance from the boundary. Those at each distance have
// the preferred answer's probability first.
type Rainbow struct {
	Answers    int             // how many answers there are
	Epsilon    privacy.Epsilon // of the mechanism
	Delta      privacy.Delta   // of the mechanism
	ByDistance [][]float64     // the laws, by rank of the answers, from distance 0 on
}

// Height is the height of the picture in points: each entry of the legend takes 15 of them.
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

// thresholdDash is that of vertical lines; curves do without it.
const thresholdDash = 2

// spread returns some of the numbers below n, the first and the last among them: all if there are
// at most most of them.
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

// rankLook goes with the colours in the paper: blue, red, green. Where these come again, the marks
// are others.
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

// thresholds returns, for each number of first answers but all, up to which distance τ the
// probability of these together grows by all that ε and δ allow: as long as it is at most
// (1−δ)/(e^ε+1) a step before. It is 0 for those that are above that at the boundary already, and
// for those that get there beyond the last distance or never. For the first two of three answers
// and δ=0 these are τ_B and τ_R of zhou2022 Eqs. (2) and (3), whose brackets are floors.
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
