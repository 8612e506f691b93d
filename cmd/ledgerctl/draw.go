package main

import (
	"context"
	"fmt"

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
	Out      input.Output    `flag:"out,writes"`
	input.TruthFlags
	keyFlag
}

// raise runs the command raise, which raises people's responses to an ε, and with --out writes them
// to a file.
func (a *app) raise(cmd *cobra.Command, _ []string, f *raiseFlags) error {
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		done, err := a.draw(ctx, l, f)
		if err != nil {
			return "", nil, err
		}
		err = f.Out.SaveCSV(f.Columns.Raw, func(out input.RowWriter) error { return f.write(ctx, l, done.Last, out) })
		a.endRefused(f.Question, done.Drawn+done.Reused+done.Derived, done.Refused, done.Unlisted)
		return "the raise is done", a.raised(f, done), output.Unfinished("the raise is done, but its file is not "+
			"written", 0, err)
	})
}

// draw makes the request of a raise.
func (a *app) draw(ctx context.Context, l backend, f *raiseFlags) (api.RaiseResult, error) {
	done, err := l.Raise(ctx, api.RaiseRequest{
		Key: a.key, Question: f.Question, Epsilon: f.To, Objects: f.Objects, All: f.Objects == nil,
		Partial: f.Partial, Truth: f.Source(a.Files, l, f.Partial).Ask, Progress: a.Progress("raising"),
	})
	a.WarnTruths(done.TruthChanged, done.TruthInvalid)
	return done, output.Refusal(atLevels(ctx, l, f.Question, f.To, err), f.Partial)
}

// raised returns the result of a raise as it is printed.
func (a *app) raised(f *raiseFlags, done api.RaiseResult) (out output.Fields) {
	out.Add("question", "question", f.Question)
	out.Add("epsilon", "ε", f.To)
	out.InlineDone(done, "drawn drawn, and charged", "reused recorded before", "derived derived from a higher ε")
	addRefused(&out, done.Refused, done.Unlisted, a.key)
	out.Add("key", "key", a.key)
	out.AddNonZero("out", "responses", f.Out.Path)
	return out
}

// write writes a CSV file of the responses that a raise recorded or reused: those of the objects in
// the request, or of all. last is the last event of the raise.
func (f *raiseFlags) write(ctx context.Context, l backend, last uint64, out input.RowWriter) error {
	isWanted := among(f.Objects)
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
		// Responses of later requests are left out, so that a repeated request writes the same
		// file.
		if r.Event > last || f.Objects != nil && !isWanted(r.Object) {
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

// advance runs the command advance, which draws what policies have released so far.
func (a *app) advance(cmd *cobra.Command, _ []string, f *advanceFlags) error {
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		truth := f.Source(a.Files, l, true)
		if f.Question == "" {
			all, err := api.Collect(l.Questions(ctx))
			if err != nil {
				return "", nil, err
			}
			truth.Several = len(all) > 1 // then each question needs a column of its own name
		}
		done, err := l.Advance(ctx, api.AdvanceRequest{Key: a.key, Question: f.Question, Truth: truth.Ask,
			Progress: a.Progress("advancing")})
		for _, q := range done.Questions {
			a.WarnTruths(q.TruthChanged, q.TruthInvalid)
		}
		var out output.Fields
		out.InlineDone(done)
		out.Add("key", "key", a.key)
		out.Section(func(t *output.Table) { tableAdvanced(t, done.Questions, a.key) })
		return "the sweep is done", out, err
	})
}

