package ledgerclient

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/internal/api"
	"github.com/sluicedp/sluice/ledger/observe"
)

// What the host asks.

// Stats is [ledger.Ledger.Stats].
func (c *Client) Stats(ctx context.Context) (s ledger.Stats, err error) {
	err = c.get(ctx, "/v1/stats", nil, &s)
	return s, err
}

// Health is [ledger.Ledger.Health], of the server's ledger.
func (c *Client) Health(ctx context.Context) (observe.Health, error) {
	var out api.Health
	if err := c.get(ctx, "/v1/health", nil, &out); err != nil {
		return observe.Health{}, err
	}
	if out.Stopped != nil {
		return out.Health, out.Stopped
	}
	return out.Health, nil
}

// Questions is [ledger.Ledger.Questions].
func (c *Client) Questions(ctx context.Context) ([]ledger.Question, error) {
	var out api.Questions
	err := c.get(ctx, "/v1/questions", nil, &out)
	return listed(out.Questions), err
}

// listed returns a list as the ledger does: nil if it is empty.
func listed[T any](all []T) []T {
	if len(all) == 0 {
		return nil
	}
	return all
}

// DefineQuestion is [ledger.Ledger.DefineQuestion].
func (c *Client) DefineQuestion(ctx context.Context, key string, q ledger.Question) error {
	return c.change(ctx, "/v1/questions", key, api.NewQuestion(q), &api.Done{})
}

// Enroll is [ledger.Ledger.Enroll].
func (c *Client) Enroll(ctx context.Context, r ledger.EnrollRequest) (ledger.EnrollResult, error) {
	in := api.Enrolment{Question: r.Question, Objects: r.Objects, Policy: r.Policy, Cap: r.Cap, Partial: r.Partial, New: r.New, DryRun: r.DryRun}
	if r.Terms != nil {
		in.Terms = map[string]api.Terms{}
		for _, object := range slices.Sorted(slices.Values(r.Objects)) {
			if _, twice := in.Terms[object]; !twice {
				ceiling, largest := r.Terms(object)
				in.Terms[object] = api.Terms{Policy: ceiling, Cap: largest}
			}
		}
	}
	var out api.Enrolled
	err := c.change(ctx, "/v1/enrolments", r.Key, in, &out)
	out.Refused = listed(out.Refused)
	return ledger.EnrollResult(out), err
}

// ChangeTerms is [ledger.Ledger.ChangeTerms], but for its progress.
func (c *Client) ChangeTerms(ctx context.Context, r ledger.ChangeTermsRequest) (ledger.ChangeTermsResult, error) {
	in := api.NewTerms{Question: r.Question, Objects: r.Objects, Cap: r.Cap, Consent: r.Consent, Partial: r.Partial}
	if r.Policy != nil {
		in.Policy, in.NoPolicy = *r.Policy, r.Policy.IsZero()
	}
	var out api.TermsChanged
	err := c.change(ctx, "/v1/terms", r.Key, in, &out)
	out.Refused = listed(out.Refused)
	return ledger.ChangeTermsResult(out), err
}

// Reconcile is [ledger.Ledger.Reconcile], but for its progress. The table goes to the server in one request, and must fit into it. Confirm is told
// what a dry run says; if anything else is to be done by then, nothing is, and the error is a [problem.Changed].
func (c *Client) Reconcile(ctx context.Context, r ledger.ReconcileRequest) (out ledger.ReconcileResult, err error) {
	if r.Members == nil {
		return out, fmt.Errorf("%w: no table is given", ledger.ErrInvalid)
	}
	in := api.Reconcile{AsOf: r.AsOf, DryRun: r.DryRun, Withdraw: r.Withdraw, Gone: r.Gone, Members: []api.Member{}}
	if in.AsOf == 0 { // the table is read now, and not when it arrives
		now, err := c.Stats(ctx)
		if err != nil {
			return out, err
		}
		in.AsOf = now.Events
	}
	for row, err := range r.Members {
		if err != nil {
			return out, err
		}
		in.Members = append(in.Members, api.Member(row))
	}
	if r.Confirm != nil {
		plan, err := c.reconcile(ctx, in, true)
		if err == nil {
			err = r.Confirm(plan)
		}
		if err != nil {
			return out, err
		}
		in.Expected = &plan
	}
	return c.reconcile(ctx, in, r.DryRun)
}

