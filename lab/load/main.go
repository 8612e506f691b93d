// Command load measures the cost of calling a ledger over HTTP. It runs the same calls with the
// same number of callers in this process and as requests to "ledgerctl serve" on this machine, in
// turns. It prints a Markdown table.
//
//	go run ./load              # requests by wrk, which must be installed
//	go run ./load -client go   # requests by this program, which needs more processor time
//
// It must be started inside the lab, because it builds ledgerctl. It is an error if a ledger does
// not have exactly the requested releases in the end. The speed is never an error.
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
	"syscall"
	"time"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// options are the options of the command line.
type options struct {
	callers int
	objects int
	pairs   int
	turn    time.Duration // of one measurement
	rest    time.Duration // between two turns, for background work of the last one
	client  string        // "wrk" or "go"
	program string        // path of ledgerctl; "" builds it
	dir     string
}

func main() {
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		stop()
		os.Exit(1)
	}
}

func parseOptions(args []string, usage io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&o.callers, "callers", 64, "number of callers, each with one call at a time")
	flags.IntVar(&o.objects, "objects", 100_000, "number of objects in the ledger")
	flags.IntVar(&o.pairs, "pairs", 7, "number of measurements of each way")
	flags.DurationVar(&o.turn, "turn", 4*time.Second, "duration of one measurement, in whole seconds")
	flags.StringVar(&o.client, "client", "wrk", `the client: "wrk", or "go", which is this program`)
	flags.StringVar(&o.program, "program", "", "the `FILE` of the serving ledgerctl (default: it is built)")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "directory on the disk to measure")
	o.rest = time.Second
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.callers < 1 || o.objects < 1 || o.pairs < 1:
		return o, errors.New("-callers, -objects and -pairs must be positive")
	case o.objects >= stride:
		return o, fmt.Errorf("-objects must be less than %d", stride)
	case o.turn < time.Second || o.turn%time.Second != 0:
		return o, errors.New("-turn must be whole seconds")
	case o.client != "wrk" && o.client != "go":
		return o, errors.New(`-client must be "wrk" or "go"`)
	}
	return o, nil
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp(o.dir, "sluice-load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	machine, err := report.Describe(dir)
	if err != nil {
		return err
	}
	if o.client == "wrk" {
		if _, err := exec.LookPath("wrk"); err != nil {
			return fmt.Errorf("%w: install it (Debian's package is wrk), or give -client go", err)
		}
	}
	if o.program == "" {
		if o.program, err = build(ctx, dir); err != nil {
			return err
		}
	}
	before := report.LoadAverage()
	found, err := measure(ctx, o, dir, progress)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s- load average at the beginning: %s; at the end: %s\n\n", machine, before, report.LoadAverage())
	_, err = io.WriteString(out, found.text(o))
	return err
}

// build builds ledgerctl, which serves.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "ledgerctl")
	sluice, err := report.SluiceDir(ctx)
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/ledgerctl")
	build.Dir = sluice
	output, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	return program, nil
}
