package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// enrollFlags are the flags of enroll.
type enrollFlags struct {
	question, objects, policy, key string
	columns                        csv.Columns
	cap                            privacy.Epsilon
	partial, sameRows, dryRun      bool
}

// maxPolicy is more than any policy has, in bytes.
const maxPolicy = 1 << 20

func (a *app) enrollCommand() *cobra.Command {
	f := &enrollFlags{}
	cmd := &cobra.Command{
		Use:   "enroll",
		Short: "Enrol the people of a CSV file in a question",
		Long: `Enrol the people of a CSV file in a question. The cap is the largest ε of a person over all questions;
the policy is about this one. It says how much ε is allowed (kind fixed), released when (linear, steps,
halving, noisy-sampling: see "ledgerctl advance"), unlocked by buyers (unlock), or for sale for how much
(market: see "ledgerctl quote"); min and sum combine policies. ε are strings, times RFC 3339, durations
such as 720h, and money integers in minor units of the ledger's currency.

Whoever is new to the ledger needs a cap; without --cap, those known to it keep theirs. Those enrolled
already are left as they are; if one of them has another policy or cap, nobody is enrolled, unless --partial leaves
them out: "ledgerctl terms" changes what somebody has agreed to. Those who have withdrawn take part again.

With --value-column, people without a value are left out and counted; a value that the question does not have is an
error. The values are not stored.

With --id-rows a row is known by its number alone, so row 1 of another file would be the same person: people whom the
ledger knows already need --same-rows, which says that the rows are those of before, or an --id-prefix for each file.
--dry-run checks everything, says who is new, and changes nothing.`,
		Example: `  ledgerctl enroll --question vote --objects people.csv --policy '{"kind":"fixed","ceiling":"2"}' --cap 3

  From 0.1 to 1 over a year, in steps of 0.1:
  ledgerctl enroll --question vote --objects people.csv --policy '{"kind":"linear","from":"0.1","to":"1","start":"2027-01-01T00:00:00Z","end":"2028-01-01T00:00:00Z","stride":"0.1"}' --cap 3

  For sale up to ε=2, for 1.00 at ε=0.5 and 3.00 at ε=2 a person, and on the line between them:
  ledgerctl enroll --question vote --objects people.csv --policy '{"kind":"market","max":"2","price":[["0.5",100],["2",300]]}' --cap 5`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.enroll(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "the question's `NAME`")
	flags.StringVar(&f.objects, "objects", "", "the CSV `FILE` with the people")
	f.columns.Flags(flags, "the `COLUMN` with the true value: rows where it is empty are skipped")
	flags.StringVar(&f.policy, "policy", "", "the policy as `JSON`, or @FILE")
	flags.TextVar(&f.cap, "cap", privacy.Epsilon{}, "the largest ε, `E`, of each person over all questions (required if anybody is new)")
	flags.BoolVar(&f.partial, "partial", false, "leave out those who are refused")
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
	flags.BoolVar(&f.sameRows, "same-rows", false, "with --id-rows: the rows are the same people as those that were enrolled by these numbers before")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything, and say what would be done; nothing changes")
	files.Mark(flags, files.Reads, files.ByName, "objects")
	files.Mark(flags, files.Reads, files.Behind, "policy")
	require(cmd, "question", "objects")
	return cmd
}

func (a *app) enroll(cmd *cobra.Command, f *enrollFlags) error {
	if cmd.Flags().Changed("cap") && f.cap.IsZero() {
		return fault.Usage("", "the cap must be above 0")
	}
	ceiling, err := a.policy(cmd, f)
	if err != nil {
		return err
	}
	out := enrollResult{Question: f.question, Refused: []ledger.Refusal{}}
	if out.Key, err = keyOr(cmd, f.key); err != nil {
		return err
	}
	if f.sameRows && !f.columns.ByRow() {
		return fault.Usage("", "--same-rows is for --id-rows")
	}
	values := csv.Values{}
	objects, err := a.readObjects(cmd.Context(), f, &out.Skipped, values)
	if err != nil {
		return err
	}
	mode := writing
	if out.DryRun = f.dryRun; f.dryRun {
		mode = reading
	}
	err = a.with(cmd.Context(), mode, func(l book) error {
		if err := values.Check(cmd.Context(), l, f.objects, f.question); err != nil {
			return err
		}
		shown, progress := a.progress("enrolling")
		defer shown.Clear()
		done, err := l.Enroll(cmd.Context(), ledger.EnrollRequest{
			Key: out.Key, Question: f.question, Objects: objects, Policy: ceiling, Cap: f.cap, Partial: f.partial, Progress: progress,
			New: f.columns.ByRow() && !f.sameRows, DryRun: f.dryRun,
		})
		out.Enrolled, out.Already, out.Refused, out.Unlisted = done.Enrolled, done.Already, append(out.Refused, done.Refused...), done.Unlisted
		return fault.WithKey(out.Key, knownRows(fault.Refusal(err, f.partial)))
	})
	if err != nil {
		return err
	}
	if f.dryRun {
		out.Key = "" // it is still free
		err = a.Print(out)
	} else {
		err = a.PrintDone("they are enrolled", out.Key, out)
	}
	if err != nil {
		return err
	}
	return refusedAll(out.Question, out.Enrolled+out.Already, out.Refused, out.Unlisted)
}

// knownRows says what to do about rows whose numbers the ledger has already.
func knownRows(err error) error {
	if !errors.Is(err, ledger.ErrNotNew) {
		return err
	}
	return fault.Input("--same-rows says that these are the rows of before; if they are other people, --id-prefix P names them P1, P2, …", "%w", err)
}

func (a *app) policy(cmd *cobra.Command, f *enrollFlags) (policy.Policy, error) {
	if !cmd.Flags().Changed("policy") {
		return policy.Policy{}, nil
	}
	text, err := a.TextOrFile(cmd.Context(), f.policy, maxPolicy)
	if err != nil {
		return policy.Policy{}, err
	}
	return policy.Parse(text)
}

// readObjects returns the ids of the people to enrol, and counts those left out. It adds their values to those given.
func (a *app) readObjects(ctx context.Context, f *enrollFlags, skipped *int, values csv.Values) ([]string, error) {
	var objects []string
	c := f.columns
	c.Skipped = skipped
	err := csv.Rows(ctx, a.Files, f.objects, c, func(e csv.Entry) {
		objects = append(objects, e.Object)
		values.Add(e)
	})
	if err == nil && len(objects) == 0 {
		err = fault.Input("", "%s has nobody to enrol (%d rows were skipped)", f.objects, *skipped)
	}
	return objects, err
}

type enrollResult struct {
	Question string           `json:"question"`
	Enrolled int              `json:"enrolled"`
	Skipped  int              `json:"skipped"`
	Already  int              `json:"already"`
	Refused  []ledger.Refusal `json:"refused"`
	Unlisted int              `json:"unlisted,omitempty"` // refused, too
	DryRun   bool             `json:"dry_run,omitempty"`
	Key      string           `json:"key,omitempty"`
}

func (r enrollResult) Table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nenrolled\t%d\nalready enrolled\t%d\n", r.Question, r.Enrolled, r.Already)
	fmt.Fprintf(w, "skipped, without a value\t%d\n", r.Skipped)
	if n := len(r.Refused) + r.Unlisted; n > 0 {
		fmt.Fprintf(w, "refused, and left out\t%d\n", n)
	}
	if r.DryRun {
		fmt.Fprintln(w, "a dry run: nothing was changed")
	} else {
		fmt.Fprintf(w, "key\t%s\n", r.Key)
	}
	tableRefusals(w, r.Refused)
	tableUnlisted(w, r.Unlisted, r.Key)
}
