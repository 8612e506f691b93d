package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// raiseFlags are the flags of raise.
type raiseFlags struct {
	Question string          `flag:"question,required"`
	To       privacy.Epsilon `flag:"to,required"`
	Objects  []string        `flag:"object,repeated"`
	Partial  bool            `flag:"partial"`
	Out      string          `flag:"out,writes"`
	input.TruthFlags
	keyFlag
}

func (a *app) raise(cmd *cobra.Command, _ []string, f *raiseFlags) error {
	file, err := a.NewOutput("--out", f.Out)
	if err != nil {
		return err
	}
	defer file.Discard()
	var done api.RaiseResult
	err = a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		if done, err = a.draw(ctx, l, f); err != nil {
			return "", nil, err
		}
		err := input.SaveCSV(file, f.Columns.Raw, func(out input.RowWriter) error {
			return f.write(ctx, l, done.Last,
				out)
		})
		return "the raise is done", a.raised(f, done), output.Unfinished("the raise is done, but its file is not", 0,
			err)
	})
	if err != nil {
		return err
	}
	return refusedAll(f.Question, done.Drawn+done.Reused+done.Derived, done.Refused, done.Unlisted)
}

func (a *app) draw(ctx context.Context, l book, f *raiseFlags) (api.RaiseResult, error) {
	shown, progress := a.progress("raising")
	defer shown.Clear()
	done, err := l.Raise(ctx, api.RaiseRequest{
		Key: a.key, Question: f.Question, Epsilon: f.To, Objects: f.Objects, All: f.Objects == nil,
		Partial: f.Partial, Truth: f.Source(a.Files, l, f.Partial).Ask, Progress: progress,
	})
	a.WarnTruths(done.TruthChanged, done.TruthInvalid)
	return done, output.Refusal(atLevels(ctx, l, f.Question, f.To, err), f.Partial)
}

// raised is the result of a raise.
func (a *app) raised(f *raiseFlags, done api.RaiseResult) (out output.Fields) {
	out.Add("question", "question", f.Question)
	out.Add("epsilon", "ε", f.To)
	out.Add("drawn", "drawn, and charged", done.Drawn)
	out.Add("reused", "recorded before", done.Reused)
	out.Add("derived", "derived from a higher ε", done.Derived)
	addRefused(&out, done.Refused, done.Unlisted, a.key)
	out.Add("events", "events", span{done.First, done.Last})
	out.Add("key", "key", a.key)
	out.AddNonZero("out", "responses", f.Out)
	return out
}

// write writes the responses that a raise brought about or found.
func (f *raiseFlags) write(ctx context.Context, l book, last uint64, out input.RowWriter) error {
	wanted := make(map[string]bool, len(f.Objects))
	for _, object := range f.Objects {
		wanted[object] = true
	}
	channel, err := channelAt(ctx, l, f.Question, f.To)
	if err != nil {
		return err
	}
	if err := out.Row(append([]string{"object", "response"}, channelColumns()...)...); err != nil {
		return err
	}
	for r, err := range l.Responses(ctx, f.Question, f.To) {
		if err != nil {
			return err
		}
		// What later requests recorded is not part of this one, however often it is repeated.
		if r.Event > last || f.Objects != nil && !wanted[r.Object] {
			continue
		}
		if err := out.Row(append([]string{r.Object, r.Value}, channelCells(r, channel)...)...); err != nil {
			return err
		}
	}
	return nil
}

type advanceFlags struct {
	Question string `flag:"question"`
	input.TruthFlags
	keyFlag
	atFlag
}

func (a *app) advance(cmd *cobra.Command, _ []string, f *advanceFlags) error {
	return a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		done, err := a.sweep(ctx, l, f)
		return "the sweep is done", a.advanced(done), err
	})
}

