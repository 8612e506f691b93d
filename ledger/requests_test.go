package ledger

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// drawing is a request for responses or for an answer, which needs true values. It has what all
// calls that draw have in common.
type drawing struct {
	key, question, buyer, epsilon string   // by default "vote" and acme
	objects                       []string // all objects if it is nil; Release draws for the first
	reservation                   uint64   // the one that Capture captures
	partial                       bool
	truth                         api.TruthFunc
}

// drawn is what a call returned.
type drawn struct {
	result           any
	refused          []api.Refusal
	invalid, changed []string // the objects whose true value was so
}

func (d drawing) order(t testing.TB) api.Order {
	t.Helper()
	o := api.Order{Buyer: d.buyer, Question: d.question, Objects: d.objects, All: d.objects == nil}
	if d.epsilon != "" {
		o.Epsilon = eps(t, d.epsilon)
	}
	if o.Buyer == "" {
		o.Buyer = "acme"
	}
	if o.Question == "" {
		o.Question = "vote"
	}
	return o
}

// by makes the request with a call: Release, Raise, Sell, Capture, Answer, or Advance.
func (d drawing) by(t testing.TB, l *Ledger, call string) (drawn, error) {
	t.Helper()
	out, err := d.drawnBy(t, l, call)
	var refused *api.RefusedError
	if errors.As(err, &refused) {
		out.refused, out.invalid, out.changed = refused.Refused, refused.TruthInvalid, refused.TruthChanged
	}
	return out, err
}

func (d drawing) drawnBy(t testing.TB, l *Ledger, call string) (out drawn, err error) {
	t.Helper()
	ctx, o, sale := t.Context(), d.order(t), api.Sale{}
	switch call {
	case "Release":
		out.result, err = l.Release(ctx, api.ReleaseRequest{Key: d.key, Question: o.Question, Object: d.objects[0], Epsilon: o.Epsilon, Truth: d.truth})
		return out, err
	case "Raise":
		r := api.RaiseRequest{Key: d.key, Question: o.Question, Epsilon: o.Epsilon, Objects: o.Objects, All: o.All, Partial: d.partial, Truth: d.truth}
		result, err := l.Raise(ctx, r)
		return drawn{result, result.Refused, result.TruthInvalid, result.TruthChanged}, err
	case "Sell":
		sale, err = l.Sell(ctx, api.SellRequest{Key: d.key, Order: o, Partial: d.partial, Truth: d.truth})
	case "Capture":
		sale, err = l.Capture(ctx, api.CaptureRequest{Key: d.key, Reservation: d.reservation, Partial: d.partial, Truth: d.truth})
	case "Answer":
		r := answerRequest(t, d.key, "winner", d.epsilon, d.truth, o.Objects...)
		r.Question, r.All, r.Partial = o.Question, o.All, d.partial
		result, err := l.Answer(ctx, r)
		return drawn{result, result.Refused, result.TruthInvalid, result.TruthChanged}, err
	case "Advance":
		result, err := l.Advance(ctx, api.AdvanceRequest{Key: d.key, Question: d.question, Truth: d.truth})
		out.result = result
		for _, q := range result.Questions {
			out.refused, out.invalid, out.changed = append(out.refused, q.Refused...), append(out.invalid, q.TruthInvalid...), append(out.changed, q.TruthChanged...)
		}
		return out, err
	default:
		check.Need(t, false, "%s draws nothing", call)
	}
	return drawn{sale, sale.Refused, sale.TruthInvalid, sale.TruthChanged}, err
}
