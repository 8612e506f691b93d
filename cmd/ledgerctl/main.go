// Command ledgerctl keeps a privacy-budget ledger from the command line: it enrols people, raises
// their randomized responses to a higher ε within their budgets, by hand, by the calendar or by
// sales, and estimates shares from them.
//
// It is a thin face over package ledger. "ledgerctl help" lists the commands; exit codes are in
// internal/output.
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

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run carries out one command line and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// From the first signal on, the next one kills: a call that does not return must not hold on.
	defer context.AfterFunc(ctx, stop)()

	a := newApp(stdin, stdout, stderr)
	root := a.rootCommand()
	help := &mindful{Writer: stdout}
	root.SetOut(help)
	root.SetArgs(append([]string{}, args...)) // never nil, for which cobra would look into os.Args
	command, err := root.ExecuteContextC(ctx)
	if help.err != nil {
		err = help.err
	}
	if err == nil {
		err = a.after
	}
	if err == nil {
		return int(output.ExitDone)
	}
	return int(a.Fail(asUsage(command, err), wantsJSON(args)))
}

// mindful remembers the first error of a writer: cobra, which prints help, looks at none.
type mindful struct {
	io.Writer
	err error
}

// Write implements [io.Writer].
func (m *mindful) Write(text []byte) (int, error) {
	n, err := m.Writer.Write(text)
	if err != nil && m.err == nil {
		m.err = &started{err}
	}
	return n, err
}

// started marks the errors of commands, apart from those of cobra, which are all wrong usage.
type started struct{ error }

func (s *started) Unwrap() error { return s.error }

// action is a command's work. All commands are run through it.
func action(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return &started{err}
		}
		return nil
	}
}

// asUsage classes what cobra found wrong with a command line.
func asUsage(cmd *cobra.Command, err error) error {
	var classed *output.Error
	var ours *started
	if errors.As(err, &classed) || errors.As(err, &ours) {
		return err
	}
	if text := output.WrongValue(err); text != "" {
		return output.UsageError(fmt.Sprintf("run %q", cmd.CommandPath()+" --help"), "%s", text)
	}
	text, suggested, found := strings.Cut(err.Error(), "\n\nDid you mean this?")
	if found {
		return output.UsageError("did you mean "+strings.Join(strings.Fields(suggested), " or ")+"?", "%s", text)
	}
	return output.UsageError(fmt.Sprintf("run %q", cmd.CommandPath()+" --help"), "%s", text)
}

// wantsJSON reports whether a command line asks for JSON, even if it is too broken to be parsed.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}
