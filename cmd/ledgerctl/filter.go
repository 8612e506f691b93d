package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

// filter are the flags that leave out some of what a command lists.
type filter struct {
	question, buyer string
	epsilon         privacy.Epsilon
}

func (f *filter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "only of the question with this `NAME`")
	flags.StringVar(&f.buyer, "buyer", "", "only of the buyer with this `NAME`")
	flags.TextVar(&f.epsilon, "epsilon", privacy.Epsilon{}, "only at exactly this ε, `E`")
}

// check refuses what nothing can agree with: an ε of 0, or a question that there is none of.
func (f *filter) check(ctx context.Context, cmd *cobra.Command, l book) error {
	flags := cmd.Flags()
	switch {
	case flags.Changed("epsilon") && f.epsilon.IsZero():
		return fault.Usage("", "--epsilon must be above 0")
	case !flags.Changed("question"):
		return nil
	}
	all, err := l.Questions(ctx)
	if err == nil && !slices.ContainsFunc(all, func(q ledger.Question) bool { return q.Name == f.question }) {
		err = fmt.Errorf("question %.256q: %w", f.question, ledger.ErrUnknown)
	}
	return err
}

// admits tells whether something about a question, at an ε, is to be listed.
func (f *filter) admits(question string, epsilon privacy.Epsilon) bool {
	return (f.question == "" || f.question == question) && (f.epsilon.IsZero() || f.epsilon == epsilon)
}

// list opens the ledger, and collects what is to be listed.
func list[T any](a *app, cmd *cobra.Command, f *filter, all func(ctx context.Context, l book) iter.Seq2[T, error], wanted func(T) bool) (found []T, err error) {
	found = []T{}
	err = a.with(cmd.Context(), reading, func(l book) error {
		if err := f.check(cmd.Context(), cmd, l); err != nil {
			return err
		}
		for one, err := range all(cmd.Context(), l) {
			if err != nil {
				return err
			}
			if wanted(one) {
				found = append(found, one)
			}
		}
		return nil
	})
	return found, err
}

// tableNothing says that a list is empty, of what.
func tableNothing(w io.Writer, n int, what string) bool {
	if n == 0 {
		fmt.Fprintf(w, "no %s\n", what)
	}
	return n == 0
}
