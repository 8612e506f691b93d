package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
)

// Where the ledger is: in a file, or behind an address.

// place settles that from the flags, the environment or the default. What a flag says goes before the environment; two that
// say it alike are refused where the ledger is needed, so that nothing is done to the wrong one.
func (a *app) place(cmd *cobra.Command) {
	byFile, byAddress := cmd.Flags().Changed("db"), cmd.Flags().Changed("addr")
	file, address := os.Getenv("LEDGER_DB"), os.Getenv("LEDGER_ADDR")
	a.unclear = nil
	switch {
	case byFile && byAddress:
		a.unclear = fault.Usage("leave one of them out", "--db and --addr are both given, and name a ledger each")
	case !byFile && !byAddress && file != "" && address != "":
		a.unclear = fault.Usage("give --db or --addr", "$LEDGER_DB and $LEDGER_ADDR are both set, and name a ledger each")
	}
	if !byFile {
		a.db = file
	}
	if a.db == "" {
		a.db = "ledger.db"
	}
	switch {
	case byAddress:
	case byFile:
		a.remote.Address = ""
	default:
		a.remote.Address = address
	}
}

// file refuses a command that is about a file where the ledger is behind an address.
func (a *app) file(cmd *cobra.Command) error {
	if a.unclear != nil {
		return a.unclear
	}
	if a.remote.Address != "" {
		return fault.Usage("give --db FILE; whoever serves that address has its file", "%q is about a file, and an address is given", cmd.CommandPath())
	}
	return nil
}

// dial returns the ledger behind the address.
func (a *app) dial(ctx context.Context) (*ledgerclient.Client, error) {
	switch {
	case a.clock != nil:
		return nil, fault.Usage("leave out --at, or use --db", "--at is for a file: behind an address the clock of the server counts")
	case a.clockAhead != "":
		return nil, fault.Usage("give it to whoever serves the ledger", "--clock-ahead is for a file: behind an address the clock of the server counts")
	case a.alone.Given:
		return nil, fault.Usage("leave it out, or use --db where the file is", "--without-journal is for a file: behind an address the server has the journal")
	case a.keys.Given():
		return nil, fault.Usage("give them to whoever serves the ledger", "--truth-key and --noise-key are for a file: behind an address the keys of the server count")
	}
	l, err := a.remote.Dial(ctx, a.Files)
	if err != nil {
		return nil, err
	}
	if err := a.trusted(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// withRemote uses the ledger behind the address.
func (a *app) withRemote(ctx context.Context, use func(book) error) error {
	l, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	signal.Ignore(syscall.SIGPIPE)
	if err := a.alone.Note(ctx, l); err != nil {
		return err
	}
	return use(l)
}

// trusted holds a ledger against the newest checkpoint that is known, if one is given.
func (a *app) trusted(ctx context.Context, l book) error {
	var options ledger.Options
	if err := a.trust.Set(ctx, a.Files, &options); err != nil || options.Checkpoint == nil {
		return err
	}
	before, err := evidence.OpenCheckpoint(options.Checkpoint, options.Verifiers)
	if err != nil {
		return err
	}
	return goesOn(ctx, l, before)
}

// signerOf returns the key that signs, which is where the ledger's file is: of a ledger behind an address nil.
func (a *app) signerOf(ctx context.Context, f *keys.Signer) (note.Signer, error) {
	if a.remote.Address == "" {
		return f.Load(ctx, a.Files, a.db)
	}
	if f.Path != "" {
		return nil, fault.Usage("leave out --signer", "--signer is for a file: what is behind an address is signed there")
	}
	return nil, nil
}
