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

// answerFlags are the flags of answer.
type answerFlags struct {
	csv.TruthFlags
	question, query, objects, key string
	epsilon                       privacy.Epsilon
	partial, quote, acceptLoss    bool
}

func (a *app) answerCommand() *cobra.Command {
	f := &answerFlags{}
	cmd := &cobra.Command{
		Use:   "answer",
		Short: "Answer a query about the true values of many people",
		Long: `Answer one query about the true values of a panel of people, all who are enrolled or those of a
file, with ε-differential privacy. The queries are

  majority:VALUE     do more than half of them have VALUE?
  threshold:VALUE:N  do at least N of them have VALUE?
  winner             which value is the commonest?
  plurality          the same; errors favour common values, but the true answer is mostly less likely

The more of them would have to change their values to change the answer, the likelier the true one is
given. How many that are is printed nowhere. Who belongs to the panel is not hidden.

Each member of the panel is charged ε, beside what raises and other answers cost. To ask the same again
about the same panel at the same ε, or a lower one, is free: the answer is handed out again, or one is
derived from it. At a higher ε a majority or threshold is raised, and only the difference is charged; so is a
winner or plurality of two values. One of more values, and one that leaves somebody out, is drawn anew and charged
in full. A query that no change of values could decide otherwise is charged all the same.

--quote says what the answer would cost, beside what it would cost to draw it anew, and who would be refused. It
charges nobody and draws nothing. The file with the true values is not opened, so nobody is refused for want of one.

An answer is spent beside what is sold, so that even a small one may leave people too little for the highest ε
that their policies offer. Then nobody is charged and the exit code is 3, unless --accept-loss is given. --quote
lists what would be lost ("displaced"): each ε on offer, of which question, for how many people, and what a buyer
who holds nothing would pay for it. Of one question the amounts do not add up: a buyer pays for the highest ε only.

If anybody would go over a ceiling, nobody is charged and the exit code is 3; with --partial, those
people are left out of the panel. An answer that leaves somebody out and one that does not are not the same,
and both are charged; where nobody is left out, --partial makes no difference.

` + csv.TruthHelp,
		Example: `  ledgerctl answer --question vote --query majority:Y --epsilon 0.5 --truth people.csv --value-column vote
  ledgerctl answer --question vote --query winner --epsilon 0.5 --truth people.csv --id-column name --objects some.csv
  ledgerctl answer --question vote --query majority:Y --epsilon 1 --quote`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.answer(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.question, "question", "", "the question's `NAME`")
	flags.StringVar(&f.query, "query", "", "the `QUERY`: majority:VALUE, threshold:VALUE:N, winner or plurality")
	flags.TextVar(&f.epsilon, "epsilon", privacy.Epsilon{}, "the ε, `E`, of the answer")
	f.TruthFlags.Flags(flags)
	flags.StringVar(&f.objects, "objects", "", "the CSV `FILE` with the panel, by the same --id-column (default: all who are enrolled)")
	flags.BoolVar(&f.partial, "partial", false, "leave out those who are refused")
	flags.BoolVar(&f.quote, "quote", false, "say what the answer would cost, and whom it would be refused, and charge nobody")
	flags.BoolVar(&f.acceptLoss, "accept-loss", false, "answer even if that takes an ε on offer off the market")
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
	files.Mark(flags, files.Reads, files.ByName, "objects")
	require(cmd, "question", "query", "epsilon")
	return cmd
}

func (a *app) answer(cmd *cobra.Command, f *answerFlags) error {
	key, err := keyOr(cmd, f.key)
	if err != nil {
		return err
	}
	if err := csv.CheckStdin(f.objects, f.Truth); err != nil {
		return err
	}
	panel, err := csv.Panel(cmd.Context(), a.Files, f.objects, f.Columns.IDs())
	if err != nil {
		return err
	}
	request := ledger.AnswerRequest{
		Key: key, Question: f.question, Query: f.query, Epsilon: f.epsilon,
		Objects: panel, All: panel == nil, Partial: f.partial, AcceptLoss: f.acceptLoss,
	}
	if f.quote {
		return a.quoteAnswer(cmd.Context(), f, request)
	}
	out := answerResult{Question: f.question, Query: f.query, Key: key}
	err = a.with(cmd.Context(), writing, func(l book) error {
		if err := f.checkPeople(cmd.Context(), l, panel); err != nil {
			return err
		}
		request.Truth = f.Source(a.Files, l, f.partial).Ask
		out.AnswerResult, err = l.Answer(cmd.Context(), request)
		a.WarnTruths(out.TruthChanged, out.TruthInvalid)
		return fault.WithKey(key, fault.Refusal(err, f.partial))
	})
	if err != nil {
		return err
	}
	out.Refused, out.Sums = append([]ledger.Refusal{}, out.Refused...), vocabulary.SumRefusals(out.Refused)
	return a.PrintDone(fmt.Sprintf("the answer is event %d", out.Event), key, out)
}

// checkPeople refuses a file none of whose people takes part.
func (f *answerFlags) checkPeople(ctx context.Context, l book, panel []string) error {
	return f.Columns.CheckPeople(ctx, l, f.objects, f.question, panel)
}

type answerResult struct {
	Question string `json:"question"`
	Query    string `json:"query"`
	ledger.AnswerResult
	Sums []ledger.RefusalSum `json:"sums,omitempty"` // of the refused, by reason
	Key  string              `json:"key"`
}

func (r answerResult) Table(w io.Writer) {
	charged := r.Charged.String()
	if r.Charged.IsZero() {
		charged = "nothing: the answer is, or follows from, one given before"
	}
	fmt.Fprintf(w, "question\t%s\nquery\t%s\nanswer\t%s\nε\t%s\n", r.Question, r.Query, r.Answer, r.Epsilon)
	fmt.Fprintf(w, "people in the panel\t%d\ncharged to each\t%s\n", r.Objects, charged)
	fmt.Fprintf(w, "refused, and left out\t%d\nevent\t%d\nkey\t%s\n", len(r.Refused), r.Event, r.Key)
	tableRefusals(w, r.Refused)
}

// quoteAnswer says what an answer would cost.
func (a *app) quoteAnswer(ctx context.Context, f *answerFlags, r ledger.AnswerRequest) error {
	out := answerQuoteResult{Question: r.Question, Query: r.Query, Epsilon: r.Epsilon, partial: r.Partial, accepted: r.AcceptLoss}
	err := a.with(ctx, reading, func(l book) error {
		if err := f.checkPeople(ctx, l, r.Objects); err != nil {
			return err
		}
		quote, err := l.QuoteAnswer(ctx, r)
		out.Objects, out.Charge, out.Anew, out.Held = quote.Objects, quote.Charge, quote.Anew, quote.Held
		out.Displaced, out.currency = append([]ledger.Displaced{}, quote.Displaced...), l.About().Currency
		out.Refused, out.Unlisted, out.Sums = append([]ledger.Refusal{}, quote.Refused...), quote.Unlisted, quote.Sums
		if quote.NotRaised != nil {
			out.NotRaised = quote.NotRaised.Error()
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(out)
}

// answerQuoteResult is what an answer would cost.
type answerQuoteResult struct {
	Question  string              `json:"question"`
	Query     string              `json:"query"`
	Epsilon   privacy.Epsilon     `json:"epsilon"`
	Objects   uint64              `json:"objects"`              // without those refused
	Charge    privacy.Epsilon     `json:"charge"`               // to each
	Anew      privacy.Epsilon     `json:"anew"`                 // what it would be if the answer at Held were not raised
	Held      privacy.Epsilon     `json:"held"`                 // the highest ε at which it is answered, or 0
	NotRaised string              `json:"not_raised,omitempty"` // why that answer is not raised
	Displaced []ledger.Displaced  `json:"displaced"`            // what would be lost of what is on offer
	Refused   []ledger.Refusal    `json:"refused"`              // the first of them
	Unlisted  int                 `json:"unlisted,omitempty"`   // refused, too
	Sums      []ledger.RefusalSum `json:"sums,omitempty"`       // of the refused, by reason

	partial, accepted bool
	currency          string
}

func (r answerQuoteResult) Table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nquery\t%s\nε\t%s\n", r.Question, r.Query, r.Epsilon)
	fmt.Fprintf(w, "people in the panel\t%d\nanswered already\t%s\nwould be charged to each\t%s\n", r.Objects, r.held(), r.charge())
	fmt.Fprintf(w, "ε on offer that would be lost\t%d%s\n", len(r.Displaced), r.loss())
	fmt.Fprintf(w, "would be refused\t%d%s\n", len(r.Refused)+r.Unlisted, r.consequence())
	tableDisplaced(w, r.Displaced, r.currency)
	tableRefused(w, r.Refused, r.Unlisted, r.Sums)
}

// loss says what becomes of the answer if something would be lost.
func (r answerQuoteResult) loss() string {
	if len(r.Displaced) == 0 || r.accepted {
		return ""
	}
	return ", so that nothing would be answered; --accept-loss answers all the same"
}

// tableDisplaced writes what of what is on offer would be lost, if anything.
func tableDisplaced(w io.Writer, displaced []ledger.Displaced, currency string) {
	if len(displaced) == 0 {
		return
	}
	fmt.Fprintf(w, "\nLOST ε\tQUESTION\tPEOPLE\t%s\n", priceHeader(currency))
	for i, one := range displaced {
		if i == mostRefusals {
			fmt.Fprintf(w, "… and %d more; --json lists them\n", len(displaced)-mostRefusals)
			return
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", one.Epsilon, one.Question, one.Objects, one.Revenue)
	}
}

func (r answerQuoteResult) held() string {
	if r.Held.IsZero() {
		return "no"
	}
	return fmt.Sprintf("up to ε=%s", r.Held)
}

// charge puts the charge in words, beside what it would be without the answer before.
func (r answerQuoteResult) charge() string {
	switch {
	case r.Charge.IsZero():
		return "nothing: the answer is, or follows from, one given before"
	case r.Charge.Less(r.Anew):
		return fmt.Sprintf("%s, as the answer at ε=%s is raised (drawn anew it would be %s)", r.Charge, r.Held, r.Anew)
	case r.NotRaised != "":
		return fmt.Sprintf("%s, drawn anew: %s", r.Charge, r.NotRaised)
	}
	return r.Charge.String()
}

// consequence says what becomes of the others if somebody would be refused.
func (r answerQuoteResult) consequence() string {
	if len(r.Refused) == 0 || r.partial || r.Charge.IsZero() {
		return ""
	}
	return ", so that nobody would be answered for; --partial leaves them out"
}