func (a *app) sweep(ctx context.Context, l book, f *advanceFlags) (api.AdvanceResult, error) {
	truth := f.Source(a.Files, l, true)
	if f.Question == "" {
		all, err := l.Questions(ctx)
		if err != nil {
			return api.AdvanceResult{}, err
		}
		truth.Several = len(all) > 1
	}
	shown, progress := a.progress("advancing")
	defer shown.Clear()
	done, err := l.Advance(ctx, api.AdvanceRequest{Key: a.key, Question: f.Question, Truth: truth.Ask,
		Progress: progress})
	for _, q := range done.Questions {
		a.WarnTruths(q.TruthChanged, q.TruthInvalid)
	}
	return done, err
}

// advanced is the result of a sweep.
func (a *app) advanced(done api.AdvanceResult) (out output.Fields) {
	out.Add("questions", "", done.Questions)
	out.Add("events", "events", span{done.First, done.Last})
	out.Add("key", "key", a.key)
	out.Section(func(w io.Writer) { tableAdvanced(w, done.Questions, a.key) })
	return out
}

func tableAdvanced(w io.Writer, questions []api.Advanced, key string) {
	if len(questions) == 0 {
		fmt.Fprintln(w, "\nNobody is enrolled.")
		return
	}
	output.Rows(w, "\nQUESTION\tRAISED\tUNCHANGED\tREFUSED", questions, func(q api.Advanced) []any {
		return []any{q.Question, q.Raised, q.Unchanged, len(q.Refused) + q.Unlisted}
	})
	for _, q := range questions {
		if len(q.Refused)+q.Unlisted > 0 {
			fmt.Fprintf(w, "\nquestion %s:", q.Question)
			if len(q.Refused) == 0 {
				fmt.Fprintln(w)
			}
			tableRefusals(w, q.Refused)
			tableUnlisted(w, q.Unlisted, key)
		}
	}
}

// answerFlags are the flags of answer.
type answerFlags struct {
	Question   string          `flag:"question,required"`
	Query      string          `flag:"query,required"`
	Epsilon    privacy.Epsilon `flag:"epsilon,required"`
	Objects    string          `flag:"objects,reads"`
	Partial    bool            `flag:"partial"`
	Quote      bool            `flag:"quote"`
	AcceptLoss bool            `flag:"accept-loss"`
	input.TruthFlags
	keyFlag
}

func (a *app) answer(cmd *cobra.Command, _ []string, f *answerFlags) error {
	if err := input.CheckStdin(f.Objects, f.Truth); err != nil {
		return err
	}
	people, err := input.ReadPanel(cmd.Context(), a.Files, f.Objects, f.Columns.IDs())
	if err != nil {
		return err
	}
	r := api.AnswerRequest{
		Key: a.key, Question: f.Question, Query: f.Query, Epsilon: f.Epsilon, Objects: people, All: people == nil,
		Partial: f.Partial, AcceptLoss: f.AcceptLoss,
	}
	if f.Quote {
		return a.query(cmd, func(ctx context.Context, l book) (output.Result, error) {
			if err := f.Columns.CheckPeople(ctx, l, f.Objects, r.Question, r.Objects); err != nil {
				return nil, err
			}
			quote, err := l.QuoteAnswer(ctx, r)
			return answerQuote{r, quote}.result(l.About().Currency), err
		})
	}
	return a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		if err := f.Columns.CheckPeople(ctx, l, f.Objects, r.Question, r.Objects); err != nil {
			return "", nil, err
		}
		r.Truth = f.Source(a.Files, l, r.Partial).Ask
		done, err := l.Answer(ctx, r)
		a.WarnTruths(done.TruthChanged, done.TruthInvalid)
		return fmt.Sprintf("the answer is event %d", done.Event), answered(r, done), output.Refusal(err, r.Partial)
	})
}

