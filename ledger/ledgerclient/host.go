package ledgerclient

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Methods for the host.

// Stats is [ledger.Ledger.Stats].
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	return get[api.Stats](ctx, c, "/v1/stats", nil)
}

// Health is [ledger.Ledger.Health] of the server's ledger.
func (c *Client) Health(ctx context.Context) (observe.Health, error) {
	// For a ledger that has stopped, the server sends the error of Health inside the result.
	out, err := get[httpapi.Health](ctx, c, "/v1/health", nil)
	if err == nil && out.Stopped != nil {
		err = problem.Restore(out.Stopped)
	}
	return out.Health, err
}

// Questions is [ledger.Ledger.Questions].
func (c *Client) Questions(ctx context.Context) iter.Seq2[api.Question, error] {
	return each(func() ([]api.Question, error) {
		out, err := get[httpapi.Questions](ctx, c, "/v1/questions", nil)
		return out.Questions, err
	})
}

// DefineQuestion is [ledger.Ledger.DefineQuestion].
func (c *Client) DefineQuestion(ctx context.Context, key string, q api.Question) error {
	in := httpapi.NewQuestion(q)
	return c.changeOnly(ctx, "/v1/questions", key, &in)
}

// Enroll is [ledger.Ledger.Enroll]. It calls r.Terms once for each object, in the order of their
// names, and sends the results.
func (c *Client) Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error) {
	in := httpapi.Enrolment{EnrollRequest: r}
	if r.Terms != nil {
		in.Terms = map[string]httpapi.Terms{}
		for _, object := range slices.Sorted(slices.Values(r.Objects)) {
			if _, twice := in.Terms[object]; !twice {
				ceiling, largest := r.Terms(object)
				in.Terms[object] = httpapi.Terms{Policy: ceiling, Cap: largest}
			}
		}
	}
	return change[api.EnrollResult](ctx, c, "/v1/enrolments", r.Key, &in)
}

// ChangeTerms is [ledger.Ledger.ChangeTerms] without progress.
func (c *Client) ChangeTerms(ctx context.Context, r api.ChangeTermsRequest) (api.ChangeTermsResult, error) {
	in := httpapi.NewTerms{ChangeTermsRequest: r}
	if r.Policy != nil {
		// JSON omits the zero policy, which has no ceiling. NoPolicy distinguishes it from none.
		in.Policy, in.NoPolicy = *r.Policy, r.Policy.IsZero()
	}
	return change[api.ChangeTermsResult](ctx, c, "/v1/terms", r.Key, &in)
}

