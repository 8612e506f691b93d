// Rappor finds common first names without learning the name of any child. The clients are 100,000
// births of 2016 in the United States. Each reports the Bloom filter of its name at ε = 1, raised
// to 2, 4 and 8. After each step a server estimates the shares of the names in a list.
//
// Run it from the top of the repository: go run ./examples/rappor
package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/rappor"
)

func main() { kit.Exit(run(os.Stdout, 100_000, 500)) }

// run lets every client report at each level, and prints the estimates of the server. The
// candidates are the most common names, whose number is listed, and some invented names.
func run(out io.Writer, births, listed int) error {
	all, err := kit.ReadNames("testdata/us_baby_names_2016.csv")
	if err != nil {
		return err
	}
	params := rappor.Params{Cohorts: 64, Bits: 128, Hashes: 1}
	people := kit.DrawBirths(all, births)
	clients, err := newClients(params, people)
	if err != nil {
		return err
	}
	candidates := kit.InventedNames()
	for _, name := range all[:listed] {
		candidates = append(candidates, name.Name)
	}
	var levels []privacy.Epsilon
	var found []rappor.Decoding
	for _, text := range []string{"1", "2", "4", "8"} {
		level := privacy.MustEpsilon(text)
		decoding, err := report(params, clients, level, candidates)
		if err != nil {
			return err
		}
		levels = append(levels, level)
		found = append(found, decoding)
	}
	fmt.Fprintf(out, "%d births of 2016 in the United States, drawn from %d. Each has a secret: the child's first "+
		"name. It sets %d of %d bits,\nby a public hash for each of %d groups of clients. A client reports all bits, "+
		"each with noise. A raise draws the next report\nfrom the last one and the name, so that all reports "+
		"together cost the largest ε.\n",
		births, kit.Births(all), params.Hashes, params.Bits, params.Cohorts)
	truth := kit.NameShares(people)
	if err := printNames(out, levels, found, truth); err != nil {
		return err
	}
	return printFound(out, levels, found, truth)
}

// newClients returns a client for each name, in a random cohort, which has a hash of its own.
func newClients(params rappor.Params, people []string) ([]*rappor.Client, error) {
	clients := make([]*rappor.Client, len(people))
	for i, name := range people {
		cohort, err := params.DrawCohort()
		if err != nil {
			return nil, err
		}
		if clients[i], err = params.NewClient(cohort, name); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// report collects the reports of all clients at a level, and estimates the shares of the
// candidates.
func report(
	params rappor.Params, clients []*rappor.Client, level privacy.Epsilon, candidates []string,
) (none rappor.Decoding, err error) {
	tally, err := params.NewTally(level)
	if err != nil {
		return none, err
	}
	sampler := new(rrchain.Sampler)
	for _, client := range clients {
		bits, err := client.Raise(sampler, level)
		if err != nil {
			return none, err
		}
		if err := tally.Add(bits); err != nil {
			return none, err
		}
	}
	return tally.Decode(candidates, 0.95)
}

// printNames prints the twelve most common names by the last reports, and their shares at each ε.
func printNames(out io.Writer, levels []privacy.Epsilon, found []rappor.Decoding, truth map[string]float64) error {
	fmt.Fprintf(out, "\nNAMES   The commonest of %d candidates, as the server estimates them, with 95 %% intervals. "+
		"* marks what\nis found: at each ε, the chance that any candidate has a false mark is at most 5 %%.\n",
		len(found[0].Shares))
	rows := kit.NewTable(out)
	fmt.Fprint(rows, kit.Left("name")+"\treal share\t")
	for _, level := range levels {
		fmt.Fprintf(rows, "at ε = %s  \t", level)
	}
	for _, top := range found[len(found)-1].Shares[:12] {
		fmt.Fprintf(rows, "\n%s\t%.2f %%\t", kit.Left(top.String), 100*truth[top.String])
		for _, d := range found {
			share := d.Shares[slices.IndexFunc(d.Shares, func(s rappor.Share) bool { return s.String == top.String })]
			mark := map[bool]string{true: "*", false: " "}[share.Significant]
			fmt.Fprintf(rows, "%.2f ± %.2f %% %s\t", 100*share.Estimate, 100*(share.High-share.Estimate), mark)
		}
	}
	fmt.Fprintln(rows)
	return rows.Flush()
}

// printFound prints for each ε how many names were found, and the error of the estimates.
func printFound(out io.Writer, levels []privacy.Epsilon, found []rappor.Decoding, truth map[string]float64) error {
	fmt.Fprintf(out, "\nFOUND   Names with a mark; %d candidates are made up, to see whether any of them gets one. "+
		"The error of all\nestimates is their root mean square distance from the truth, beside what the server "+
		"states without it.\n", len(kit.InventedNames()))
	rows := kit.HeadedTable(out, "report at\tnames found\tmade up\tintervals that hold the truth\terror\tstated\t")
	for i, d := range found {
		marked, madeUp, hold, square, stated := 0, 0, 0, 0.0, 0.0 // sums over the candidates
		for _, share := range d.Shares {
			away := share.Estimate - truth[share.String]
			switch {
			case share.Significant && slices.Contains(kit.InventedNames(), share.String):
				madeUp++
			case share.Significant:
				marked++
			}
			if share.Low <= truth[share.String] && truth[share.String] <= share.High {
				hold++
			}
			square += away * away
			stated += share.StdErr * share.StdErr
		}
		n := float64(len(d.Shares))
		fmt.Fprintf(rows, "%s\t%d\t%d\t", kit.Left("ε = "+levels[i].String()), marked, madeUp)
		fmt.Fprintf(rows, "%.1f %%\t%.3f %%\t%.3f %%\t\n",
			100*float64(hold)/n, 100*math.Sqrt(square/n), 100*math.Sqrt(stated/n))
	}
	return rows.Flush()
}
