package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// BeginEpoch begins a new epoch of an object in a question, after its true value has changed. The
// current chain, with its responses and the charges of answers, is closed and stays as it is. A new
// chain about the new value begins under the same policy. The costs of both chains add up under the
// same cap: the values of two epochs are two secrets, and an observer of both learns as much as the
// ε of both allow together. The policy's ceiling, and its limits on buyers and holders, apply to
// each epoch separately.
//
// From then on all requests are about the new epoch. Responses of the old epoch can still be read
// by the callers and buyers that have them, with the same key or with [Ledger.Deliveries]. They are
// not sold any more, and [Ledger.Estimate] does not count them. A buyer who holds old responses
// pays the full price for new ones. Reservations do not sell responses of the old epoch
// ([api.EpochBegun]); the rest of a reservation can be captured in part. Answers about panels stay
// recorded, but none is raised to a higher ε across the change. [Ledger.Advance] releases in the
// new chain what the calendar has released by now. The new chain is drawn at random, even if the
// old one was drawn from a noise key ([api.NoiseKeys]).
//
// An observer who sees that an epoch began (in the log, a statement, a price) can guess that the
// value has changed. A host can prevent this by beginning epochs for all objects by the calendar.
//
// If nothing was drawn, sold or answered in the current epoch, BeginEpoch does nothing. A repeated
// request with its key does nothing either.
//
// BeginEpoch returns a [*api.RefusedError] if the object is not enrolled in the question, has
// withdrawn, or has a chain that is [api.Full]. It returns [api.ErrUnknown] if there is no such
// question, and [api.ErrForgotten] if the object was forgotten since the key was used. Other errors
// are [api.ErrInvalid], [*api.KeyConflictError] and [api.ErrReadOnly].
func (l *Ledger) BeginEpoch(ctx context.Context, r api.EpochRequest) error {
	if err := event.CheckName("object", r.Object); err != nil {
		return err
	}
	q, err := l.requests.Question(ctx, r.Question)
	if err != nil {
		return err
	}
	id := event.EpochRequest(r.Question, r.Object)
	return callback.Report(l.requests.Once(ctx, r.Key, r.Object, id, func(s *state.State) (event.Change, error) {
		return l.epochOf(s, q, r)
	}))
}

// epochOf returns the change that begins a new epoch of an object in the question q. It returns nil
// if the current epoch is unused, so that nothing is to be done. It returns a [*api.RefusedError]
// if the object may not begin an epoch.
func (l *Ledger) epochOf(s *state.State, q *event.Question, r api.EpochRequest) (event.Change, error) {
	var subject rules.Subject
	refusal, err := rules.ReadSubject(s, q, r.Object, privacy.Epsilon{}, &subject)
	if err != nil {
		return nil, err
	}
	if refusal == nil && subject.Chain.Unused() {
		return nil, nil
	}
	if refusal == nil {
		refusal = rules.CheckEpoch(&subject, q)
	}
	if refusal != nil {
		refused := request.Refusals(*refusal)
		// "" is the buyer, and the ε is 0: the request has neither.
		return nil, l.requests.Refuse(r.Key, "", q, privacy.Epsilon{}, &refused, &rules.TruthFaults{})
	}
	return &event.EpochBegun{Object: r.Object, Question: q.Number}, nil
}
