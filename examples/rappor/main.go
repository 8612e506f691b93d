// Rappor finds out which first names are common without learning anybody's. 100,000 births of 2016 in the
// United States are clients: each reports the Bloom filter of its name at ε = 1, raised to 2, 4 and 8. After
// each step a server estimates how common the names of a public list are.
//
// Run it from the top of the repository:
//
//	go run ./examples/rappor
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/sluicedp/sluice/examples/internal/names"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/rappor"
)

func main() {
	data := flag.String("data", "testdata/us_baby_names_2016.csv", "the names")
	births := flag.Int("births", 100_000, "how many births to draw from them")
	flag.Parse()
	if err := run(os.Stdout, *data, *births); err != nil {
		fmt.Fprintln(os.Stderr, "rappor:", err)
		os.Exit(1)
	}
}

const (
	listed     = 500  // so many of the commonest names are candidates
	shown      = 12   // and so many of them are printed
	confidence = 0.95 // of the intervals, and against any false discovery
)

// invented are candidates that no child has.
func invented() []string {
	return []string{
		"Zyxwella", "Quordon", "Blivette", "Thrumble", "Oxnard", "Vespasiana", "Grubnik", "Plimsoll", "Wuzzleton",
		"Fernquist", "Yodlewin", "Krakatoa", "Snorbert", "Ploverine", "Dwindleton", "Muskrattle", "Jibberon",
		"Higgsbosa", "Umbrage", "Cloudette",
	}
}

func run(out io.Writer, path string, births int) error {
	all, err := names.Read(path)
	if err != nil {
		return err
	}
	people, err := draw(all, births)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d births of 2016 in the United States, drawn from %d. Each has a secret: the child's first name.\n",
		births, names.Births(all))
	one := &survey{
		out: out, people: people, candidates: candidates(all),
		params: rappor.Params{Cohorts: 64, Bits: 128, Hashes: 1},
		levels: []privacy.Epsilon{epsilon("1"), epsilon("2"), epsilon("4"), epsilon("8")},
	}
	if err := one.run(); err != nil {
		return err
	}
	two := *one
	two.params.Hashes = 2
	if err := printAnotherSurvey(&two); err != nil {
		return err
	}
	return compareNoise(out, one.params, people.first(max(births/10, 1)))
}

// candidates are the commonest names, which anybody can look up, and the invented ones.
func candidates(all []names.Name) []string {
	var list []string
	for _, name := range all[:min(listed, len(all))] {
		list = append(list, name.Name)
	}
	return append(list, invented()...)
}

// newTable aligns its columns to the right; left pads the first one, which is not.
func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
}

func left(text string) string { return fmt.Sprintf("%-11s", text) }

// epsilon reads a constant of this program.
func epsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}
