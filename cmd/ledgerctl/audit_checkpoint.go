package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
)

func (a *app) auditCheckpointCommand() *cobra.Command {
	var signer keys.Signer
	var out string
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Sign a checkpoint: what the log is now",
		Long: `Sign a checkpoint of the log: how many events it has, and the root of the tree that is over them. Whoever
keeps it can show later that nothing that was in the log by then was changed or dropped ("ledgerctl audit verify
--checkpoint"). It tells nothing about anybody. Keep it where whoever can write the ledger cannot: hand it to an
auditor, to buyers, to a witness.

It is a signed note, in the form of https://c2sp.org/tlog-checkpoint, and is printed as it is.

With --out it goes to a file. A checkpoint that is there already is replaced only if the log goes on from it:
otherwise the ledger was rolled back, the file stays as it is, and the exit code is 4.`,
		Example: `  ledgerctl audit checkpoint > checkpoint.txt
  ledgerctl audit checkpoint --signer /run/secrets/ledger.key --out /mnt/elsewhere/checkpoint.txt`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.auditCheckpoint(cmd, &signer, out) }),
	}
	signer.Flag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write the checkpoint to a `FILE`; an older checkpoint of this log is replaced")
	files.Mark(cmd.Flags(), files.Writes, files.ByName, "out")
	return cmd
}

func (a *app) auditCheckpoint(cmd *cobra.Command, f *keys.Signer, path string) error {
	signer, err := a.signerOf(cmd.Context(), f)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", path)
	if err != nil {
		return err
	}
	defer file.Discard()
	out := checkpointResult{Out: path}
	err = a.withSigner(cmd.Context(), reading, signer, func(l book) error {
		if err := a.checkReplaced(cmd.Context(), l, path); err != nil {
			return err
		}
		return out.sign(cmd.Context(), l)
	})
	if err != nil {
		return err
	}
	err = file.Save(func(w io.Writer) error {
		_, err := io.WriteString(w, out.Checkpoint)
		return err
	})
	if err != nil {
		return err
	}
	if path == "" && !a.JSON {
		_, err := io.WriteString(a.Stdout, out.Checkpoint)
		return err
	}
	return a.Print(out)
}

// checkReplaced refuses to replace a file by a checkpoint of a log that does not go on from it: it may be
// the only evidence of a rollback.
func (a *app) checkReplaced(ctx context.Context, l book, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	signed, err := a.TextOrFile(ctx, "@"+path, keys.MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(signed) == 0 {
		return err
	}
	key, err := note.NewVerifier(l.About().LogKey)
	if err != nil {
		return fault.Usage("give another FILE, or remove it", "--out: %q exists, and the ledger names no log key to tell by whether it is a checkpoint", path)
	}
	before, err := evidence.OpenCheckpoint(signed, note.VerifierList(key))
	if err != nil {
		return fault.Usage("give another FILE, or remove it", "--out: %q exists, and is not a checkpoint of this log", path)
	}
	return goesOn(ctx, l, before)
}

// goesOn returns a RollbackError unless the log begins with the events of a checkpoint.
func goesOn(ctx context.Context, l book, before evidence.Head) error {
	now, err := l.Head(ctx, 0)
	if err != nil {
		return err
	}
	then := now
	if before.Events < now.Events {
		if then, err = l.Head(ctx, before.Events); err != nil {
			return err
		}
	}
	if then == before {
		return nil
	}
	now.Root = then.Root
	return &evidence.RollbackError{Checkpoint: before, Ledger: now}
}

// checkpointResult is a signed checkpoint and what it says.
type checkpointResult struct {
	Checkpoint string `json:"checkpoint"`
	evidence.Head
	Out string `json:"out,omitempty"`
}

func (r *checkpointResult) sign(ctx context.Context, l book) (err error) {
	signed, err := l.Checkpoint(ctx)
	if err != nil {
		return err
	}
	r.Checkpoint = string(signed)
	lines := strings.SplitN(r.Checkpoint, "\n", 3) // the origin, the number of events, and what else there is
	events, err := strconv.ParseUint(lines[min(1, len(lines)-1)], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrCheckpoint, err)
	}
	r.Head, err = l.Head(ctx, events) // the log may have grown since
	return err
}

func (r checkpointResult) Table(w io.Writer) {
	tableHead(w, r.Head)
	fmt.Fprintf(w, "checkpoint\t%s\n", r.Out)
}
