package graph

import (
	"math"
)

// Truthful returns p(d, α) of torkamani2023 Definition 9, the largest probability of an output at a
// distance d from a dataset that has it with probability α: U^d(α), where U is [Privacy.Upper].
// With the true answer as the output and α its probability at the boundary of the region, it is
// what the optimal mechanism does (doliveira2021 Theorem 4).
//
// It is computed as [Line] is, in a time that does not depend on the distance. Results have a
// relative error below 1e-12 and an absolute one below 1e-13 near 1; the corresponding error
// probability, 1 less the result, has no digits beyond that: see [Privacy.Balanced] and
// [BinaryHomogeneous].
//
// It returns [ErrInvalid] for parameters that [Privacy.Validate] refuses, α outside [0,1] and a
// negative distance.
func (dp Privacy) Truthful(alpha float64, distance int) (float64, error) {
	if err := checkStart(alpha, distance); err != nil {
		return 0, err
	}
	law, err := Line([]float64{alpha, 1 - alpha}, dp, distance)
	if err != nil {
		return 0, err
	}
	return max(alpha, min(law[0], dp.grown(alpha, distance))), nil // the law has nothing below tiny but 0
}

func checkStart(alpha float64, distance int) error {
	if !(alpha >= 0 && alpha <= 1) {
		return invalid("α = %v is not in [0,1]", alpha)
	}
	if distance < 0 {
		return invalid("distance %d is negative", distance)
	}
	return nil
}

// grown is torkamani2023 Eq. (27), e^(nε) α + δ(e^(nε)−1)/(e^ε−1), at most 1.
func (dp Privacy) grown(alpha float64, n int) float64 {
	added := dp.Delta * dp.ratio(n)
	return min(1, scaled(alpha, dp.Epsilon, n)+scaled(added, dp.Epsilon, n-1))
}

// ratio returns (1−e^(−nε))/(1−e^(−ε)).
func (dp Privacy) ratio(n int) float64 {
	return math.Expm1(-float64(n)*dp.Epsilon) / math.Expm1(-dp.Epsilon)
}

// Balanced returns the error probability of the optimal balanced mechanism, which gives all
// boundary datasets the same probability of the true answer, at a distance d from the boundary:
// (e^ε − 1 − δ(e^(ε(d+1)) + e^(εd) − 2)) / (e^(εd)(e^ε+1)(e^ε−1)), or 0 where that is negative
// (doliveira2021 Corollary 2). For δ = 0 this is e^(−εd)/(1+e^ε).
//
// The distance is that to the boundary of the dataset's own region, 0 for a dataset on it. (The
// formula in the introduction of the paper names the distance to the other colour; the corollary is
// right.) For δ = 0 the relative error is below 1e-12; else the absolute error is below 1e-15.
//
// It returns [ErrInvalid] for parameters that [Privacy.Validate] refuses and a negative distance.
func (dp Privacy) Balanced(distance int) (float64, error) {
	if err := dp.Validate(); err != nil {
		return 0, err
	}
	if err := checkStart(0, distance); err != nil {
		return 0, err
	}
	lie := math.Exp(-dp.Epsilon)
	left := scaled((1-dp.Delta)*lie/(1+lie), -dp.Epsilon, distance) // by doliveira2021 Definition 10
	return max(0, left-dp.Delta*lie*dp.ratio(distance)), nil
}

// Truthful returns U^d(α) for the upper bound U of a suitable pair: the largest probability of an
// output at a distance d from a dataset that has it with probability α (torkamani2023 Lemma 6). It
// takes d evaluations of Upper, fewer if they come to a point that it does not move.
//
// It returns [ErrInvalid] for α outside [0,1] and a negative distance, and a [*PairError] if a
// value of Upper is not in [α,1].
func (p Pair) Truthful(alpha float64, distance int) (float64, error) {
	if err := checkStart(alpha, distance); err != nil {
		return 0, err
	}
	steps, err := p.stepper()
	if err != nil {
		return 0, err
	}
	return walk(steps, chanceOf(alpha), distance).yes, steps.fault
}

