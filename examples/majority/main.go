// Majority asks questions about many people at once, and shows why such answers are surer the farther
// the people are from deciding otherwise.
//
// First the survey before the Chilean plebiscite of 1988 answers through a ledger: which intention is
// the commonest in each region, at three ε. Then the mechanism behind such answers is computed for all
// ways in which 60 people can split over three options, checked for privacy, and drawn as a triangle.
//
// Run it from the top of the repository:
//
//	go run ./examples/majority
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

func main() {
	data := flag.String("data", "testdata/chile_plebiscite_1988.csv", "the survey")
	svg := flag.String("svg", filepath.Join(os.TempDir(), "triangle.svg"), "where to put the picture")
	flag.Parse()
	if err := run(os.Stdout, *data, *svg); err != nil {
		fmt.Fprintln(os.Stderr, "majority:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, data, svg string) error {
	if err := pollRegions(out, data); err != nil {
		return err
	}
	t, err := solve(60, 0.2)
	if err != nil {
		return err
	}
	if err := t.print(out); err != nil {
		return err
	}
	if err := os.WriteFile(svg, t.draw(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nPICTURE   %s draws every one of them.\n", svg)
	return nil
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// left pads the first column of a table, whose other columns are aligned to the right.
func left(text string) string { return fmt.Sprintf("%-17s", text) }

// percent writes a probability. None here is 1, though a float64 may be.
func percent(p float64) string {
	if p > 0.99 {
		return ">99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}
