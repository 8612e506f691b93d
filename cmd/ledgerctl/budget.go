package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

// budgetFlags are the flags of budget.
type budgetFlags struct {
	question, buyer, objects string
	epsilons                 []string
	at                       moment
}

func (a *app) budgetCommand() *cobra.Command {
	f := &budgetFlags{}
	c := &csv.Columns{}
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Say how many people can answer a question at which ε",
		Long: `Say how many people can answer a question at each of some ε, of all who take part or of those in a
file: now, and later by time alone, if nothing else is asked of them until then. With --buyer, it is what
that buyer could order, and what it would pay; else what the host could raise. Nothing is drawn, charged
or recorded, and no true values are needed.

Without --epsilon, those ε are shown at which the number of people who can answer changes.

With --at, it is what they can answer at TIME, if nothing else happens before.`,
		Example: `  ledgerctl budget --question vote
  ledgerctl budget --question vote --buyer acme --epsilon 0.5 --epsilon 1`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.budget(cmd, f, *c) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "the question's `NAME`")
	flags.StringVar(&f.buyer, "buyer", "", "the buyer's `NAME` (default: the host itself)")
	flags.StringArrayVar(&f.epsilons, "epsilon", nil, "an ε, `E`, to ask about; may be given several times")
	flags.StringVar(&f.objects, "objects", "", "the CSV `FILE` with the people to ask about, by --id-column, without those whose --value-column is empty (default: all who take part)")
	files.Mark(flags, files.Reads, files.ByName, "objects")
	f.at.flag(cmd)
	require(cmd, "question")
	c.Flags(flags, "the `COLUMN` with the true value: rows of --objects where it is empty are skipped")
	return cmd
}

func (a *app) budget(cmd *cobra.Command, f *budgetFlags, c csv.Columns) error {
	if err := f.at.set(a, cmd); err != nil {
		return err
	}
	r := ledger.BudgetRequest{Question: f.question, Buyer: f.buyer}
	for _, text := range f.epsilons {
		epsilon, err := privacy.ParseEpsilon(text)
		if err != nil {
			return fault.Usage("", "--epsilon %q: %w", text, err)
		}
		r.Epsilons = append(r.Epsilons, epsilon)
	}
	var skipped int
	c.Skipped = &skipped
	people, err := csv.Panel(cmd.Context(), a.Files, f.objects, c)
	if err != nil {
		return err
	}
	r.Objects, r.All = people, people == nil
	out := budgetResult{Skipped: skipped}
	err = a.with(cmd.Context(), reading, func(l book) error {
		if err := c.CheckPeople(cmd.Context(), l, f.objects, f.question, people); err != nil {
			return err
		}
		out.Budget, err = l.Budget(cmd.Context(), r)
		out.currency = l.About().Currency
		return err
	})
	if err != nil {
		return err
	}
	out.priced = f.buyer != ""
	out.Refused = append([]ledger.RefusalSum{}, out.Refused...)
	return a.Print(out)
}

type budgetResult struct {
	ledger.Budget
	Skipped  int `json:"skipped"` // rows without a value
	currency string
	priced   bool // somebody buys
}

func (r budgetResult) Table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\npeople\t%d\nas of event\t%d\nlargest ε for all\t%s\n", r.Question, r.Objects, r.Event, orNone(r.Largest))
	if r.Skipped > 0 {
		fmt.Fprintf(w, "skipped, without a value\t%d\n", r.Skipped)
	}
	fmt.Fprint(w, "\nε\tCAN ANSWER NOW\tMORE LATER\tBY")
	if r.priced {
		fmt.Fprint(w, "\tPRICE NOW")
	}
	fmt.Fprintln(w)
	for _, at := range r.Levels {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s", at.Epsilon, at.Can, at.Later, orDash(at.From))
		if r.priced {
			fmt.Fprintf(w, "\t%s", words.Money(at.Price, r.currency))
		}
		fmt.Fprintln(w)
	}
	if len(r.Refused) == 0 || len(r.Levels) == 0 { // the latter only of a stranger behind an address
		return
	}
	fmt.Fprintf(w, "\nREFUSED AT ε=%s\tPEOPLE\tLARGEST ε FOR ALL OF THEM\tTIME WILL HAVE HELPED ALL BY\n", r.Levels[len(r.Levels)-1].Epsilon)
	for _, sum := range r.Refused {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", sum.Reason, sum.Count, orNone(sum.Largest), orDash(sum.From))
	}
}

func orNone(e privacy.Epsilon) string {
	if e.IsZero() {
		return "none"
	}
	return e.String()
}

func orDash(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format(time.RFC3339)
}
