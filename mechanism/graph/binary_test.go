package graph

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// The probability of the true answer must agree with references to 12 digits. If it is above 0.9,
// an absolute error of 1e-13 is allowed, because 1 minus a float64 loses digits. Near 0 all digits
// are kept, because growing causes no cancellation.
const (
	relativeTolerance = 1e-12
	absoluteTolerance = 1e-13
)

func truthApart(got, want float64) bool {
	return apart(got, want, relativeTolerance, tiny) || want > 0.9 && apart(got, want, 0, absoluteTolerance)
}

// truthAt is p(d, α) of torkamani2023 Definition 9.
func truthAt(dp Privacy, alpha float64, distance int) (float64, error) {
	law, err := dp.Law([]float64{alpha, 1 - alpha}, distance)
	if err != nil {
		return 0, err
	}
	return law[0], nil
}

type lineRow struct {
	Alpha, Epsilon, Delta string
	Truthful              []string `json:"truthful_probability_by_distance"`
}

func decimal(t *testing.T, text string) float64 {
	return check.Value(strconv.ParseFloat(text, 64))(t)
}

func TestLaw_TwoOutputs_AgreesWithVectors(t *testing.T) {
	for i, row := range check.Vectors[lineRow](t, "../../testdata/vectors/binary_line.json", 25) {
		dp := Privacy{decimal(t, row.Epsilon), decimal(t, row.Delta)}
		iterated := decimal(t, row.Alpha)
		walked := chanceOf(iterated)
		for d, text := range row.Truthful {
			want := decimal(t, text)
			got, err := truthAt(dp, decimal(t, row.Alpha), d)
			check.That(t, err == nil && !truthApart(got, want),
				"row %d, distance %d: %v, %v, want %v", i, d, got, err, want)
			check.That(t, !truthApart(iterated, want) && !truthApart(walked.yes, want),
				"row %d, distance %d: iterated %v, walked %v, want %v", i, d, iterated, walked.yes, want)
			iterated = dp.Upper(iterated)
			walked = dp.powers().next(walked)
		}
	}
}

