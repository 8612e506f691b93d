package estimate

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// mechanisms returns mechanisms with as many outputs as inputs and with more, some of them of the
// literature and some random.
func mechanisms() map[string]*finite.Matrix {
	random := rand.New(rand.NewPCG(13, 14))
	return map[string]*finite.Matrix{
		"randomized response":   randomized(4, rat("3")),
		"at ε=10⁻⁹":             randomized(3, oddsAt(fromNano(1))),
		"at ε=1000":             randomized(3, oddsAt(privacy.MaxEpsilon())),
		"subset selection":      subsets(5, 2, rat("3/2")),
		"Hadamard response":     hadamard(5, rat("5/2")),
		"unary encoding":        unary(3, rat("2")),
		"any square one":        haphazard(random, 4, 4),
		"any wide one":          haphazard(random, 3, 7),
		"one that never":        written("2/5 0 3/5", "3/5 0 2/5"),
		"rare and common alike": written("1/1000 1/2 499/1000", "2/1000 3/4 248/1000", "3/1000 1/4 747/1000"),
	}
}

// Over all outputs, the mean gain for an input must be 1 if it is the true one, and 0 otherwise.
// The estimate is the mean of the gains of all responses, and is then unbiased for every
// population.
func TestOutputGains_AreUnbiased(t *testing.T) {
	for name, m := range mechanisms() {
		e := must(newEstimator(m))
		for x := range m.Inputs() {
			for truth := range m.Inputs() {
				mean, size, want := 0.0, 0.0, 0.0
				if x == truth {
					want = 1
				}
				for o, p := range lawOf(m, truth) {
					often, _ := p.Float64()
					mean += often * e.gain[x][o]
					size = max(size, math.Abs(often*e.gain[x][o]))
				}
				check.That(t, math.Abs(mean-want) <= 1e-13*max(size, 1),
					"%s: the mean gain for %d, the truth being %d, is %v", name, x, truth, mean)
			}
		}
		for o := range m.Outputs() {
			sum, size := 0.0, 1.0
			for x := range m.Inputs() {
				sum += e.gain[x][o]
				size = max(size, math.Abs(e.gain[x][o]))
			}
			check.That(t, math.Abs(sum-1) <= 1e-13*size,
				"%s: the gains of output %d add up to %v, not to 1", name, o, sum)
		}
	}
}

// TestOutputCounts_OfRandomizedResponse_AreEstimatedAsCounts compares with rrchain.Estimate and
// Variance for randomized response.
func TestOutputCounts_OfRandomizedResponse_AreEstimatedAsCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	for _, epsilons := range [][]string{{"1"}, {"0.000000001"}, {"1000"}, {"0.5", "2"}, {"0.01", "1", "7"}} {
		for m := 2; m <= 6; m++ {
			var here []Counts
			var there []Counts
			for _, text := range epsilons {
				byValue := make([]int64, m)
				for v := range byValue {
					byValue[v] = random.Int64N(500)
				}
				byValue[0] = 3000 // so that some estimates are above 1 and some below 0
				here = append(here, ofOutputs(randomized(m, oddsAt(eps(text))), byValue))
				there = append(there, Counts{Epsilon: eps(text), ByValue: byValue})
			}
			name := fmt.Sprintf("ε=%v, m=%d", epsilons, m)
			for _, o := range optionsOf(0.9) {
				got := must(Frequencies(o, here...))
				for v, want := range must(Frequencies(o, there...)) {
					wantClose(t, name+": estimate", got[v].Estimate, want.Estimate, 1e-11)
					if want.StdErr > 1e-16 {
						wantClose(t, name+": standard error", got[v].StdErr, want.StdErr, 1e-11)
					} else if got[v].StdErr > 1e-16 {
						t.Errorf("%s: standard error is %v, want %v, where responses are the truth", name, got[v].StdErr, want.StdErr)
					}
					wantClose(t, name+": lower end", got[v].Low, want.Low, 1e-11)
					wantClose(t, name+": upper end", got[v].High, want.High, 1e-11)
				}
			}
			p := must(Disagreement(here...))
			wantClose(t, name+": p-value", p, must(Disagreement(there...)), 1e-6)
			variances := must(Variance(here[0]))
			for v, want := range must(Variance(there[0])) {
				if epsilons[0] != "1000" { // there float64 does not see what is left of a variance of 10⁻⁴³⁵
					wantClose(t, name+": variance", variances[v], want, 1e-11)
				}
			}
		}
	}
}

func wantClose(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	check.That(t, math.Abs(got-want) <= tolerance*max(math.Abs(want), 1e-12), "%s is %v, want %v", name, got, want)
}

// Both estimates are unbiased. The estimate from whole rows of bits also uses which bits are set
// together. Its variance is never larger if all values are equally common.
func TestOutputCounts_UnaryEncoding_HaveLessVarianceThanBitCounts(t *testing.T) {
	for m := 2; m <= 5; m++ {
		for _, text := range []string{"0.1", "1", "3"} {
			epsilon := eps(text)
			mechanism := unary(m, oddsAt(epsilon))
			even := make([]int64, m)
			for v := range even {
				even[v] = 1000
			}
			bitwise := must(Variance(ofBits(epsilon, 0, even)))
			for v, variance := range must(Variance(ofOutputs(mechanism, even))) {
				if variance >= bitwise[v] || variance < 0.49*bitwise[v] { // half of it for 2 values
					t.Errorf("m=%d, ε=%s: variance %v, and %v bit by bit", m, text, variance, bitwise[v])
				}
			}
			// Responses exactly as often as they are expected give the true shares in both.
			counts, byValue := make([]int64, 1<<m), make([]int64, m)
			const n = 1e9
			for o, p := range lawOf(mechanism, 1) {
				often, _ := p.Float64()
				counts[o] = int64(math.Round(n * often))
				for v := range m {
					if o>>v&1 == 1 {
						byValue[v] += counts[o]
					}
				}
			}
			rows := must(Frequencies(Options{Confidence: 0.9}, ofOutputs(mechanism, counts)))
			seen := ofBits(epsilon, n, byValue)
			bits := must(Frequencies(Options{Confidence: 0.9}, seen))
			for v := range m {
				check.That(t, math.Abs(rows[v].Estimate-bits[v].Estimate) <= 1e-6,
					"m=%d, ε=%s, value %d: %v, and %v bit by bit", m, text, v, rows[v].Estimate, bits[v].Estimate)
			}
		}
	}
}

// A change of the gains that keeps them unbiased must increase the variance.
func TestOutputGains_HaveTheLeastVariance(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 18))
	for _, name := range []string{"subset selection", "Hadamard response", "unary encoding", "any wide one"} {
		m := mechanisms()[name]
		e := must(newEstimator(m))
		for range 20 {
			// A random row minus its mean gain for each input is a row of gains with mean 0 for
			// every input.
			noise, mean := make([]float64, m.Outputs()), make([]float64, m.Inputs())
			for o := range noise {
				noise[o] = random.NormFloat64()
			}
			for truth := range mean {
				for o, p := range lawOf(m, truth) {
					often, _ := p.Float64()
					mean[truth] += often * noise[o]
				}
			}
			for o := range noise {
				for truth := range mean {
					noise[o] -= mean[truth] * e.gain[truth][o]
				}
			}
			for x := range m.Inputs() {
				base, up, down := 0.0, 0.0, 0.0
				for o, p := range meanLaw(m) {
					often, _ := p.Float64()
					gain := e.gain[x][o]
					base += often * gain * gain
					up += often * (gain + noise[o]/100) * (gain + noise[o]/100)
					down += often * (gain - noise[o]/100) * (gain - noise[o]/100)
				}
				check.That(t, up > base && down > base,
					"%s: the mean square of the gains for %d is %v, and less beside: %v, %v", name, x, base, up, down)
			}
		}
	}
}

