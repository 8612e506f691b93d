package main

import (
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

// termsFlags are the flags of terms.
type termsFlags struct {
	enrollFlags
	none    bool
	consent string
}

func (a *app) termsCommand() *cobra.Command {
	f := &termsFlags{}
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
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.terms(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "the question's `NAME`")
	flags.StringVar(&f.objects, "objects", "", "the CSV `FILE` with the people")
	f.columns.Flags(flags, "the `COLUMN` with the true value: rows where it is empty are skipped")
	flags.StringVar(&f.policy, "policy", "", "the policy as `JSON`, or @FILE")
	flags.BoolVar(&f.none, "no-policy", false, "no policy: only the cap binds")
	flags.TextVar(&f.cap, "cap", privacy.Epsilon{}, "the largest ε, `E`, of each person over all questions")
	flags.StringVar(&f.consent, "consent", "", "`TEXT` that says where the people's consent is on record, of 1 to 1,024 bytes")
	flags.BoolVar(&f.partial, "partial", false, "leave out those who are refused")
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
	files.Mark(flags, files.Reads, files.ByName, "objects")
	files.Mark(flags, files.Reads, files.Behind, "policy")
	require(cmd, "question", "objects")
	return cmd
}

func (a *app) terms(cmd *cobra.Command, f *termsFlags) error {
	under, err := a.newTerms(cmd, f)
	if err != nil {
		return err
	}
	out := termsResult{Question: f.question}
	if out.Key, err = keyOr(cmd, f.key); err != nil {
		return err
	}
	values := csv.Values{}
	objects, err := a.readObjects(cmd.Context(), &f.enrollFlags, &out.Skipped, values)
	if err != nil {
		return err
	}
	err = a.with(cmd.Context(), writing, func(l book) error {
		if err := errors.Join(f.columns.CheckPeople(cmd.Context(), l, f.objects, f.question, objects), values.Check(cmd.Context(), l, f.objects, f.question)); err != nil {
			return err
		}
		shown, progress := a.progress("changing")
		defer shown.Clear()
		done, err := l.ChangeTerms(cmd.Context(), ledger.ChangeTermsRequest{
			Key: out.Key, Question: f.question, Objects: objects, Policy: under, Cap: f.cap, Consent: f.consent, Partial: f.partial, Progress: progress,
		})
		out.Changed, out.Unchanged, out.Events = done.Changed, done.Unchanged, span{done.First, done.Last}
		out.Refused, out.Unlisted = append([]ledger.Refusal{}, done.Refused...), done.Unlisted
		return fault.WithKey(out.Key, fault.Refusal(err, f.partial))
	})
	if err != nil {
		return err
	}
	if err := a.PrintDone("their terms are changed", out.Key, out); err != nil {
		return err
	}
	return out.refusal()
}

// newTerms returns the policy that is asked for, nil to leave each as it is.
func (a *app) newTerms(cmd *cobra.Command, f *termsFlags) (*policy.Policy, error) {
	flags := cmd.Flags()
	switch {
	case f.none && flags.Changed("policy"):
		return nil, fault.Usage("give one of them", "--policy and --no-policy exclude each other")
	case !f.none && !flags.Changed("policy") && !flags.Changed("cap"):
		return nil, fault.Usage("give --policy, --no-policy or --cap", "nothing is said of what is to change")
	case flags.Changed("cap") && f.cap.IsZero():
		return nil, fault.Usage(`"ledgerctl withdraw" ends a person's part`, "the cap must be above 0")
	}
	if f.none {
		return &policy.Policy{}, nil
	}
	if !flags.Changed("policy") {
		return nil, nil
	}
	p, err := a.policy(cmd, &f.enrollFlags)
	return &p, err
}

// termsResult is what a change of terms did.
type termsResult struct {
	Question  string           `json:"question"`
	Changed   int              `json:"changed"`
	Unchanged int              `json:"unchanged"`
	Skipped   int              `json:"skipped"`
	Refused   []ledger.Refusal `json:"refused"`
	Unlisted  int              `json:"unlisted,omitempty"` // refused, too
	Events    span             `json:"events"`
	Key       string           `json:"key"`
}

// refusal is the error of a change that leaves everybody out.
func (r termsResult) refusal() error {
	return refusedAll(r.Question, r.Changed+r.Unchanged, r.Refused, r.Unlisted)
}

func (r termsResult) Table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nchanged\t%d\nas they were before\t%d\n", r.Question, r.Changed, r.Unchanged)
	fmt.Fprintf(w, "skipped, without a value\t%d\nrefused, and left out\t%d\nevents\t%d to %d\nkey\t%s\n", r.Skipped, len(r.Refused)+r.Unlisted, r.Events.First, r.Events.Last, r.Key)
	tableReasons(w, r.Refused)
	tableUnlisted(w, r.Unlisted, r.Key)
}
