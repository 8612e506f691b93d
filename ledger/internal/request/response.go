package request

import (
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// ResponseOf returns the response of a recorded level of an object in the form for callers.
func ResponseOf(q *event.Question, object string, at state.Level) (api.Response, error) {
	value, err := q.ResponseText(object, at.Epsilon, at.Response)
	if err != nil {
		return api.Response{}, err
	}
	return api.Response{Object: object, Question: q.Name, Epsilon: at.Epsilon, Value: value, Event: at.Event}, nil
}