// The test enumerates all ways to divide a small population into two levels with different
// mechanisms, and all responses. For each partition, the mean of the stratified estimate is the
// true share. Over all partitions, the mean of the pooled estimate is the true share, and the
// variance is the stated one.
func TestOutputEstimate_TwoLevels_IsUnbiased(t *testing.T) {
	low, high := subsets(3, 2, rat("2")), unary(3, rat("4"))
	truths, shares := []int{0, 1, 1, 1}, []float64{0.25, 0.75, 0}
	estimators := make(map[*finite.Matrix]*estimator)
	for _, m := range []*finite.Matrix{low, high} {
		estimators[m] = must(newEstimator(m))
	}
	for _, size := range []int{1, 2, 3, 4} { // of the lower level
		for _, pool := range []bool{false, true} {
			mean, square, total, parted := make([]float64, 3), make([]float64, 3), 0.0, 0.0
			var all []stratum
			for lower := range 1 << len(truths) {
				if ones(lower) != size {
					continue
				}
				parted++
				here := make([]float64, 3)
				enumerate(truths, func(object int) *finite.Matrix {
					if lower>>object&1 == 1 {
						return low
					}
					return high
				}, func(p float64, responses []int) {
					levels := []Counts{ofOutputs(low, make([]int64, low.Outputs())), ofOutputs(high, make([]int64, high.Outputs()))}
					for object, response := range responses {
						levels[1-lower>>object&1].ByValue[response]++
					}
					all = partsOf(estimators, levels)
					total += p
					for x, e := range combine(all, Options{Pool: pool, Confidence: 0.68}) {
						mean[x] += p * e.Estimate
						here[x] += p * e.Estimate
						square[x] += p * (e.Estimate - shares[x]) * (e.Estimate - shares[x])
					}
				})
				for x := range here {
					check.That(t, pool || math.Abs(here[x]-shares[x]) <= 1e-12,
						"partition %b: the mean estimate for %d is %v, want %v", lower, x, here[x], shares[x])
				}
			}
			wantClose(t, "the sum of all probabilities", total/parted, 1, 1e-12)
			for x := range mean {
				if math.Abs(mean[x]/parted-shares[x]) > 1e-12 {
					t.Errorf("%d at the lower level: the mean estimate for %d is %v, want %v", size, x, mean[x]/parted, shares[x])
				}
				name := fmt.Sprintf("%d at the lower level, pool=%v: the variance for %d", size, pool, x)
				wantClose(t, name, exactVariance(all, x, shares, pool), square[x]/parted, 1e-10)
			}
			if size == len(truths) {
				for x, variance := range must(Variance(ofOutputs(low, []int64{1, 3, 0}))) {
					wantClose(t, "OutputVariance", variance, square[x]/parted, 1e-10)
				}
			}
		}
	}
}

// exactVariance returns the variance of the estimate for input x over all partitions into levels of
// these sizes.
func exactVariance(all []stratum, x int, shares []float64, pool bool) float64 {
	n, total, sum, between := 0.0, 0.0, 0.0, 0.0
	weight := func(p outputs) float64 {
		if pool {
			return p.n / p.prior
		}
		return p.n
	}
	for _, s := range all {
		n, total = n+s.objects(), total+weight(s.(outputs))
	}
	for _, s := range all {
		p := s.(outputs)
		w := weight(p) / total
		for truth, share := range shares {
			sum += w * w * share * p.variance[x][truth] / p.n
		}
		between += w * w / p.n
	}
	return sum + shares[x]*(1-shares[x])*max(between-1/n, 0)*n/(n-1)
}

// partsOf is strata with given estimators, because the enumeration uses the same ones many times.
func partsOf(estimators map[*finite.Matrix]*estimator, levels []Counts) (all []stratum) {
	for _, level := range levels {
		p := outputs{estimator: estimators[level.Mechanism], counts: level.ByValue}
		for _, count := range level.ByValue {
			p.n += float64(count)
		}
		if p.n > 0 {
			all = append(all, p)
		}
	}
	return all
}

func ones(x int) (n int) {
	for ; x > 0; x &= x - 1 {
		n++
	}
	return n
}

// enumerate visits all responses of some objects.
func enumerate(truths []int, mechanism func(object int) *finite.Matrix, visit func(p float64, responses []int)) {
	responses := make([]int, len(truths))
	var extend func(object int, p float64)
	extend = func(object int, p float64) {
		if object == len(truths) {
			visit(p, responses)
			return
		}
		for o, q := range lawOf(mechanism(object), truths[object]) {
			often, _ := q.Float64()
			responses[object] = o
			extend(object+1, p*often)
		}
	}
	extend(0, 1)
}

