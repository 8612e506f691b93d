package main

import (
	"fmt"
	"io"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

// tableUnlisted says where the refusals are that are too many to be listed, or are of people who were forgotten since.
func tableUnlisted(w io.Writer, unlisted int, key string) {
	if unlisted > 0 {
		fmt.Fprintf(w, "… and %d that are not listed; \"ledgerctl log --refused-by %s\" prints all but the forgotten\n", unlisted, words.Quoted(key))
	}
}

// tableRefusals writes the first refusals, if there are any.
func tableRefusals(w io.Writer, refused []ledger.Refusal) {
	const most = 20
	if len(refused) == 0 {
		return
	}
	fmt.Fprintln(w, "\nREFUSED\tREASON\tCEILING\tSPENT\tREMAINING\tASKED\tHELPS\tLARGEST")
	for i, r := range refused {
		if i == most {
			fmt.Fprintf(w, "… and %d more; --json lists them\n", len(refused)-most)
			return
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Object, r.Reason, r.Ceiling, r.Spent, r.Remaining, r.Asked, r.Remedy, r.Largest)
	}
}
