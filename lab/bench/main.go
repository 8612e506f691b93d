// Command bench runs the benchmarks of this module that compare Sluice with a baseline, and prints
// a Markdown table of the results, with a description of the machine. Each benchmark takes turns
// with its baseline, so that the ratios are meaningful on a machine with other load.
//
//	go run ./bench                                         # the table
//	go run ./bench -mixed 10m                              # only a mixed load, over time
//	go run ./bench -growth -mixed 10m -write measurements.md # all numbers and plots of that file
//
// Everything takes an hour, or two on a slow disk. It runs "go test", so it must be started inside
// the lab. A missed target is no error, but marked in the table. A missing benchmark is an error.
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

	"github.com/sluicedp/sluice/lab/internal/report"
)

// options are the options of the command line.
type options struct {
	time    time.Duration  // of each benchmark
	count   int            // number of runs of each benchmark
	only    *regexp.Regexp // the paths of the table to measure; nil for all
	growth  bool
	largest int // largest number of objects of the growth benchmark
	mixed   mixedOptions
	file    string // the file in which numbers are replaced; "" for none
}

// tables reports whether benchmarks are run, not only a mixed load.
func (o options) tables() bool { return o.mixed.length == 0 || o.growth }

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
	flags.DurationVar(&o.time, "bench-time", time.Second, "shortest time of each benchmark")
	flags.IntVar(&o.count, "count", 3, "number of runs of each benchmark; the table has the median and the range")
	flags.BoolVar(&o.growth, "growth", false, "measure how cost grows with the number of objects")
	largest := flags.Float64("largest", 1e6,
		"largest number of objects of -growth: 1e4, 1e5, 1e6, or 1e7, which needs 20 GB of disk")
	only := flags.String("only", "", "measure only those rows whose path matches this regular expression")
	o.mixed.define(flags)
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
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.count < 1 || o.time <= 0:
		return o, errors.New("-count and -bench-time must be positive")
	case len(crowds(o.largest)) == 0 || crowds(o.largest)[len(crowds(o.largest))-1] != o.largest:
		return o, errors.New("-largest must be 1e4, 1e5, 1e6 or 1e7")
	case o.only != nil && o.file != "":
		return o, errors.New("-write needs the whole table, without -only")
	}
	return o, o.mixed.check()
}

// measured is the output: texts, and pictures by the endings of their names.
type measured struct {
	sections []section
	plots    map[string]func(path string) error
}

// run measures, prints, and replaces the numbers of the file.
func run(ctx context.Context, o options, out io.Writer) error {
	groups := chosen(table(o.largest), o)
	if len(groups) == 0 {
		return fmt.Errorf("no row matches %s (some need -growth)", o.only)
	}
	if err := o.checkFile(); err != nil { // before the benchmarks, which take an hour
		return err
	}
	all := measured{plots: map[string]func(string) error{}}
	var faults []error
	if o.tables() {
		faults = append(faults, all.benchmarks(ctx, groups, o))
	}
	if o.mixed.length > 0 && ctx.Err() == nil {
		faults = append(faults, all.mixed(ctx, o.mixed))
	}
	for _, s := range all.sections {
		fmt.Fprintln(out, s.text)
	}
	if err := errors.Join(append(faults, ctx.Err())...); err != nil {
		return err // incomplete results are not written to the file
	}
	return all.save(o.file)
}

// benchmarks runs the benchmarks of rows.
func (m *measured) benchmarks(ctx context.Context, groups []group, o options) error {
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
	facts += fmt.Sprintf("- load average at the beginning: %s; at the end: %s\n", before, report.LoadAverage())
	m.sections = append(m.sections, section{"machine", facts}, section{"table", tableText(groups, found)})
	if measures(groups, "BenchmarkSize") {
		m.sections = append(m.sections, section{"bytes", sizeText(found)})
	}
	if o.growth {
		m.sections = append(m.sections, section{"growth", growthText(found, crowds(o.largest))})
		m.plots["-growth.svg"] = func(path string) error { return drawGrowth(path, found, crowds(o.largest)) }
	}
	return errors.Join(append(faults, missing(groups, found)...)...)
}

// mixed measures a mixed load on a ledger.
func (m *measured) mixed(ctx context.Context, o mixedOptions) error {
	found, err := runMixed(ctx, o)
	if err == nil {
		err = found.check()
	}
	if err != nil {
		return err
	}
	m.sections = append(m.sections, section{"mixed", found.text(commit(ctx))})
	m.plots["-mixed.svg"] = found.drawMixed
	return nil
}

// describe describes the machine, and the commit that is checked out, if that is known.
func describe(ctx context.Context, dir string) (string, error) {
	facts, err := report.Describe(dir)
	if err != nil {
		return "", err
	}
	if commit := commit(ctx); commit != "" {
		facts += "- commit: " + commit + "\n"
	}
	return facts, nil
}

// commit returns the commit that is checked out, or "" if that is unknown.
func commit(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// checkFile checks that the file has a place for each section.
func (o options) checkFile() error {
	if o.file == "" {
		return nil
	}
	text, err := os.ReadFile(o.file)
	if err != nil {
		return err
	}
	var sections []section
	if o.tables() {
		sections = append(sections, section{name: "machine"}, section{name: "table"}, section{name: "bytes"})
	}
	if o.growth {
		sections = append(sections, section{name: "growth"})
	}
	if o.mixed.length > 0 {
		sections = append(sections, section{name: "mixed"})
	}
	if _, err := replace(string(text), sections); err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	return nil
}

// save replaces the numbers of a file, and writes its plots beside it. It does nothing for "".
func (m *measured) save(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	replaced, err := replace(string(text), m.sections)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for ending, draw := range m.plots {
		if err := draw(strings.TrimSuffix(file, filepath.Ext(file)) + ending); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(replaced), 0o666)
}
