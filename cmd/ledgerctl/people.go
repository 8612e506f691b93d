package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// peopleFlags are the flags of the commands that put the people of a file under terms.
type peopleFlags struct {
	Question string `flag:"question,required"`
	Objects  string `flag:"objects,required,reads"`
	input.Columns
	Policy  string          `flag:"policy,reads@"`
	Cap     privacy.Epsilon `flag:"cap"`
	Partial bool            `flag:"partial"`
	keyFlag
}

// maxPolicy is more than any policy has, in bytes.
const maxPolicy = 1 << 20

// readPolicy returns the policy that --policy gives, or the zero policy.
func (f *peopleFlags) readPolicy(ctx context.Context, a *app) (p policy.Policy, err error) {
	if f.Policy == "" {
		return p, nil
	}
	text, err := a.TextOrFile(ctx, f.Policy, maxPolicy)
	if err != nil {
		return p, err
	}
	return policy.Parse(text)
}

// read returns the ids of the people in the file and the values that it has, and counts the rows
// without a value.
func (f *peopleFlags) read(ctx context.Context, a *app) (objects []string, values input.Values, skipped int,
	err error) {
	values = input.Values{}
	c := f.Columns
	c.Skipped = &skipped
	err = input.ReadRows(ctx, a.Files, f.Objects, c, func(e input.Entry) {
		objects = append(objects, e.Object)
		values.Add(e)
	})
	if err == nil && len(objects) == 0 {
		err = output.InputError("", "%s has no people to enrol (%d rows were skipped)", f.Objects, skipped)
	}
	return objects, values, skipped, err
}

type enrollFlags struct {
	peopleFlags
	SameRows bool `flag:"same-rows"`
	DryRun   bool `flag:"dry-run"`
}

func (a *app) enroll(cmd *cobra.Command, _ []string, f *enrollFlags) error {
	ctx := cmd.Context()
	if cmd.Flags().Changed("cap") && f.Cap.IsZero() {
		return output.UsageError("", "the cap must be above 0")
	}
	terms, err := f.readPolicy(ctx, a)
	if err != nil {
		return err
	}
	if f.SameRows && !f.ByRow {
		return output.UsageError("", "--same-rows is for --id-rows")
	}
	objects, values, skipped, err := f.read(ctx, a)
	if err != nil {
		return err
	}
	var done api.EnrollResult
	enroll := func(ctx context.Context, l book) (output.Result, error) {
		if err := values.Check(ctx, l, f.Objects, f.Question); err != nil {
			return nil, err
		}
		shown, progress := a.progress("enrolling")
		defer shown.Clear()
		done, err = l.Enroll(ctx, api.EnrollRequest{
			Key: a.key, Question: f.Question, Objects: objects, Policy: terms, Cap: f.Cap, Partial: f.Partial,
			Progress: progress, New: f.ByRow && !f.SameRows, DryRun: f.DryRun,
		})
		return a.enrolled(f, skipped, done), knownRows(output.Refusal(err, f.Partial))
	}
	if f.DryRun {
		err = a.query(cmd, enroll)
	} else {
		err = a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
			out, err := enroll(ctx, l)
			return "they are enrolled", out, err
		})
	}
	if err != nil {
		return err
	}
	return refusedAll(f.Question, done.Enrolled+done.Already, done.Refused, done.Unlisted)
}

// enrolled is the result of an enrolment.
func (a *app) enrolled(f *enrollFlags, skipped int, done api.EnrollResult) (out output.Fields) {
	out.Add("question", "question", f.Question)
	out.Add("enrolled", "enrolled", done.Enrolled)
	out.Add("skipped", "skipped, without a value", skipped)
	out.Add("already", "already enrolled", done.Already)
	addRefused(&out, done.Refused, done.Unlisted, a.key)
	if f.DryRun {
		out.Add("dry_run", "", true)
		out.Section(func(w io.Writer) { fmt.Fprintln(w, "a dry run: nothing was changed") })
	} else {
		out.Add("key", "key", a.key)
	}
	return out
}