// The test draws 2,000 surveys of 600 objects at mixed levels, with a fixed seed. The interval must
// contain the true share in 95 % of them, up to 0.5 % for the normal approximation. An interval
// that is 25 % too short covers 86 %, and must fail.
func TestOutputInterval_DrawnSurveys_CoversItsConfidence(t *testing.T) {
	const surveys = 2000
	random := rand.New(rand.NewPCG(19, 20))
	levels := []*finite.Matrix{hadamard(4, rat("3/2")), subsets(4, 2, rat("3")), randomized(4, rat("7"))}
	sums := make([][][]float64, len(levels)) // cumulative, by level and input
	for i, m := range levels {
		for x := range 4 {
			var law []float64
			sum := 0.0
			for _, p := range lawOf(m, x) {
				often, _ := p.Float64()
				sum += often
				law = append(law, sum)
			}
			sums[i] = append(sums[i], law)
		}
	}
	truths, levelOf := make([]int, 600), make([]int, 600)
	shares := make([]float64, 4)
	for i := range truths {
		truths[i] = min(i%16/4*i%4, 3)
		shares[truths[i]] += 1.0 / 600
		levelOf[i] = i % 3
	}
	for _, o := range optionsOf(0.95)[:2] {
		coverage := slices.Repeat([]intervalCoverage{{Short: 0.25}}, 4)
		for range surveys {
			random.Shuffle(len(levelOf), func(i, j int) { levelOf[i], levelOf[j] = levelOf[j], levelOf[i] })
			counts := make([]Counts, len(levels))
			for i, m := range levels {
				counts[i] = ofOutputs(m, make([]int64, m.Outputs()))
			}
			for object, truth := range truths {
				u, o, law := random.Float64(), 0, sums[levelOf[object]][truth]
				for o < len(law)-1 && u >= law[o] {
					o++
				}
				counts[levelOf[object]].ByValue[o]++
			}
			for x, f := range must(Frequencies(o, counts...)) {
				coverage[x].Add((f.Low+f.High)/2-shares[x], (f.High-f.Low)/2)
			}
		}
		for x, c := range coverage {
			c.Held(0.945, 0.965).Holds(t, "%+v, input %d: the interval holds the true share", o, x)
			c.HeldShort(0.945, 0.965).Fails(t, "%+v, input %d: an interval that is too short holds it", o, x)
		}
	}
}

// TestOutputEstimate_ExtremeCounts_IsFinite takes counts at their limits: the numbers stay finite.
func TestOutputEstimate_ExtremeCounts_IsFinite(t *testing.T) {
	m := subsets(3, 2, rat("2"))
	for _, counts := range [][]int64{{1, 0, 0}, {math.MaxInt64, math.MaxInt64, 0}, {0, 0, 1}} {
		for i, levels := range [][]Counts{{ofOutputs(m, counts)}, {ofOutputs(m, counts), ofOutputs(m, counts)}} {
			o, sum := optionsOf(math.Nextafter(1, 0))[i], 0.0
			for x, f := range must(Frequencies(o, levels...)) {
				sum += f.Estimate
				check.That(t, !math.IsNaN(f.Estimate) && !math.IsInf(f.Low, 0) && !math.IsInf(f.High, 0) &&
					f.StdErr >= 0 && f.Low <= f.High, "%v: input %d: %+v", counts, x, f)
			}
			wantClose(t, "the sum of all shares", sum, 1, 1e-12)
		}
	}
}

// TestOthers_AreScaledToTheRest distributes objects among the inputs but one.
func TestOthers_AreScaledToTheRest(t *testing.T) {
	for _, c := range []struct {
		estimates []float64
		x         int
		want      []float64
	}{
		{[]float64{0.5, 0.25, 0.25}, 0, []float64{0, 0.5, 0.5}},
		{[]float64{1.5, -0.25, -0.25}, 0, []float64{0, 0.5, 0.5}},
		{[]float64{1.5, -0.25, -0.25}, 1, []float64{1, 0, 0}},
		{[]float64{0.75, 0.75, -0.5}, 0, []float64{0, 1, 0}},
	} {
		for i, got := range others(c.estimates, c.x) {
			wantClose(t, fmt.Sprintf("share %d of %v, for %d", i, c.estimates, c.x), got, c.want[i], 1e-15)
		}
	}
}