func (c *Client) reconcile(ctx context.Context, in api.Reconcile, dry bool) (out ledger.ReconcileResult, err error) {
	in.DryRun = dry
	err = c.post(ctx, "/v1/reconciliations", in, &out)
	out.Gone.First = listed(out.Gone.First)
	for i := range out.Questions {
		q := &out.Questions[i]
		q.Refused = listed(q.Refused)
		for _, list := range []*ledger.NameList{&q.New, &q.Changed, &q.Left, &q.Dropped} {
			list.First = listed(list.First)
		}
	}
	return out, err
}

// Release is [ledger.Ledger.Release]. A true value goes along with the request, whether it is needed or not.
func (c *Client) Release(ctx context.Context, r ledger.ReleaseRequest) (out ledger.Response, err error) {
	send := func(truths map[string]api.Truths) error {
		return c.change(ctx, "/v1/releases", r.Key, api.Release{Question: r.Question, Object: r.Object, Epsilon: r.Epsilon, Truths: one(truths)}, &out)
	}
	switch {
	case r.TrueValue == "":
		err = telling{truth: r.Truth, send: send}.run(ctx)
	case r.Truth != nil:
		err = fmt.Errorf("%w: a release with a true value, and with a source of one", ledger.ErrInvalid)
	default:
		err = send(map[string]api.Truths{r.Question: {r.Object: sendable(r.TrueValue)}})
	}
	return out, err
}

// Raise is [ledger.Ledger.Raise], but for its progress.
func (c *Client) Raise(ctx context.Context, r ledger.RaiseRequest) (ledger.RaiseResult, error) {
	var out api.Raised
	err := telling{truth: r.Truth, send: func(truths map[string]api.Truths) error {
		return c.change(ctx, "/v1/raises", r.Key, api.Raise{
			Question: r.Question, Epsilon: r.Epsilon, Panel: api.Panel{Objects: r.Objects, All: r.All, Partial: r.Partial}, Truths: one(truths),
		}, &out)
	}}.run(ctx)
	return ledger.RaiseResult{
		Drawn: out.Drawn, Reused: out.Reused, Derived: out.Derived, Refused: listed(out.Refused), Unlisted: out.Unlisted,
		TruthChanged: out.TruthChanged, TruthInvalid: out.TruthInvalid, First: out.First, Last: out.Last,
	}, err
}

// Advance is [ledger.Ledger.Advance], but for its progress.
func (c *Client) Advance(ctx context.Context, r ledger.AdvanceRequest) (ledger.AdvanceResult, error) {
	all, err := c.Questions(ctx)
	if err != nil {
		return ledger.AdvanceResult{}, err
	}
	var out api.Advanced
	// A sweep goes on part by part, and asks about each at most once for each question: what is older is carried out, and not sent again.
	err = telling{truth: r.Truth, keep: len(all) + 1, send: func(truths map[string]api.Truths) error {
		return c.change(ctx, "/v1/advances", r.Key, api.Advance{Question: r.Question, Truths: truths}, &out)
	}}.run(ctx)
	done := ledger.AdvanceResult{First: out.First, Last: out.Last}
	for _, one := range out.Questions {
		one.Advanced.Refused, one.Advanced.TruthChanged, one.Advanced.TruthInvalid = listed(one.Advanced.Refused), one.TruthChanged, one.TruthInvalid
		done.Questions = append(done.Questions, one.Advanced)
	}
	return done, err
}

func inquiry(r ledger.AnswerRequest) api.Inquiry {
	return api.Inquiry{Question: r.Question, Query: r.Query, Epsilon: r.Epsilon, Panel: api.Panel{Objects: r.Objects, All: r.All, Partial: r.Partial}, AcceptLoss: r.AcceptLoss}
}

