package main

import (
	"context"
	"iter"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/privacy"
)

// book is a ledger as commands know it: in a file that they have open, or behind an address.
type book interface {
	About() ledger.About
	Stats(ctx context.Context) (ledger.Stats, error)
	Health(ctx context.Context) (observe.Health, error)
	Close() error

	Questions(ctx context.Context) ([]ledger.Question, error)
	DefineQuestion(ctx context.Context, key string, q ledger.Question) error
	Enroll(ctx context.Context, r ledger.EnrollRequest) (ledger.EnrollResult, error)
	ChangeTerms(ctx context.Context, r ledger.ChangeTermsRequest) (ledger.ChangeTermsResult, error)
	Raise(ctx context.Context, r ledger.RaiseRequest) (ledger.RaiseResult, error)
	Advance(ctx context.Context, r ledger.AdvanceRequest) (ledger.AdvanceResult, error)
	Answer(ctx context.Context, r ledger.AnswerRequest) (ledger.AnswerResult, error)
	QuoteAnswer(ctx context.Context, r ledger.AnswerRequest) (ledger.AnswerQuote, error)
	BeginEpoch(ctx context.Context, key, question, object string) error
	Withdraw(ctx context.Context, key, object string) error
	Forget(ctx context.Context, key, object string) error

	Budget(ctx context.Context, r ledger.BudgetRequest) (ledger.Budget, error)
	Quote(ctx context.Context, o ledger.Order) (ledger.Quote, error)
	Sell(ctx context.Context, r ledger.SellRequest) (ledger.Sale, error)
	Reserve(ctx context.Context, r ledger.ReserveRequest) (ledger.Reservation, error)
	Capture(ctx context.Context, r ledger.CaptureRequest) (ledger.Sale, error)
	Cancel(ctx context.Context, key string, reservation uint64) error
	Sales(ctx context.Context, buyer string) iter.Seq2[ledger.Sale, error]
	Reservations(ctx context.Context, buyer string, states ...ledger.ReservationState) iter.Seq2[ledger.Reservation, error]
	Buyers(ctx context.Context) ([]ledger.BuyerState, error)
	Deliveries(ctx context.Context, sale uint64) iter.Seq2[ledger.Delivery, error]

	Object(ctx context.Context, name string) (ledger.ObjectState, error)
	Estimate(ctx context.Context, r ledger.EstimateRequest) (ledger.Estimate, error)
	Levels(ctx context.Context, question string) ([]ledger.LevelCount, error)
	Responses(ctx context.Context, question string, epsilon privacy.Epsilon) iter.Seq2[ledger.Response, error]
	Events(ctx context.Context, from uint64) iter.Seq2[ledger.Event, error]
	Watch(ctx context.Context, from uint64) iter.Seq2[ledger.Event, error]
	Refusals(ctx context.Context, key string, from uint64) iter.Seq2[ledger.Event, error]

	Checkpoint(ctx context.Context) ([]byte, error)
	Head(ctx context.Context, events uint64) (evidence.Head, error)
	Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error)
	Statement(ctx context.Context, key, object string) (evidence.Statement, error)
	Verify(ctx context.Context, r ledger.VerifyRequest) (ledger.Verification, error)
	Backup(ctx context.Context, path string, progress ledger.Progress) (ledger.Copied, error)
	CompactTo(ctx context.Context, path string, progress ledger.Progress) (ledger.Copied, error)
	Compact(ctx context.Context, progress ledger.Progress) error
}

var (
	_ book = (*ledger.Ledger)(nil)
	_ book = (*ledgerclient.Client)(nil)
)
