package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/mechanism"
)

// The laws of raised answers and of keyed responses, as they come out of a ledger. Random bits are fixed, so that a
// test gives the same result whenever it is run.

func square(x float64) float64 { return x * x }

// lattice is a distribution on the integers from −ends to ends; what lies beyond has a probability below 1e-13.
type lattice []float64

const ends = 80

func (l lattice) at(k int) float64 {
	if k < -ends || k > ends {
		return 0
	}
	return l[k+ends]
}

// geometric is two-sided geometric noise at ε.
func geometric(e float64) lattice {
	l, alpha := make(lattice, 2*ends+1), math.Exp(-e)
	for k := -ends; k <= ends; k++ {
		l[k+ends] = (1 - alpha) / (1 + alpha) * math.Pow(alpha, math.Abs(float64(k)))
	}
	return l
}

// widening is what the noise at a lower ε has over that at a higher one: the quotient of their generating functions
// (1−α)²/((1−αt)(1−α/t)).
func widening(low, high float64) lattice {
	l, g, alpha := make(lattice, 2*ends+1), geometric(low), math.Exp(-high)
	for k := -ends; k <= ends; k++ {
		l[k+ends] = ((1+alpha*alpha)*g.at(k) - alpha*(g.at(k-1)+g.at(k+1))) / square(1-alpha)
	}
	return l
}

// answersLaw is the joint probability of the answers at three rising ε, given the position.
func answersLaw(position int, e [3]float64) map[string]float64 {
	law := map[string]float64{}
	word := func(y int) string {
		if y >= 0 {
			return "yes "
		}
		return "no "
	}
	top, second, first := geometric(e[2]), widening(e[1], e[2]), widening(e[0], e[1])
	// The probability that first leads from y to "yes".
	up := func(y int) (p float64) {
		for k := -ends; k <= ends; k++ {
			if y+k >= 0 {
				p += first.at(k)
			}
		}
		return p
	}
	cached := map[int]float64{}
	for k3 := -ends; k3 <= ends; k3++ {
		for k2 := -ends; k2 <= ends; k2++ {
			y3, y2 := position+k3, position+k3+k2
			p := top.at(k3) * second.at(k2)
			yes, known := cached[y2]
			if !known {
				yes = up(y2)
				cached[y2] = yes
			}
			law["yes "+word(y2)+word(y3)] += p * yes
			law["no "+word(y2)+word(y3)] += p * (1 - yes)
		}
	}
	total := 0.0
	for _, p := range law {
		total += p
	}
	for cell := range law {
		law[cell] /= total // what lies beyond
	}
	return law
}

// At each level the answer is wrong with probability e^(−εd)/(1+e^ε) at distance d, in whatever way it came about,
// and the answers at three levels together are those of scores of which only the highest tells of the truth: the
// middle one is raised in one half of the cases, and inserted in the other.
func TestRaisedAnswersFollowTheirLaw(t *testing.T) {
	const values = 90
	panels := pace.Tries(2, 12/pace.Step(6), 12)
	q := api.Question{Name: "vote", Encoding: api.Direct}
	for i := range values {
		q.Values = append(q.Values, fmt.Sprint("v", i))
	}
	levels, at := []string{"0.4", "0.7", "1.1"}, [3]float64{0.4, 0.7, 1.1}
	random := ledgertest.Draws{Queries: queriesOf(77)}
	together, wrong := map[int]map[string]int{}, map[[2]int]map[string]int{}
	for panel := range panels {
		l, names := ledgertest.With(t, ledgertest.Settings{Draws: random}).Ledger, []string{"ann", "bob", "cy"}
		Define(t, l, q)
		Enroll(t, l, q.Name, "1000", names...)
		for value := 1; value < values; value++ {
			threshold := 1 + value%3 // nobody has the value, so that it lies d = threshold − 1 steps below
			query := fmt.Sprintf("threshold:v%d:%d", value, threshold)
			cell := map[string]string{}
			order := []int{0, 1, 2}
			if (panel+value)%2 == 0 {
				order = []int{0, 2, 1}
			}
			for _, i := range order {
				r := Inquire(t, fmt.Sprint(query, i), query, levels[i], SameTruth("v0"), names...)
				cell[levels[i]] = AnswerTo(t, l, r).Answer
				if level := [2]int{threshold, i}; wrong[level] == nil {
					wrong[level] = map[string]int{}
				}
				wrong[[2]int{threshold, i}][cell[levels[i]]]++
			}
			if together[threshold] == nil {
				together[threshold] = map[string]int{}
			}
			together[threshold][cell["0.4"]+" "+cell["0.7"]+" "+cell["1.1"]+" "]++
		}
		WantSpent(t, l, "97.9", names...) // 1.1 for each query
	}
	for threshold, counts := range together {
		law := answersLaw(-threshold, at)
		stattest.Cells(counts, law).Holds(t, "at distance %d", threshold-1)
		for i, e := range at {
			p := math.Exp(-e*float64(threshold-1)) / (1 + math.Exp(e))
			if marginal := shareOfYes(law, i); math.Abs(marginal-p) > 1e-9 {
				t.Errorf("the law itself errs with probability %g at ε=%g, want %g", marginal, e, p)
			}
			one := wrong[[2]int{threshold, i}]
			stattest.Share(one["yes"], one["yes"]+one["no"], p, p).Holds(t, "at distance %d and ε=%g", threshold-1, e)
		}
	}
}

