package documents

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Receipt returns the receipt of a sale, which has the record sale and the number. It is proven in
// the log as it was directly after the sale. So it reveals nothing of later events, regardless of
// when it is made.
func (m *Maker) Receipt(ctx context.Context, sale state.Sale, number uint64) (evidence.Receipt, error) {
	r := receipt{sale: sale}
	if err := m.Engine.View(ctx, func(s *state.State) error { return r.begin(s, number) }); err != nil {
		return evidence.Receipt{}, err
	}
	// Leaves never change, so events from several short snapshots match one checkpoint.
	for from := uint64(0); from < sale.Objects; from += perSnapshot {
		n := min(perSnapshot, sale.Objects-from)
		if err := m.Engine.View(ctx, func(s *state.State) error { return r.add(s, from, n) }); err != nil {
			return evidence.Receipt{}, err
		}
	}
	proof, signed, err := m.proveSigned(ctx, sale.Last(), r.numbers)
	if err != nil {
		return evidence.Receipt{}, err
	}
	return r.Finish(proof, signed), nil
}

// receipt reads the events of a receipt from snapshots, and passes them to its [ReceiptMaker].
type receipt struct {
	*ReceiptMaker
	sale    state.Sale
	numbers []uint64 // of the events read so far
}

// begin reads all events of the receipt except the responses, and begins the receipt. number is
// that of the sale. If the event in the record of the sale is not that of this sale, the error is
// [errs.ErrCorrupt].
func (r *receipt) begin(s *state.State, number uint64) (err error) {
	question, err := s.Definition(state.BucketQuestions, r.sale.Question)
	if err != nil {
		return err
	}
	buyer, err := s.Definition(state.BucketBuyers, r.sale.Buyer)
	if err != nil {
		return err
	}
	r.numbers = []uint64{1, question, buyer, r.sale.Event}
	var all [4]Entry
	for i, number := range r.numbers {
		if all[i], err = ReadEntry(s, number); err != nil {
			return err
		}
	}
	if c, ok := all[3].Change.(*event.SaleMade); !ok || c.Sale != number {
		return errs.Corrupt(nil, "event %d does not make sale %d", r.sale.Event, number)
	}
	r.ReceiptMaker, err = NewReceipt(all[0], all[1], all[2], all[3])
	return err
}

// add reads n responses, beginning with the one at index from, counted from 0, and adds them to the
// receipt.
func (r *receipt) add(s *state.State, from, n uint64) error {
	next := make([]uint64, n)
	for i := range next {
		next[i] = r.sale.Event + 1 + from + uint64(i)
	}
	prefetchEvents(s, next)
	for _, number := range next {
		sold, err := ReadEntry(s, number)
		if err == nil {
			err = r.Add(sold)
		}
		if err != nil {
			return err
		}
	}
	r.numbers = append(r.numbers, next...)
	return nil
}

// ReceiptMaker is an unfinished receipt: begun by [NewReceipt], with the responses that
// [ReceiptMaker.Add] has added.
type ReceiptMaker struct {
	receipt  evidence.Receipt
	question *event.Question
}

// NewReceipt begins the receipt of a sale. Its arguments are the event that begins the log, the
// events that define the question and the buyer, and the event of the sale. For events of other
// kinds, the error is [errs.ErrCorrupt].
func NewReceipt(created, question, buyer, sale Entry) (*ReceiptMaker, error) {
	began, isCreated := created.Change.(*event.Created)
	asked, isQuestion := question.Change.(*event.QuestionDefined)
	client, isBuyer := buyer.Change.(*event.BuyerNamed)
	made, isSale := sale.Change.(*event.SaleMade)
	if !isCreated || !isQuestion || !isBuyer || !isSale {
		return nil, errs.Corrupt(nil, "events %d, %d, %d and %d are not those of a log's beginning, a question, a "+
			"buyer and a sale", created.Number, question.Number, buyer.Number, sale.Number)
	}
	// how the responses were made is withheld from the buyer
	shown := Entry{event.Withhold(sale.Event), sale.Leaf}
	m := &ReceiptMaker{question: event.NewQuestion(asked), receipt: evidence.Receipt{
		Format: event.ReceiptFormat, Ledger: uuid.UUID(began.ID).String(), Created: created.Time,
		Currency: began.Currency, LogKey: began.LogKey, Buyer: client.Name,
		Question: asked.Name, Values: slices.Clone(asked.Values), Encoding: asked.Encoding,
		Mechanism: event.NameOutputs(asked.Mechanism), Responses: []evidence.SoldResponse{},
		Evidence: evidence.Evidence{
			Created: created.proven(), Sale: shown.proven(), Withheld: shown.Withheld[:],
		},
	}}
	r, e := &m.receipt, &m.receipt.Evidence
	e.Question.Number, e.Question.Time, e.Question.Proven = asked.Number, question.Time, question.proven()
	e.Buyer.Number, e.Buyer.Time, e.Buyer.Proven = client.Number, buyer.Time, buyer.proven()
	r.Sale, r.Epsilon, r.Time = made.Sale, made.Epsilon, sale.Time
	r.Objects, r.Price, r.Refused, r.Upgrades = made.Objects, int64(made.Price), made.Refused, made.Tally.Upgrades
	return m, nil
}

// Add adds the next response of the sale, or its commitment if the event is erased. If the event is
// no such response, the error is [errs.ErrCorrupt].
func (m *ReceiptMaker) Add(ev Entry) error {
	r := &m.receipt
	c, ok := ev.Change.(*event.Sold)
	if !ok || c.Sale != r.Sale || !ev.Time.Equal(r.Time) || ev.Erased == nil && !m.question.Has(r.Epsilon, c.Value) {
		return errs.Corrupt(nil, "event %d is no response of sale %d", ev.Number, r.Sale)
	}
	one := evidence.SoldResponse{Price: int64(c.Price), Event: ev.Number, Leaf: ev.Leaf}
	if ev.Erased != nil {
		one.Erased, one.Commitment = true, ev.Erased[:]
	} else {
		shown := event.Withhold(ev.Event)
		one.Object, one.Response = c.Object, m.question.Text(r.Epsilon, c.Value)
		one.Salt, one.Withheld = shown.Salt[:], shown.Withheld[:]
	}
	r.Responses = append(r.Responses, one)
	return nil
}

// Finish returns the receipt. proof proves that its events are in the log of checkpoint, a signed
// note.
func (m *ReceiptMaker) Finish(proof []tlog.Hash, checkpoint []byte) evidence.Receipt {
	m.receipt.Evidence.Proof, m.receipt.Evidence.Checkpoint = proof, string(checkpoint)
	return m.receipt
}
