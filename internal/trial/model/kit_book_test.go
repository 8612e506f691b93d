package model

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/privacy"
)

// Book is a ledger as a host calls it: an open one, or one behind a handler. What a method does is told in package ledger.
type Book interface {
	About() api.About                             // as of [ledger.Ledger]
	Stats(ctx context.Context) (api.Stats, error) // as of [ledger.Ledger]

	Questions(ctx context.Context) ([]api.Question, error)                                    // as of [ledger.Ledger]
	DefineQuestion(ctx context.Context, key string, q api.Question) error                     // as of [ledger.Ledger]
	Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error)                // as of [ledger.Ledger]
	ChangeTerms(ctx context.Context, r api.ChangeTermsRequest) (api.ChangeTermsResult, error) // as of [ledger.Ledger]
	Reconcile(ctx context.Context, r api.ReconcileRequest) (api.ReconcileResult, error)       // as of [ledger.Ledger]
	Release(ctx context.Context, r api.ReleaseRequest) (api.Response, error)                  // as of [ledger.Ledger]
	Raise(ctx context.Context, r api.RaiseRequest) (api.RaiseResult, error)                   // as of [ledger.Ledger]
	Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error)             // as of [ledger.Ledger]
	Answer(ctx context.Context, r api.AnswerRequest) (api.AnswerResult, error)                // as of [ledger.Ledger]
	QuoteAnswer(ctx context.Context, r api.AnswerRequest) (api.AnswerQuote, error)            // as of [ledger.Ledger]
	BeginEpoch(ctx context.Context, key, question, object string) error                       // as of [ledger.Ledger]
	Withdraw(ctx context.Context, key, object string) error                                   // as of [ledger.Ledger]
	Forget(ctx context.Context, key, object string) error                                     // as of [ledger.Ledger]

	Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error)                                              // as of [ledger.Ledger]
	Quote(ctx context.Context, o api.Order) (api.Quote, error)                                                        // as of [ledger.Ledger]
	Sell(ctx context.Context, r api.SellRequest) (api.Sale, error)                                                    // as of [ledger.Ledger]
	Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error)                                       // as of [ledger.Ledger]
	Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error)                                              // as of [ledger.Ledger]
	Cancel(ctx context.Context, key string, reservation uint64) error                                                 // as of [ledger.Ledger]
	Sale(ctx context.Context, number uint64) (api.Sale, error)                                                        // as of [ledger.Ledger]
	Sales(ctx context.Context, buyer string) iter.Seq2[api.Sale, error]                                               // as of [ledger.Ledger]
	Reservation(ctx context.Context, number uint64) (api.Reservation, error)                                          // as of [ledger.Ledger]
	Reservations(ctx context.Context, buyer string, states ...api.ReservationState) iter.Seq2[api.Reservation, error] // as of [ledger.Ledger]
	Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error]                                       // as of [ledger.Ledger]
	Buyers(ctx context.Context) ([]api.BuyerState, error)                                                             // as of [ledger.Ledger]

	Object(ctx context.Context, name string) (api.ObjectState, error)                                       // as of [ledger.Ledger]
	Estimate(ctx context.Context, r api.EstimateRequest) (api.Estimate, error)                              // as of [ledger.Ledger]
	Levels(ctx context.Context, question string) ([]api.LevelCount, error)                                  // as of [ledger.Ledger]
	Responses(ctx context.Context, question string, epsilon privacy.Epsilon) iter.Seq2[api.Response, error] // as of [ledger.Ledger]
	Events(ctx context.Context, from uint64) iter.Seq2[says.Event, error]                                   // as of [ledger.Ledger]
	Refusals(ctx context.Context, key string, from uint64) iter.Seq2[says.Event, error]                     // as of [ledger.Ledger]

	Checkpoint(ctx context.Context) ([]byte, error)                                // as of [ledger.Ledger]
	Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error)            // as of [ledger.Ledger]
	Statement(ctx context.Context, key, object string) (evidence.Statement, error) // as of [ledger.Ledger]
	Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error)     // as of [ledger.Ledger]
	Watch(ctx context.Context, from uint64) iter.Seq2[says.Event, error]           // as of [ledger.Ledger]
	Close() error                                                                  // as of [ledger.Ledger]
}

var (
	_ Book = (*ledger.Ledger)(nil)
	_ Book = (*ledgerclient.Client)(nil)
)

// Served returns a ledger as who calls it over HTTP has it, without a network.
func Served(t testing.TB, l *ledger.Ledger) *ledgerclient.Client {
	t.Helper()
	crowded := ledgerhttp.Limits{Rate: 1e9, Burst: 1e9, Running: 1e4, Memory: 1e12, Streams: 1e4, Each: 1e4, Records: 1e12, RecordBurst: 1e12, Panels: 1e4}
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Everybody{Name: "test", Role: ledgerhttp.Operator}, Limits: crowded})
	Must(t, err)
	c, err := ledgerclient.Dial(t.Context(), "http://localhost", ledgerclient.Options{HTTP: &http.Client{Transport: direct{h}}})
	Must(t, err)
	return c
}

// direct is a transport to a handler in this process.
type direct struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	to := r.Clone(r.Context())
	to.RequestURI = r.URL.RequestURI()
	if to.Body == nil {
		to.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, to)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response := w.Result()
	response.ContentLength = int64(w.Body.Len())
	return response, nil
}

// served is a ledger that is called over HTTP, and is closed with its client.
type served struct {
	*ledgerclient.Client
	ledger *ledger.Ledger
}

// Close closes both.
func (s *served) Close() error { return errors.Join(s.Client.Close(), s.ledger.Close()) }

// Verify verifies where the ledger is: a copy, which the client would verify, cannot be made of one in memory.
func (s *served) Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error) {
	return s.ledger.Verify(ctx, r)
}