// Reconcile is [ledger.Ledger.Reconcile] without progress. The whole table is sent in one request,
// whose size the server limits. Confirm gets the result of a dry run, a first request. If the
// second request would do something else, nothing is done. The error is then a [*api.Problem] of
// the kind "changed".
func (c *Client) Reconcile(ctx context.Context, r api.ReconcileRequest) (out api.ReconcileResult, err error) {
	if r.Members == nil {
		return out, fmt.Errorf("%w: reconcile: Members is not set", api.ErrInvalid)
	}
	in := httpapi.Reconcile{ReconcileRequest: r, Members: []api.Member{}}
	if in.AsOf == 0 { // the table is of this moment, and not of when it arrives at the server
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
		in.Members = append(in.Members, row)
	}
	if r.Confirm != nil {
		plan, err := c.reconcile(ctx, in, true) // a dry run
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

// reconcile sends a table. With dry, the server only returns what it would do.
func (c *Client) reconcile(ctx context.Context, in httpapi.Reconcile, dry bool) (api.ReconcileResult, error) {
	in.DryRun = dry
	return post[api.ReconcileResult](ctx, c, "/v1/reconciliations", &in)
}

// Release is [ledger.Ledger.Release]. A true value in the request is sent even if it is not
// needed.
func (c *Client) Release(ctx context.Context, r api.ReleaseRequest) (out api.Response, err error) {
	send := func(truths map[string]httpapi.Truths) (err error) {
		in := httpapi.Release{ReleaseRequest: r, Truths: onlyTruths(truths)}
		out, err = change[api.Response](ctx, c, "/v1/releases", r.Key, &in)
		return err
	}
	switch {
	case r.TrueValue == "": // values are sent only if the server asks for them
		err = truthRequest{truth: r.Truth, send: send}.run(ctx)
	case r.Truth != nil:
		err = fmt.Errorf("%w: a release has both TrueValue and Truth: set one of them", api.ErrInvalid)
	default:
		err = send(map[string]httpapi.Truths{r.Question: {r.Object: sendable(r.TrueValue)}})
	}
	return out, err
}

// Raise is [ledger.Ledger.Raise] without progress.
func (c *Client) Raise(ctx context.Context, r api.RaiseRequest) (api.RaiseResult, error) {
	out, err := draw[httpapi.Raised](ctx, c, "/v1/raises", r.Key, r.Truth, func(truths httpapi.Truths) any {
		return &httpapi.Raise{RaiseRequest: r, Truths: truths}
	})
	done := out.RaiseResult
	done.TruthChanged, done.TruthInvalid = out.HostDetails.Changed, out.HostDetails.Invalid
	return done, err
}

// Advance is [ledger.Ledger.Advance] without progress.
func (c *Client) Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error) {
	all, err := api.Collect(c.Questions(ctx)) // for their number
	if err != nil {
		return api.AdvanceResult{}, err
	}
	var out httpapi.Advanced
	// The server executes the request in parts, each about some of the objects. In each round of a
	// part it asks for values of at most one more question of each object. So a part needs no more
	// rounds than there are questions. Values of earlier rounds belong to parts that are done, and
	// are not sent again.
	send := func(truths map[string]httpapi.Truths) (err error) {
		in := httpapi.Advance{AdvanceRequest: r, Truths: truths}
		out, err = change[httpapi.Advanced](ctx, c, "/v1/advances", r.Key, &in)
		return err
	}
	err = truthRequest{truth: r.Truth, keep: len(all) + 1, send: send}.run(ctx)
	done := api.AdvanceResult{First: out.First, Last: out.Last}
	for _, one := range out.Questions {
		one.Advanced.TruthChanged, one.Advanced.TruthInvalid = one.HostDetails.Changed, one.HostDetails.Invalid
		done.Questions = append(done.Questions, one.Advanced)
	}
	return done, err
}

// Answer is [ledger.Ledger.Answer].
func (c *Client) Answer(ctx context.Context, r api.AnswerRequest) (api.AnswerResult, error) {
	out, err := draw[httpapi.Answered](ctx, c, "/v1/answers", r.Key, r.Truth, func(truths httpapi.Truths) any {
		return &httpapi.PanelQuery{AnswerRequest: r, Truths: truths}
	})
	done := out.AnswerResult
	done.TruthChanged, done.TruthInvalid = out.HostDetails.Changed, out.HostDetails.Invalid
	return done, err
}

// QuoteAnswer is [ledger.Ledger.QuoteAnswer]. The reason why an answer is not raised is a
// [*api.Problem], which wraps the error of the ledger.
func (c *Client) QuoteAnswer(ctx context.Context, r api.AnswerRequest) (api.AnswerQuote, error) {
	out, err := post[httpapi.AnswerQuote](ctx, c, "/v1/answers/quotes", &httpapi.PanelQuery{AnswerRequest: r})
	q := out.AnswerQuote
	if out.NotRaised != nil {
		q.NotRaised = problem.Restore(out.NotRaised)
	}
	return q, err
}

// BeginEpoch is [ledger.Ledger.BeginEpoch].
func (c *Client) BeginEpoch(ctx context.Context, r api.EpochRequest) error {
	return c.changeOnly(ctx, "/v1/epochs", r.Key, &r)
}

// Withdraw is [ledger.Ledger.Withdraw].
func (c *Client) Withdraw(ctx context.Context, r api.ObjectRequest) error {
	return c.changeOnly(ctx, "/v1/withdrawals", r.Key, &r)
}

// Forget is [ledger.Ledger.Forget].
func (c *Client) Forget(ctx context.Context, r api.ObjectRequest) error {
	return c.changeOnly(ctx, "/v1/forgettings", r.Key, &r)
}

// Compact is [ledger.Ledger.Compact] without progress: it ignores the second argument.
func (c *Client) Compact(ctx context.Context, _ func(done, total int)) error {
	_, err := post[httpapi.Compacted](ctx, c, "/v1/compactions", &httpapi.Done{})
	return err
}

// Object is [ledger.Ledger.Object].
func (c *Client) Object(ctx context.Context, name string) (o api.ObjectState, err error) {
	return get[api.ObjectState](ctx, c, "/v1/object", query("object", name))
}

// Estimate is [ledger.Ledger.Estimate]. It returns api.ErrInvalid if Include is set, because a
// function cannot be sent.
func (c *Client) Estimate(ctx context.Context, r api.EstimateRequest) (e api.Estimate, err error) {
	if r.Include != nil {
		return e, fmt.Errorf("%w: estimate: Include is set, but a function cannot be sent to a server", api.ErrInvalid)
	}
	parameters := query("question", r.Question, "pool", r.Pool, "population", r.Population)
	if !r.Epsilon.IsZero() {
		parameters.Set("epsilon", r.Epsilon.String())
	}
	if r.Confidence != 0 {
		parameters.Set("confidence", strconv.FormatFloat(r.Confidence, 'g', -1, 64))
	}
	return get[api.Estimate](ctx, c, "/v1/estimate", parameters)
}

// Levels is [ledger.Ledger.Levels].
func (c *Client) Levels(ctx context.Context, question string) iter.Seq2[api.LevelCount, error] {
	return each(func() ([]api.LevelCount, error) {
		out, err := get[httpapi.Levels](ctx, c, "/v1/levels", query("question", question))
		return out.Levels, err
	})
}

// TakeOver makes the standby at the client's address take over, like [ledger.Ledger.TakeOver].
// From then on the client calls the resulting ledger, whose last event TakeOver returns.
func (c *Client) TakeOver(ctx context.Context) (events uint64, err error) {
	out, err := post[httpapi.TakenOver](ctx, c, "/v1/takeovers", &httpapi.Done{})
	return out.Events, err
}