// tableAdvanced writes what a sweep has done in each question, with the refusals. key is the key of
// the request.
func tableAdvanced(t *output.Table, questions []api.Advanced, key string) {
	t.Line("")
	if len(questions) == 0 {
		t.Line("No person is enrolled.")
		return
	}
	t.Row("QUESTION", "RAISED", "UNCHANGED", "REFUSED")
	for _, q := range questions {
		t.Row(q.Question, q.Raised, q.Unchanged, len(q.Refused)+q.Unlisted)
	}
	for _, q := range questions {
		if len(q.Refused)+q.Unlisted > 0 {
			t.Line("")
			t.Line("question %s:", q.Question)
			tableRefused(t, q.Refused, 0, new(api.RefusedError).SumsWith(q.Refused...))
			tableUnlisted(t, q.Unlisted, key)
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

// answer runs the command answer, which answers a query about a panel. With --quote it only prints
// what the answer would cost.
func (a *app) answer(cmd *cobra.Command, _ []string, f *answerFlags) error {
	if err := input.CheckStdin(f.Objects, f.Truth); err != nil {
		return err
	}
	people, err := a.panel(cmd.Context(), f.Objects, f.Question, input.Columns{IDColumn: f.Columns.IDColumn})
	if err != nil {
		return err
	}
	r := api.AnswerRequest{
		Key: a.key, Question: f.Question, Query: f.Query, Epsilon: f.Epsilon, Objects: people, All: people == nil,
		Partial: f.Partial, AcceptLoss: f.AcceptLoss,
	}
	if f.Quote {
		return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
			quote, err := l.QuoteAnswer(ctx, r)
			return answerQuote{r, quote}.result(l.About().Currency), err
		})
	}
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		r.Truth = f.Source(a.Files, l, r.Partial).Ask
		done, err := l.Answer(ctx, r)
		a.WarnTruths(done.TruthChanged, done.TruthInvalid)
		return fmt.Sprintf("the answer is event %d", done.Event), answered(r, done), output.Refusal(err, r.Partial)
	})
}

// answered returns the result of an answer as it is printed.
func answered(r api.AnswerRequest, done api.AnswerResult) (out output.Fields) {
	out.Add("question", "question", r.Question)
	out.Add("query", "query", r.Query)
	out.Inline(done, "answer", "epsilon", "objects people in the panel", "event")
	charged := done.Charged.String()
	if done.Charged.IsZero() {
		charged = free
	}
	out.Add("", "charged to each", charged)
	addRefused(&out, done.Refused, 0, r.Key)
	out.Add("key", "key", r.Key)
	return out
}

// free explains why an answer costs nothing.
const free = "nothing: the answer is, or follows from, one given before"

// answerQuote is the quote of an answer.
type answerQuote struct {
	request api.AnswerRequest
	api.AnswerQuote
}

// result returns the quote as it is printed.
func (q answerQuote) result(currency string) (out output.Fields) {
	out.Add("question", "question", q.request.Question)
	out.Add("query", "query", q.request.Query)
	out.Add("epsilon", "ε", q.request.Epsilon)
	out.Inline(q.AnswerQuote, "objects people in the panel")
	before := "no"
	if !q.Held.IsZero() {
		before = fmt.Sprintf("up to ε=%s", q.Held)
	}
	out.Add("", "answered already", before)
	out.Add("", "would be charged to each", q.charge())
	if q.NotRaised != nil {
		out.Add("not_raised", "", q.NotRaised.Error())
	}
	lost, refused := fmt.Sprint(len(q.Displaced)), fmt.Sprint(len(q.Refused)+q.Unlisted)
	if len(q.Displaced) > 0 && !q.request.AcceptLoss {
		lost += ", so that nothing would be answered; --accept-loss answers nevertheless"
	}
	if len(q.Refused) > 0 && !q.request.Partial && !q.Charge.IsZero() {
		refused += ", and the request with them; --partial leaves them out"
	}
	out.Add("", "ε on offer that would be lost", lost)
	out.Add("", "would be refused", refused)
	out.Section(func(t *output.Table) {
		tableFirst(t, "epsilon=lost_ε question objects=people revenue", currency, q.Displaced)
		tableRefused(t, q.Refused, q.Unlisted, q.Sums)
	})
	return out
}

// charge describes the charge, and compares it with the charge of a new draw.
func (q answerQuote) charge() string {
	switch {
	case q.Charge.IsZero():
		return free
	case q.Charge.Less(q.NewDraw):
		const text = "%s, because the answer at ε=%s is raised (a new draw would cost %s)"
		return fmt.Sprintf(text, q.Charge, q.Held, q.NewDraw)
	case q.NotRaised != nil:
		return fmt.Sprintf("%s, drawn again: %s", q.Charge, q.NotRaised)
	}
	return q.Charge.String()
}
