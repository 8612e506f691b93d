package ledgerclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// truthRequest sends a request whose draws may need true values. It repeats the request with the
// values that the server asks for, until the server asks for none.
type truthRequest struct {
	truth api.TruthFunc                                // the caller's source of true values; may be nil
	send  func(truths map[string]httpapi.Truths) error // true values by question
	keep  int                                          // how many previous rounds of values are sent again; 0 for all
}

// run sends the request first without values. Each time the server asks for values, run calls the
// source for them, and sends the request again. It then sends the values of all rounds so far, or
// of the last r.keep rounds.
//
// run returns the first result of send that asks for no values: nil or an error. It also returns an
// error if there is no source, or if the source fails. The same is true if the server asks only for
// values that were just sent.
func (r truthRequest) run(ctx context.Context) error {
	var rounds []map[string]httpapi.Truths
	for {
		known := merge(rounds)
		err := r.send(known)
		var p *api.Problem
		if !errors.As(err, &p) || p.Kind != problem.TruthNeeded {
			return err
		}
		if r.truth == nil {
			return fmt.Errorf("%w: a draw needs true values, and neither the request nor the server has a source",
				api.ErrInvalid)
		}
		values, err := r.ask(ctx, p.Needs, known)
		if err != nil {
			return err
		}
		if len(values) == 0 {
			return problem.New(problem.Unexpected, "the server asks again for true values that were sent")
		}
		rounds = append(rounds, values)
		if r.keep > 0 && len(rounds) > r.keep {
			rounds = slices.Delete(rounds, 0, 1) // the oldest
		}
	}
}

// merge returns the true values of several rounds by question, in maps of its own. Each round has
// values by question.
func merge(rounds []map[string]httpapi.Truths) map[string]httpapi.Truths {
	all := map[string]httpapi.Truths{}
	for _, round := range rounds {
		for question, truths := range round {
			if all[question] == nil {
				all[question] = httpapi.Truths{}
			}
			maps.Copy(all[question], truths)
		}
	}
	return all
}

// maxBatch is the maximum number of objects in one call of the source, as [api.AdvanceRequest]
// documents.
const maxBatch = 4096

// ask calls the source for the needed values that are not yet known, at most maxBatch objects at a
// time. It returns the new values by question, in a form that JSON can represent. The result is
// empty if all needed values are known.
func (r truthRequest) ask(
	ctx context.Context, needs []api.Need, known map[string]httpapi.Truths,
) (map[string]httpapi.Truths, error) {
	values := map[string]httpapi.Truths{}
	for _, need := range needs {
		unknown := slices.DeleteFunc(slices.Clone(need.Objects), func(object string) bool {
			_, is := known[need.Question][object]
			return is
		})
		for objects := range slices.Chunk(unknown, maxBatch) {
			fetched, err := r.valuesOf(ctx, need.Question, objects)
			if err != nil {
				return nil, fmt.Errorf("question %q: %w", need.Question, err)
			}
			if values[need.Question] == nil {
				values[need.Question] = httpapi.Truths{}
			}
			for i, object := range objects {
				values[need.Question][object] = sendable(fetched[i])
			}
		}
	}
	return values, nil
}

// valuesOf calls the source for the values of objects. It returns an error if the source fails,
// does not return exactly one value for each object, or returns only after ctx has ended.
func (r truthRequest) valuesOf(ctx context.Context, question string, objects []string) ([]string, error) {
	values, err := r.truth(ctx, question, slices.Clone(objects)) // the source may change its list
	switch ended := ctx.Err(); {
	case ended != nil:
		return nil, fmt.Errorf("the context of the request ended during the call of its source of true values: %w",
			ended)
	case err != nil:
		return nil, errs.OfSource(err)
	case len(values) != len(objects):
		return nil, fmt.Errorf("%w returned %d values for %d objects",
			api.ErrTruthSource, len(values), len(objects))
	}
	return values, nil
}

// sendable returns a true value in a form that JSON can represent. A value that is not UTF-8
// becomes a zero byte. Neither can be a value of a question, so the server refuses both in the same
// way.
func sendable(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return "\x00"
}

// draw sends a request with an idempotency key about one question. It repeats the request until the
// server has the true values that it needs (see truthRequest). The function in returns the body of
// the request with the given true values. draw returns the decoded answer.
func draw[Out any](
	ctx context.Context, c *Client, path, key string, truth api.TruthFunc, in func(httpapi.Truths) any,
) (out Out, err error) {
	err = truthRequest{truth: truth, send: func(truths map[string]httpapi.Truths) (err error) {
		out, err = change[Out](ctx, c, path, key, in(onlyTruths(truths)))
		return err
	}}.run(ctx)
	return out, err
}

// onlyTruths returns the true values of the only question of a request, or nil if there are none.
func onlyTruths(truths map[string]httpapi.Truths) httpapi.Truths {
	for _, only := range truths {
		return only
	}
	return nil
}
