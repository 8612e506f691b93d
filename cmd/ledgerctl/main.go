// Command ledgerctl keeps a privacy-budget ledger from the command line: it enrols people, raises
// their randomized responses to a higher ε within their budgets, by hand, by the calendar or by
// sales, and estimates shares from them.
//
// It is a thin face over package ledger. "ledgerctl help" lists the commands; exit codes are in
// internal/output.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

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
		err = a.incomplete
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