// Answer is [ledger.Ledger.Answer].
func (c *Client) Answer(ctx context.Context, r ledger.AnswerRequest) (ledger.AnswerResult, error) {
	var out api.Answered
	err := telling{truth: r.Truth, send: func(truths map[string]api.Truths) error {
		in := inquiry(r)
		in.Truths = one(truths)
		return c.change(ctx, "/v1/answers", r.Key, in, &out)
	}}.run(ctx)
	out.AnswerResult.Refused, out.AnswerResult.TruthChanged, out.AnswerResult.TruthInvalid = listed(out.Refused), out.TruthChanged, out.TruthInvalid
	return out.AnswerResult, err
}

// QuoteAnswer is [ledger.Ledger.QuoteAnswer]. Why an answer is not raised is a [*problem.Problem], which wraps what the ledger says.
func (c *Client) QuoteAnswer(ctx context.Context, r ledger.AnswerRequest) (ledger.AnswerQuote, error) {
	var out api.AnswerQuote
	err := c.post(ctx, "/v1/answers/quotes", inquiry(r), &out)
	q := ledger.AnswerQuote{
		Objects: out.Objects, Charge: out.Charge, Held: out.Held, Anew: out.Anew, Displaced: listed(out.Displaced), Refused: listed(out.Refused), Unlisted: out.Unlisted, Sums: out.Sums, Event: out.Event,
	}
	if out.NotRaised != nil {
		q.NotRaised = out.NotRaised
	}
	return q, err
}

// BeginEpoch is [ledger.Ledger.BeginEpoch].
func (c *Client) BeginEpoch(ctx context.Context, key, question, object string) error {
	return c.change(ctx, "/v1/epochs", key, api.Epoch{Object: object, Question: question}, &api.Done{})
}

// Withdraw is [ledger.Ledger.Withdraw].
func (c *Client) Withdraw(ctx context.Context, key, object string) error {
	return c.change(ctx, "/v1/withdrawals", key, api.Object{Object: object}, &api.Done{})
}

// Forget is [ledger.Ledger.Forget].
func (c *Client) Forget(ctx context.Context, key, object string) error {
	return c.change(ctx, "/v1/forgettings", key, api.Object{Object: object}, &api.Done{})
}

// Compact is [ledger.Ledger.Compact], but for its progress.
func (c *Client) Compact(ctx context.Context, _ ledger.Progress) error {
	return c.post(ctx, "/v1/compactions", api.Done{}, &api.Compacted{})
}

// Object is [ledger.Ledger.Object].
func (c *Client) Object(ctx context.Context, name string) (o ledger.ObjectState, err error) {
	err = c.get(ctx, "/v1/object", url.Values{"object": {name}}, &o)
	return o, err
}

// Estimate is [ledger.Ledger.Estimate]. Include is not possible.
func (c *Client) Estimate(ctx context.Context, r ledger.EstimateRequest) (e ledger.Estimate, err error) {
	if r.Include != nil {
		return e, fmt.Errorf("%w: an estimate of a ledger elsewhere cannot be limited by a function", ledger.ErrInvalid)
	}
	query := url.Values{"question": {r.Question}}
	if !r.Epsilon.IsZero() {
		query.Set("epsilon", r.Epsilon.String())
	}
	if r.Confidence != 0 {
		query.Set("confidence", strconv.FormatFloat(r.Confidence, 'g', -1, 64))
	}
	if r.Pool {
		query.Set("pool", "true")
	}
	if r.Population {
		query.Set("population", "true")
	}
	err = c.get(ctx, "/v1/estimate", query, &e)
	return e, err
}

// Levels is [ledger.Ledger.Levels].
func (c *Client) Levels(ctx context.Context, question string) ([]ledger.LevelCount, error) {
	var out api.Levels
	err := c.get(ctx, "/v1/levels", url.Values{"question": {question}}, &out)
	return listed(out.Levels), err
}

// TakeOver has the standby at the address take over: [ledger.Ledger.TakeOver]. From then on the client is one of the ledger that goes on, whose last event
// is returned.
func (c *Client) TakeOver(ctx context.Context) (events uint64, err error) {
	var out api.TakenOver
	err = c.post(ctx, "/v1/takeovers", api.Done{}, &out)
	return out.Events, err
}
