// Wages estimates the mean of 28,155 weekly wages of 1988. Each wage is rounded once, at random, to
// one of two ends, 0 or 2,500 dollars. That end is the true value of a chain of randomized
// responses, which is raised from ε = 0.25 to 2. On average the ends are equal to the wages. Run it
// from the top of the repository: go run ./examples/wages
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

const question = "wage"
const bound = 2500 // higher wages count as the bound; the example clipping chooses it

func main() {
	dir, err := os.MkdirTemp("", "wages")
	if err == nil {
		err = errors.Join(run(context.Background(), os.Stdout, filepath.Join(dir, "panel.db"), 1), os.RemoveAll(dir))
	}
	kit.Exit(err)
}

// host is a host that has the wages.
type host struct {
	ledger *ledger.Ledger
	wages  kit.Wages
	ends   rrchain.Range // from 0 to bound
	key    []byte        // determines the rounding of wages
}

// run enrols every n-th person, and prints the estimates.
func run(ctx context.Context, out io.Writer, file string, n int) (err error) {
	// A real host stores its keys. These exist only in this process.
	h := host{ends: rrchain.Range{High: bound}, key: []byte(rand.Text())}
	if h.wages, err = kit.ReadWages("testdata/cps1988_wages.csv", n); err != nil {
		return err
	}
	if err := ledger.Create(ctx, file, ledger.CreateOptions{}); err != nil {
		return err
	}
	if h.ledger, err = ledger.Open(ctx, file, ledger.Options{TruthKey: []byte(rand.Text())}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.ledger.Close()) }()
	if err := h.ledger.DefineQuestion(ctx, "define", api.Question{Name: question, Values: ends()}); err != nil {
		return err
	}
	most := privacy.MustEpsilon("3")
	_, err = h.ledger.Enroll(ctx, api.EnrollRequest{
		Key: "enroll", Question: question, Objects: h.wages.People, Policy: policy.Fixed(most), Cap: most,
	})
	if err != nil {
		return err
	}
	return errors.Join(h.printMeans(ctx, out), h.changeEnd(ctx, out))
}

func ends() []string { return []string{"low", "high"} }

type group = func(partTime bool) bool // whether it includes people in part-time or full-time work

// groups returns all people, people in full-time work, and people in part-time work.
func groups() []group {
	return []group{func(bool) bool { return true }, func(p bool) bool { return !p }, func(p bool) bool { return p }}
}

// truth returns the rounded wages of people. By a keyed hash, a wage is always rounded to one end.
func (h host) truth(_ context.Context, question string, people []string) (values []string, err error) {
	for _, person := range people {
		end, err := h.ends.RoundKeyed(h.key, question, person, h.wages.Weekly[person])
		if err != nil {
			return nil, err
		}
		values = append(values, ends()[end])
	}
	return values, nil
}

// printMeans prints the real means of each group. Then it raises all people level by level, and
// prints the estimated means at each level.
func (h host) printMeans(ctx context.Context, out io.Writer) error {
	rows := kit.HeadedTable(out, "dollars a week\tall\tfull-time\tpart-time\t")
	for _, limit := range []float64{1e9, bound} { // 1e9 is above all wages, so it clips none
		fmt.Fprintf(rows, "%s\t", kit.Left(map[bool]string{true: "real, clipped", false: "real"}[limit == bound]))
		for _, group := range groups() {
			fmt.Fprintf(rows, "%.1f\t", h.wages.Mean(limit, group))
		}
		fmt.Fprintln(rows)
	}
	for _, text := range []string{"0.25", "0.5", "1", "2"} {
		r := api.RaiseRequest{Key: "raise to " + text, Question: question, All: true, Truth: h.truth}
		r.Epsilon = privacy.MustEpsilon(text)
		if _, err := h.ledger.Raise(ctx, r); err != nil {
			return err
		}
		fmt.Fprintf(rows, "%s\t", kit.Left("at ε = "+text))
		for _, group := range groups() {
			counts := estimate.Counts{Epsilon: r.Epsilon, ByValue: make([]int64, 2)}
			for response, err := range h.ledger.Responses(ctx, question, r.Epsilon) {
				if err != nil {
					return err
				}
				if group(h.wages.PartTime[response.Object]) {
					counts.ByValue[slices.Index(ends(), response.Value)]++
				}
			}
			mean, err := estimate.Mean(estimate.Options{Confidence: 0.95}, h.ends, counts)
			if err != nil {
				return err
			}
			fmt.Fprintf(rows, "%.1f ± %.1f\t", mean.Estimate, (mean.High-mean.Low)/2)
		}
		fmt.Fprintln(rows)
	}
	return rows.Flush()
}

// changeEnd tries to raise a person with the other end. The average of ends that are rounded again
// for each raise would reveal the wage, so a ledger with a truth key draws only from the first end.
func (h host) changeEnd(ctx context.Context, out io.Writer) error {
	person := h.wages.People[0]
	kept, err := h.truth(ctx, question, []string{person})
	if err != nil {
		return err
	}
	other := map[string]string{"low": "high", "high": "low"}[kept[0]]
	_, err = h.ledger.Release(ctx, api.ReleaseRequest{
		Key: "careless", Question: question, Object: person, Epsilon: privacy.MustEpsilon("3"), TrueValue: other,
	})
	if refused := new(api.RefusedError); errors.As(err, &refused) {
		_, err = fmt.Fprintf(out, "\nThe end of person %s is %q, and stays the same. A raise with the other end "+
			"is refused for all to see:\n   %v\nOnly the host learns that the value of %q has changed.\n",
			person, kept[0], err, refused.TruthChanged)
	}
	return err
}
