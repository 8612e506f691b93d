// Clipping chooses a bound for numbers whose mean is estimated, here wages. A low bound reduces the
// mean, and a high one adds noise. For the choice, one man in ten reports the bracket of his wage
// at ε = 2. Run it from the top of the repository: go run ./examples/clipping
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

func main() { kit.Exit(run(os.Stdout)) }

// run asks every tenth man, the pilot. For each bound it prints the predicted and the real error.
func run(out io.Writer) error {
	all, err := kit.ReadWages("testdata/cps1988_wages.csv", 1)
	if err != nil {
		return err
	}
	var pilot, rest list
	for i, wage := range all.Of(all.People) {
		if i%10 == 9 {
			pilot = append(pilot, wage)
		} else {
			rest = append(rest, wage)
		}
	}
	guess, err := ask(out, pilot, privacy.MustEpsilon("2"))
	if err != nil {
		return err
	}
	n := len(rest)
	fmt.Fprintf(out, "\nBOUND   What is cut off the mean of the %d others, the noise at ε = 2, and the error of both "+
		"together (root mean square,\nin dollars), as it really is and as the pilot has it guess.\n", n)
	rows := kit.HeadedTable(out, "bound\tcut off\tnoise\terror\tguess: cut off\tnoise\terror\t")
	for _, b := range bounds() {
		fmt.Fprintf(rows, "%s\t", kit.Left(fmt.Sprint(b)))
		for _, w := range []wages{rest.clipped, guess.clipped} {
			fmt.Fprintf(rows, "%.1f\t%.1f\t%.1f\t", cut(w, b), noise(w, n, b, 2), totalError(w, n, b, 2))
		}
		fmt.Fprintln(rows)
	}
	rows.Flush()
	_, err = fmt.Fprintf(out, "The pilot chooses a bound of %.0f dollars. The best is %.0f.\n",
		best(guess.clipped, n, 2), best(rest.clipped, n, 2))
	return err
}

// bracket is 0 for wages up to 500 dollars, 1 for those up to 1,000, and 2 above.
func bracket(wage float64) int { return sort.SearchFloat64s([]float64{500, 1000}, wage) }

// ask estimates the distribution of wages from the pilot's randomized responses.
func ask(out io.Writer, pilot list, epsilon privacy.Epsilon) (lognormal, error) {
	sampler, counts := new(rrchain.Sampler), estimate.Counts{Epsilon: epsilon, ByValue: make([]int64, 3)}
	for _, wage := range pilot {
		answer, err := sampler.Raise(3, rrchain.Level[int]{}, epsilon, bracket(wage))
		if err != nil {
			return lognormal{}, err
		}
		counts.ByValue[answer]++
	}
	shares, err := estimate.Frequencies(estimate.Options{Confidence: 0.95}, counts)
	if err != nil {
		return lognormal{}, err
	}
	low, middle := shares[0].Estimate, shares[1].Estimate
	guess, err := fitLognormal(500, low, 1000, low+middle)
	fmt.Fprintf(out, "PILOT   %d men answer in ranges: %.1f %% earn up to 500 dollars, and %.1f %% up to 1,000. "+
		"The logarithms of wages are about\nnormal, so the median is some %.0f dollars, and the standard deviation of "+
		"the logarithms %.2f.\n", len(pilot), 100*low, 100*(low+middle), math.Exp(guess.mu), guess.sigma)
	return guess, err
}

func bounds() []float64 { return []float64{1000, 1500, 2000, 2500, 3000, 4000, 5000, 10000, 20000} }

// wages is a distribution of wages. It returns their mean and mean square, with wages above bound
// counted as bound.
type wages func(bound float64) (mean, square float64)

// cut returns by how much a bound reduces the mean.
func cut(w wages, bound float64) float64 {
	whole, _ := w(1e9) // above all wages
	mean, _ := w(bound)
	return whole - mean
}

// noise returns the standard error of the mean of n wages x that are rounded to 0 or a bound b, and
// reported at ε. With E = e^ε its square is (b²·E/(E−1)² + mean of x(b−x)) / n: the first term is
// due to randomized response, the second to rounding.
func noise(w wages, n int, bound, epsilon float64) float64 {
	mean, square := w(bound)
	e := math.Exp(epsilon)
	return math.Sqrt((bound*bound*e/((e-1)*(e-1)) + bound*mean - square) / float64(n))
}

func totalError(w wages, n int, b, epsilon float64) float64 {
	return math.Hypot(cut(w, b), noise(w, n, b, epsilon))
}

// best returns the bound with the smallest error.
func best(w wages, n int, epsilon float64) float64 {
	return slices.MinFunc(bounds(), func(a, b float64) int {
		return cmp.Compare(totalError(w, n, a, epsilon), totalError(w, n, b, epsilon))
	})
}

// list is a list of wages, in dollars a week.
type list []float64

func (l list) clipped(bound float64) (mean, square float64) {
	for _, wage := range l {
		x, n := min(wage, bound), float64(len(l))
		mean, square = mean+x/n, square+x*x/n
	}
	return mean, square
}

// lognormal has normal logarithms (Aitchison and Brown, The Lognormal Distribution, 1957).
type lognormal struct{ mu, sigma float64 } // the mean and standard deviation of the logarithms

// fitLognormal returns the distribution with belowLow of it below low, and belowHigh below high.
func fitLognormal(low, belowLow, high, belowHigh float64) (lognormal, error) {
	if !(0 < belowLow && belowLow < belowHigh && belowHigh < 1) {
		return lognormal{}, errors.New("too few people to estimate the distribution of wages")
	}
	from, to := math.Sqrt2*math.Erfinv(2*belowLow-1), math.Sqrt2*math.Erfinv(2*belowHigh-1)
	sigma := math.Log(high/low) / (to - from)
	return lognormal{math.Log(low) - sigma*from, sigma}, nil
}

func (l lognormal) clipped(bound float64) (mean, square float64) {
	z := (math.Log(bound) - l.mu) / l.sigma
	above := normalShare(-z)
	mean = math.Exp(l.mu+l.sigma*l.sigma/2)*normalShare(z-l.sigma) + bound*above
	square = math.Exp(2*l.mu+2*l.sigma*l.sigma)*normalShare(z-2*l.sigma) + bound*bound*above
	return mean, square
}

// normalShare returns the share of a standard normal distribution below z.
func normalShare(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
