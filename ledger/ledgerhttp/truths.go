package ledgerhttp

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// bearer provides the true values of a request: those in its body, and others from the host's
// source, if there is one. Without a source it records the objects that need a value, so that the
// request can be repeated with these values. Its method tell is an [api.TruthFunc].
type bearer struct {
	brought map[string]httpapi.Truths // by question; the key "" applies to any question without an entry
	source  api.TruthFunc             // the host's source; nil if there is none
	needs   []api.Need
	asked   bool   // the source was called
	failed  bool   // the source returned an error
	waits   func() // called before the source, which may be slow; may be nil
}

// truths returns the provider of true values for a request about one question.
func (c *call) truths(brought httpapi.Truths) *bearer {
	return c.truthsOf(map[string]httpapi.Truths{"": brought})
}

// truthsOf returns the provider of true values for a request about several questions.
func (c *call) truthsOf(brought map[string]httpapi.Truths) *bearer {
	c.bearer = &bearer{brought: brought, source: c.handler.options.Truth, waits: c.leaveTurn}
	return c.bearer
}

// mayBring returns an error if a caller other than an operator sends true values although the host
// has a source of them. A ledger with a truth key refuses a value other than the one of the first
// draw. So a caller that sends values could find the true value by trying.
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
	var others []string // objects whose values the request does not bring
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

// need records that objects need a true value of a question.
func (b *bearer) need(question string, objects []string) {
	if last := len(b.needs) - 1; last >= 0 && b.needs[last].Question == question {
		b.needs[last].Objects = append(b.needs[last].Objects, objects...)
		return
	}
	b.needs = append(b.needs, api.Need{Question: question, Objects: objects})
}

// forget removes the true values of the request from memory.
func (b *bearer) forget() {
	if b == nil {
		return
	}
	for _, brought := range b.brought {
		clear(brought)
	}
}

// explain adds to a problem what is known about the true values of the request.
func (b *bearer) explain(p *api.Problem) *api.Problem {
	switch {
	case b == nil:
	case p.Kind == problem.TruthNeeded:
		p.Needs = b.needs
	// the request was cancelled or too late; the source does not matter
	case p.Kind == problem.Interrupted || p.Kind == problem.Late:
	case b.failed || b.asked && p.Kind == problem.Invalid && p.Field == "truths":
		// The error of the source is not passed on, because its text may contain a true value.
		return problem.New(problem.TruthFailed, "the source of true values failed, so nothing was drawn that needs it")
	}
	return p
}
