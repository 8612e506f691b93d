package rappor

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/combin"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// symmetric returns the noise that pan2024 compares with. alpha and beta are the ε of its permanent
// and instantaneous randomized responses.
func symmetric(alpha, beta float64) Noise {
	return Noise{F: 2 / (1 + math.Exp(alpha)), P: 1 / (1 + math.Exp(-beta)), Q: 1 / (1 + math.Exp(beta))}
}

// TestNoise_AgreesWithVectors checks pan2024 Eq. (65) and Eq. (68) with N = 1.
func TestNoise_AgreesWithVectors(t *testing.T) {
	for i, row := range noisyRows(t) {
		noise := symmetric(number(row.Alpha), number(row.Beta))
		one, zero := bitLoss(t, noise, row.K)
		wantNear(t, fmt.Sprintf("row %d: loss towards 1", i), one, number(row.Loss), 1e-13)
		wantNear(t, fmt.Sprintf("row %d: loss towards 0", i), zero, number(row.Loss), 1e-13)
		for _, share := range []float64{0, 0.3, 1} {
			wantNear(t, fmt.Sprintf("row %d: variance", i), clientVariance(noise, row.K, share), number(row.Noisy), 1e-12)
		}
	}
}

// uneven is noise with p ≠ 1 − q, the first as in the experiments of Erlingsson et al.
var uneven = []Noise{{0.5, 0.75, 0.5}, {0.2, 0.9, 0.3}, {0.75, 0.35, 0.1}, {0.5, 1, 0.5}, {0.5, 0.4, 0}}

// The test enumerates all numbers of ones in K reports of a bit.
func TestNoiseBitLoss_IsTheLargestLogRatio(t *testing.T) {
	for _, n := range uneven {
		for _, reports := range []int{1, 2, 5, 17} {
			largest, smallest := math.Inf(-1), math.Inf(1)
			for ones := range reports + 1 {
				of1, of0 := n.chances(reports, ones)
				if of0 > 0 {
					largest, smallest = max(largest, math.Log(of1/of0)), min(smallest, math.Log(of1/of0))
				}
			}
			one, zero := bitLoss(t, n, reports)
			wantNear(t, fmt.Sprintf("%+v, %d reports, towards 1", n, reports), one, largest, 1e-12)
			wantNear(t, fmt.Sprintf("%+v, %d reports, towards 0", n, reports), zero, -smallest, 1e-12)
		}
	}
}

// chances returns the probability that some of a bit's reports are 1, for a true 1 and a true 0.
func (n Noise) chances(reports, ones int) (of1, of0 float64) {
	k, j := float64(reports), float64(ones)
	ways := combin.GeneralizedBinomial(k, j)
	set := ways * math.Pow(n.P, j) * math.Pow(1-n.P, k-j)
	unset := ways * math.Pow(n.Q, j) * math.Pow(1-n.Q, k-j)
	wrong := n.F / 2
	return (1-wrong)*set + wrong*unset, wrong*set + (1-wrong)*unset
}

// The reference is Theorems 1 and 2 of Erlingsson et al., whose q and p are P and Q here.
func TestNoiseLoss_Strings_AgreesWithErlingsson(t *testing.T) {
	for _, p := range []Params{{1, 128, 2}, {1, 16, 1}, {1, 5, 4}} {
		h := float64(min(p.Hashes, p.Bits-p.Hashes))
		for _, n := range []Noise{{0.5, 0.75, 0.5}, {0.2, 0.9, 0.3}, {0.75, 0.35, 0.1}} {
			q := n.F/2*(n.P+n.Q) + (1-n.F)*n.P
			pp := n.F/2*(n.P+n.Q) + (1-n.F)*n.Q
			wantNear(t, fmt.Sprintf("%+v: one report", n), stringLoss(n, p, 1), h*math.Log(q*(1-pp)/(pp*(1-q))), 1e-12)
			limit := 2 * h * math.Log((1-n.F/2)/(n.F/2))
			wantNear(t, fmt.Sprintf("%+v: a million reports", n), stringLoss(n, p, 1_000_000), limit, 1e-12)
			got := stringLoss(n, p, 20)
			check.That(t, got < limit, "%+v: 20 reports cost %v, more than ever so many, %v", n, got, limit)
			check.Equal(t, stringLoss(n, p, 0), 0, "%+v: no reports cost", n)
		}
	}
}

// For a small ε the loss is nearly linear in K. The closed form as printed in the paper would lose
// all digits.
func TestNoiseLoss_SmallEpsilon_KeepsItsDigits(t *testing.T) {
	n := symmetric(1, 1e-12)
	retention := math.Tanh(0.5)
	for _, reports := range []int{1, 1000} {
		one, _ := bitLoss(t, n, reports)
		ratio := math.Log(n.P / n.Q) // P and Q themselves have been rounded
		wantNear(t, fmt.Sprint(reports, " reports"), one, float64(reports)*retention*ratio, 1e-8)
	}
}

