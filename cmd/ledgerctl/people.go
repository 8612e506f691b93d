package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// peopleFlags are the flags of the commands that put the people of a file under terms.
type peopleFlags struct {
	question, objects, policy string
	columns                   files.Columns
	cap                       privacy.Epsilon
	partial                   bool
}

// flags adds the flags to a command.
func (f *peopleFlags) flags(a *app, cmd *cobra.Command, capNote string) {
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "the question's `NAME`")
	flags.StringVar(&f.objects, "objects", "", "the CSV `FILE` with the people")
	f.columns.Flags(flags, "the `COLUMN` with the true value: rows where it is empty are skipped")
	flags.StringVar(&f.policy, "policy", "", "the policy as `JSON`, or @FILE")
	flags.TextVar(&f.cap, "cap", privacy.Epsilon{}, "the largest ε, `E`, of each person over all questions"+capNote)
	flags.BoolVar(&f.partial, "partial", false, "leave out those who are refused")
	a.keyFlag(cmd, "")
	files.Mark(flags, files.Reads, files.ByName, "objects")
	files.Mark(flags, files.Reads, files.Behind, "policy")
	require(cmd, "question", "objects")
}

// maxPolicy is more than any policy has, in bytes.
const maxPolicy = 1 << 20

// readPolicy returns the policy that --policy gives, or the zero policy.
func (f *peopleFlags) readPolicy(ctx context.Context, a *app) (p policy.Policy, err error) {
	if f.policy == "" {
		return p, nil
	}
	text, err := a.TextOrFile(ctx, f.policy, maxPolicy)
	if err != nil {
		return p, err
	}
	return policy.Parse(text)
}

// read returns the ids of the people in the file and the values that it has, and counts the rows without a value.
func (f *peopleFlags) read(ctx context.Context, a *app) (objects []string, values files.Values, skipped int, err error) {
	values = files.Values{}
	c := f.columns
	c.Skipped = &skipped
	err = files.ReadRows(ctx, a.Files, f.objects, c, func(e files.Entry) {
		objects = append(objects, e.Object)
		values.Add(e)
	})
	if err == nil && len(objects) == 0 {
		err = output.InputError("", "%s has nobody to enrol (%d rows were skipped)", f.objects, skipped)
	}
	return objects, values, skipped, err
}

func (a *app) enrollCommand() *cobra.Command {
	f := &peopleFlags{}
	var sameRows, dryRun bool
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
		RunE: func(cmd *cobra.Command, _ []string) error { return a.enroll(cmd, f, sameRows, dryRun) },
	}
	f.flags(a, cmd, " (required if anybody is new)")
	cmd.Flags().BoolVar(&sameRows, "same-rows", false,
		"with --id-rows: the rows are the same people as those that were enrolled by these numbers before")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, and say what would be done; nothing changes")
	return cmd
}

func (a *app) enroll(cmd *cobra.Command, f *peopleFlags, sameRows, dryRun bool) error {
	ctx := cmd.Context()
	if cmd.Flags().Changed("cap") && f.cap.IsZero() {
		return output.UsageError("", "the cap must be above 0")
	}
	terms, err := f.readPolicy(ctx, a)
	if err != nil {
		return err
	}
	if sameRows && !f.columns.ByRow() {
		return output.UsageError("", "--same-rows is for --id-rows")
	}
	objects, values, skipped, err := f.read(ctx, a)
	if err != nil {
		return err
	}
	var done ledger.EnrollResult
	mode := writing
	if dryRun {
		mode = reading
	}
	err = a.with(ctx, mode, func(l book) error {
		if err := values.Check(ctx, l, f.objects, f.question); err != nil {
			return err
		}
		shown, progress := a.progress("enrolling")
		defer shown.Clear()
		done, err = l.Enroll(ctx, ledger.EnrollRequest{
			Key: a.key, Question: f.question, Objects: objects, Policy: terms, Cap: f.cap, Partial: f.partial, Progress: progress,
			New: f.columns.ByRow() && !sameRows, DryRun: dryRun,
		})
		return output.WithKey(a.key, knownRows(output.Refusal(err, f.partial)))
	})
	if err != nil {
		return err
	}
	if err := a.printEnrolled(f.question, skipped, done, dryRun); err != nil {
		return err
	}
	return refusedAll(f.question, done.Enrolled+done.Already, done.Refused, done.Unlisted)
}