// answered is the result of an answer.
func answered(r api.AnswerRequest, done api.AnswerResult) (out output.Fields) {
	out.Add("question", "question", r.Question)
	out.Add("query", "query", r.Query)
	out.Inline(done)
	out.AddNonZero("sums", "", api.SumRefusals(done.Refused))
	out.Add("", "answer", done.Answer)
	out.Add("", "ε", done.Epsilon)
	out.Add("", "people in the panel", done.Objects)
	if done.Charged.IsZero() {
		out.Add("", "charged to each", free)
	} else {
		out.Add("", "charged to each", done.Charged)
	}
	out.Add("", "refused, and left out", len(done.Refused))
	out.Add("", "event", done.Event)
	out.Add("key", "key", r.Key)
	out.Section(func(w io.Writer) { tableRefusals(w, done.Refused) })
	return out
}

// free says why an answer costs nothing.
const free = "nothing: the answer is, or follows from, one given before"

// answerQuote is what a request for an answer would cost.
type answerQuote struct {
	request api.AnswerRequest
	api.AnswerQuote
}

func (q answerQuote) result(currency string) (out output.Fields) {
	out.Add("question", "question", q.request.Question)
	out.Add("query", "query", q.request.Query)
	out.Add("epsilon", "ε", q.request.Epsilon)
	out.Add("objects", "people in the panel", q.Objects)
	out.Add("charge", "", q.Charge)
	out.Add("anew", "", q.Anew)
	out.Add("held", "", q.Held)
	out.Add("", "answered already", q.held())
	out.Add("", "would be charged to each", q.charge())
	if q.NotRaised != nil {
		out.Add("not_raised", "", q.NotRaised.Error())
	}
	out.Add("displaced", "", q.Displaced)
	out.Add("", "ε on offer that would be lost", fmt.Sprintf("%d%s", len(q.Displaced), q.loss()))
	out.Add("refused", "", q.Refused)
	out.AddNonZero("unlisted", "", q.Unlisted)
	out.Add("", "would be refused", fmt.Sprintf("%d%s", len(q.Refused)+q.Unlisted, q.consequence()))
	out.AddNonZero("sums", "", q.Sums)
	out.Section(func(w io.Writer) {
		tableDisplaced(w, q.Displaced, currency)
		tableRefused(w, q.Refused, q.Unlisted, q.Sums)
	})
	return out
}

// loss says what becomes of the answer if something would be lost.
func (q answerQuote) loss() string {
	if len(q.Displaced) == 0 || q.request.AcceptLoss {
		return ""
	}
	return ", so that nothing would be answered; --accept-loss answers all the same"
}

// tableDisplaced writes what of what is on offer would be lost, if anything.
func tableDisplaced(w io.Writer, displaced []api.Displaced, currency string) {
	if len(displaced) == 0 {
		return
	}
	fmt.Fprintf(w, "\nLOST ε\tQUESTION\tPEOPLE\t%s\n", priceHeader(currency))
	for _, one := range displaced[:min(len(displaced), mostRefusals)] {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", one.Epsilon, one.Question, one.Objects, one.Revenue)
	}
	tableMore(w, len(displaced)-mostRefusals)
}

func (q answerQuote) held() string {
	if q.Held.IsZero() {
		return "no"
	}
	return fmt.Sprintf("up to ε=%s", q.Held)
}

// charge puts the charge in words, beside what it would be without the answer before.
func (q answerQuote) charge() string {
	switch {
	case q.Charge.IsZero():
		return free
	case q.Charge.Less(q.Anew):
		return fmt.Sprintf("%s, as the answer at ε=%s is raised (drawn anew it would be %s)", q.Charge, q.Held, q.Anew)
	case q.NotRaised != nil:
		return fmt.Sprintf("%s, drawn anew: %s", q.Charge, q.NotRaised)
	}
	return q.Charge.String()
}

// consequence says what becomes of the others if an object would be refused.
func (q answerQuote) consequence() string {
	if len(q.Refused) == 0 || q.request.Partial || q.Charge.IsZero() {
		return ""
	}
	return ", so that nobody would be answered for; --partial leaves them out"
}
