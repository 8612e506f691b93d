package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show OBJECT",
		Short: "Show the budget and all responses of one person",
		Long: `Show the budget and all responses of one person. Of each question, ε is what the responses cost, and besides
that is what answers to queries cost, and what was destroyed when the person was forgotten. Epochs that have ended
("ledgerctl epoch") are shown apart: what they cost is spent too.`,
		Example:           "  ledgerctl show 17",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			var out objectResult
			err := a.with(cmd.Context(), reading, func(l book) (err error) {
				out.ObjectState, err = l.Object(cmd.Context(), args[0])
				return err
			})
			if err = unknownPerson(err); err != nil {
				return err
			}
			return a.Print(out)
		}),
	}
}

type objectResult struct{ ledger.ObjectState }

func (r objectResult) Table(w io.Writer) {
	fmt.Fprintf(w, "object\t%s\ncap\t%s\nspent\t%s\nheld by reservations\t%s\nremaining\t%s\n", r.Object, r.Cap, r.Spent, r.Held, r.Remaining)
	fmt.Fprintf(w, "earned\t%s\n", words.Money(r.Earned, r.Currency))
	if r.Forgotten > 0 {
		fmt.Fprintf(w, "forgotten\tby event %d: what was released before is destroyed\n", r.Forgotten)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "QUESTION\tε\tBESIDES\tCEILING\tRESPONSE\tALL RESPONSES")
	for _, c := range r.Chains {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Question, c.Epsilon, c.Answered, c.Ceiling, words.Brief(c.Response), levels(c.Levels))
	}
	fmt.Fprintln(w, "\nQUESTION\tTAKES PART\tBUYERS\tPOLICY")
	for _, c := range r.Chains {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Question, part(c), c.Buyers, terms(c))
	}
	earlier(w, r.Chains)
}

// earlier lists the epochs that have ended, if there are any.
func earlier(w io.Writer, chains []ledger.ChainState) {
	if !slices.ContainsFunc(chains, func(c ledger.ChainState) bool { return len(c.Earlier) > 0 }) {
		return
	}
	fmt.Fprintln(w, "\nQUESTION\tEARLIER EPOCH\tENDED\tε\tBESIDES\tALL RESPONSES")
	for _, c := range chains {
		for _, one := range c.Earlier {
			fmt.Fprintf(w, "%s\t%d\tby event %d\t%s\t%s\t%s\n", c.Question, one.Epoch, one.Ended, one.Epsilon, one.Answered, levels(one.Levels))
		}
	}
}

func part(c ledger.ChainState) string {
	if c.Withdrawn {
		return "withdrawn"
	}
	return "yes"
}

func terms(c ledger.ChainState) string {
	if c.Policy == nil {
		return "none: only the cap binds"
	}
	return c.Policy.String()
}

func levels(all []ledger.LevelState) string {
	if len(all) == 0 {
		return "none yet"
	}
	texts := make([]string, len(all))
	for i, at := range all {
		holders := ""
		if len(at.Buyers) > 0 {
			holders = "; bought by " + words.Listed(at.Buyers)
		}
		texts[i] = fmt.Sprintf("%s at ε=%s (event %d%s)", words.Brief(at.Response), at.Epsilon, at.Event, holders)
	}
	return strings.Join(texts, ", ")
}
