package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/ledger"
)

// forgetFlags are the flags of forget.
type forgetFlags struct {
	key       string
	keepPages bool
}

func (a *app) forgetCommand() *cobra.Command {
	f := &forgetFlags{}
	cmd := &cobra.Command{
		Use:   "forget OBJECT",
		Short: "Destroy what was released of a person, and what the log says of them",
		Long: `Destroy everything about a person: all responses, and what every event of the log says of them. This cannot
be undone. What they have spent and earned stays, by their id, so that nobody's budget begins anew; they take
part in nothing any more, until they are enrolled again. The log stays provable, and so does every receipt and
checkpoint that others have. What buyers were given they keep.

Then the ledger's file is rewritten without its unused pages, in which the old bytes would stay otherwise. For a
large ledger that takes a while: with --keep-pages it is left out, so that many can be forgotten in a row; let
the last of them be without. Backups, and the blocks that the disk has freed, are yours to clean.

The same command with the same --key forgets nothing twice, even if the person has been enrolled again meanwhile.`,
		Example: `  ledgerctl forget 17
  ledgerctl forget 18 --keep-pages && ledgerctl forget 19`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.forget(cmd, args[0], f) }),
	}
	cmd.Flags().StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one); it stays in the log, and should name nobody")
	cmd.Flags().BoolVar(&f.keepPages, "keep-pages", false, "do not rewrite the file: the old bytes stay in its unused pages for now")
	return cmd
}

func (a *app) forget(cmd *cobra.Command, object string, f *forgetFlags) error {
	key, err := keyOr(cmd, f.key)
	if err != nil {
		return err
	}
	out := forgetResult{Object: object, Key: key, Compacted: !f.keepPages}
	err = a.with(cmd.Context(), writing, func(l book) error { return fault.WithKey(key, out.forget(cmd.Context(), a, l)) })
	if err = unknownPerson(err); err != nil {
		return err
	}
	return a.PrintDone(fmt.Sprintf("object %q is forgotten", object), key, out)
}

// unknownPerson adds to an error what may help if there is no such person.
func unknownPerson(err error) error {
	if !errors.Is(err, ledger.ErrUnknown) {
		return err
	}
	return &fault.Fault{Kind: "unknown", Code: fault.Misuse, Hint: "people go by the ids that they were enrolled by: those of a column then, or row numbers", Err: err}
}

type forgetResult struct {
	Object    string `json:"object"`
	Key       string `json:"key"`
	Compacted bool   `json:"compacted"` // the file was rewritten
	Bytes     int64  `json:"bytes"`     // of the file
}

func (r *forgetResult) forget(ctx context.Context, a *app, l book) error {
	if err := l.Forget(ctx, r.Key, r.Object); err != nil {
		return err
	}
	if r.Compacted {
		shown, progress := a.progress("compacting")
		defer shown.Clear()
		if err := l.Compact(ctx, progress); err != nil {
			return fault.Unfinished(fmt.Sprintf("object %q is forgotten, but the old bytes may still be in unused pages of the file", r.Object), 0, err)
		}
	}
	stats, err := l.Stats(ctx)
	r.Bytes = stats.Bytes
	return err
}

func (r forgetResult) Table(w io.Writer) {
	pages := "dropped: the file was rewritten"
	if !r.Compacted {
		pages = `kept: what was forgotten may still be in them until the next "ledgerctl forget" without --keep-pages`
	}
	fmt.Fprintf(w, "forgotten\t%s\nkey\t%s\nunused pages\t%s\nbytes\t%d\n", r.Object, r.Key, pages, r.Bytes)
}
