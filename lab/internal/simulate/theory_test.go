package simulate

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// reference is a row of noisy_sampling.json (testdata/README.md).
type reference struct {
	Alpha      string `json:"eps_alpha"`
	Beta       string `json:"eps_beta"`
	K          int    `json:"K"`
	Given      string `json:"eps_ns"`
	Sampling   string `json:"variance_noisy_sampling_n1"`
	Relaxation string `json:"variance_relaxation_n1"`
}

func references(t *testing.T) []reference {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "vectors", "noisy_sampling.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows []reference }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rows) < 20 {
		t.Fatalf("%d rows", len(file.Rows))
	}
	return file.Rows
}

func decimal(t *testing.T, text string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// wantNear allows for a relative rounding error.
func wantNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12*math.Abs(want) {
		t.Errorf("%s is %.17g, want %.17g", what, got, want)
	}
}

func TestTheory_ReferenceNumbers_Agree(t *testing.T) {
	for _, row := range references(t) {
		alpha, beta, n := decimal(t, row.Alpha), decimal(t, row.Beta), 7
		given := SamplingEpsilon(alpha, beta, row.K)
		wantNear(t, "Eq. (65)", given, decimal(t, row.Given))
		wantNear(t, "Eq. (68)", SamplingVariance(alpha, beta, row.K, n), decimal(t, row.Sampling)/float64(n))
		wantNear(t, "Eq. (67)", RelaxationVariance(given, n), decimal(t, row.Relaxation)/float64(n))
	}
}

func TestSamplingEpsilon_ExtremeArguments_AreExact(t *testing.T) {
	// One sampling and the permanent noise are the same kind of noise one after the other.
	wantNear(t, "the ε of 1 sampling", SamplingEpsilon(2, 0.5, 1), SamplingEpsilon(0.5, 2, 1))
	wantNear(t, "the ε of a million samplings", SamplingEpsilon(1.5, 900, 1_000_000), 1.5)
	wantNear(t, "the ε below two large ones", SamplingEpsilon(900, 900, 1), 900-math.Ln2)
}

func TestErrorBound_KnownCases_AreExact(t *testing.T) {
	wantNear(t, "the bound for 5 values at ε = ln 2", ErrorBound(math.Ln2, 5), 2.0/3)
	wantNear(t, "the bound for 2 values at ε = 0", ErrorBound(0, 2), 0.5)
	wantNear(t, "the bound for 4 values at ε = ∞", ErrorBound(math.Inf(1), 4), 0)
}

// TestNoisySampling_AllOutcomes_HaveMeanAndVariance sums over all outcomes of a single bit: the
// estimate has the bit as its mean, and the variance of Eq. (68).
func TestNoisySampling_AllOutcomes_HaveMeanAndVariance(t *testing.T) {
	s, err := newSampling(1_000_000_000, 500_000_000)
	if err != nil {
		t.Fatal(err)
	}
	kept := func(alpha float64) float64 { return 1 - ErrorBound(alpha, 2) }
	alpha, beta := kept(1), kept(0.5)
	for _, k := range []int{1, 2, 3, 10} {
		for bit := range 2 {
			mean, square := 0.0, 0.0
			for permanent := range 2 {
				for ones := range k + 1 {
					choose := math.Exp(logChoose(k, ones))
					one := []float64{1 - beta, beta}[permanent]
					p := choose * math.Pow(one, float64(ones)) * math.Pow(1-one, float64(k-ones))
					if permanent == bit {
						p *= alpha
					} else {
						p *= 1 - alpha
					}
					estimate := s.share(float64(ones) / float64(k))
					mean += p * estimate
					square += p * (estimate - float64(bit)) * (estimate - float64(bit))
				}
			}
			if math.Abs(mean-float64(bit)) > 1e-12 {
				t.Errorf("%d samplings of %d: the mean estimate is %v", k, bit, mean)
			}
			wantNear(t, "the variance of the estimate", s.variance(k, 1), square)
		}
	}
}

func logChoose(n, k int) float64 {
	sum := 0.0
	for i := range k {
		sum += math.Log(float64(n-i)) - math.Log(float64(i+1))
	}
	return sum
}
