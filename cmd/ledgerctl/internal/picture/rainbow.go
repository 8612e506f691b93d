package picture

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/chart"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
)

// maxCurves is how many answers a picture can tell apart, and maxPoints how many points of each it shows at most.
const (
	maxCurves = 16
	maxPoints = 1000
)

// Rainbow is the laws of an answer by the distance from the boundary. Those at each distance have the preferred answer's
// probability first.
type Rainbow struct {
	Boundary   []output.Number   // the law at the boundary, by rank of the answers
	Epsilon    privacy.Epsilon   // of the mechanism
	Delta      privacy.Delta     // likewise
	ByDistance [][]output.Number // the laws, from distance 0 on
}

// NewRainbow begins the picture of so many answers that a flag names; none if path is "".
func NewRainbow(all *files.Files, flag, path string, answers int) (File, error) {
	if _, err := format(flag, path); err != nil {
		return File{}, err
	}
	if path != "" && answers > maxCurves {
		return File{}, fault.Usage("without "+flag+" there may be more", "%s shows up to %d answers, not %d", flag, maxCurves, answers)
	}
	return New(all, flag, path)
}

// SaveRainbow draws the laws, unless there is no file to draw them into.
func (f File) SaveRainbow(r Rainbow) error {
	return f.out.Save(func(w io.Writer) error {
		drawn, err := r.draw()
		if err != nil {
			return err
		}
		entries := 2*len(r.Boundary) - 1 // of the legend, at most; each takes 15 points
		return chart.WriteWithLegend(w, drawn, f.format, figureWidth, float64(max(figureHeight, 15*entries+50)))
	})
}

// draw draws the probability of each answer against the distance, after zhou2022 Figure 2.
func (r Rainbow) draw() (*plot.Plot, error) {
	bounds := fmt.Sprintf("ε = %v", r.Epsilon)
	if !r.Delta.IsZero() {
		bounds += fmt.Sprintf(", δ = %v", r.Delta)
	}
	p := chart.New("The answers at a distance from the boundary, "+bounds+" (zhou2022 Figure 2)", "distance from the boundary", "probability")
	p.Y.Min, p.Y.Max = 0, 1
	for rank := range r.Boundary {
		s := chart.Series{Name: rankName(rank), Line: true, Marks: true, Look: rankLook(rank)}
		for _, distance := range spread(len(r.ByDistance), maxPoints) {
			s.X, s.Y = append(s.X, float64(distance)), append(s.Y, float64(r.ByDistance[distance][rank]))
		}
		if err := chart.Add(p, s); err != nil {
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
		look := rankLook(i)
		look.Dash = thresholdDash
		chart.AddVertical(p, name, float64(tau), look)
	}
	return p, nil
}

// thresholdDash is that of vertical lines; curves do without it.
const thresholdDash = 2

// spread returns some of the numbers below n, the first and the last among them: all if there are at most
// most of them.
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

// rankLook goes with the colours in the paper: blue, red, green. Where these come again, the marks are others.
func rankLook(rank int) chart.Look {
	dashes := [...]int{0, 1, 3, 4}
	return chart.Look{Color: rank + 1, Mark: rank + rank/8, Dash: dashes[rank%len(dashes)]}
}

func rankName(rank int) string {
	if rank == 0 {
		return "preferred"
	}
	return fmt.Sprintf("rank %d", rank+1)
}

// thresholds returns, for each number of first answers but all, up to which distance τ the probability of
// these together grows by all that ε and δ allow: as long as it is at most (1−δ)/(e^ε+1) a step before. It
// is 0 for those that are above that at the boundary already, and for those that get there beyond the
// last distance or never. For the first two of three answers and δ=0 these are τ_B and τ_R of zhou2022
// Eqs. (2) and (3), whose brackets are floors.
func (r Rainbow) thresholds() []int {
	limit := (1 - r.Delta.Float64()) / (math.Exp(r.Epsilon.Float64()) + 1)
	taus := make([]int, len(r.Boundary)-1)
	for i := range taus {
		for distance, at := range r.ByDistance {
			first := 0.0
			for _, probability := range at[:i+1] {
				first += float64(probability)
			}
			if first > limit {
				taus[i] = distance
				break
			}
		}
	}
	return taus
}