func (a *app) printEnrolled(question string, skipped int, done ledger.EnrollResult, dryRun bool) error {
	var out output.Fields
	out.Add("question", "question", question)
	out.Add("enrolled", "enrolled", done.Enrolled)
	out.Add("", "already enrolled", done.Already)
	out.Add("skipped", "skipped, without a value", skipped)
	out.Add("already", "", done.Already)
	out.Add("refused", "", done.Refused)
	out.AddNonZero("unlisted", "", done.Unlisted)
	out.AddNonZero("", "refused, and left out", len(done.Refused)+done.Unlisted)
	if dryRun {
		out.Add("dry_run", "", true)
		out.Section(func(w io.Writer) { fmt.Fprintln(w, "a dry run: nothing was changed") })
	} else {
		out.Add("key", "key", a.key)
	}
	out.Section(func(w io.Writer) {
		tableRefusals(w, done.Refused)
		tableUnlisted(w, done.Unlisted, a.key)
	})
	if dryRun {
		return a.Print(out)
	}
	return a.PrintDone("they are enrolled", a.key, out)
}

// knownRows says what to do about rows whose numbers the ledger has already.
func knownRows(err error) error {
	if !errors.Is(err, ledger.ErrNotNew) {
		return err
	}
	return output.InputError("--same-rows says that these are the rows of before; if they are other people, --id-prefix P names them P1, P2, …", "%w", err)
}

func (a *app) termsCommand() *cobra.Command {
	f := &peopleFlags{}
	var none bool
	var consent string
	cmd := &cobra.Command{
		Use:   "terms",
		Short: "Put the people of a CSV file under another policy, or another cap",
		Long: `Put the people of a CSV file under another policy of a question, or another cap over all questions, from now on.
What is not given stays as it is.

Less always works, at once: a lower cap, also below what is spent, a lower ceiling, higher prices, fewer buyers.
Whatever may be more needs the people's consent: --consent says where it is on record. Without it, whoever is
affected is refused, with what is more; if anybody is, nothing changes and the exit code is 3, unless --partial
leaves them out. The log keeps the text until the person is forgotten, and the person's statement shows it.

What was released stays released, and what was paid stays paid: who upgrades pays the new price less that, never
less than nothing. A reservation keeps its price, but not the budget.`,
		Example: `  Dearer from now on:
  ledgerctl terms --question vote --objects people.csv --policy '{"kind":"market","max":"2","price":[["2",600]]}'

  More than they had agreed to:
  ledgerctl terms --question vote --objects agreed.csv --cap 8 --consent "form of 1 March, box 17"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.terms(cmd, f, none, consent) },
	}
	f.flags(a, cmd, "")
	cmd.Flags().BoolVar(&none, "no-policy", false, "no policy: only the cap binds")
	cmd.Flags().StringVar(&consent, "consent", "", "`TEXT` that says where the people's consent is on record, of 1 to 1,024 bytes")
	return cmd
}

func (a *app) terms(cmd *cobra.Command, f *peopleFlags, none bool, consent string) error {
	ctx := cmd.Context()
	under, err := f.newPolicy(cmd, a, none)
	if err != nil {
		return err
	}
	objects, values, skipped, err := f.read(ctx, a)
	if err != nil {
		return err
	}
	var done ledger.ChangeTermsResult
	err = a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		err := errors.Join(f.columns.CheckPeople(ctx, l, f.objects, f.question, objects), values.Check(ctx, l, f.objects, f.question))
		if err != nil {
			return "", nil, err
		}
		shown, progress := a.progress("changing")
		defer shown.Clear()
		done, err = l.ChangeTerms(ctx, ledger.ChangeTermsRequest{
			Key: a.key, Question: f.question, Objects: objects, Policy: under, Cap: f.cap, Consent: consent, Partial: f.partial, Progress: progress,
		})
		var out output.Fields
		out.Add("question", "question", f.question)
		out.Add("changed", "changed", done.Changed)
		out.Add("unchanged", "as they were before", done.Unchanged)
		out.Add("skipped", "skipped, without a value", skipped)
		out.Add("refused", "", done.Refused)
		out.AddNonZero("unlisted", "", done.Unlisted)
		out.Add("", "refused, and left out", len(done.Refused)+done.Unlisted)
		out.Add("events", "events", span{done.First, done.Last})
		out.Add("key", "key", a.key)
		out.Section(func(w io.Writer) {
			tableReasons(w, done.Refused)
			tableUnlisted(w, done.Unlisted, a.key)
		})
		return "their terms are changed", out, output.Refusal(err, f.partial)
	})
	if err != nil {
		return err
	}
	return refusedAll(f.question, done.Changed+done.Unchanged, done.Refused, done.Unlisted)
}

// newPolicy returns the policy that is asked for, nil to leave each as it is.
func (f *peopleFlags) newPolicy(cmd *cobra.Command, a *app, none bool) (*policy.Policy, error) {
	flags := cmd.Flags()
	switch {
	case none && f.policy != "":
		return nil, output.UsageError("give one of them", "--policy and --no-policy exclude each other")
	case !none && f.policy == "" && !flags.Changed("cap"):
		return nil, output.UsageError("give --policy, --no-policy or --cap", "nothing is said of what is to change")
	case flags.Changed("cap") && f.cap.IsZero():
		return nil, output.UsageError(`"ledgerctl withdraw" ends a person's part`, "the cap must be above 0")
	case !none && f.policy == "":
		return nil, nil
	}
	p, err := f.readPolicy(cmd.Context(), a)
	return &p, err
}