// BinaryHomogeneous returns the optimal mechanism with two outputs that gives the true answer with
// probability truth[j] at every boundary dataset of colour j (torkamani2023 Corollary 1,
// doliveira2021 Theorem 5). At distance d from the boundary of its region a dataset answers
// truthfully with probability U^d(truth[j]), the largest possible for all datasets at once. So the
// mechanism is the best for every utility that increases with the probability of the true answer.
//
// It keeps to the bounds between neighbours: for [Privacy] it is (ε,δ)-differentially private, and
// both probabilities of a row have all their digits, so that rounding does no harm however far from
// the boundary or large ε is. Where the probability of an error would be positive but below 1e-300,
// it is 1e-300. A dataset in a component without a boundary answers truly with probability 1.
//
// It takes one breadth-first search, and evaluates the bounds once for each colour and distance. It
// returns [ErrInvalid] for preferences of more than two outputs or another number of vertices, a
// probability outside [0,1] and parameters that [Privacy.Validate] refuses; a [*ConflictError] with
// a boundary edge across which truth is not within the bounds; and a [*PairError] if a suitable
// pair proves not to be one.
func BinaryHomogeneous(g *Graph, p *Preferences, b Bounds, truth [2]float64) (*Table, error) {
	for color, x := range truth {
		if !(x >= 0 && x <= 1) {
			return nil, invalid("probability %v of the true answer %d is not in [0,1]", x, color)
		}
	}
	steps, err := binarySteps(p, b)
	if err != nil {
		return nil, err
	}
	return homogeneous(g, p, steps, [2]chance{chanceOf(truth[0]), chanceOf(truth[1])})
}

// BinaryBalanced returns the optimal mechanism with two outputs that gives the true answer with the
// same probability at all boundary datasets: the largest x with x ≤ Upper(1 − x), which for
// [Privacy] is (e^ε+δ)/(e^ε+1) (torkamani2023 Corollary 2, doliveira2021 Corollary 2; see
// [Privacy.Balanced]). Every graph has it. For the rest it is as [BinaryHomogeneous].
func BinaryBalanced(g *Graph, p *Preferences, b Bounds) (*Table, error) {
	steps, err := binarySteps(p, b)
	if err != nil {
		return nil, err
	}
	truth := steps.balanced()
	return homogeneous(g, p, steps, [2]chance{truth, truth})
}

func binarySteps(p *Preferences, b Bounds) (*stepper, error) {
	if p.Outputs() != 2 {
		return nil, invalid("preferences over %d outputs for a mechanism of 2", p.Outputs())
	}
	if b == nil {
		return nil, invalid("no bounds")
	}
	return b.stepper()
}

func homogeneous(g *Graph, p *Preferences, steps *stepper, boundary [2]chance) (*Table, error) {
	distances, err := Distances(g, p)
	if err != nil {
		return nil, err
	}
	if err := checkAcross(g, p, steps, distances, boundary); err != nil {
		return nil, err
	}
	byDistance := [2][]chance{{boundary[0]}, {boundary[1]}}
	t := NewTable(g.Vertices(), 2)
	for v, distance := range distances {
		color := p.Color(v)
		if distance == Unreachable {
			t.set(v, color, chance{1, 0})
			continue
		}
		for int(distance) >= len(byDistance[color]) {
			nearer := byDistance[color][len(byDistance[color])-1]
			byDistance[color] = append(byDistance[color], steps.next(nearer))
		}
		t.set(v, color, byDistance[color][distance])
	}
	if err := steps.fault; err != nil {
		return nil, err
	}
	return t, nil
}

// set puts the chance of an output into a table of two.
func (t *Table) set(v, output int, c chance) {
	row := t.p[2*v : 2*v+2]
	row[output], row[1-output] = c.yes, c.no
}

// chance returns the chance of an output from a table of two.
func (t *Table) chance(v, output int) chance {
	row := t.p[2*v : 2*v+2]
	return chance{row[output], row[1-output]}
}

// checkAcross tests the chances of the two true answers across the first boundary edge. All others
// are like it, in one direction or the other.
func checkAcross(g *Graph, p *Preferences, steps *stepper, distances []int32, boundary [2]chance) error {
	for v, distance := range distances {
		if distance != 0 {
			continue
		}
		for _, w := range g.Neighbors(v) {
			if color := p.Color(v); p.Color(int(w)) != color {
				here, there := boundary[color], boundary[1-color].opposite()
				return checkEdge(steps, edge{v, int(w), color}, here, there)
			}
		}
	}
	return nil
}

type edge struct{ from, to, output int }

// checkEdge tests the chances of an output at both ends of an edge.
func checkEdge(steps *stepper, e edge, from, to chance) error {
	for range 2 {
		if !within(steps, from, steps.next(from), to) {
			return conflict(steps, e, 1, from, to)
		}
		e.from, e.to, from, to = e.to, e.from, to, from
	}
	return steps.fault
}
