package ledgerhttp

import (
	"context"
	"reflect"
	"strconv"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Functions that serve the routes for the host (see hostRoutes). The ledger gets the key of the
// request ([call.key]), and a source of its true values ([call.truths]), in fields that are not in
// the JSON.

func about(c *call) (api.About, error) { return c.ledger().About(), nil }

func stats(c *call) (api.Stats, error) { return c.ledger().Stats(c.ctx()) }

func questions(c *call) (httpapi.Questions, error) {
	all, err := api.Collect(c.ledger().Questions(c.ctx()))
	return httpapi.Questions{Questions: all}, err
}

// health returns the health of the ledger. For a ledger that has stopped it returns the state of
// the host, with the reason in the field Stopped, and no error.
func health(c *call) (httpapi.Health, error) {
	h, err := c.ledger().Health(c.ctx())
	out := httpapi.Health{Health: h}
	if h.Host.Role == "" || err == nil { // with an error, only a stopped ledger returns its host
		return out, err
	}
	out.Stopped = seenProblem(*problem.Of(err), c.holder.Role)
	return out, nil
}

func defineQuestion(c *call, in httpapi.NewQuestion) (httpapi.Done, error) {
	return httpapi.Done{}, c.ledger().DefineQuestion(c.ctx(), c.key, api.Question(in))
}

// enroll enrolls objects, either all under the same terms or each under its own terms in.Terms.
func enroll(c *call, in httpapi.Enrolment) (api.EnrollResult, error) {
	r := in.EnrollRequest
	r.Key = c.key
	if in.Terms != nil {
		if err := checkTermsOfEach(in); err != nil {
			return api.EnrollResult{}, err
		}
		r.Terms = func(object string) (policy.Policy, privacy.Epsilon) {
			return in.Terms[object].Policy, in.Terms[object].Cap
		}
	}
	return c.ledger().Enroll(c.ctx(), r)
}

// checkTermsOfEach returns an error unless there are terms for exactly the objects to enroll. An
// object without an entry would get the zero policy, which has no ceiling.
func checkTermsOfEach(in httpapi.Enrolment) error {
	for _, object := range in.Objects {
		if _, there := in.Terms[object]; !there {
			return problem.At("terms", problem.Invalid, "the field \"terms\" lacks the object %.300q", object)
		}
	}
	if terms, objects := len(in.Terms), len(in.Objects); terms != objects {
		const what = "the field \"terms\" has %d objects, but the request enrolls %d"
		return problem.At("terms", problem.Invalid, what, terms, objects)
	}
	return nil
}

// changeTerms changes the policy or the cap of objects. A request without a policy keeps the policy
// of each chain. With no_policy the new policy is the zero one, which has no ceiling.
func changeTerms(c *call, in httpapi.NewTerms) (done api.ChangeTermsResult, err error) {
	r := in.ChangeTermsRequest
	r.Key = c.key
	if in.NoPolicy && !in.Policy.IsZero() {
		return done, problem.At("no_policy", problem.Invalid, "the field \"no_policy\" is true, but a policy is given")
	}
	if in.NoPolicy || !in.Policy.IsZero() {
		r.Policy = &in.Policy
	}
	return c.ledger().ChangeTerms(c.ctx(), r)
}

// reconcile makes the ledger match the table of the request. The request may have the expected
// result of a dry run. If the planned changes differ from it, nothing is done, and the error is a
// problem of the kind "changed".
func reconcile(c *call, in httpapi.Reconcile) (api.ReconcileResult, error) {
	r := in.ReconcileRequest
	r.Members = func(yield func(api.Member, error) bool) {
		for _, row := range in.Members {
			if !yield(row, nil) {
				return
			}
		}
	}
	if in.Expected != nil {
		r.Confirm = func(now api.ReconcileResult) error {
			if !reflect.DeepEqual(*in.Expected, now) {
				const what = "the changes are no longer those in the field \"expected\""
				return problem.At("expected", problem.Changed, what)
			}
			return nil
		}
	}
	return c.ledger().Reconcile(c.ctx(), r)
}

// release returns the response of one object. The ledger accepts either a true value or a source of
// it, not both. It gets a source only if the request has no true value of the object, or has "".
// The value "" means that the object has no value.
func release(c *call, in httpapi.Release) (api.Response, error) {
	r := in.ReleaseRequest
	r.Key, r.TrueValue = c.key, in.Truths[in.Object]
	// called in any case, because the call removes the true values from memory at its end
	if others := c.truths(in.Truths); r.TrueValue == "" {
		r.Truth = others.values
	}
	return c.ledger().Release(c.ctx(), r)
}

// raise raises the responses of many objects.
func raise(c *call, in httpapi.Raise) (httpapi.Raised, error) {
	r := in.RaiseRequest
	r.Key, r.Truth = c.key, c.truths(in.Truths).values
	done, err := c.ledger().Raise(c.ctx(), r)
	return httpapi.Raised{RaiseResult: done, HostDetails: c.hostDetails(done.TruthChanged, done.TruthInvalid)}, err
}

// hostDetails returns the names of objects whose true value has changed or is invalid to an
// operator, and no names to other roles. That a true value has changed, or is not a value of the
// question, would reveal something about the true value.
func (c *call) hostDetails(changed, invalid []string) httpapi.HostDetails {
	if c.holder.Role != roleOperator {
		return httpapi.HostDetails{}
	}
	return httpapi.HostDetails{Changed: changed, Invalid: invalid}
}

// advance releases what the policies now allow, in all questions.
func advance(c *call, in httpapi.Advance) (httpapi.Advanced, error) {
	r := in.AdvanceRequest
	r.Key, r.Truth = c.key, c.truthsOf(in.Truths).values
	done, err := c.ledger().Advance(c.ctx(), r)
	out := httpapi.Advanced{First: done.First, Last: done.Last}
	for _, one := range done.Questions {
		details := c.hostDetails(one.TruthChanged, one.TruthInvalid)
		out.Questions = append(out.Questions, httpapi.AdvancedQuestion{Advanced: one, HostDetails: details})
	}
	return out, err
}

// answerRequest returns the ledger's form of a panel query: with the key and the true values.
func (c *call) answerRequest(in httpapi.PanelQuery) api.AnswerRequest {
	r := in.AnswerRequest
	r.Key, r.Truth = c.key, c.truths(in.Truths).values
	return r
}

// answer returns the answer to a panel query.
func answer(c *call, in httpapi.PanelQuery) (httpapi.Answered, error) {
	done, err := c.ledger().Answer(c.ctx(), c.answerRequest(in))
	return httpapi.Answered{AnswerResult: done, HostDetails: c.hostDetails(done.TruthChanged, done.TruthInvalid)}, err
}

// quoteAnswer returns what the answer to a panel query would cost. The reason why the recorded
// answer is not raised becomes a problem in the result.
func quoteAnswer(c *call, in httpapi.PanelQuery) (httpapi.AnswerQuote, error) {
	q, err := c.ledger().QuoteAnswer(c.ctx(), c.answerRequest(in))
	out := httpapi.AnswerQuote{AnswerQuote: q}
	if q.NotRaised != nil {
		out.NotRaised = c.problemFor(q.NotRaised)
	}
	return out, err
}

func beginEpoch(c *call, in api.EpochRequest) (httpapi.Done, error) {
	in.Key = c.key
	return httpapi.Done{}, c.ledger().BeginEpoch(c.ctx(), in)
}

func withdraw(c *call, in api.ObjectRequest) (httpapi.Done, error) {
	in.Key = c.key
	return httpapi.Done{}, c.ledger().Withdraw(c.ctx(), in)
}

func forget(c *call, in api.ObjectRequest) (httpapi.Done, error) {
	in.Key = c.key
	return httpapi.Done{}, c.ledger().Forget(c.ctx(), in)
}

// compact rewrites the file, and returns its new size.
func compact(c *call, _ httpapi.Done) (httpapi.Compacted, error) {
	if err := c.ledger().Compact(c.ctx(), nil); err != nil { // nil: without reports of progress
		return httpapi.Compacted{}, err
	}
	stats, err := c.ledger().Stats(c.ctx())
	return httpapi.Compacted{Bytes: stats.Bytes}, err
}

func object(c *call) (api.ObjectState, error) { return c.ledger().Object(c.ctx(), c.text("object")) }

// estimate estimates the shares of a question's values.
func estimate(c *call) (api.Estimate, error) {
	confidence, _ := strconv.ParseFloat(c.text("confidence"), 64) // 0 without the parameter: the ledger's default
	return c.ledger().Estimate(c.ctx(), api.EstimateRequest{
		Question: c.text("question"), Epsilon: c.epsilon("epsilon"), Confidence: confidence,
		Pool: c.flag("pool"), Population: c.flag("population"),
	})
}

func levels(c *call) (httpapi.Levels, error) {
	all, err := api.Collect(c.ledger().Levels(c.ctx(), c.text("question")))
	return httpapi.Levels{Levels: all}, err
}

func responses(c *call, p page) ([]api.Response, string, error) {
	return c.ledger().ResponsesPage(c.ctx(), c.text("question"), c.epsilon("epsilon"), p.after, p.limit)
}

// metrics returns the body that Options.Metrics writes, or a problem if it is not set.
func metrics(c *call) (body, error) {
	if c.handler.options.Metrics == nil {
		return nil, problem.New(problem.NoRoute, "this server has no metrics")
	}
	return func(_ context.Context, w *writer) error {
		c.handler.options.Metrics(w, c.request, c.ledger())
		return nil
	}, nil
}
