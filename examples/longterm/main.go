// Longterm compares repeated reports of the same clients. RAPPOR as published keeps a noisy filter
// for each client, and adds noise to the filter for each report, so that all reports cost no more
// than the filter. A chain is raised instead: the next report is drawn from the last one and the
// true value. Here both cost the same ε. How many more clients does RAPPOR need for the same
// precision?
//
//	go run ./examples/longterm
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/rappor"
)

func main() { kit.Exit(run(os.Stdout)) }

// run prints, for 1 to 16 reports, the ε of all reports together, and the variances of RAPPOR and
// of chains that are raised to the same ε.
func run(out io.Writer) error {
	params := rappor.Params{Cohorts: 64, Bits: 128, Hashes: 1}
	noise := rappor.Noise{F: 0.5, P: 0.75, Q: 0.25}
	fmt.Fprintf(out, "RAPPOR (f = %v, p = %v, q = %v) beside chains that are raised to the same ε in all: "+
		"the variance of the estimated\nfrequency of a bit, times the number of clients (Pan 2024, Eq. (68), (67)).\n",
		noise.F, noise.P, noise.Q)
	rows := kit.HeadedTable(out, "reports\tε in all\tRAPPOR\tchains\tRAPPOR needs\t")
	for _, reports := range []int{1, 2, 4, 8, 16} {
		loss, err := noise.Loss(params, reports)
		if err != nil {
			return err
		}
		published, err := noise.Variance(reports, 0)
		if err != nil {
			return err
		}
		raised, err := chain(params, loss)
		if err != nil {
			return err
		}
		fmt.Fprintf(rows, "%s\t%.3f\t%.2f\t%.2f\t%.1f × the clients\t\n",
			kit.Left(fmt.Sprint(reports)), loss, published, raised, published/raised)
	}
	return rows.Flush()
}

// chain returns the variance of the estimated frequency of a bit from one client, whose chain has
// been raised to epsilon, the ε of all its reports together.
func chain(params rappor.Params, epsilon float64) (float64, error) {
	level, err := privacy.EpsilonFromNano(int64(epsilon * 1e9)) // rounded down, against the chains
	if err != nil {
		return 0, err
	}
	bit, err := params.BitEpsilon(level)
	if err != nil {
		return 0, err
	}
	variance, err := estimate.Variance(estimate.Counts{Epsilon: bit, ByValue: []int64{1, 0}})
	if err != nil {
		return 0, err
	}
	return variance[0], nil
}
