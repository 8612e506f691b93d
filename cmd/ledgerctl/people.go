package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// peopleFlags are the flags of the commands that set the terms of the people in a file.
type peopleFlags struct {
	Question string `flag:"question,required"`
	Objects  string `flag:"objects,required,reads"`
	input.Columns
	Policy  string          `flag:"policy,reads@"`
	Cap     privacy.Epsilon `flag:"cap,positive" zero:"\"ledgerctl withdraw\" ends people's part in all questions"`
	Partial bool            `flag:"partial"`
	keyFlag
}

// maxPolicy is larger than any policy, in bytes.
const maxPolicy = 1 << 20

// peopleInput is what a command reads from its files before it opens the ledger.
type peopleInput struct {
	policy  policy.Policy // of --policy, or the zero policy
	objects []string      // the ids in the file of people
	values  input.Values  // the values in the file of people
	skipped int           // rows without a value
}

// read reads the policy and the file of people.
func (f *peopleFlags) read(ctx context.Context, a *app) (p peopleInput, err error) {
	if f.Policy != "" {
		text, err := a.TextOrFile(ctx, f.Policy, maxPolicy)
		if err == nil {
			p.policy, err = policy.Parse(text)
		}
		if err != nil {
			return p, err
		}
	}
	p.values = input.Values{}
	c := f.Columns
	c.Skipped = &p.skipped
	err = input.ReadRows(ctx, a.Files, f.Objects, c, func(e input.Entry) {
		p.objects = append(p.objects, e.Object)
		p.values.Add(e)
	})
	if err == nil && len(p.objects) == 0 {
		err = output.InputError("", "%s has no people to enrol (%d rows were skipped)", f.Objects, p.skipped)
	}
	return p, err
}

type enrollFlags struct {
	peopleFlags
	SameRows bool `flag:"same-rows,needs=id-rows"`
	DryRun   bool `flag:"dry-run"`
}

// enroll runs the command enroll, which enrols the people of a file in a question. With --dry-run
// the ledger is opened for reading only.
func (a *app) enroll(cmd *cobra.Command, _ []string, f *enrollFlags) error {
	p, err := f.read(cmd.Context(), a)
	if err != nil {
		return err
	}
	enroll := func(ctx context.Context, l backend) (output.Result, error) {
		if err := p.values.Check(ctx, l, f.Objects, f.Question); err != nil {
			return nil, err
		}
		done, err := l.Enroll(ctx, api.EnrollRequest{
			Key: a.key, Question: f.Question, Objects: p.objects, Policy: p.policy, Cap: f.Cap, Partial: f.Partial,
			Progress: a.Progress("enrolling"), New: f.ByRow && !f.SameRows, DryRun: f.DryRun,
		})
		if errors.Is(err, api.ErrNotNew) {
			err = output.InputError("--same-rows confirms that these are the same people as before; for other people, "+
				"--id-prefix P gives them the ids P1, P2, …", "%w", err)
		}
		a.endRefused(f.Question, done.Enrolled+done.Already, done.Refused, done.Unlisted)
		return a.enrolled(f, p.skipped, done), output.Refusal(err, f.Partial)
	}
	if f.DryRun {
		return a.query(cmd, enroll)
	}
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		out, err := enroll(ctx, l)
		return "the people are enrolled", out, err
	})
}

// enrolled returns the result of an enrolment as it is printed.
func (a *app) enrolled(f *enrollFlags, skipped int, done api.EnrollResult) (out output.Fields) {
	out.Add("question", "question", f.Question)
	out.InlineDone(done, "enrolled", "already already enrolled")
	out.Add("skipped", "skipped, without a value", skipped)
	addRefused(&out, done.Refused, done.Unlisted, a.key)
	if f.DryRun {
		out.Add("dry_run", "", true)
		out.Section(func(t *output.Table) { t.Line("a dry run: nothing was changed") })
	} else {
		out.Add("key", "key", a.key)
	}
	return out
}

type termsFlags struct {
	peopleFlags
	NoPolicy bool   `flag:"no-policy,not=policy"`
	Consent  string `flag:"consent"`
}

// terms runs the command terms, which changes the policy or the cap of the people of a file.
func (a *app) terms(cmd *cobra.Command, _ []string, f *termsFlags) error {
	if !f.NoPolicy && f.Policy == "" && f.Cap.IsZero() {
		return output.UsageError("give --policy, --no-policy or --cap", "no change is given")
	}
	p, err := f.read(cmd.Context(), a)
	if err != nil {
		return err
	}
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		err := errors.Join(f.CheckPeople(ctx, l, f.Objects, f.Question, p.objects),
			p.values.Check(ctx, l, f.Objects, f.Question))
		if err != nil {
			return "", nil, err
		}
		r := api.ChangeTermsRequest{Key: a.key, Question: f.Question, Objects: p.objects, Cap: f.Cap,
			Consent: f.Consent, Partial: f.Partial, Progress: a.Progress("changing")}
		if f.NoPolicy || f.Policy != "" {
			r.Policy = &p.policy // nil keeps the policy of each person
		}
		done, err := l.ChangeTerms(ctx, r)
		a.endRefused(f.Question, done.Changed+done.Unchanged, done.Refused, done.Unlisted)
		return "the terms are changed", a.changed(f, p.skipped, done), output.Refusal(err, f.Partial)
	})
}

// changed returns the result of a change of terms as it is printed.
func (a *app) changed(f *termsFlags, skipped int, done api.ChangeTermsResult) (out output.Fields) {
	out.Add("question", "question", f.Question)
	out.InlineDone(done, "changed", "unchanged as they were before")
	out.Add("skipped", "skipped, without a value", skipped)
	out.Add("", "refused, and left out", len(done.Refused)+done.Unlisted)
	out.Add("key", "key", a.key)
	out.Section(func(t *output.Table) {
		tableFirst(t, "object=refused reason helps why", "", done.Refused)
		tableUnlisted(t, done.Unlisted, a.key)
	})
	return out
}

