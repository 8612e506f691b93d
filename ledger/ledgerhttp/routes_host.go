package ledgerhttp

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/internal/api"
	"github.com/sluicedp/sluice/ledger/problem"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// What the host asks.

func questions(c *call) (api.Questions, error) {
	all, err := c.ledger().Questions(c.ctx())
	return api.Questions{Questions: orNone(all)}, err
}

// health answers also for a ledger that has stopped.
func health(c *call) (api.Health, error) {
	h, err := c.ledger().Health(c.ctx())
	out := api.Health{Health: h}
	if h.Host.Role == "" || err == nil {
		return out, err
	}
	out.Stopped = seenProblem(*problem.Of(err), c.holder.Role)
	return out, nil
}

func defineQuestion(c *call, in api.NewQuestion) (api.Done, error) {
	return api.Done{}, c.ledger().DefineQuestion(c.ctx(), c.key, ledger.Question(in))
}

func enroll(c *call, in api.Enrolment) (api.Enrolled, error) {
	r := ledger.EnrollRequest{Key: c.key, Question: in.Question, Objects: in.Objects, Policy: in.Policy, Cap: in.Cap, Partial: in.Partial, New: in.New, DryRun: in.DryRun}
	if in.Terms != nil {
		if err := aboutEach(in); err != nil {
			return api.Enrolled{}, err
		}
		r.Terms = func(object string) (policy.Policy, privacy.Epsilon) {
			return in.Terms[object].Policy, in.Terms[object].Cap
		}
	}
	done, err := c.ledger().Enroll(c.ctx(), r)
	done.Refused = orNone(done.Refused)
	return api.Enrolled(done), err
}

// aboutEach refuses terms that are not those of exactly the objects: whoever has none would be bound by nothing.
func aboutEach(in api.Enrolment) error {
	for _, object := range in.Objects {
		if _, there := in.Terms[object]; !there {
			return problem.New(problem.Invalid, "the field \"terms\" lacks the object %.300q", object).At("terms")
		}
	}
	if len(in.Terms) != len(in.Objects) {
		return problem.New(problem.Invalid, "the field \"terms\" has %d objects, and %d are enrolled", len(in.Terms), len(in.Objects)).At("terms")
	}
	return nil
}

func changeTerms(c *call, in api.NewTerms) (api.TermsChanged, error) {
	r := ledger.ChangeTermsRequest{Key: c.key, Question: in.Question, Objects: in.Objects, Cap: in.Cap, Consent: in.Consent, Partial: in.Partial}
	if in.NoPolicy && !in.Policy.IsZero() {
		return api.TermsChanged{}, problem.New(problem.Invalid, "a policy is given, and none is wanted").At("no_policy")
	}
	if in.NoPolicy || !in.Policy.IsZero() {
		r.Policy = &in.Policy
	}
	done, err := c.ledger().ChangeTerms(c.ctx(), r)
	done.Refused = orNone(done.Refused)
	return api.TermsChanged(done), err
}

func reconcile(c *call, in api.Reconcile) (ledger.ReconcileResult, error) {
	r := ledger.ReconcileRequest{AsOf: in.AsOf, DryRun: in.DryRun, Withdraw: in.Withdraw, Gone: in.Gone}
	r.Members = func(yield func(ledger.Member, error) bool) {
		for _, row := range in.Members {
			if !yield(ledger.Member(row), nil) {
				return
			}
		}
	}
	if in.Expected != nil {
		r.Confirm = func(now ledger.ReconcileResult) error {
			if wanted, is := complete(*in.Expected), complete(now); !reflect.DeepEqual(wanted, is) {
				return problem.New(problem.Changed, "what is to be done is not what was expected any more").At("expected")
			}
			return nil
		}
	}
	done, err := c.ledger().Reconcile(c.ctx(), r)
	return complete(done), err
}

// complete returns what a reconciliation does with all lists there, also those that are empty.
func complete(r ledger.ReconcileResult) ledger.ReconcileResult {
	r.Questions, r.Gone.First = slices.Clone(orNone(r.Questions)), orNone(r.Gone.First)
	for i := range r.Questions {
		q := &r.Questions[i]
		q.Refused = orNone(q.Refused)
		for _, list := range []*ledger.NameList{&q.New, &q.Changed, &q.Left, &q.Dropped} {
			list.First = orNone(list.First)
		}
	}
	return r
}

func release(c *call, in api.Release) (ledger.Response, error) {
	r := ledger.ReleaseRequest{Key: c.key, Question: in.Question, Object: in.Object, Epsilon: in.Epsilon, TrueValue: in.Truths[in.Object]}
	if others := c.truths(in.Truths); r.TrueValue == "" {
		r.Truth = others.tell
	}
	return c.ledger().Release(c.ctx(), r)
}

