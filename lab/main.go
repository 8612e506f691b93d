// Command lab repeats experiments of the papers on which Sluice is based, and computes their
// formulas. It is a separate module, so that the ledger and its command do not link packages for
// experiments. "go run . help" lists the commands.
//
// Benchmarks are separate programs in this module. README.md lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes one command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second signal ends the process even if a call does not return.
	defer context.AfterFunc(ctx, stop)()

	p := &printer{stdout: stdout, stderr: stderr}
	root := p.rootCommand()
	root.SetArgs(append([]string{}, args...)) // cobra reads os.Args if this is nil
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return done
	}
	var ran *commandError
	if classed := new(fault); !errors.As(err, &classed) && !errors.As(err, &ran) {
		err = usageError(fmt.Sprintf("run %q", command.CommandPath()+" --help"), "%w", err) // cobra's own
	}
	p.json = p.json || slices.Contains(args, "--json") // the command line may not have been parsed to its end
	return p.fail(err)
}

func (p *printer) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "lab",
		Short: "Repeat the papers' experiments, and compute their formulas",
		Long: `Repeat the papers' experiments, and compute their formulas. No ledger is needed.

Exit codes: 0 done; 1 unexpected; 2 wrong usage or input. "go run" returns 1 for both; build the program to
distinguish them.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return checkNotEmpty(cmd.Flags()) },
		RunE: func(*cobra.Command, []string) error {
			return usageError(`run "lab --help" for the commands`, "no command given")
		},
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	flags := root.PersistentFlags()
	flags.BoolVar(&p.json, "json", false, "print JSON, for programs")
	flags.BoolVar(&p.quiet, "quiet", false, "no progress bar")
	mechanism := &cobra.Command{
		Use:   "mechanism",
		Short: "Compute differentially private mechanisms by the distance from the boundary",
		Long: `Compute optimal (ε,δ)-differentially private mechanisms on a graph whose vertices are datasets.
An edge joins two that differ by one individual, and the colour of a vertex is its true answer. A vertex with a
neighbour of another colour is on the boundary. The probabilities there determine all others: the farther a vertex
is from the boundary, the likelier is the true answer. "ledgerctl mechanism solve" computes them on a given graph.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageError(`run "lab mechanism --help"`, "no mechanism given: line or rainbow")
		},
	}
	mechanism.AddCommand(p.lineCommand(), p.rainbowCommand())
	root.AddCommand(p.simulateCommand(), p.kernelCommand(), mechanism)
	return root
}

// checkNotEmpty returns an error for an empty flag, which is most often an unset variable of the
// shell.
func checkNotEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = usageError("is a variable of the shell not set? to give no value, omit the flag", "--%s is empty",
				f.Name)
		}
	})
	return err
}

// commandError marks an error that a command returned. Other errors are cobra's, about the command
// line.
type commandError struct{ error }

// Unwrap returns the error of the command.
func (e *commandError) Unwrap() error { return e.error }

// action runs the work of a command without arguments, and marks its errors.
func action(work func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := work(cmd.Context()); err != nil {
			return &commandError{err}
		}
		return nil
	}
}

// require marks flags as required.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		// Fails only for a flag that is not defined; then every call of the command fails.
		_ = cmd.MarkFlagRequired(name)
	}
}

// oneLine returns a message on one line.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }
