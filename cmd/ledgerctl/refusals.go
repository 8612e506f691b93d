package main

import (
	"fmt"
	"io"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
)

// addRefused adds the refusals of a request that is done for the others, and the table of the first
// of them below everything else. key is that of the request.
func addRefused(out *output.Fields, refused []api.Refusal, unlisted int, key string) {
	out.Add("refused", "", refused)
	out.AddNonZero("sums", "", api.SumRefusals(refused))
	out.AddNonZero("unlisted", "", unlisted)
	out.Add("", "refused, and left out", len(refused)+unlisted)
	out.Below(func(w io.Writer) {
		tableRefusals(w, refused)
		tableUnlisted(w, unlisted, key)
	})
}

// tableUnlisted says where the refusals are that are too many to be listed, or are of people who
// were forgotten since.
func tableUnlisted(w io.Writer, unlisted int, key string) {
	if unlisted > 0 {
		fmt.Fprintf(w, "… and %d that are not listed; \"ledgerctl log --refused-by %s\" prints all but the forgotten\n",
			unlisted, output.Quoted(key))
	}
}

// refusedAll is the error of a request that left all objects out, and so did nothing.
func refusedAll(question string, done int, refused []api.Refusal, unlisted int) error {
	if done > 0 || len(refused)+unlisted == 0 {
		return nil
	}
	return &api.RefusedError{Question: question, Refused: refused, Unlisted: unlisted}
}

// tableReasons writes the first refusals of new terms, if there are any, with what would be more.
func tableReasons(w io.Writer, refused []api.Refusal) {
	if len(refused) == 0 {
		return
	}
	shown := refused[:min(len(refused), mostRefusals)]
	output.Rows(w, "\nREFUSED\tREASON\tHELPS\tWHY", shown, func(r api.Refusal) []any {
		return []any{r.Object, r.Reason, r.Remedy, r.Why}
	})
	tableMore(w, len(refused)-mostRefusals)
}

// tableMore says that a table leaves some of a list out.
func tableMore(w io.Writer, more int) {
	if more > 0 {
		fmt.Fprintf(w, "… and %d more; --json lists them\n", more)
	}
}

// mostRefusals is how many of them a table has.
const mostRefusals = 20

// fewRefusals are so few that their sums are of no use.
const fewRefusals = 3

// tableRefusals writes the first refusals, if there are any. All are listed.
func tableRefusals(w io.Writer, refused []api.Refusal) {
	tableRefused(w, refused, 0, api.SumRefusals(refused))
}

// tableRefused writes the first refusals, if there are any, of which some are listed; the sums are
// those of all.
func tableRefused(w io.Writer, refused []api.Refusal, unlisted int, sums []api.RefusalSum) {
	if len(refused) == 0 {
		return
	}
	if len(refused) > fewRefusals {
		output.Rows(w, "\nREFUSED FOR\tPEOPLE\tLARGEST ε FOR ALL OF THEM", sums, func(sum api.RefusalSum) []any {
			return []any{sum.Reason, sum.Count, orNone(sum.Largest)}
		})
	}
	shown := refused[:min(len(refused), mostRefusals)]
	const header = "\nREFUSED\tREASON\tCEILING\tSPENT\tREMAINING\tASKED\tHELPS\tLARGEST"
	output.Rows(w, header, shown, func(r api.Refusal) []any {
		return []any{r.Object, r.Reason, r.Ceiling, r.Spent, r.Remaining, r.Asked, r.Remedy, r.Largest}
	})
	more := len(refused) + unlisted - len(shown)
	if unlisted == 0 {
		tableMore(w, more)
		return
	}
	fmt.Fprintf(w, "… and %d more; --json lists the first %d\n", more, len(refused))
}