func raise(c *call, in api.Raise) (api.Raised, error) {
	done, err := c.ledger().Raise(c.ctx(), ledger.RaiseRequest{
		Key: c.key, Question: in.Question, Epsilon: in.Epsilon, Objects: in.Objects, All: in.All, Partial: in.Partial, Truth: c.truths(in.Truths).tell,
	})
	return api.Raised{
		Drawn: done.Drawn, Reused: done.Reused, Derived: done.Derived, Refused: orNone(done.Refused), Unlisted: done.Unlisted,
		TruthChanged: c.aside(done.TruthChanged), TruthInvalid: c.aside(done.TruthInvalid), First: done.First, Last: done.Last,
	}, err
}

// aside returns names for an operator and nil for others: whose true value has changed, or is none of the question's, says something of it.
func (c *call) aside(names []string) []string {
	if c.holder.Role != Operator {
		return nil
	}
	return names
}

func advance(c *call, in api.Advance) (api.Advanced, error) {
	done, err := c.ledger().Advance(c.ctx(), ledger.AdvanceRequest{Key: c.key, Question: in.Question, Truth: c.truthsOf(in.Truths).tell})
	out := api.Advanced{Questions: []api.AdvancedQuestion{}, First: done.First, Last: done.Last}
	for _, one := range done.Questions {
		one.Refused = orNone(one.Refused)
		out.Questions = append(out.Questions, api.AdvancedQuestion{Advanced: one, TruthChanged: c.aside(one.TruthChanged), TruthInvalid: c.aside(one.TruthInvalid)})
	}
	return out, err
}

func (c *call) inquiry(in api.Inquiry) ledger.AnswerRequest {
	return ledger.AnswerRequest{
		Key: c.key, Question: in.Question, Query: in.Query, Epsilon: in.Epsilon, Objects: in.Objects, All: in.All, Partial: in.Partial,
		AcceptLoss: in.AcceptLoss, Truth: c.truths(in.Truths).tell,
	}
}

func answer(c *call, in api.Inquiry) (api.Answered, error) {
	done, err := c.ledger().Answer(c.ctx(), c.inquiry(in))
	done.Refused = orNone(done.Refused)
	return api.Answered{AnswerResult: done, TruthChanged: c.aside(done.TruthChanged), TruthInvalid: c.aside(done.TruthInvalid)}, err
}

func quoteAnswer(c *call, in api.Inquiry) (api.AnswerQuote, error) {
	q, err := c.ledger().QuoteAnswer(c.ctx(), c.inquiry(in))
	out := api.AnswerQuote{
		Objects: q.Objects, Charge: q.Charge, Held: q.Held, Anew: q.Anew, Displaced: orNone(q.Displaced), Refused: orNone(q.Refused), Unlisted: q.Unlisted, Sums: q.Sums, Event: q.Event,
	}
	if q.NotRaised != nil {
		out.NotRaised = c.told(q.NotRaised)
	}
	return out, err
}

func beginEpoch(c *call, in api.Epoch) (api.Done, error) {
	return api.Done{}, c.ledger().BeginEpoch(c.ctx(), c.key, in.Question, in.Object)
}

func withdraw(c *call, in api.Object) (api.Done, error) {
	return api.Done{}, c.ledger().Withdraw(c.ctx(), c.key, in.Object)
}

func forget(c *call, in api.Object) (api.Done, error) {
	return api.Done{}, c.ledger().Forget(c.ctx(), c.key, in.Object)
}

func compact(c *call, _ api.Done) (api.Compacted, error) {
	if err := c.ledger().Compact(c.ctx(), nil); err != nil {
		return api.Compacted{}, err
	}
	stats, err := c.ledger().Stats(c.ctx())
	return api.Compacted{Bytes: stats.Bytes}, err
}

func object(c *call) (ledger.ObjectState, error) { return c.ledger().Object(c.ctx(), c.text("object")) }

func estimate(c *call) (ledger.Estimate, error) {
	confidence, _ := strconv.ParseFloat(c.text("confidence"), 64)
	return c.ledger().Estimate(c.ctx(), ledger.EstimateRequest{
		Question: c.text("question"), Epsilon: c.epsilon("epsilon"), Confidence: confidence, Pool: c.flag("pool"), Population: c.flag("population"),
	})
}

func levels(c *call) (api.Levels, error) {
	all, err := c.ledger().Levels(c.ctx(), c.text("question"))
	return api.Levels{Levels: orNone(all)}, err
}

func responses(c *call, p page) ([]ledger.Response, string, error) {
	return c.ledger().ResponsesPage(c.ctx(), c.text("question"), c.epsilon("epsilon"), p.after, p.limit)
}
