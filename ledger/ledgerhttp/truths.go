package ledgerhttp

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// truthSource provides the true values of a request: those in its body, and others from the host's
// source ([Options.Truth]), if there is one. Without a source it records the objects that need a
// value, so that the request can be repeated with these values. Its method values is an
// [api.TruthFunc].
type truthSource struct {
	given      map[string]httpapi.Truths // by question; the key "" applies to any question without an entry
	source     api.TruthFunc             // the host's source; nil if there is none
	needs      []api.Need                // the objects that need a value, recorded without a source
	isCalled   bool                      // the source was called
	hasFailed  bool                      // the source returned an error
	beforeCall func()                    // called before the source, which may be slow; may be nil
}

// truths returns the provider of true values for a request about one question, and stores it in c.
func (c *call) truths(given httpapi.Truths) *truthSource {
	return c.truthsOf(map[string]httpapi.Truths{"": given})
}

// truthsOf returns the provider of true values for a request about several questions, and stores it
// in c. given is the true values in the body, by question. Before the host's source is called, the
// request releases its slot for large requests, because the source may be slow.
func (c *call) truthsOf(given map[string]httpapi.Truths) *truthSource {
	c.truthSource = &truthSource{given: given, source: c.handler.options.Truth, beforeCall: c.releaseSlot}
	return c.truthSource
}

// checkTruths returns an error if a caller other than an operator sends true values although the
// host has a source of them. A ledger with a truth key refuses any value other than the one of the
// first draw. So a caller that may send values could find the true value by trying all values.
func (c *call) checkTruths(truths httpapi.Truths) error {
	if len(truths) == 0 || c.holder.Role == roleOperator || c.handler.options.Truth == nil {
		return nil
	}
	const what = "the role %s may not send true values, because this server has a source of them"
	p := problem.At("truths", problem.Forbidden, what, c.holder.Role)
	p.Hint = "omit truths"
	return p
}

// values implements [api.TruthFunc]. It takes the values from the body of the request, and the
// values of other objects from the host's source. Without a source, it records these objects in
// t.needs, and returns [api.ErrTruthLater]. It returns the source's error, and [api.ErrTruthSource]
// if the source returns a wrong number of values.
func (t *truthSource) values(ctx context.Context, question string, objects []string) ([]string, error) {
	known, named := t.given[question]
	if !named {
		known = t.given[""]
	}
	values := make([]string, len(objects))
	var others []string // objects whose values the request does not bring
	var places []int    // their indexes in objects
	for i, object := range objects {
		value, isGiven := known[object]
		if !isGiven {
			others, places = append(others, object), append(places, i)
		}
		values[i] = value
	}
	if len(others) == 0 {
		return values, nil
	}
	if t.source == nil {
		t.addNeed(question, others)
		return nil, api.ErrTruthLater
	}
	if t.isCalled = true; t.beforeCall != nil {
		t.beforeCall()
	}
	fetched, err := t.source(ctx, question, others)
	if t.hasFailed = err != nil; t.hasFailed {
		return nil, err
	}
	if len(fetched) != len(others) {
		return nil, fmt.Errorf("%w returned %d values for %d objects", api.ErrTruthSource, len(fetched), len(others))
	}
	for i, at := range places {
		values[at] = fetched[i]
	}
	clear(fetched) // the source's list is not kept in memory
	return values, nil
}

// addNeed records that objects need a true value of a question. It adds them to the last entry, if
// that is of the same question.
func (t *truthSource) addNeed(question string, objects []string) {
	if last := len(t.needs) - 1; last >= 0 && t.needs[last].Question == question {
		t.needs[last].Objects = append(t.needs[last].Objects, objects...)
		return
	}
	t.needs = append(t.needs, api.Need{Question: question, Objects: objects})
}

// forget removes the true values of the request from memory. It does nothing on nil.
func (t *truthSource) forget() {
	if t == nil {
		return
	}
	for _, given := range t.given {
		clear(given)
	}
}

// explain returns the problem of a request, completed by what is known about its true values. If
// values are needed, it adds the objects that need them. If the host's source is the cause, it
// returns another problem, which says that the source failed. It returns p as it is on nil, and in
// any other case.
func (t *truthSource) explain(p *api.Problem) *api.Problem {
	switch {
	case t == nil:
	case p.Kind == problem.TruthNeeded:
		p.Needs = t.needs
	// the request was cancelled or too late; the source does not matter
	case p.Kind == problem.Interrupted || p.Kind == problem.Late:
	// the second condition: the source returned a wrong number of values ([api.ErrTruthSource])
	case t.hasFailed || t.isCalled && p.Kind == problem.Invalid && p.Field == "truths":
		// The error of the source is not passed on, because its text may contain a true value.
		return problem.New(problem.TruthFailed, "the source of true values failed, and nothing that needs it was drawn")
	}
	return p
}
