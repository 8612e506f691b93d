package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/ledger"
)

// advanceFlags are the flags of advance.
type advanceFlags struct {
	csv.TruthFlags
	question, key string
	at            moment
}

func (a *app) advanceCommand() *cobra.Command {
	f := &advanceFlags{}
	cmd := &cobra.Command{
		Use:   "advance",
		Short: "Release what policies allow as time passes",
		Long: `Release what policies that depend on time (linear, steps, halving, noisy-sampling) have come to allow:
everybody enrolled gets a response at each ε that was reached by now, in all questions or in one. It does
not matter how often this is done: once after a month leaves the same levels as once a day. Other policies
release nothing by themselves.

Whoever cannot follow, because the cap binds or the file has no true value, is refused, and
holds nobody up. The same command with the same --key does nothing twice, and goes on where it was
interrupted.

` + csv.TruthHelp + `

Without --question, in a ledger of several questions, each question takes the column named like it, and
no other: the values of another question would be drawn from, for good.

` + atHelp,
		Example: `  ledgerctl advance --truth people.csv
  ledgerctl advance --question vote --truth people.csv --value-column choice --key 2027-01-31`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.advance(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "the question's `NAME` (default: all questions)")
	f.TruthFlags.Flags(flags)
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
	f.at.flag(cmd)
	return cmd
}

func (a *app) advance(cmd *cobra.Command, f *advanceFlags) error {
	if err := f.at.set(a, cmd); err != nil {
		return err
	}
	key, err := keyOr(cmd, f.key)
	if err != nil {
		return err
	}
	var done ledger.AdvanceResult
	err = a.with(cmd.Context(), writing, func(l book) error {
		done, err = a.sweep(cmd, l, key, f)
		return fault.WithKey(key, err)
	})
	if err != nil {
		return err
	}
	return a.PrintDone("the sweep is done", key, newAdvanceResult(key, done))
}

func (a *app) sweep(cmd *cobra.Command, l book, key string, f *advanceFlags) (ledger.AdvanceResult, error) {
	truth := f.Source(a.Files, l, true)
	if f.question == "" {
		all, err := l.Questions(cmd.Context())
		if err != nil {
			return ledger.AdvanceResult{}, err
		}
		truth.Several = len(all) > 1
	}
	shown, progress := a.progress("advancing")
	defer shown.Clear()
	done, err := l.Advance(cmd.Context(), ledger.AdvanceRequest{Key: key, Question: f.question, Truth: truth.Ask, Progress: progress})
	for _, q := range done.Questions {
		a.WarnTruths(q.TruthChanged, q.TruthInvalid)
	}
	return done, err
}

// advanceResult is what a sweep did.
type advanceResult struct {
	Questions []ledger.Advanced `json:"questions"`
	Events    span              `json:"events"`
	Key       string            `json:"key"`
}

func newAdvanceResult(key string, done ledger.AdvanceResult) advanceResult {
	out := advanceResult{Questions: []ledger.Advanced{}, Events: span{done.First, done.Last}, Key: key}
	for _, q := range done.Questions {
		q.Refused = append([]ledger.Refusal{}, q.Refused...)
		out.Questions = append(out.Questions, q)
	}
	return out
}

func (r advanceResult) Table(w io.Writer) {
	fmt.Fprintf(w, "events\t%d to %d\nkey\t%s\n", r.Events.First, r.Events.Last, r.Key)
	if len(r.Questions) == 0 {
		fmt.Fprintln(w, "\nNobody is enrolled.")
		return
	}
	fmt.Fprintln(w, "\nQUESTION\tRAISED\tUNCHANGED\tREFUSED")
	for _, q := range r.Questions {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", q.Question, q.Raised, q.Unchanged, len(q.Refused)+q.Unlisted)
	}
	for _, q := range r.Questions {
		if len(q.Refused)+q.Unlisted > 0 {
			fmt.Fprintf(w, "\nquestion %s:", q.Question)
			if len(q.Refused) == 0 {
				fmt.Fprintln(w)
			}
			tableRefusals(w, q.Refused)
			tableUnlisted(w, q.Unlisted, r.Key)
		}
	}
}
