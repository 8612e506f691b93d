package main

import (
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
)

// addRefused adds the refusals of a request that is done for the other objects: their number, their
// sums by reason, and, below all other lines, a table of the first ones. key is that of the
// request.
func addRefused(out *output.Fields, refused []api.Refusal, unlisted int, key string) {
	out.AddNonZero("sums", "", new(api.RefusedError).SumsWith(refused...))
	out.Add("", "refused, and left out", len(refused)+unlisted)
	out.Below(func(t *output.Table) {
		tableRefused(t, refused, 0, new(api.RefusedError).SumsWith(refused...))
		tableUnlisted(t, unlisted, key)
	})
}

// tableUnlisted writes how to list refusals that are not listed, because there are too many, or
// because the people were forgotten since.
func tableUnlisted(t *output.Table, unlisted int, key string) {
	if unlisted > 0 {
		t.Line(`… and %d that are not listed; "ledgerctl log --refused-by %s" prints all but the forgotten`,
			unlisted, output.Quoted(key))
	}
}

// endRefused sets the error with which the command ends, if its request left out all objects, and
// so did nothing.
func (a *app) endRefused(question string, done int, refused []api.Refusal, unlisted int) {
	if done == 0 && len(refused)+unlisted > 0 {
		a.after = &started{&api.RefusedError{Question: question, Refused: refused, Unlisted: unlisted}}
	}
}

// mostRows is the largest number of rows of a list in a table.
const mostRows = 20

// tableFirst writes a blank line, a table of the first items, and the number of further items. It
// writes nothing for no items. The columns are those of [output.Rows].
func tableFirst[T any](t *output.Table, columns, currency string, items []T) {
	if len(items) > 0 {
		t.Line("")
	}
	output.Rows(t, columns, currency, items[:min(len(items), mostRows)])
	if more := len(items) - mostRows; more > 0 {
		t.Line("… and %d more; --json lists them", more)
	}
}

// fewRefusals is the largest number of refusals whose sums are not shown.
const fewRefusals = 3

// tableRefused writes the first refusals of a list, if there are any. unlisted is the number of
// refusals that the list does not have. sums are the sums of all refusals.
func tableRefused(t *output.Table, refused []api.Refusal, unlisted int, sums []api.RefusalSum) {
	if len(refused) > fewRefusals {
		tableFirst(t, "reason=refused_for count=people largest=largest_ε_for_all_of_them", "", sums)
	}
	tableFirst(t, "object=refused reason ceiling spent remaining asked helps largest", "", refused)
	if unlisted > 0 {
		t.Line("… and %d that are not listed", unlisted)
	}
}
