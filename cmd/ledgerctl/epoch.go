package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
)

func (a *app) epochCommand() *cobra.Command {
	out := epochResult{}
	cmd := &cobra.Command{
		Use:   "epoch OBJECT",
		Short: "Begin anew about a person whose true value has changed",
		Long: `Begin a new epoch of a person in a question: for somebody whose true value has changed. What was released so far
stays with those who have it, and what it has cost stays spent. From now on the question is about the new value,
under the same policy, and what that costs is charged besides, under the same cap. Buyers pay the full price anew;
what was reserved of the person ends.

Whoever sees that an epoch began (in the log, say) can guess that the value has changed, unless you begin epochs for
everybody by the calendar. If nothing was drawn, sold or asked in the current epoch, nothing happens; the same
command with the same --key does nothing twice.`,
		Example:           "  ledgerctl epoch 17 --question vote",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return a.epoch(cmd, args[0], out)
		}),
	}
	cmd.Flags().StringVar(&out.Question, "question", "", "the question's `NAME`")
	cmd.Flags().StringVar(&out.Key, "key", "", "the idempotency `KEY` (default: a new one)")
	require(cmd, "question")
	return cmd
}

func (a *app) epoch(cmd *cobra.Command, object string, out epochResult) (err error) {
	out.Object = object
	if out.Key, err = keyOr(cmd, out.Key); err != nil {
		return err
	}
	err = a.with(cmd.Context(), writing, func(l book) error {
		err := l.BeginEpoch(cmd.Context(), out.Key, out.Question, object)
		if err == nil {
			err = out.read(cmd, l)
		}
		return fault.WithKey(out.Key, err)
	})
	if err != nil {
		return err
	}
	return a.PrintDone(fmt.Sprintf("object %q is in epoch %d of question %q", object, out.Epoch, out.Question), out.Key, out)
}

type epochResult struct {
	Object   string `json:"object"`
	Question string `json:"question"`
	Epoch    int    `json:"epoch"` // the current one
	Key      string `json:"key"`
}

// read looks up which epoch it is.
func (r *epochResult) read(cmd *cobra.Command, l book) error {
	o, err := l.Object(cmd.Context(), r.Object)
	for _, c := range o.Chains {
		if c.Question == r.Question {
			r.Epoch = c.Epoch
		}
	}
	return err
}

func (r epochResult) Table(w io.Writer) {
	fmt.Fprintf(w, "object\t%s\nquestion\t%s\nepoch\t%d\nkey\t%s\n", r.Object, r.Question, r.Epoch, r.Key)
}
