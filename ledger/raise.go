package ledger

import (
	"context"

	"github.com/sluicedp/sluice/privacy"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Response is the answer of one object to a question at one ε. It never changes.
type Response struct {
	Object   string          `json:"object"`   // who answers
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level
	Value    string          `json:"response"` // as the question's encoding puts it in words
	Event    uint64          `json:"event"`    // the event that recorded it
}

// RaiseRequest asks for the responses of many objects at one ε.
type RaiseRequest struct {
	Key      string          `json:"-"`                 // idempotency key, 1 to 256 bytes
	Question string          `json:"question"`          // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`           // above 0
	Objects  []string        `json:"objects,omitzero"`  // the objects, or
	All      bool            `json:"all,omitempty"`     // everyone enrolled in the question, who has not withdrawn
	Partial  bool            `json:"partial,omitempty"` // leave refused objects out, rather than refuse the request
	Truth    TruthFunc       `json:"-"`                 // asked for the objects whose current level lies below ε
	Progress Progress        `json:"-"`                 // optional
}

// RaiseResult tells what a raise did. Drawn, Reused and Derived add up to the objects answered;
// with Refused and Unlisted, to all.
type RaiseResult struct {
	Drawn   int `json:"drawn"`   // drawn above the current level, charged to the object
	Reused  int `json:"reused"`  // recorded before at this ε, and free
	Derived int `json:"derived"` // drawn below the current level without the truth, and free
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them.
	// [Ledger.Refusals] yields all.
	Refused  []Refusal `json:"refused"`
	Unlisted int       `json:"unlisted,omitempty"` // how many more were left out, or were and are forgotten since
	// TruthChanged are those of Refused whose true value is another than the one that their chain
	// began with (see [Options.TruthKey]). Who learns that somebody's value has changed learns
	// something about the values: this is for the host alone, and nobody else is told, nor is it
	// told again for the same key. Parts of the request that were carried out by an earlier call
	// are not in it.
	TruthChanged []string `json:"-"`
	// TruthInvalid are those of Refused whose true value is not one of the question's. It is for
	// the host alone, like TruthChanged.
	TruthInvalid []string `json:"-"`
	First        uint64   `json:"first"` // first and last event; other requests' events may lie between
	Last         uint64   `json:"last"`  // as First
}

// Raise brings many objects to ε as [Ledger.Release] does one. It is whole or nothing, unless the
// request is partial: if any object is refused, no object is drawn from (but see [ErrPartlyDone]),
// and the [*RefusedError] says who. Responses are read with [Ledger.Responses] afterwards.
//
// True values are asked for, in batches, before anything is written; those of objects beyond the
// first million once more when their turn comes. Then the objects are carried out in transactions
// of bounded size; meanwhile their budget is held, so that nobody else can take it. If ctx ends,
// the source of truths fails or the process dies in between, the parts committed so far stay, and
// the same request with the same key goes on where it stopped.
func (l *Ledger) Raise(ctx context.Context, r RaiseRequest) (RaiseResult, error) {
	done, changed, invalid, err := l.requests.Raise(ctx, request.Raise(r))
	if err != nil {
		return RaiseResult{}, err
	}
	n := done.Counts
	return RaiseResult{
		Drawn: int(n[event.Drawn]), Reused: int(n[event.Reused]), Derived: int(n[event.Derived]),
		Refused: done.Refused, Unlisted: done.Left - len(done.Refused), TruthChanged: changed, TruthInvalid: invalid,
		First: done.First, Last: done.Last,
	}, nil
}

// describeLevel describes a recorded level.
func describeLevel(q *event.Question, object string, at state.Level) (Response, error) {
	value, err := q.ResponseText(object, at.Epsilon, at.Response)
	if err != nil {
		return Response{}, err
	}
	return Response{Object: object, Question: q.Name, Epsilon: at.Epsilon, Value: value, Event: at.Event}, nil
}
