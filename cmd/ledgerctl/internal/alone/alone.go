// Package alone reads ledgers whose journal is missing, and sees to it that no result of them looks like one of the whole ledger.
package alone

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// File is the flag --without-journal, and whether a ledger was read without its journal.
type File struct {
	Given bool  // the flag
	Err   error // what the command ends with if nothing else fails: what was read lacks what only a missing journal has
}

// Flag adds the flag to all commands.
func (f *File) Flag(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Given, "without-journal", false,
		"read a file whose journal is missing, for commands that only read: what only the journal has is missing then, and the exit code is 8")
}

// Set lets the journal be missing when a ledger is opened. It refuses the flag where a command writes or signs.
func (f *File) Set(o *ledger.Options) error {
	switch {
	case !f.Given:
		return nil
	case !o.ReadOnly:
		return fault.Usage("find the journal, or restore a backup",
			"--without-journal is for commands that only read: what is drawn without the journal may have been drawn before")
	case o.Signer != nil:
		return fault.Usage("find the journal",
			"--without-journal is for commands that sign nothing: without the journal the log is not known as it is now")
	}
	o.WithoutJournal = true
	return nil
}

// Book is a ledger that is open.
type Book interface {
	// About says without which journal it is open.
	About() ledger.About
	// Head says where its log ends, for 0 events.
	Head(ctx context.Context, events uint64) (evidence.Head, error)
}

// Note notes whether a ledger is read without its journal.
func (f *File) Note(ctx context.Context, l Book) error {
	name := l.About().MissingJournal
	if name == "" {
		return nil
	}
	head, err := l.Head(ctx, 0)
	if err != nil {
		return err
	}
	f.Err = Incomplete("the ledger was read without its journal %s, which is missing: the result is as of event %d, "+
		"and lacks what only the journal has, which is unknown in number", name, head.Events)
	return nil
}

// Incomplete is the error of a result that lacks what only a missing journal has.
func Incomplete(format string, args ...any) error {
	return &fault.Fault{
		Kind: "incomplete", Code: fault.Incomplete, Err: fmt.Errorf(format, args...),
		Hint: "put the journal back where it was, with the file: then everything is there, and this is not needed",
	}
}
