// Command ledgerctl manages a privacy-budget ledger from the command line. It enrols people, raises
// their randomized responses to a higher ε within their budgets, by hand, by the calendar or by
// sales, and estimates shares from the responses.
//
// It is a thin layer over package ledger. "ledgerctl help" lists the commands. A method of app with
// the name of a command runs it: it reads the files that the flags name, makes one request to the
// ledger, and prints the result as a table or as JSON. The exit codes are in internal/output.
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

// run runs one command line and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal, the next one kills the process, in case a call does not return.
	defer context.AfterFunc(ctx, stop)()

	a := newApp(stdin, stdout, stderr)
	root := a.rootCommand()
	help := &errorWriter{Writer: stdout}
	root.SetOut(help)
	root.SetArgs(append([]string{}, args...)) // never nil, for which cobra would use os.Args
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

// errorWriter keeps the first error of a writer, because cobra ignores errors when it prints help.
type errorWriter struct {
	io.Writer
	err error
}

// Write implements [io.Writer].
func (w *errorWriter) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if err != nil && w.err == nil {
		w.err = &started{err}
	}
	return n, err
}

// started marks the error of a command that has started. Errors of cobra before that are all wrong
// usage.
type started struct{ error }

func (s *started) Unwrap() error { return s.error }

// action wraps the function of a command, so that its errors are marked as started.
func action(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return &started{err}
		}
		return nil
	}
}

// asUsage converts an error of cobra about a command line to an error of wrong usage, with a hint.
// It returns other errors, those of a command that has started, as they are.
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

// wantsJSON reports whether a command line has --json, even if cobra cannot parse the command line.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}
