package ledgerhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
)

// Meter counts what a handler does, and shows it. Its methods are called from any number of
// goroutines, and must not panic.
type Meter interface {
	// Answered is told of each request to a route when it has been answered.
	Answered(Answer)
	// ServeMetrics answers a request for what was counted, and for how the ledger is doing.
	ServeMetrics(w http.ResponseWriter, r *http.Request, l *ledger.Ledger)
}

// Answer is how a request was answered.
type Answer struct {
	Route    string        // its operationId in the document of the API, such as "sell"
	Status   int           // of HTTP
	Duration time.Duration // until all of the answer was sent
}

func meter(c *call) (body, error) {
	if c.handler.options.Meter == nil {
		return nil, problem.New(problem.NoRoute, "this server counts nothing")
	}
	return func(_ context.Context, w *writer) error {
		c.handler.options.Meter.ServeMetrics(w, c.request, c.ledger())
		return nil
	}, nil
}
