// Command gate compares the speed of two checkouts of Sluice, by turns in one run on one machine,
// and prints the ratio of medians for each row. It ends with exit code 1 if a row is more than 5 %
// slower.
//
//	go run ./gate -before DIR             # DIR beside this checkout
//	go run ./gate -before DIR -after DIR2
//
// It builds one program against each checkout, in a temporary module that replaces Sluice with the
// checkout. A checkout needs only the public API that the program uses (measure/ledger.go), not the
// lab.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// options are the options of the command line.
type options struct {
	before, after    string // checkouts
	rounds           int
	people, releases int
	rest             time.Duration // between two turns
	only             *regexp.Regexp
	dir              string
}

func main() {
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		stop()
		os.Exit(1)
	}
}

func parseOptions(args []string, usage io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.before, "before", "", "the `DIR` of the checkout to compare with")
	flags.StringVar(&o.after, "after", "", "the `DIR` of the other checkout (default: that of the lab)")
	flags.IntVar(&o.rounds, "rounds", 9, "number of measured rounds; the result is the median")
	flags.IntVar(&o.people, "people", 50_000, "number of people in each ledger")
	flags.IntVar(&o.releases, "releases", 20_000, "number of releases in a turn; with one caller, a fiftieth of them")
	flags.DurationVar(&o.rest, "rest", time.Second, "pause before each turn, for background work of the last one")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "directory on the disk to measure")
	only := flags.String("only", "", "measure only the rows that match this regular expression")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.before == "":
		return o, errors.New("-before needs the directory of a checkout")
	case o.rounds < 1 || o.people < 1 || o.releases < 1:
		return o, errors.New("-rounds, -people and -releases must be positive")
	case len(o.rows()) == 0:
		return o, fmt.Errorf("-only: no row matches %q", *only)
	}
	return o, nil
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	if o.after == "" {
		if o.after, err = report.SluiceDir(ctx); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(o.dir, "sluice-gate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var sides [2]*side
	for i, checkout := range []string{o.before, o.after} {
		own := filepath.Join(dir, []string{"before", "after"}[i])
		if sides[i], err = newSide(ctx, checkout, own, o); err != nil {
			return fmt.Errorf("%s: %w", checkout, err)
		}
		defer func() { err = errors.Join(err, sides[i].stop()) }()
	}
	machine, err := report.Describe(dir)
	if err != nil {
		return err
	}
	found, err := compare(ctx, o, sides, progress)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s- load average: %s\n- before: %s\n- after: %s\n\n%s",
		machine, report.LoadAverage(), sides[0].commit, sides[1].commit, found.text())
	return found.verdict()
}