func (a *app) withdrawCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "withdraw OBJECT…",
		Short: "End people's part in all questions",
		Long: `End the part of people in all questions: nothing more is drawn from them, sold of them or asked about
them. What was released stays released, and what was spent stays spent; what was delivered can still be
read. Withdrawing twice does nothing. "ledgerctl enroll" takes a person in again.

If one of them is unknown, nobody withdraws. The same command with the same --key does nothing twice, even
if somebody has been enrolled again meanwhile.`,
		Example: "  ledgerctl withdraw 17 18",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, people []string) error {
			return unknownPerson(a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
				var out output.Fields
				out.Add("withdrawn", "", people)
				out.Add("", "withdrawn", output.Listed(people))
				out.Add("key", "key", a.key)
				return "they are withdrawn", out, a.withdraw(ctx, l, people)
			}))
		},
	}
	a.keyFlag(cmd, "")
	return cmd
}

// mostKey is the longest idempotency key, in bytes.
const mostKey = 256

// withdraw ends the part of people. Of several requests each has a key of its own: the key and a number. Keys outlive the people
// they are about, so they name no person.
func (a *app) withdraw(ctx context.Context, l book, people []string) error {
	keyOf := func(place int) string {
		if len(people) == 1 {
			return a.key
		}
		return fmt.Sprintf("%s/%d", a.key, place+1)
	}
	if n := len(keyOf(len(people) - 1)); n > mostKey {
		return output.UsageError("", "--key is too long for so many: behind it stands a number, and at most %d bytes are allowed, not %d", mostKey, n)
	}
	for i, object := range people {
		if slices.Contains(people[:i], object) {
			return output.UsageError("", "object %q is given twice", object)
		}
		if _, err := l.Object(ctx, object); err != nil {
			return err
		}
	}
	for i, object := range people {
		if err := l.Withdraw(ctx, keyOf(i), object); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) epochCommand() *cobra.Command {
	var question string
	cmd := &cobra.Command{
		Use:   "epoch OBJECT",
		Short: "Begin anew about a person whose true value has changed",
		Long: `Begin a new epoch of a person in a question: for somebody whose true value has changed. What was released so far
stays with those who have it, and what it has cost stays spent. From now on the question is about the new value,
under the same policy, and what that costs is charged besides, under the same cap. Buyers pay the full price anew;
what was reserved of the person ends.

Whoever sees that an epoch began (in the log, say) can guess that the value has changed, unless you begin epochs for
everybody by the calendar. If nothing was drawn, sold or asked in the current epoch, nothing happens; the same
command with the same --key does nothing twice.`,
		Example: "  ledgerctl epoch 17 --question vote",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
				if err := l.BeginEpoch(ctx, a.key, question, args[0]); err != nil {
					return "", nil, err
				}
				o, err := l.Object(ctx, args[0])
				epoch := 0
				for _, c := range o.Chains {
					if c.Question == question {
						epoch = c.Epoch
					}
				}
				var out output.Fields
				out.Add("object", "object", args[0])
				out.Add("question", "question", question)
				out.Add("epoch", "epoch", epoch)
				out.Add("key", "key", a.key)
				return fmt.Sprintf("object %q is in epoch %d of question %q", args[0], epoch, question), out, err
			})
		},
	}
	cmd.Flags().StringVar(&question, "question", "", "the question's `NAME`")
	a.keyFlag(cmd, "")
	require(cmd, "question")
	return cmd
}

