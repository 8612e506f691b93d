package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
)

func (a *app) withdrawCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "withdraw OBJECT…",
		Short: "End people's part in all questions",
		Long: `End the part of people in all questions: nothing more is drawn from them, sold of them or asked about
them. What was released stays released, and what was spent stays spent; what was delivered can still be
read. Withdrawing twice does nothing. "ledgerctl enroll" takes a person in again.

If one of them is unknown, nobody withdraws. The same command with the same --key does nothing twice, even
if somebody has been enrolled again meanwhile.`,
		Example:           "  ledgerctl withdraw 17 18",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, args []string) (err error) {
			out := withdrawResult{Withdrawn: args}
			if out.Key, err = keyOr(cmd, key); err != nil {
				return err
			}
			err = a.with(cmd.Context(), writing, func(l book) error { return fault.WithKey(out.Key, withdraw(cmd.Context(), l, out)) })
			if err = unknownPerson(err); err != nil {
				return err
			}
			return a.PrintDone("they are withdrawn", out.Key, out)
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "the idempotency `KEY` (default: a new one)")
	return cmd
}

type withdrawResult struct {
	Withdrawn []string `json:"withdrawn"`
	Key       string   `json:"key"`
}

// mostKey is the longest idempotency key, in bytes.
const mostKey = 256

func withdraw(ctx context.Context, l book, r withdrawResult) error {
	if n := len(r.keyOf(len(r.Withdrawn) - 1)); n > mostKey {
		return fault.Usage("", "--key is too long for so many: behind it stands a number, and at most %d bytes are allowed, not %d", mostKey, n)
	}
	for i, object := range r.Withdrawn {
		if slices.Contains(r.Withdrawn[:i], object) {
			return fault.Usage("", "object %q is given twice", object)
		}
		if _, err := l.Object(ctx, object); err != nil {
			return err
		}
	}
	for i, object := range r.Withdrawn {
		if err := l.Withdraw(ctx, r.keyOf(i), object); err != nil {
			return err
		}
	}
	return nil
}

// keyOf returns the key of the request for one object, by its place: of several, each has its own. Keys outlive whom they are about,
// so they name nobody.
func (r withdrawResult) keyOf(place int) string {
	if len(r.Withdrawn) == 1 || r.Key == "" {
		return r.Key
	}
	return fmt.Sprintf("%s/%d", r.Key, place+1)
}

func (r withdrawResult) Table(w io.Writer) {
	fmt.Fprintf(w, "withdrawn\t%s\nkey\t%s\n", words.Listed(r.Withdrawn), r.Key)
}
