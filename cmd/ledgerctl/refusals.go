package main

import (
	"fmt"
	"io"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// tableUnlisted says where the refusals are that are too many to be listed, or are of people who were forgotten since.
func tableUnlisted(w io.Writer, unlisted int, key string) {
	if unlisted > 0 {
		fmt.Fprintf(w, "… and %d that are not listed; \"ledgerctl log --refused-by %s\" prints all but the forgotten\n", unlisted, words.Quoted(key))
	}
}

// refusedAll is the error of a request that left everybody out, and so did something for nobody.
func refusedAll(question string, done int, refused []ledger.Refusal, unlisted int) error {
	if done > 0 || len(refused)+unlisted == 0 {
		return nil
	}
	return &ledger.RefusedError{Question: question, Refused: refused, Unlisted: unlisted}
}

// tableReasons writes the first refusals of new terms, if there are any, with what would be more.
func tableReasons(w io.Writer, refused []ledger.Refusal) {
	if len(refused) == 0 {
		return
	}
	fmt.Fprintln(w, "\nREFUSED\tREASON\tHELPS\tWHY")
	for i, r := range refused {
		if i == mostRefusals {
			fmt.Fprintf(w, "… and %d more; --json lists them\n", len(refused)-mostRefusals)
			return
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Object, r.Reason, r.Remedy, r.Why)
	}
}

// mostRefusals is how many of them a table has.
const mostRefusals = 20

// fewRefusals are so few that nobody needs their sums.
const fewRefusals = 3

// tableSums writes how many people are refused for each reason.
func tableSums(w io.Writer, sums []ledger.RefusalSum) {
	fmt.Fprintln(w, "\nREFUSED FOR\tPEOPLE\tLARGEST ε FOR ALL OF THEM")
	for _, sum := range sums {
		fmt.Fprintf(w, "%s\t%d\t%s\n", sum.Reason, sum.Count, orNone(sum.Largest))
	}
}

// tableRefusals writes the first refusals, if there are any. All are listed.
func tableRefusals(w io.Writer, refused []ledger.Refusal) {
	tableRefused(w, refused, 0, vocabulary.SumRefusals(refused))
}

// tableRefused writes the first refusals, if there are any, of which some are listed; the sums are those of all.
func tableRefused(w io.Writer, refused []ledger.Refusal, unlisted int, sums []ledger.RefusalSum) {
	if len(refused) == 0 {
		return
	}
	if len(refused) > fewRefusals {
		tableSums(w, sums)
	}
	shown := refused[:min(len(refused), mostRefusals)]
	fmt.Fprintln(w, "\nREFUSED\tREASON\tCEILING\tSPENT\tREMAINING\tASKED\tHELPS\tLARGEST")
	for _, r := range shown {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Object, r.Reason, r.Ceiling, r.Spent, r.Remaining, r.Asked, r.Remedy, r.Largest)
	}
	switch more := len(refused) + unlisted - len(shown); {
	case more == 0:
	case unlisted == 0:
		fmt.Fprintf(w, "… and %d more; --json lists them\n", more)
	default:
		fmt.Fprintf(w, "… and %d more; --json lists the first %d\n", more, len(refused))
	}
}
