package kit

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/privacy"
)

// Book is a ledger as a host calls it: an open one, or one behind a handler.
type Book interface {
	About() ledger.About
	Stats(ctx context.Context) (ledger.Stats, error)

	Questions(ctx context.Context) ([]ledger.Question, error)
	DefineQuestion(ctx context.Context, key string, q ledger.Question) error
	Enroll(ctx context.Context, r ledger.EnrollRequest) (ledger.EnrollResult, error)
	Release(ctx context.Context, r ledger.ReleaseRequest) (ledger.Response, error)
	Raise(ctx context.Context, r ledger.RaiseRequest) (ledger.RaiseResult, error)
	Advance(ctx context.Context, r ledger.AdvanceRequest) (ledger.AdvanceResult, error)
	Answer(ctx context.Context, r ledger.AnswerRequest) (ledger.AnswerResult, error)
	QuoteAnswer(ctx context.Context, r ledger.AnswerRequest) (ledger.AnswerQuote, error)
	BeginEpoch(ctx context.Context, key, question, object string) error
	Withdraw(ctx context.Context, key, object string) error
	Forget(ctx context.Context, key, object string) error

	Quote(ctx context.Context, o ledger.Order) (ledger.Quote, error)
	Sell(ctx context.Context, r ledger.SellRequest) (ledger.Sale, error)
	Reserve(ctx context.Context, r ledger.ReserveRequest) (ledger.Reservation, error)
	Capture(ctx context.Context, r ledger.CaptureRequest) (ledger.Sale, error)
	Cancel(ctx context.Context, key string, reservation uint64) error
	Sale(ctx context.Context, number uint64) (ledger.Sale, error)
	Sales(ctx context.Context, buyer string) iter.Seq2[ledger.Sale, error]
	Reservation(ctx context.Context, number uint64) (ledger.Reservation, error)
	Reservations(ctx context.Context, buyer string) iter.Seq2[ledger.Reservation, error]
	Deliveries(ctx context.Context, sale uint64) iter.Seq2[ledger.Delivery, error]
	Buyers(ctx context.Context) ([]ledger.BuyerState, error)

	Object(ctx context.Context, name string) (ledger.ObjectState, error)
	Estimate(ctx context.Context, r ledger.EstimateRequest) (ledger.Estimate, error)
	Levels(ctx context.Context, question string) ([]ledger.LevelCount, error)
	Responses(ctx context.Context, question string, epsilon privacy.Epsilon) iter.Seq2[ledger.Response, error]
	Events(ctx context.Context, from uint64) iter.Seq2[ledger.Event, error]
	Refusals(ctx context.Context, key string, from uint64) iter.Seq2[ledger.Event, error]

	Checkpoint(ctx context.Context) ([]byte, error)
	Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error)
	Statement(ctx context.Context, key, object string) (evidence.Statement, error)
}

var (
	_ Book = (*ledger.Ledger)(nil)
	_ Book = (*ledgerclient.Client)(nil)
)

// Served returns a ledger as who calls it over HTTP has it, without a network.
func Served(t testing.TB, l *ledger.Ledger) *ledgerclient.Client {
	t.Helper()
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Everybody{Name: "test", Role: ledgerhttp.Operator}, Limits: ledgerhttp.Limits{Rate: 1e9, Burst: 1e9}})
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