func (a *app) forgetCommand() *cobra.Command {
	var keepPages bool
	cmd := &cobra.Command{
		Use:   "forget OBJECT",
		Short: "Destroy what was released of a person, and what the log says of them",
		Long: `Destroy everything about a person: all responses, and what every event of the log says of them. This cannot
be undone. What they have spent and earned stays, by their id, so that nobody's budget begins anew; they take
part in nothing any more, until they are enrolled again. The log stays provable, and so does every receipt and
checkpoint that others have. What buyers were given they keep.

Then the ledger's file is rewritten without its unused pages, in which the old bytes would stay otherwise. For a
large ledger that takes a while: with --keep-pages it is left out, so that many can be forgotten in a row; let
the last of them be without. Backups, and the blocks that the disk has freed, are yours to clean.

The same command with the same --key forgets nothing twice, even if the person has been enrolled again meanwhile.`,
		Example: `  ledgerctl forget 17
  ledgerctl forget 18 --keep-pages && ledgerctl forget 19`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return unknownPerson(a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
				out, err := a.forget(ctx, l, args[0], keepPages)
				return fmt.Sprintf("object %q is forgotten", args[0]), out, err
			}))
		},
	}
	a.keyFlag(cmd, ", which stays in the log, and should name nobody")
	cmd.Flags().BoolVar(&keepPages, "keep-pages", false, "do not rewrite the file: the old bytes stay in its unused pages for now")
	return cmd
}

func (a *app) forget(ctx context.Context, l book, object string, keepPages bool) (out output.Fields, err error) {
	if err := l.Forget(ctx, a.key, object); err != nil {
		return nil, err
	}
	pages := `kept: what was forgotten may still be in them until the next "ledgerctl forget" without --keep-pages`
	if !keepPages {
		pages = "dropped: the file was rewritten"
		shown, progress := a.progress("compacting")
		defer shown.Clear()
		if err := l.Compact(ctx, progress); err != nil {
			return nil, output.Unfinished(fmt.Sprintf("object %q is forgotten, but the old bytes may still be in unused pages of the file", object), 0, err)
		}
	}
	stats, err := l.Stats(ctx)
	out.Add("object", "forgotten", object)
	out.Add("key", "key", a.key)
	out.Add("compacted", "", !keepPages)
	out.Add("", "unused pages", pages)
	out.Add("bytes", "bytes", stats.Bytes)
	return out, err
}

// unknownPerson adds to an error what may help if there is no such person.
func unknownPerson(err error) error {
	if !errors.Is(err, ledger.ErrUnknown) {
		return err
	}
	return &output.Error{Kind: "unknown", Code: output.ExitMisuse, Err: err,
		Hint: "people go by the ids that they were enrolled by: those of a column then, or row numbers"}
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show OBJECT",
		Short: "Show the budget and all responses of one person",
		Long: `Show the budget and all responses of one person. Of each question, ε is what the responses cost, and besides
that is what answers to queries cost, and what was destroyed when the person was forgotten. Epochs that have ended
("ledgerctl epoch") are shown apart: what they cost is spent too.`,
		Example: "  ledgerctl show 17",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.query(cmd, func(ctx context.Context, l book) (output.Result, error) {
				o, err := l.Object(ctx, args[0])
				return objectResult{o}, unknownPerson(err)
			})
		},
	}
}

type objectResult struct{ ledger.ObjectState }

func (r objectResult) Table(w io.Writer) {
	fmt.Fprintf(w, "object\t%s\ncap\t%s\nspent\t%s\nheld by reservations\t%s\nremaining\t%s\n", r.Object, r.Cap, r.Spent, r.Held, r.Remaining)
	fmt.Fprintf(w, "earned\t%s\n", output.Money(r.Earned, r.Currency))
	if r.Forgotten > 0 {
		fmt.Fprintf(w, "forgotten\tby event %d: what was released before is destroyed\n", r.Forgotten)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "QUESTION\tε\tBESIDES\tCEILING\tRESPONSE\tALL RESPONSES")
	for _, c := range r.Chains {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Question, c.Epsilon, c.Answered, c.Ceiling, output.Brief(c.Response), levels(c.Levels))
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
			holders = "; bought by " + output.Listed(at.Buyers)
		}
		texts[i] = fmt.Sprintf("%s at ε=%s (event %d%s)", output.Brief(at.Response), at.Epsilon, at.Event, holders)
	}
	return strings.Join(texts, ", ")
}
