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
// chain so far, with its responses and what answers have charged, is closed and stays as it is; a
// new one begins, about the new value, under the same policy. What it costs is charged beside all
// of that under the same cap: the values of two epochs are two secrets, and an observer of both
// learns as much as the ε of both allow together. The policy's ceiling, and what it says of buyers
// and holders, is for each epoch.
//
// From then on all requests are about the new epoch. Responses of the old one stay with those who
// have them, who can read them again (by the same key, or as [Ledger.Deliveries]); they are neither
// sold any more nor counted by [Ledger.Estimate]. A buyer who holds some pays the full price for
// those of the new one. What was reserved of the old one is not sold any more ([api.EpochBegun]): the
// rest of the reservation can be carried out in part. Answers about panels stay recorded; none is
// raised to a higher ε across the change. [Ledger.Advance] releases in the new chain what the
// calendar has released by now. The new chain is drawn from chance, also if the old one was drawn
// from a noise key ([api.NoiseKeys]).
//
// Whoever sees that an epoch began (in the log, a statement, a price) can guess that the value has
// changed, unless the host begins epochs by the calendar, for everybody.
//
// If nothing was drawn, sold or asked in the current epoch, there is nothing to close, and nothing
// happens. The same request under its key does nothing twice.
//
// Errors: [*api.RefusedError] for somebody who is not enrolled in the question, has withdrawn, or whose
// chain is [api.Full]; [api.ErrUnknown] if there is no such question; [api.ErrInvalid],
// [*api.KeyConflictError], [api.ErrReadOnly]; and [api.ErrForgotten] if the object was forgotten
// since the key was used.
func (l *Ledger) BeginEpoch(ctx context.Context, r api.EpochRequest) error {
	if err := event.CheckName("object", r.Object); err != nil {
		return err
	}
	q, err := l.requests.Question(ctx, r.Question)
	if err != nil {
		return err
	}
	id := event.EpochRequest(r.Question, r.Object)
	return callback.Tell(l.requests.Once(ctx, r.Key, r.Object, id, func(s *state.State) (event.Change, error) {
		return l.epochOf(s, q, r)
	}))
}

// epochOf returns the change that begins a new epoch, or nil if the current one is new.
func (l *Ledger) epochOf(s *state.State, q *event.Question, r api.EpochRequest) (event.Change, error) {
	var x rules.Subject
	refusal, err := rules.ReadSubject(s, q, r.Object, privacy.Epsilon{}, &x)
	if err != nil {
		return nil, err
	}
	if refusal == nil && x.Chain.Unused() {
		return nil, nil
	}
	if refusal == nil {
		refusal = rules.CheckEpoch(&x, q)
	}
	if refusal != nil {
		refused := request.Refusals(*refusal)
		return nil, l.requests.Refuse(r.Key, "", q, privacy.Epsilon{}, &refused, &rules.TruthFaults{})
	}
	return &event.EpochBegun{Object: r.Object, Question: q.Number}, nil
}