// withdraw runs the command withdraw, which ends people's part in all questions.
func (a *app) withdraw(cmd *cobra.Command, people []string, _ *keyFlag) error {
	return unknownPerson(a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		var out output.Fields
		out.Add("withdrawn", "", people)
		out.Add("", "withdrawn", output.Listed(people))
		out.Add("key", "key", a.key)
		return "the people are withdrawn", out, a.withdrawAll(ctx, l, people)
	}))
}

// mostKey is the largest length of an idempotency key, in bytes.
const mostKey = 256

// withdrawAll withdraws people with one request each, after it has checked that the ledger knows
// all of them. For several people, the key of each request is the key of the command, "/" and a
// number from 1. The key does not contain the person's id, because keys are kept after people are
// forgotten.
func (a *app) withdrawAll(ctx context.Context, l backend, people []string) error {
	keyOf := func(place int) string {
		if len(people) == 1 {
			return a.key
		}
		return fmt.Sprintf("%s/%d", a.key, place+1)
	}
	if n := len(keyOf(len(people) - 1)); n > mostKey {
		return output.UsageError("",
			"--key is too long for several people: with the number that is added to it, it has %d bytes, more than %d",
			n, mostKey)
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
		if err := l.Withdraw(ctx, api.ObjectRequest{Key: keyOf(i), Object: object}); err != nil {
			return err
		}
	}
	return nil
}

type epochFlags struct {
	Question string `flag:"question,required"`
	keyFlag
}

// epoch runs the command epoch, which begins a new chain for a person whose true value has changed.
func (a *app) epoch(cmd *cobra.Command, args []string, f *epochFlags) error {
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		if err := l.BeginEpoch(ctx, api.EpochRequest{Key: a.key, Question: f.Question, Object: args[0]}); err != nil {
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

// forget runs the command forget, which destroys what was released of a person. Unless --keep-pages
// is given, it also rewrites the file without the old bytes.
func (a *app) forget(cmd *cobra.Command, args []string, f *forgetFlags) error {
	return unknownPerson(a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		done := fmt.Sprintf("object %q is forgotten", args[0])
		if err := l.Forget(ctx, api.ObjectRequest{Key: a.key, Object: args[0]}); err != nil {
			return done, nil, err
		}
		pages := `kept: they may contain forgotten data until the next "ledgerctl forget" without --keep-pages`
		if !f.KeepPages {
			pages = "dropped: the file was rewritten"
			if err := l.Compact(ctx, a.Progress("compacting")); err != nil {
				done += ", but the old bytes may still be in unused pages of the file"
				return done, nil, output.Unfinished(done, 0, err)
			}
		}
		stats, err := l.Stats(ctx)
		var out output.Fields
		out.Add("object", "forgotten", args[0])
		out.Add("key", "key", a.key)
		out.Add("compacted", "", !f.KeepPages)
		out.Add("", "unused pages", pages)
		out.Add("bytes", "bytes", stats.Bytes)
		return done, out, err
	}))
}

// unknownPerson adds a hint to an error about a person that the ledger does not have.
func unknownPerson(err error) error {
	return output.WithHint(err, api.ErrUnknown,
		"use the id with which the person was enrolled: from a column of the file, or the number of the row")
}

// show runs the command show, which prints the budget and all responses of a person.
func (a *app) show(cmd *cobra.Command, args []string, _ *input.None) error {
	return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		o, err := l.Object(ctx, args[0])
		var out output.Fields
		out.Inline(o, "object", "cap", "spent", "held held by reservations", "remaining", "earned")
		out.Section(func(t *output.Table) { tableObject(t, o) })
		return out, unknownPerson(err)
	})
}

// tableObject writes tables about a person's chains: their responses, their terms, and, if there
// are any, the epochs that have ended. The column BESIDES has the ε charged by panel queries.
func tableObject(t *output.Table, o api.ObjectState) {
	if o.Forgotten > 0 {
		t.Row("forgotten", fmt.Sprintf("by event %d: responses released before are destroyed", o.Forgotten))
	}
	t.Line("")
	t.Row("QUESTION", "ε", "BESIDES", "CEILING", "RESPONSE", "ALL RESPONSES")
	for _, c := range o.Chains {
		t.Row(c.Question, c.Epsilon, c.Answered, c.Ceiling, output.Brief(c.Response), levels(c.Levels))
	}
	t.Line("")
	t.Row("QUESTION", "TAKES PART", "BUYERS", "POLICY")
	for _, c := range o.Chains {
		part, terms := "yes", "none: only the cap binds"
		if c.Withdrawn {
			part = "withdrawn"
		}
		if c.Policy != nil {
			terms = c.Policy.String()
		}
		t.Row(c.Question, part, c.Buyers, terms)
	}
	if !slices.ContainsFunc(o.Chains, func(c api.ChainState) bool { return len(c.Earlier) > 0 }) {
		return
	}
	t.Line("")
	t.Row("QUESTION", "EARLIER EPOCH", "ENDED", "ε", "BESIDES", "ALL RESPONSES")
	for _, c := range o.Chains {
		for _, e := range c.Earlier {
			t.Row(c.Question, e.Epoch, fmt.Sprintf("by event %d", e.Ended), e.Epsilon, e.Answered, levels(e.Levels))
		}
	}
}

// levels describes the levels of a chain in one line, each with its event and buyers.
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
