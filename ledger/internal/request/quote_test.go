package request_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestQuote_OfAll_KeepsNothingOfEach reads a quote's memory: neither names nor prices of its
// objects are kept.
func TestQuote_OfAll_KeepsNothingOfEach(t *testing.T) {
	const many = 700
	p, err := policy.Market{
		Max: privacy.MustEpsilon("2"), Prices: []policy.Price{{Epsilon: privacy.MustEpsilon("2"), Amount: 100}},
	}.Policy()

	must(t, err)
	q := api.Question{Name: "vote", Values: []string{"yes", "no"}, Encoding: "direct"}
	defined := &event.Settled{Key: "define", First: 2, Final: true}
	id := event.DefineRequest(q, q.Encoding)
	defined.Of(&id)
	changes := []event.Change{
		&event.Created{Currency: "USD"},
		&event.QuestionDefined{Number: 1, Question: q},
		defined,
		&event.PolicyDefined{Number: 1, JSON: p.String()},
	}
	for i := range many {
		changes = append(changes, &event.Enrolled{
			Object: fmt.Sprintf("object %03d", i), Question: 1, Policy: 1, Cap: privacy.MustEpsilon("10"),
		})
	}
	end := &event.Settled{Key: "enroll", Digest: [32]byte{1}, First: 4, Final: true}
	end.Counts[0] = many
	store := &kv.Memory{}
	must(t, store.Update(func(w kv.Writer) error {
		version := binary.BigEndian.AppendUint16([]byte(state.FormatName), state.FormatVersion)
		if err := w.Put(state.BucketMeta, []byte(state.KeyFormat), version); err != nil {
			return err
		}
		s, err := state.Begin(w, time.Now())
		if err == nil {
			_, _, err = fold.Record(s, append(changes, end))
		}
		return errors.Join(err, fold.Flush(s))
	}))
	e := &engine.Engine{ReadOnly: true}
	must(t, e.Begin(store, nil, zerolog.Nop(), nil, true, engine.ClockLeap{}))
	x := &request.Executor{Engine: e, Rules: &rules.Rules{ReadOnly: true}}
	for _, epsilon := range []string{"1.5", "2.5"} {
		o := api.Order{Buyer: "bolt", Question: "vote", Epsilon: privacy.MustEpsilon(epsilon), All: true}
		names, lines, listed, counted, err := x.KeptByQuote(t.Context(), o)
		must(t, err)
		if names+lines > 0 || listed > request.MaxListed || counted != many {
			t.Errorf("at ε=%s it keeps %d names, %d lines and %d refusals of %d", epsilon, names, lines, listed, counted)
		}
	}
}