// TestOutputInterval_ExactCoverage_IsAtLeast93Percent goes through all counts of some mechanisms
// and populations: a 95 % interval covers in at least 93 % of all cases.
func TestOutputInterval_ExactCoverage_IsAtLeast93Percent(t *testing.T) {
	sizes := []int{3, 8}
	if testenv.Deep() {
		sizes = append(sizes, 14)
	}
	least := 1.0
	for name, m := range map[string]func(odds *big.Rat) *finite.Matrix{
		"randomized response": func(odds *big.Rat) *finite.Matrix { return randomized(3, odds) },
		"Hadamard response":   func(odds *big.Rat) *finite.Matrix { return hadamard(3, odds) },
		"subset selection":    func(odds *big.Rat) *finite.Matrix { return subsets(4, 2, odds) },
		"unary encoding":      func(odds *big.Rat) *finite.Matrix { return unary(2, odds) },
	} {
		for _, odds := range []string{"5/4", "3", "20", "400", "160000"} {
			mechanism := m(rat(odds))
			e := must(newEstimator(mechanism))
			for _, n := range sizes {
				intervals := map[string]Frequency{}
				for holders := range n + 1 {
					for _, rest := range []int{0, (n - holders) / 2} {
						truth := make([]int, mechanism.Inputs())
						truth[0], truth[1], truth[2%len(truth)] = holders, n-holders-rest, truth[2%len(truth)]+rest
						if len(truth) == 2 {
							truth = []int{holders, n - holders}
						}
						sum := 0.0
						for counts, p := range lawOfCounts(mechanism, truth) {
							i, known := intervals[counts]
							if !known {
								byOutput := make([]int64, mechanism.Outputs())
								for o := range byOutput {
									byOutput[o] = int64(counts[o])
								}
								i = combine([]stratum{outputs{e, byOutput, float64(n)}}, Options{Confidence: 0.95})[0]
								intervals[counts] = i
							}
							if share := float64(holders) / float64(n); i.Low <= share && share <= i.High {
								sum += p
							}
						}
						if least = min(least, sum); sum < 0.93 {
							t.Errorf("%s, odds %s, truths %v: a 95 %% interval covers in %.4f of all cases", name, odds, truth, sum)
						}
					}
				}
			}
		}
	}
	check.That(t, least <= 0.999, "every interval covers in %v of all cases: this is no test", least)
}

// lawOfCounts returns the probabilities of the counts of all outputs, which are the bytes of the
// keys, by adding one object after the other.
func lawOfCounts(m *finite.Matrix, truth []int) map[string]float64 {
	law := map[string]float64{string(make([]byte, m.Outputs())): 1}
	for x, n := range truth {
		rows := lawOf(m, x)
		for range n {
			next := map[string]float64{}
			for counts, p := range law {
				for o, q := range rows {
					often, _ := q.Float64()
					if p*often < 1e-12 {
						continue
					}
					more := []byte(counts)
					more[o]++
					next[string(more)] += p * often
				}
			}
			law = next
		}
	}
	return law
}

// The laws of two inputs differ less and less. The estimate must be finite, or refused.
func TestOutputEstimate_NearlyEqualInputs_IsFiniteOrRefused(t *testing.T) {
	for _, by := range []string{"1e-120", "1e-156", "1e-270", "1e-319", "1e-325"} {
		common, rare := rat("1/2"), rat(by)
		for name, m := range map[string]*finite.Matrix{
			"even outputs":  twoByTwo(common, plus(common, rare)),
			"a rare output": twoByTwo(rare, plus(rare, rare)),
		} {
			c := ofOutputs(m, []int64{3, 5})
			shares, err := Frequencies(Options{Confidence: 0.95}, c, c)
			variances, errVariance := Variance(ofOutputs(m, c.ByValue))
			check.That(t, (err != nil) == (errVariance != nil) && (err == nil || errors.Is(err, privacy.ErrInvalid)),
				"%s, %s: %v, %v", name, by, err, errVariance)
			for x, f := range shares {
				if all := f.Estimate + f.StdErr + f.Low + f.High + variances[x]; math.IsNaN(all) || math.IsInf(all, 0) {
					t.Errorf("%s, %s: %+v, of variance %v", name, by, f, variances[x])
				}
			}
		}
	}
}