// shareOfYes is how likely the answer at one of the levels is to be yes.
func shareOfYes(law map[string]float64, level int) (share float64) {
	for cell, p := range law {
		if strings.Fields(cell)[level] == "yes" {
			share += p
		}
	}
	return share
}

// chainLaw is the joint probability of the responses of a chain at three rising ε, given the truth: each is the one
// above it with the retention between them, and else uniform.
func chainLaw(t *testing.T, q api.Question, truth int, levels [3]string) map[string]float64 {
	t.Helper()
	m := len(q.Values)
	keep := func(epsilon string) float64 {
		grown := math.Exp(Eps(t, epsilon).Float64())
		return (grown - 1) / (grown + float64(m) - 1)
	}
	move := func(stays float64, from, to int) float64 {
		p := (1 - stays) / float64(m)
		if from == to {
			p += stays
		}
		return p
	}
	law := map[string]float64{}
	for low := range m {
		for mid := range m {
			for high := range m {
				p := move(keep(levels[2]), truth, high) * move(keep(levels[1])/keep(levels[2]), high, mid) * move(keep(levels[0])/keep(levels[1]), mid, low)
				law[fmt.Sprint(q.Values[low], " ", q.Values[mid], " ", q.Values[high])] = p
			}
		}
	}
	return law
}

// The responses of many objects under one key follow the law of a chain, in whatever order they are given.
func TestKeyedResponsesFollowTheLawOfAChain(t *testing.T) {
	names, q, levels := Crowd(pace.Tries(2_000, 20_000/pace.Step(20), 20_000)), Vote(), [3]string{"0.5", "1.25", "2"}
	for truth, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
		l := Open(t, ledger.Options{NoiseKey: NoiseKeys(fmt.Sprint("law ", truth))})
		Define(t, l, q)
		Enroll(t, l, q.Name, "9", names...)
		var at [3]map[string]api.Response
		for _, i := range order {
			CarryOut(t, l, api.RaiseRequest{Key: levels[i], Question: q.Name, Epsilon: Eps(t, levels[i]), All: true, Truth: SameTruth(q.Values[truth])})
			at[i] = Responses(t, l, q.Name, Eps(t, levels[i]))
		}
		counts := map[string]int{}
		for _, name := range names {
			counts[fmt.Sprint(at[0][name].Value, " ", at[1][name].Value, " ", at[2][name].Value)]++
		}
		stattest.Cells(counts, chainLaw(t, q, truth, levels)).Holds(t, "in the order %v", order)
	}
}

// So do those in unary encoding: at each level the bit of the truth is set with probability 1/2, and every other
// with 1/(1+e^ε), independently.
func TestKeyedUnaryResponsesFollowTheirLaw(t *testing.T) {
	names := Crowd(pace.Tries(2_000, 20_000/pace.Step(20), 20_000))
	q := api.Question{Name: "vote", Values: []string{"a", "b", "c"}, Encoding: api.Unary}
	l := Open(t, ledger.Options{NoiseKey: NoiseKeys("law")})
	Define(t, l, q)
	Enroll(t, l, q.Name, "9", names...)
	for _, epsilon := range []string{"2", "0.5", "1"} {
		r := api.RaiseRequest{Key: epsilon, Question: q.Name, Epsilon: Eps(t, epsilon), All: true, Truth: SameTruth("b")}
		CarryOut(t, l, r)
		law, counts := map[string]float64{}, map[string]int{}
		set := 1 / (1 + math.Exp(r.Epsilon.Float64()))
		for pattern := range 8 {
			p, on := 0.5, []string{}
			for value, name := range q.Values {
				if pattern>>value&1 == 1 {
					on = append(on, name)
				}
				if name != "b" {
					p *= []float64{1 - set, set}[pattern>>value&1]
				}
			}
			law[strings.Join(on, ",")] = p
		}
		for _, response := range Responses(t, l, q.Name, r.Epsilon) {
			counts[setBits(response.Value, q)]++
		}
		stattest.Cells(counts, law).Holds(t, "at ε=%s", epsilon)
	}
}

// setBits names the values whose bits are set in a response.
func setBits(bits string, q api.Question) string {
	var on []string
	for value, name := range q.Values {
		if bits[value] == '1' {
			on = append(on, name)
		}
	}
	return strings.Join(on, ",")
}

// queriesOf returns a sampler on repeatable random bits.
func queriesOf(seed byte) *mechanism.Sampler {
	random := rand.NewChaCha8([32]byte{seed})
	return &mechanism.Sampler{Random: exact.ReplayBits(func(p []byte) { _, _ = random.Read(p) })}
}