// knownRows says what to do about rows whose numbers the ledger has already.
func knownRows(err error) error {
	if !errors.Is(err, api.ErrNotNew) {
		return err
	}
	return output.InputError("--same-rows says that these are the rows of before; if they are other people, "+
		"--id-prefix P names them P1, P2, …", "%w", err)
}

type termsFlags struct {
	peopleFlags
	NoPolicy bool   `flag:"no-policy"`
	Consent  string `flag:"consent"`
}

func (a *app) terms(cmd *cobra.Command, _ []string, f *termsFlags) error {
	ctx := cmd.Context()
	under, err := f.newPolicy(cmd, a)
	if err != nil {
		return err
	}
	objects, values, skipped, err := f.read(ctx, a)
	if err != nil {
		return err
	}
	var done api.ChangeTermsResult
	err = a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		err := errors.Join(f.CheckPeople(ctx, l, f.Objects, f.Question, objects),
			values.Check(ctx, l, f.Objects, f.Question))
		if err != nil {
			return "", nil, err
		}
		shown, progress := a.progress("changing")
		defer shown.Clear()
		done, err = l.ChangeTerms(ctx, api.ChangeTermsRequest{
			Key: a.key, Question: f.Question, Objects: objects, Policy: under, Cap: f.Cap, Consent: f.Consent,
			Partial: f.Partial, Progress: progress,
		})
		var out output.Fields
		out.Add("question", "question", f.Question)
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
		return "their terms are changed", out, output.Refusal(err, f.Partial)
	})
	if err != nil {
		return err
	}
	return refusedAll(f.Question, done.Changed+done.Unchanged, done.Refused, done.Unlisted)
}

// newPolicy returns the policy that is asked for, nil to leave each as it is.
func (f *termsFlags) newPolicy(cmd *cobra.Command, a *app) (*policy.Policy, error) {
	flags := cmd.Flags()
	switch {
	case f.NoPolicy && f.Policy != "":
		return nil, output.UsageError("give one of them", "--policy and --no-policy exclude each other")
	case !f.NoPolicy && f.Policy == "" && !flags.Changed("cap"):
		return nil, output.UsageError("give --policy, --no-policy or --cap", "nothing is said of what is to change")
	case flags.Changed("cap") && f.Cap.IsZero():
		return nil, output.UsageError(`"ledgerctl withdraw" ends a person's part`, "the cap must be above 0")
	case !f.NoPolicy && f.Policy == "":
		return nil, nil
	}
	p, err := f.readPolicy(cmd.Context(), a)
	return &p, err
}

func (a *app) withdraw(cmd *cobra.Command, people []string, _ *keyFlag) error {
	return unknownPerson(a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		var out output.Fields
		out.Add("withdrawn", "", people)
		out.Add("", "withdrawn", output.Listed(people))
		out.Add("key", "key", a.key)
		return "they are withdrawn", out, a.withdrawAll(ctx, l, people)
	}))
}

// mostKey is the longest idempotency key, in bytes.
const mostKey = 256

// withdrawAll ends the part of people. Of several requests each has a key of its own: the key and a
// number. Keys outlive the people they are about, so they name no person.
func (a *app) withdrawAll(ctx context.Context, l book, people []string) error {
	keyOf := func(place int) string {
		if len(people) == 1 {
			return a.key
		}
		return fmt.Sprintf("%s/%d", a.key, place+1)
	}
	if n := len(keyOf(len(people) - 1)); n > mostKey {
		return output.UsageError("",
			"--key is too long for so many: behind it stands a number, and at most %d bytes are allowed, not %d",
			mostKey, n)
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

type epochFlags struct {
	Question string `flag:"question,required"`
	keyFlag
}

func (a *app) epoch(cmd *cobra.Command, args []string, f *epochFlags) error {
	return a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		if err := l.BeginEpoch(ctx, a.key, f.Question, args[0]); err != nil {
			return "", nil, err
		}
		o, err := l.Object(ctx, args[0])
		epoch := 0
		for _, c := range o.Chains {
			if c.Question == f.Question {
				epoch = c.Epoch
			}
		}
		var out output.Fields
		out.Add("object", "object", args[0])
		out.Add("question", "question", f.Question)
		out.Add("epoch", "epoch", epoch)
		out.Add("key", "key", a.key)
		return fmt.Sprintf("object %q is in epoch %d of question %q", args[0], epoch, f.Question), out, err
	})
}

