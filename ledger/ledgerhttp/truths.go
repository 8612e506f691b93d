package ledgerhttp

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// bearer tells the true values that a request brings, and asks the host's source about others if
// there is one. Otherwise it notes whom it was asked about, so that the request can be repeated
// with their values. It is an [api.TruthFunc] by its method tell.
type bearer struct {
	brought map[string]httpapi.Truths // by question; "" for whatever question the request is about
	source  api.TruthFunc             // nil if there is none
	needs   []api.Need
	asked   bool   // the source was
	failed  bool   // the source did not tell
	waits   func() // is called before the source, which may take its time; nil does nothing
}

// truths returns what tells the true values of a request about one question.
func (c *call) truths(brought httpapi.Truths) *bearer {
	return c.truthsOf(map[string]httpapi.Truths{"": brought})
}

func (c *call) truthsOf(brought map[string]httpapi.Truths) *bearer {
	c.bearer = &bearer{brought: brought, source: c.handler.options.Truth, waits: c.leaveTurn}
	return c.bearer
}

// mayBring refuses true values of whoever is not the host's own, where the host has a source of
// them. A ledger with a truth key refuses another value than the one that was drawn from before:
// whoever names values can find out the true one by trying.
func (c *call) mayBring(truths httpapi.Truths) error {
	if len(truths) == 0 || c.holder.Role == roleOperator || c.handler.options.Truth == nil {
		return nil
	}
	const what = "the role %s may not bring true values: this server has a source of them"
	p := problem.At("truths", problem.Forbidden, what, c.holder.Role)
	p.Hint = "leave truths out"
	return p
}

// tell implements [api.TruthFunc].
func (b *bearer) tell(ctx context.Context, question string, objects []string) ([]string, error) {
	known, named := b.brought[question]
	if !named {
		known = b.brought[""]
	}
	values := make([]string, len(objects))
	var others []string // whose values the request does not bring
	var places []int
	for i, object := range objects {
		value, brought := known[object]
		if !brought {
			others, places = append(others, object), append(places, i)
		}
		values[i] = value
	}
	if len(others) == 0 {
		return values, nil
	}
	if b.source == nil {
		b.need(question, others)
		return nil, api.ErrTruthLater
	}
	if b.asked = true; b.waits != nil {
		b.waits()
	}
	told, err := b.source(ctx, question, others)
	if b.failed = err != nil; b.failed {
		return nil, err
	}
	if len(told) != len(others) {
		return nil, fmt.Errorf("%w returned %d values for %d objects", api.ErrTruthSource, len(told), len(others))
	}
	for i, at := range places {
		values[at] = told[i]
	}
	clear(told)
	return values, nil
}

func (b *bearer) need(question string, objects []string) {
	if last := len(b.needs) - 1; last >= 0 && b.needs[last].Question == question {
		b.needs[last].Objects = append(b.needs[last].Objects, objects...)
		return
	}
	b.needs = append(b.needs, api.Need{Question: question, Objects: objects})
}

// forget drops the values.
func (b *bearer) forget() {
	if b == nil {
		return
	}
	for _, brought := range b.brought {
		clear(brought)
	}
}

// explain adds to the problem of a request what its truths have to do with it.
func (b *bearer) explain(p *api.Problem) *api.Problem {
	switch {
	case b == nil:
	case p.Kind == problem.TruthNeeded:
		p.Needs = b.needs
	case p.Kind == problem.Interrupted || p.Kind == problem.Late: // the request has ended
	case b.failed || b.asked && p.Kind == problem.Invalid && p.Field == "truths":
		// What the source says may be anything, a true value among it: it is not passed on.
		return problem.New(problem.TruthFailed, "the source of true values failed, so nothing was drawn that needs it")
	}
	return p
}
