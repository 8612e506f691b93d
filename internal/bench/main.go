// Command bench runs the benchmarks of this module that compare Sluice with a baseline, and prints a Markdown table of
// what they measured, with a description of the machine. Each benchmark takes turns with its baseline, so that ratios
// mean something on a machine that others use too.
//
//	go run ./internal/bench                                      # the table
//	go run ./internal/bench -growth -write docs/performance.md   # all of that file's numbers and plots
//
// It takes a quarter of an hour with -growth, or an hour on a slow disk, and runs "go test", so it must be started inside the module. Nothing passes or
// fails by how long it takes: a target that is missed is said in the table. A benchmark that is missing is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sluicedp/sluice/internal/bench/report"
)

// options are what the command line says.
type options struct {
	time    time.Duration  // of each benchmark
	count   int            // how often each is run
	only    *regexp.Regexp // the paths of the table to measure; nil for all
	growth  bool
	largest int    // the most objects of the growth benchmark
	file    string // whose numbers to replace; "" for none
}

func main() {
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, usage io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.DurationVar(&o.time, "bench-time", time.Second, "how long each benchmark runs, at least")
	flags.IntVar(&o.count, "count", 3, "how often each benchmark is run; the table has the median and the range")
	flags.BoolVar(&o.growth, "growth", false, "measure how cost grows with the number of objects")
	largest := flags.Float64("largest", 1e6, "the most objects of -growth: 1e4, 1e5, 1e6, or 1e7, which takes 20 GB of disk")
	only := flags.String("only", "", "measure only those rows whose path matches this regular expression")
	flags.StringVar(&o.file, "write", "", "replace the numbers in this Markdown `file`, and the plots beside it")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.largest = int(*largest)
	if *only != "" {
		if o.only, err = regexp.Compile(*only); err != nil {
			return o, fmt.Errorf("-only: %w", err)
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is not understood", flags.Arg(0))
	case o.count < 1 || o.time <= 0:
		return o, errors.New("-count and -bench-time must be positive")
	case len(crowds(o.largest)) == 0 || crowds(o.largest)[len(crowds(o.largest))-1] != o.largest:
		return o, errors.New("-largest must be 1e4, 1e5, 1e6 or 1e7")
	case o.only != nil && o.file != "":
		return o, errors.New("-write needs the whole table, without -only")
	}
	return o, nil
}

// run measures, prints, and replaces the numbers of the file.
func run(ctx context.Context, o options, out io.Writer) error {
	groups := chosen(table(o.largest), o)
	if len(groups) == 0 {
		return fmt.Errorf("no row matches %s (some need -growth)", o.only)
	}
	if err := o.checkFile(); err != nil { // now, not after an hour
		return err
	}
	before := report.LoadAverage()
	facts, err := describe(ctx, os.TempDir())
	if err != nil {
		return err
	}
	found := results{}
	var faults []error
	for _, j := range jobs(groups, o) {
		if err := j.run(ctx, found, os.Stderr); err != nil {
			faults = append(faults, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	facts += fmt.Sprintf("- load average at the beginning: %s; at the end: %s\n", before, report.LoadAverage())

	sections := []section{{"machine", facts}, {"table", tableText(groups, found)}}
	if measures(groups, "BenchmarkSize") {
		sections = append(sections, section{"bytes", sizeText(found)})
	}
	if o.growth {
		sections = append(sections, section{"growth", growthText(found, crowds(o.largest))})
	}
	for _, s := range sections {
		fmt.Fprintln(out, s.text)
	}
	faults = append(faults, missing(groups, found)...)
	if err := errors.Join(faults...); err != nil {
		return err // what is incomplete is not written into a file
	}
	return save(o, sections, found)
}

// describe says what the machine is, and which commit is checked out, if that is known.
func describe(ctx context.Context, dir string) (string, error) {
	facts, err := report.Describe(dir)
	if err != nil {
		return "", err
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err == nil {
		facts += "- commit: " + string(commit)
	}
	return facts, nil
}

// checkFile looks whether the file has a place for each section.
func (o options) checkFile() error {
	if o.file == "" {
		return nil
	}
	text, err := os.ReadFile(o.file)
	if err != nil {
		return err
	}
	sections := []section{{name: "machine"}, {name: "table"}, {name: "bytes"}}
	if o.growth {
		sections = append(sections, section{name: "growth"})
	}
	if _, err := replace(string(text), sections); err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	return nil
}

// save writes the file and its plots.
func save(o options, sections []section, found results) error {
	if o.file == "" {
		return nil
	}
	text, err := os.ReadFile(o.file)
	if err != nil {
		return err
	}
	replaced, err := replace(string(text), sections)
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	if o.growth {
		plot := strings.TrimSuffix(o.file, filepath.Ext(o.file)) + "-growth.svg"
		if err := drawGrowth(plot, found, crowds(o.largest)); err != nil {
			return err
		}
	}
	return os.WriteFile(o.file, []byte(replaced), 0o666)
}