// twoByTwo returns a mechanism with two inputs and two outputs. The first output has probability p
// given the first input, and q given the second.
func twoByTwo(p, q *big.Rat) *finite.Matrix {
	return mechanismOf([]*big.Rat{p, minus(integer(1), p)}, []*big.Rat{q, minus(integer(1), q)})
}

// A mechanism with many inputs and few outputs is refused before any matrix computation.
func TestOutputEstimate_ManyInputs_IsRefusedQuickly(t *testing.T) {
	rows := make([][]*big.Rat, 4096/2)
	for x := range rows {
		rows[x] = []*big.Rat{big.NewRat(int64(x+1), int64(len(rows)+1)), big.NewRat(int64(len(rows)-x), int64(len(rows)+1))}
	}
	start := time.Now()
	_, err := Variance(ofOutputs(mechanismOf(rows...), make([]int64, len(rows))))
	check.That(t, errors.Is(err, privacy.ErrInvalid), "%v", err)
	took := time.Since(start)
	check.That(t, took <= 20*time.Second, "it took %v", took)
}

func TestOutputEstimate_InvalidCounts_IsRefused(t *testing.T) {
	m, other := randomized(3, rat("2")), randomized(2, rat("2"))
	never := written("2/5 0 3/5", "3/5 0 2/5")
	alike := written("1/3 1/3 1/3", "1/2 1/4 1/4", "1/2 1/4 1/4")
	middle := written("1/3 1/3 1/3", "1/2 1/4 1/4", "5/12 7/24 7/24")
	nearly := written("1/2 1/4 1/4", "1/4 1/2 1/4", "250000000001/1000000000000 1/2 249999999999/1000000000000")
	good := ofOutputs(m, []int64{1, 2, 3})
	both := Counts{Epsilon: eps("1"), ByValue: []int64{1, 2, 3}, Unary: true, Objects: 6, Mechanism: m}
	wantRefused(t, []refusal{
		{"no responses", 0.9, []Counts{ofOutputs(m, []int64{0, 0, 0})}, "no responses"},
		{"an empty mechanism", 0.9, []Counts{ofOutputs(&finite.Matrix{}, []int64{1})}, "no probabilities"},
		{"too few counts", 0.9, []Counts{ofOutputs(m, []int64{1, 2})}, "2 counts for a mechanism with 3 outputs"},
		{"negative count", 0.9, []Counts{good, ofOutputs(m, []int64{1, 2, -3})}, "output 2 was counted -3 times"},
		{"an output that never happens", 0.9, []Counts{ofOutputs(never, []int64{1, 1, 1})}, "output 1 was counted 1 times, but"},
		{"two encodings", 0.9, []Counts{both}, "Unary and a Mechanism"},
		{"other inputs", 0.9, []Counts{good, ofOutputs(other, []int64{1, 2})}, "values, 3 and 2"},
		{"two inputs alike", 0.9, []Counts{ofOutputs(alike, []int64{1, 2, 3})}, "distinguish its 3 inputs"},
		{"an input that mixes others", 0.9, []Counts{ofOutputs(middle, []int64{1, 2, 3})}, "distinguish its 3 inputs"},
		{"two inputs nearly alike", 0.9, []Counts{ofOutputs(nearly, []int64{1, 2, 0})}, "distinguish its 3 inputs"},
		{"fewer outputs than inputs", 0.9, []Counts{ofOutputs(written("1/2 1/2", "1/3 2/3", "1/4 3/4"), []int64{1, 2})}, "not distinguish its"},
		{"outputs independent of the input", 0.9, []Counts{ofOutputs(written("1/2 1/2", "1/2 1/2"), []int64{1, 2})}, "not distinguish its"},
	})
	wantVarianceRefused(t, map[string]Counts{
		"no objects":      ofOutputs(m, []int64{0, 0, 0}),
		"other inputs":    ofOutputs(m, []int64{1, 2}),
		"negative count":  ofOutputs(m, []int64{1, 2, -1}),
		"two encodings":   both,
		"inputs alike":    ofOutputs(alike, []int64{1, 2, 3}),
		"an empty matrix": ofOutputs(&finite.Matrix{}, []int64{1, 2, 3}),
	})
}