// p and q differ by little and are far from 1 − q and 1 − p, or one is close to 0. Their quotients
// in float64 would lose nearly all digits.
func TestNoiseLoss_NearlyEqualPAndQ_KeepsItsDigits(t *testing.T) {
	const step = 0x1p-40
	for _, c := range []struct {
		n         Noise
		one, zero float64 // of the instantaneous noise
	}{
		{Noise{0.5, 0.375, 0.375 - step}, step/0.375 + step*step/0.28125, step/0.625 - step*step/0.78125},
		{Noise{0.5, 0x1p-70, 0}, math.Inf(1), 0x1p-70},
		{Noise{0.5, 0x1p-70, 0x1p-71}, math.Ln2, 0x1p-71},
		{Noise{0.5, 1, 1 - 0x1p-53}, 0x1p-53, math.Inf(1)},
	} {
		loss := func(instantaneous float64) float64 { // 3/4 against 1/4 of it
			return math.Log1p(-0.5 * math.Expm1(-instantaneous) / (0.25 + 0.75*math.Exp(-instantaneous)))
		}
		one, zero := bitLoss(t, c.n, 1)
		wantNear(t, fmt.Sprintf("%+v: loss towards 1", c.n), one, loss(c.one), 1e-14)
		wantNear(t, fmt.Sprintf("%+v: loss towards 0", c.n), zero, loss(c.zero), 1e-14)
	}
}

// Over all reports of a client with a known bit, the mean of the estimate must be the bit, and its
// variance that of Variance.
func TestNoiseEstimate_AllReports_IsUnbiased(t *testing.T) {
	for _, n := range append(uneven, symmetric(1, 0.5)) {
		for _, reports := range []int{1, 2, 7} {
			for truth := range 2 {
				mean, square := 0.0, 0.0
				for ones := range reports + 1 {
					of1, of0 := n.chances(reports, ones)
					chance := []float64{of0, of1}[truth]
					estimate := must(n.Estimate(int64(ones), 1, reports))
					mean += chance * estimate
					square += chance * (estimate - float64(truth)) * (estimate - float64(truth))
				}
				check.That(t, math.Abs(mean-float64(truth)) <= 1e-12,
					"%+v, %d reports of a %d: mean %v", n, reports, truth, mean)
				wantNear(t, fmt.Sprintf("%+v, %d reports of a %d: variance", n, reports, truth),
					clientVariance(n, reports, float64(truth)), square, 1e-11)
			}
			half := (clientVariance(n, reports, 0) + clientVariance(n, reports, 1)) / 2
			wantNear(t, "variance of a mixed population", clientVariance(n, reports, 0.5), half, 1e-12)
		}
	}
}

func TestNoiseEstimate_ManyClients_IsTheSum(t *testing.T) {
	n := Noise{0.5, 0.75, 0.5}
	want := 0.0
	for _, ones := range []int64{0, 3, 2, 3} {
		estimate := must(n.Estimate(ones, 1, 3))
		want += estimate
	}
	got := must(n.Estimate(8, 4, 3))
	wantNear(t, "four clients", got, want, 1e-12)
}

func TestNoise_InvalidArguments_AreRefused(t *testing.T) {
	nan := math.NaN()
	p := Params{2, 8, 1}
	for _, n := range []Noise{
		{}, {0, 0.75, 0.25}, {1, 0.75, 0.25}, {-0.5, 0.75, 0.25}, {nan, 0.75, 0.25}, {0.5, 0.25, 0.25},
		{0.5, 0.25, 0.75}, {0.5, 1.5, 0.25}, {0.5, 0.75, -0.25}, {0.5, nan, 0.25}, {0.5, 0.75, nan},
	} {
		_, _, errBit := n.BitLoss(1)
		_, errLoss := n.Loss(p, 1)
		_, errEstimate := n.Estimate(1, 2, 3)
		_, errVariance := n.Variance(1, 0.5)
		for _, err := range []error{errBit, errLoss, errEstimate, errVariance} {
			check.That(t, errors.Is(err, privacy.ErrInvalid), "%+v: error %v", n, err)
		}
	}
	good := Noise{0.5, 0.75, 0.25}
	_, _, errBit := good.BitLoss(-1)
	_, errLoss := good.Loss(p, -1)
	errs := []error{errBit, errLoss}
	for _, c := range []struct {
		ones, clients int64
		reports       int
	}{{1, 1, 0}, {1, 1, -1}, {-1, 1, 1}, {2, 1, 1}, {0, -1, 1}, {7, 2, 3}} {
		_, err := good.Estimate(c.ones, c.clients, c.reports)
		errs = append(errs, err)
	}
	for _, share := range []float64{-0.1, 1.1, nan} {
		_, err := good.Variance(1, share)
		errs = append(errs, err)
	}
	_, errNone := good.Variance(0, 0.5)
	for i, err := range append(errs, errNone) {
		check.That(t, errors.Is(err, privacy.ErrInvalid), "case %d: error %v", i, err)
	}
}

func bitLoss(t *testing.T, n Noise, reports int) (one, zero float64) {
	t.Helper()
	one, zero, err := n.BitLoss(reports)
	check.Must(t, err)
	return one, zero
}

func stringLoss(n Noise, p Params, reports int) float64 { return must(n.Loss(p, reports)) }

func clientVariance(n Noise, reports int, share float64) float64 {
	return must(n.Variance(reports, share))
}
