package main

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/ledger"
)

// checkWithoutJournal refuses the flag --without-journal where a command writes or signs.
func checkWithoutJournal(o ledger.Options) error {
	switch {
	case !o.ReadOnly:
		return fault.Usage("find the journal, or restore a backup", "--without-journal is for commands that only read: what is drawn without the journal may have been drawn before")
	case o.Signer != nil:
		return fault.Usage("find the journal", "--without-journal is for commands that sign nothing: without the journal the log is not known as it is now")
	}
	return nil
}

// noteMissing notes that the ledger is read without its journal: the command then ends with an error, whatever else it prints.
func (a *app) noteMissing(ctx context.Context, l book) error {
	name := l.About().MissingJournal
	if name == "" {
		return nil
	}
	head, err := l.Head(ctx, 0)
	if err != nil {
		return err
	}
	a.incomplete = incomplete(fmt.Errorf("the ledger was read without its journal %s, which is missing: the result is as of event %d, "+
		"and lacks what only the journal has, which is unknown in number", name, head.Events))
	return nil
}

// incomplete is the error of a result that lacks what only a missing journal has.
func incomplete(err error) error {
	return &fault.Fault{
		Kind: "incomplete", Code: fault.Incomplete, Err: err,
		Hint: "put the journal back where it was, with the file: then everything is there, and this is not needed",
	}
}