type forgetFlags struct {
	keyFlag
	KeepPages bool `flag:"keep-pages"`
}

func (a *app) forget(cmd *cobra.Command, args []string, f *forgetFlags) error {
	return unknownPerson(a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		out, err := a.forgetOne(ctx, l, args[0], f.KeepPages)
		return fmt.Sprintf("object %q is forgotten", args[0]), out, err
	}))
}

func (a *app) forgetOne(ctx context.Context, l book, object string, keepPages bool) (out output.Fields, err error) {
	if err := l.Forget(ctx, a.key, object); err != nil {
		return nil, err
	}
	pages := `kept: what was forgotten may still be in them until the next "ledgerctl forget" without --keep-pages`
	if !keepPages {
		pages = "dropped: the file was rewritten"
		shown, progress := a.progress("compacting")
		defer shown.Clear()
		if err := l.Compact(ctx, progress); err != nil {
			return nil, output.Unfinished(fmt.Sprintf("object %q is forgotten, but the old bytes may still be in "+
				"unused pages of the file", object), 0, err)
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
	return output.WithHint(err, api.ErrUnknown,
		"people go by the ids that they were enrolled by: those of a column then, or row numbers")
}

func (a *app) show(cmd *cobra.Command, args []string, _ *input.None) error {
	return a.query(cmd, func(ctx context.Context, l book) (output.Result, error) {
		o, err := l.Object(ctx, args[0])
		return objectResult{o}, unknownPerson(err)
	})
}

type objectResult struct{ api.ObjectState }

func (r objectResult) Table(w io.Writer) {
	fmt.Fprintf(w, "object\t%s\ncap\t%s\nspent\t%s\nheld by reservations\t%s\nremaining\t%s\n", r.Object, r.Cap,
		r.Spent, r.Held, r.Remaining)
	fmt.Fprintf(w, "earned\t%s\n", output.Money(r.Earned, r.Currency))
	if r.Forgotten > 0 {
		fmt.Fprintf(w, "forgotten\tby event %d: what was released before is destroyed\n", r.Forgotten)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "QUESTION\tε\tBESIDES\tCEILING\tRESPONSE\tALL RESPONSES")
	for _, c := range r.Chains {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Question, c.Epsilon, c.Answered, c.Ceiling,
			output.Brief(c.Response), levels(c.Levels))
	}
	fmt.Fprintln(w, "\nQUESTION\tTAKES PART\tBUYERS\tPOLICY")
	for _, c := range r.Chains {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Question, part(c), c.Buyers, terms(c))
	}
	earlier(w, r.Chains)
}

// earlier lists the epochs that have ended, if there are any.
func earlier(w io.Writer, chains []api.ChainState) {
	if !slices.ContainsFunc(chains, func(c api.ChainState) bool { return len(c.Earlier) > 0 }) {
		return
	}
	fmt.Fprintln(w, "\nQUESTION\tEARLIER EPOCH\tENDED\tε\tBESIDES\tALL RESPONSES")
	for _, c := range chains {
		for _, one := range c.Earlier {
			fmt.Fprintf(w, "%s\t%d\tby event %d\t%s\t%s\t%s\n", c.Question, one.Epoch, one.Ended, one.Epsilon,
				one.Answered, levels(one.Levels))
		}
	}
}

func part(c api.ChainState) string {
	if c.Withdrawn {
		return "withdrawn"
	}
	return "yes"
}

func terms(c api.ChainState) string {
	if c.Policy == nil {
		return "none: only the cap binds"
	}
	return c.Policy.String()
}

func levels(all []api.LevelState) string {
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
