// Command load measures what it costs to call a ledger over HTTP: the same calls, of as many
// callers, in this process and as requests to "ledgerctl serve" on this machine, in turns, in one
// run. It prints a Markdown table.
//
//	go run ./load              # requests come from wrk, which must be installed
//	go run ./load -client go   # from this program, which takes more of the processor
//
// It must be started inside the lab, because it builds ledgerctl. A ledger that does not have
// exactly what was asked of it in the end is an error; how fast it is, is not.
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

// options are what the command line says.
type options struct {
	callers int
	objects int
	pairs   int
	turn    time.Duration // how long one way is measured at a time
	rest    time.Duration // between two turns, for what the one before left to be done
	client  string        // "wrk" or "go"
	program string        // ledgerctl; "" builds it
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
	flags.IntVar(&o.callers, "callers", 64, "how many callers there are, each with one call at a time")
	flags.IntVar(&o.objects, "objects", 100_000, "how many objects the ledger has")
	flags.IntVar(&o.pairs, "pairs", 7, "how often each way is measured")
	flags.DurationVar(&o.turn, "turn", 4*time.Second, "how long one way is measured at a time, in whole seconds")
	flags.StringVar(&o.client, "client", "wrk", `what makes the requests: "wrk", or "go", which is this program`)
	flags.StringVar(&o.program, "program", "", "the `FILE` of ledgerctl that serves (default: it is built)")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "directory on the disk that is to be measured")
	o.rest = time.Second
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is not understood", flags.Arg(0))
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

// build makes the program that serves.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "ledgerctl")
	sluice, err := report.SluiceDir(ctx)
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/ledgerctl")
	build.Dir = sluice
	said, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return program, nil
}
