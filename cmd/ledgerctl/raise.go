package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// raiseFlags are the flags of raise.
type raiseFlags struct {
	csv.TruthFlags
	question, key, out string
	to                 privacy.Epsilon
	objects            []string
	partial            bool
}

func (a *app) raiseCommand() *cobra.Command {
	f := &raiseFlags{}
	cmd := &cobra.Command{
		Use:   "raise",
		Short: "Bring people's responses to a question to a higher ε",
		Long: `Bring the responses of people to a question to ε: of all who are enrolled, or of those named with
--object. Whoever is below is drawn anew, from the true value and the response so far, and pays the
difference. Whoever is at ε, or above, costs nothing and needs no true value: the recorded response
is handed out again, or one is derived from it.

If anybody would go over a ceiling, nobody is drawn and the exit code is 3; with --partial, those
people are left out, and the exit code is 3 only if that is everybody. The same command with the same --key does nothing twice, and goes on where it
was interrupted.

The file of --out has the responses recorded at ε by then. Without --object those of people who have withdrawn are among them:
what was released stays released. The columns besides object and response are those of "ledgerctl help sell".

` + csv.TruthHelp,
		Example: `  ledgerctl raise --question vote --to 0.5 --truth people.csv --value-column vote --out half.csv
  ledgerctl raise --question vote --to 1 --truth people.csv --value-column vote --object 17 --object 18`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.raise(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "the question's `NAME`")
	flags.TextVar(&f.to, "to", privacy.Epsilon{}, "the ε, `E`, to raise to")
	f.TruthFlags.Flags(flags)
	flags.StringArrayVar(&f.objects, "object", nil, "the `ID` of a person; may be repeated (default: all who are enrolled)")
	flags.BoolVar(&f.partial, "partial", false, "leave out those who are refused")
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
	flags.StringVar(&f.out, "out", "", "write the responses to a CSV `FILE` that only its owner can read; an existing one is replaced; - is standard output")
	files.Mark(flags, files.Writes, files.ByName, "out")
	require(cmd, "question", "to")
	return cmd
}

func (a *app) raise(cmd *cobra.Command, f *raiseFlags) error {
	key, err := keyOr(cmd, f.key)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", f.out)
	if err != nil {
		return err
	}
	defer file.Discard()
	var out raiseResult
	err = a.with(cmd.Context(), writing, func(l book) error {
		done, err := a.draw(cmd.Context(), l, key, f)
		if err == nil {
			err = fault.Unfinished("the raise is done, but its file is not", 0, csv.Save(file, f.Columns.Raw, func(out csv.Writer) error { return f.write(cmd.Context(), l, done.Last, out) }))
		}
		out = newRaiseResult(f, key, done)
		return fault.WithKey(key, err)
	})
	if err != nil {
		return err
	}
	if err := a.PrintDone("the raise is done", key, out); err != nil {
		return err
	}
	return out.refusal()
}

// refusal is the error of a raise that leaves everybody out.
func (r raiseResult) refusal() error {
	return refusedAll(r.Question, r.Drawn+r.Reused+r.Derived, r.Refused, r.Unlisted)
}

func (a *app) draw(ctx context.Context, l book, key string, f *raiseFlags) (ledger.RaiseResult, error) {
	shown, progress := a.progress("raising")
	defer shown.Clear()
	done, err := l.Raise(ctx, ledger.RaiseRequest{
		Key: key, Question: f.question, Epsilon: f.to, Objects: f.objects, All: f.objects == nil,
		Partial: f.partial, Truth: f.Source(a.Files, l, f.partial).Ask, Progress: progress,
	})
	a.WarnTruths(done.TruthChanged, done.TruthInvalid)
	return done, fault.Refusal(atLevels(ctx, l, f.question, f.to, err), f.partial)
}

// write writes the responses that a raise brought about or found.
func (f *raiseFlags) write(ctx context.Context, l book, last uint64, out csv.Writer) error {
	wanted := make(map[string]bool, len(f.objects))
	for _, object := range f.objects {
		wanted[object] = true
	}
	channel, err := channelAt(ctx, l, f.question, f.to)
	if err != nil {
		return err
	}
	if err := out.Row(append([]string{"object", "response"}, channelColumns()...)...); err != nil {
		return err
	}
	for r, err := range l.Responses(ctx, f.question, f.to) {
		if err != nil {
			return err
		}
		// What later requests recorded is not part of this one, however often it is repeated.
		if r.Event > last || f.objects != nil && !wanted[r.Object] {
			continue
		}
		if err := out.Row(append([]string{r.Object, r.Value}, channelCells(r, channel)...)...); err != nil {
			return err
		}
	}
	return nil
}

// raiseResult is what a raise did.
type raiseResult struct {
	Question string              `json:"question"`
	Epsilon  privacy.Epsilon     `json:"epsilon"`
	Drawn    int                 `json:"drawn"`
	Reused   int                 `json:"reused"`
	Derived  int                 `json:"derived"`
	Refused  []ledger.Refusal    `json:"refused"`
	Sums     []ledger.RefusalSum `json:"sums,omitempty"`     // of those listed, by reason
	Unlisted int                 `json:"unlisted,omitempty"` // refused, too
	Events   span                `json:"events"`
	Key      string              `json:"key"`
	Out      string              `json:"out,omitempty"` // the file with the responses
}

// span is a range of events.
type span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

func newRaiseResult(f *raiseFlags, key string, done ledger.RaiseResult) raiseResult {
	return raiseResult{
		Question: f.question, Epsilon: f.to, Drawn: done.Drawn, Reused: done.Reused, Derived: done.Derived,
		Refused: append([]ledger.Refusal{}, done.Refused...), Sums: vocabulary.SumRefusals(done.Refused), Unlisted: done.Unlisted, Events: span{done.First, done.Last}, Key: key, Out: f.out,
	}
}

func (r raiseResult) Table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nε\t%s\n", r.Question, r.Epsilon)
	fmt.Fprintf(w, "drawn, and charged\t%d\nrecorded before\t%d\nderived from a higher ε\t%d\n", r.Drawn, r.Reused, r.Derived)
	fmt.Fprintf(w, "refused, and left out\t%d\nevents\t%d to %d\nkey\t%s\n", len(r.Refused)+r.Unlisted, r.Events.First, r.Events.Last, r.Key)
	if r.Out != "" {
		fmt.Fprintf(w, "responses\t%s\n", r.Out)
	}
	tableRefusals(w, r.Refused)
	tableUnlisted(w, r.Unlisted, r.Key)
}