// bigTruthful returns U^d(α) in 400 bits: growing steps up to the threshold (1−δ)/(e^ε+1), found by
// bisection, and shrinking steps after it. The number of growing steps is at most that from 1e-324
// to 1.
func bigTruthful(dp Privacy, alpha float64, d int) float64 {
	e, delta, one := bigExp(bigOf(dp.Epsilon)), bigOf(dp.Delta), bigOf(1)
	power := func(n int) *big.Float { return bigExp(bigMul(bigOf(dp.Epsilon), bigOf(float64(n)))) }
	series := func(n int) *big.Float { return bigQuo(bigSub(power(n), one), bigSub(e, one)) }
	grown := func(n int) *big.Float {
		return bigAdd(bigMul(power(n), bigOf(alpha)), bigMul(delta, series(n)))
	}
	threshold := bigQuo(bigSub(one, delta), bigAdd(e, one))
	low, high := 0, int(min(float64(d), 800/dp.Epsilon+3)) // the first n with grown(n) ≥ threshold, or high
	for low < high {
		if middle := (low + high) / 2; grown(middle).Cmp(threshold) >= 0 {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if alpha == 0 && dp.Delta == 0 {
		return 0 // for ever
	}
	rest := d - low
	if rest == 0 {
		truth, _ := grown(d).Float64() // 400 bits may not hold the difference from 1
		return truth
	}
	if float64(rest)*dp.Epsilon > 5000 {
		rest = int(5000 / dp.Epsilon) // e^−5000 is 0 as a float64
	}
	lie := bigSub(bigSub(one, grown(low)), bigMul(delta, series(rest)))
	truth, _ := bigMin(one, bigSub(one, bigQuo(lie, power(rest)))).Float64()
	return truth
}

func TestLaw_TwoOutputs_AgreesWithBigFloats(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	distances := []int{0, 1, 2, 3, 7, 40, 1000, 1_000_000, 1_000_000_000}
	// e^(nε) − 1 cancels more than 400 bits hold for an ε of 1e-300: that is tested below.
	epsilons := someEpsilons[1:]
	for range 500 {
		dp := Privacy{epsilons[random.IntN(len(epsilons))], someDeltas[random.IntN(len(someDeltas))]}
		alpha, d := someAlphas[random.IntN(len(someAlphas))], distances[random.IntN(len(distances))]
		got, err := truthAt(dp, alpha, d)
		if want := bigTruthful(dp, alpha, d); err != nil || truthApart(got, want) {
			t.Errorf("%v, α = %v, distance %d: %v, %v, want %v", dp, alpha, d, got, err, want)
		}
	}
}

// The probabilities start below 2^−1022, where the logarithm of package math is wrong on some
// machines and products lose digits. The distances reach about to the end of growth.
func TestLaw_SubnormalProbabilities_AreAccurate(t *testing.T) {
	for _, epsilon := range []float64{0.001, 0.01, 0.1, 1, 10} {
		dp := Privacy{epsilon, 0}
		for _, alpha := range []float64{5e-324, 1e-320, 1e-310, 1e-300} {
			for _, share := range []float64{0.5, 0.9, 0.97, 1, 1.05, 1.2} {
				d := int(share * 744 / epsilon)
				want := bigTruthful(dp, alpha, d)
				if got, err := truthAt(dp, alpha, d); err != nil || truthApart(got, want) {
					t.Errorf("%v, α = %v, distance %d: %v, %v, want %v", dp, alpha, d, got, err, want)
				}
			}
		}
	}
}

// This also checks bigTruthful against the definition.
func TestLaw_TwoOutputs_IsIteratedUpper(t *testing.T) {
	for _, epsilon := range someEpsilons {
		for _, delta := range []float64{0, 1e-6, 0.1} {
			for _, alpha := range []float64{0, 1e-12, 0.2, 0.5, 0.9} {
				dp := Privacy{epsilon, delta}
				iterated := bigOf(alpha)
				for d := range 8 {
					if d > 0 {
						iterated = bigUpper(dp, iterated)
					}
					want, _ := iterated.Float64()
					got, err := truthAt(dp, alpha, d)
					check.That(t, err == nil && !truthApart(got, want),
						"%v, α = %v, distance %d: %v, %v, want %v", dp, alpha, d, got, err, want)
					if epsilon == 1e-300 {
						continue
					}
					if again := bigTruthful(dp, alpha, d); truthApart(again, want) {
						t.Errorf("%v, α = %v, distance %d: reference %v, want %v", dp, alpha, d, again, want)
					}
				}
			}
		}
	}
}

// The parameters are such that e^ε α is nearly equal to the threshold.
func TestLaw_AroundTheThreshold_NeverDecreases(t *testing.T) {
	for _, dp := range []Privacy{{1, 0}, {0.25, 0}, {0.01, 1e-9}, {30, 0}, {700, 0}} {
		threshold := (1 - dp.Delta) / (math.Exp(dp.Epsilon) + 1)
		for ulps := -3; ulps <= 3; ulps++ {
			alpha := threshold * math.Exp(-2*dp.Epsilon) * (1 + float64(ulps)*0x1p-52)
			before := alpha
			for d := range 10 {
				p, err := truthAt(dp, alpha, d)
				check.That(t, err == nil && p >= before*(1-1e-15) && !truthApart(p, bigTruthful(dp, alpha, d)),
					"%v, α = %v, distance %d: %v after %v, %v", dp, alpha, d, p, before, err)
				before = p
			}
		}
	}
}

// fig2 returns the coloured graph of doliveira2021 Fig. 2: blue (0) are a, b, c, g, h, k, l. The
// figure is not in the text of the paper. The edges are chosen so that all numbers in the text are
// correct.
func fig2(t *testing.T) (g *Graph, p *Preferences, vertex func(name rune) int) {
	const names = "abcghkl" + "deijmnopqrf"
	vertex = func(name rune) int {
		for v, other := range names {
			if other == name {
				return v
			}
		}
		t.Fatalf("no vertex %c", name)
		return 0
	}
	var edges [][2]int
	for _, e := range []string{"ag", "bk", "gc", "ch", "gl", "kl", "gk", "hi", "hn", "lq", "id", "no", "qm", "dj", "op", "mr", "je", "pf", "in"} {
		ends := []rune(e)
		edges = append(edges, [2]int{vertex(ends[0]), vertex(ends[1])})
	}
	colors := make([]int, len(names))
	for v := 7; v < len(names); v++ {
		colors[v] = 1
	}
	return graphOfEdges(t, len(names), edges...), twoColors(t, colors...), vertex
}

// The numbers are those after doliveira2021 Theorem 5. (The paper's 0.7447 is 1 − 0.2553, and
// 0.2553 is truncated, not rounded. The number is 0.744615….)
func TestSolve_HomogeneousFigure2_AgreesWithDoliveira2021(t *testing.T) {
	g, p, vertex := fig2(t)
	table := check.Value(truthful(g, p, Privacy{math.Log(1.3), 0.1}, [2]float64{12.0 / 13, 0.2}))(t)
	for names, red := range map[string]float64{
		"hl": 1.0 / 13, "ab": 0, "cgk": 0, "inq": 0.2, "dom": 0.36, "jpr": 0.568, "ef": 0.744615384615384615,
	} {
		for _, name := range names {
			got := table[vertex(name)][1]
			check.That(t, !apart(got, red, 1e-14, 1e-15), "%c: %v, want %v", name, got, red)
		}
	}
}

// majority returns the graph of doliveira2021 Fig. 1a. Bit i of a vertex is the vote of voter i,
// and blue (0) is a majority for 0.
func majority(t *testing.T) (*Graph, *Preferences) {
	var edges [][2]int
	colors := make([]int, 8)
	for v := range 8 {
		for bit := 1; bit < 8; bit *= 2 {
			if v&bit == 0 {
				edges = append(edges, [2]int{v, v | bit})
			}
		}
		if ones := v&1 + v>>1&1 + v>>2&1; ones >= 2 {
			colors[v] = 1
		}
	}
	return graphOfEdges(t, 8, edges...), twoColors(t, colors...)
}

// The numbers are those after doliveira2021 Corollary 2.
func TestSolve_VotingExample_AgreesWithDoliveira2021(t *testing.T) {
	g, p := majority(t)
	table := check.Value(balanced(g, p, Privacy{math.Ln2, 0.1}))(t)
	for v, red := range []float64{0.1, 0.3, 0.3, 0.7, 0.3, 0.7, 0.7, 0.9} {
		got := table[v][1]
		check.That(t, !apart(got, red, 1e-15, 0), "%03b: %v, want %v", v, got, red)
	}
}

// mustKeepTo checks the bounds across every edge, exactly where the smaller part of a probability
// has all its digits.
func mustKeepTo(t *testing.T, g *Graph, table Table, dp Privacy) {
	t.Helper()
	e := bigExp(bigOf(dp.Epsilon))
	for v := range g.Vertices() {
		for _, w := range g.Neighbors(v) {
			for j := range 2 {
				bound := bigAdd(bigMul(e, bigOf(table[int(w)][j])), bigOf(dp.Delta))
				if got := bigOf(table[v][j]); got.Cmp(bigMul(bound, bigOf(1+1e-14))) > 0 && table[v][j] > tiny {
					t.Fatalf("%v: output %d at %d has %v, beside %v at %d", dp, j, v, got, table[int(w)][j], w)
				}
			}
		}
	}
}

// errorAt returns the error of the balanced mechanism, doliveira2021 Corollary 2 as printed.
func errorAt(dp Privacy, d int) float64 {
	e, delta, one := bigExp(bigOf(dp.Epsilon)), bigOf(dp.Delta), bigOf(1)
	power := bigExp(bigMul(bigOf(dp.Epsilon), bigOf(float64(d))))
	loss := bigMul(delta, bigSub(bigAdd(bigMul(power, e), power), bigOf(2)))
	denominator := bigMul(bigMul(power, bigAdd(e, one)), bigSub(e, one))
	wrong, _ := bigMax(new(big.Float), bigQuo(bigSub(bigSub(e, one), loss), denominator)).Float64()
	return wrong
}

// The ends of the path are so far from the boundary that float64 does not distinguish 1 minus their
// errors from 1, nor some of the steps from 1.
func TestSolve_HomogeneousAnyEpsilon_IsPrivate(t *testing.T) {
	g, colors := pathGraph(t, 60), make([]int, 60)
	for v := 30; v < 60; v++ {
		colors[v] = 1
	}
	p := twoColors(t, colors...)
	for _, epsilon := range someEpsilons {
		for _, delta := range someDeltas {
			dp := Privacy{epsilon, delta}
			table, err := balanced(g, p, dp)
			check.Need(t, err == nil, "%v %v", dp, err)
			mustKeepTo(t, g, table, dp)
			for v := range 60 {
				row, c := table[v], colors[v]
				if epsilon == 1e-300 {
					break // 400 bits are too few for the formula
				}
				want := errorAt(dp, max(29-v, v-30))
				if apart(row[1-c], want, 1e-12, 1e-15) || delta == 0 && apart(row[1-c], want, 1e-12, tiny) || apart(row[0]+row[1], 1, 0, 2e-16) {
					t.Fatalf("%v, vertex %d: %v, want an error of %v", dp, v, row, want)
				}
				check.Need(t, delta != 0 || row[1-c] != 0, "%v, vertex %d: no error at all, with δ = 0", dp, v)
			}
			// From an unlikely truth on, through the threshold.
			if table, err = extend(g, p, dp, []fixed{{Vertex: 30, Output: 1, Probability: 1e-290}}); err != nil {
				t.Fatal(dp, err)
			}
			mustKeepTo(t, g, table, dp)
		}
	}
}

// At the threshold, growing changes to shrinking. For a large e^ε, 1 − e^ε α has no digits there.
func TestPowersNext_AtTheThreshold_IsTight(t *testing.T) {
	for _, epsilon := range someEpsilons {
		for _, delta := range someDeltas {
			dp := Privacy{epsilon, delta}
			steps := dp.powers()
			threshold := (1 - delta) * math.Exp(-epsilon) / (1 + math.Exp(-epsilon))
			for ulps := -8; ulps <= 8; ulps++ {
				at := chanceOf(threshold * (1 + float64(ulps)*0x1p-52))
				mustStep(t, dp, steps, at)
				mustStep(t, dp, steps, at.opposite())
			}
		}
	}
}

// mustStep checks the bounds between a chance and the next, and that the next is the largest
// possible.
func mustStep(t *testing.T, dp Privacy, steps powers, c chance) {
	t.Helper()
	next := steps.next(c)
	e, delta, above := bigExp(bigOf(dp.Epsilon)), bigOf(dp.Delta), bigOf(1+1e-14)
	within := func(x, y float64) bool { // x ≤ e^ε y + δ
		return bigOf(x).Cmp(bigMul(above, bigAdd(bigMul(e, bigOf(y)), delta))) <= 0
	}
	check.Need(t, within(next.yes, c.yes) && within(c.no, next.no) && next.yes >= c.yes && next.no <= c.no &&
		!apart(next.yes+next.no, 1, 0, 2e-16), "%v: from %v to %v", dp, c, next)
	want := dp.Upper(c.yes)
	check.Need(t, !apart(next.yes, want, 1e-15, 0), "%v: from %v to %v, want %v", dp, c, next, want)
}

func TestSolve_HomogeneousTwoOutputs_AgreesWithLaw(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		g, p := randomColored(t, random, 12)
		dp := Privacy{0.01 + 2*random.Float64(), 0.05 * float64(random.IntN(3))}
		truth := [2]float64{0.3 + 0.4*random.Float64(), 0.3 + 0.4*random.Float64()}
		table, err := truthful(g, p, dp, truth)
		distances := g.distances(p)
		fits := truth[0] <= dp.Upper(1-truth[1]) && 1-truth[1] <= dp.Upper(truth[0])
		check.Need(t, fits == (err == nil) || len(boundaryOf(g, p)) <= 0, "%v, %v: %v", dp, truth, err)
		if err != nil {
			mustBeConflict(t, g, p, err, dp, 1)
			continue
		}
		for v, d := range distances {
			want := 1.0
			if d >= 0 {
				want, _ = truthAt(dp, truth[p.Color(v)], int(d))
			}
			got := table[v][p.Color(v)]
			check.Need(t, !truthApart(got, want), "vertex %d at distance %d: %v, want %v", v, d, got, want)
		}
		mustPass(t, g, table, dp)
	}
}

// mustBeConflict checks that a ConflictError is correct.
func mustBeConflict(t *testing.T, g *Graph, p *Preferences, err error, dp Privacy, most int) {
	t.Helper()
	var conflict *ConflictError
	check.Need(t, errors.As(err, &conflict) && errors.Is(err, privacy.ErrInvalid), "%v is not a conflict", err)
	distance := allDistances(g)[conflict.From][conflict.To]
	check.Need(t, conflict.Distance <= most && distance >= 1 && distance <= conflict.Distance,
		"%v: the distance is %d", err, distance)
	bound, _ := truthAt(dp, conflict.FromProbability, conflict.Distance)
	check.Need(t, !truthApart(conflict.Bound, bound) && conflict.ToProbability > conflict.Bound,
		"%v: the bound is %v", err, bound)
}

func TestSolve_ConflictingLaws_NamesTheBoundaryEdge(t *testing.T) {
	g, p := pathGraph(t, 4), twoColors(t, 0, 0, 1, 1)
	_, err := truthful(g, p, Privacy{math.Ln2, 0}, [2]float64{0.8, 0.9})
	lie := chanceOf(0.9).no
	want := &ConflictError{From: 2, To: 1, Outputs: []int{0}, Distance: 1, FromProbability: lie, ToProbability: 0.8, Bound: 2 * lie}
	check.Need(t, reflect.DeepEqual(err, want), "%+v, want %+v", err, want)
	var conflict *ConflictError
	// An excess that is tolerated for one probability may be far too large for the opposite one.
	// Here 1 is above the bound by 1e-14.
	_, err = truthful(g, p, Privacy{Epsilon: 32}, [2]float64{1, 0.5})
	check.Need(t, errors.As(err, &conflict), "%v", err)
	check.That(t, conflict.ToProbability > conflict.Bound, "%+v", conflict)
}

func TestSolve_NoBoundary_ReturnsTheTrueAnswer(t *testing.T) {
	g := graphOfEdges(t, 6, [2]int{0, 1}, [2]int{2, 3}, [2]int{4, 5})
	p := twoColors(t, 0, 0, 1, 1, 0, 1)
	table := check.Value(balanced(g, p, Privacy{math.Log(3), 0}))(t)
	for v, truth := range []float64{1, 1, 1, 1, 0.75, 0.75} {
		row, c := table[v], p.Color(v)
		check.That(t, !apart(row[c], truth, 1e-15, 0) && row[c]+row[1-c] == 1, "vertex %d: %v, want %v", v, row, truth)
	}
	if table, err := balanced(graphOfEdges(t, 0), twoColors(t), Privacy{1, 0}); err != nil || len(table) != 0 {
		t.Errorf("empty graph: %v", err)
	}
}
