package ledger

import (
	"encoding/json"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
)

// A caller changes a receipt that the ledger has returned. The change must not reach the ledger.
func TestReceipt_ChangedByCaller_LeavesTheLedgerUnchanged(t *testing.T) {
	o := newIssuer(t, 1)
	sellers(t, o.Ledger, "9", "40", "ann", "bob")
	q := fixture.Party(t)
	define(t, o.Ledger, q)
	enrollUnder(t, o.Ledger, q.Name, market(t, "9"), "40", "ann", "bob")
	for number, question := range []api.Question{vote(), q} {
		bought := purchase(t, question.Name, "acme", q.Mechanism.Family.Epsilons()[0].String(), "ann")
		bought.Question, bought.Truth = question.Name, sameTruth(question.Values[0])
		sell(t, o.Ledger, bought)
		r := check.Value(o.Receipt(t.Context(), uint64(number)+1))(t)
		before := check.Value(json.Marshal(r))(t)
		r.Values[0], r.Values[1] = r.Values[1], r.Values[0]
		if m := r.Mechanism; m != nil {
			m.Outputs[0][0], m.Family = "mine", nil
		}
		e := check.Value(o.Estimate(t.Context(), api.EstimateRequest{Question: question.Name}))(t)
		check.That(t, e.Values[0].Value == question.Values[0],
			"the first value of %q is %q now", question.Name, e.Values[0].Value)
		again := check.Value(o.Receipt(t.Context(), uint64(number)+1))(t)
		after := check.Value(json.Marshal(again))(t)
		if string(after) != string(before) || !again.Verify(o.keys).OK() {
			t.Errorf("the receipt has changed: %v", again.Verify(o.keys))
		}
	}
	wantClean(t, o.Ledger, api.VerifyRequest{})
}
