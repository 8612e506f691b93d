package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/ledger"
)

// copyCommand completes a command that copies the ledger.
func (a *app) copyCommand(cmd *cobra.Command, doing string, write func(book, context.Context, string, ledger.Progress) (ledger.Copied, error)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = oneFile
	files.MarkArguments(cmd, files.Writes)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		out := copyResult{File: args[0]}
		if out.File == "" {
			return fault.Usage("", "FILE is empty")
		}
		if out.File == "-" {
			return fault.Usage("give the name of a file", "a copy of the ledger cannot be standard output: it is verified where it lies")
		}
		err := a.with(cmd.Context(), reading, func(l book) (err error) {
			shown, progress := a.progress(doing)
			defer shown.Clear()
			out.Copied, err = write(l, cmd.Context(), out.File, progress)
			return err
		})
		if errors.Is(err, fs.ErrExist) {
			return exists(out.File, "nothing was changed; give another FILE, or remove it")
		}
		if err != nil {
			return err
		}
		return a.Print(out)
	})
	return cmd
}

type copyResult struct {
	File string `json:"file"`
	ledger.Copied
}

func (r copyResult) Table(w io.Writer) {
	fmt.Fprintf(w, "copy, verified\t%s\nbytes\t%d\nevents\t%d\n", r.File, r.Bytes, r.Events)
}
