package main

import (
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
)

// addRefused adds how many refusals a request has that is done for the others, their sums by
// reason, and the table of the first of them below everything else. key is that of the request.
func addRefused(out *output.Fields, refused []api.Refusal, unlisted int, key string) {
	out.AddNonZero("sums", "", new(api.RefusedError).SumsWith(refused...))
	out.Add("", "refused, and left out", len(refused)+unlisted)
	out.Below(func(t *output.Table) {
		tableRefused(t, refused, 0, new(api.RefusedError).SumsWith(refused...))
		tableUnlisted(t, unlisted, key)
	})
}

// tableUnlisted says where the refusals are that are too many to be listed, or are of people who
// were forgotten since.
func tableUnlisted(t *output.Table, unlisted int, key string) {
	if unlisted > 0 {
		t.Line(`… and %d that are not listed; "ledgerctl log --refused-by %s" prints all but the forgotten`,
			unlisted, output.Quoted(key))
	}
}

// endRefused has the command end with an error if its request left all objects out, and so did
// nothing.
func (a *app) endRefused(question string, done int, refused []api.Refusal, unlisted int) {
	if done == 0 && len(refused)+unlisted > 0 {
		a.after = &started{&api.RefusedError{Question: question, Refused: refused, Unlisted: unlisted}}
	}
}

// mostRows is how many rows of a list that may be long a table has.
const mostRows = 20

// tableFirst writes a table of the first items, if there are any, below a blank line, and says how
// many more there are. The columns are those of [output.Rows].
func tableFirst[T any](t *output.Table, columns, currency string, items []T) {
	if len(items) > 0 {
		t.Line("")
	}
	output.Rows(t, columns, currency, items[:min(len(items), mostRows)])
	if more := len(items) - mostRows; more > 0 {
		t.Line("… and %d more; --json lists them", more)
	}
}

// fewRefusals are so few that their sums are of no use.
const fewRefusals = 3

// tableRefused writes the first refusals, if there are any, of which some are listed; the sums are
// those of all.
func tableRefused(t *output.Table, refused []api.Refusal, unlisted int, sums []api.RefusalSum) {
	if len(refused) > fewRefusals {
		tableFirst(t, "reason=refused_for count=people largest=largest_ε_for_all_of_them", "", sums)
	}
	tableFirst(t, "object=refused reason ceiling spent remaining asked helps largest", "", refused)
	if unlisted > 0 {
		t.Line("… and %d that are not listed", unlisted)
	}
}
