package evidence

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/privacy"
)

// proofOf proves that some events are in a log.
func proofOf(t testing.TB, log, some []entry) (proof []tlog.Hash, head *merkle.Frontier) {
	t.Helper()
	head = &merkle.Frontier{}
	var stored []tlog.Hash
	for _, ev := range log {
		hashes := check.Value(head.Append(ev.Leaf))(t)
		stored = append(stored, hashes...)
	}
	var leaves []uint64
	for _, ev := range some {
		leaves = append(leaves, ev.Number-1)
	}
	proof, err := merkle.Prove(head.Size(), leaves, tlog.HashReaderFunc(func(indexes []int64) (hashes []tlog.Hash, err error) {
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	}))
	check.Must(t, err)
	return present(proof), head
}

// A holder of the log can prove of each event that it is in the log. But an event in a statement
// that is neither about its object nor needed by another event is a fault. Otherwise one statement
// would have two texts, and the longer one would show the sales of other objects.
func TestStatementVerify_UnneededEvent_IsAFault(t *testing.T) {
	secret, public, err := note.GenerateKey(rand.Reader, "example.com/spare")
	check.Must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	key := check.Value(note.NewVerifier(public))(t)
	one := check.Value(privacy.ParseEpsilon("1"))(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	deal := event.Deal{Sale: 1, Buyer: 1, Question: 1, Epsilon: one, Objects: 3, Price: 900}
	question := api.Question{Name: "smoker", Values: []string{"Y", "N"}, Encoding: "direct"}
	for name, of := range map[string]event.Change{
		"question": &event.QuestionDefined{Number: 2, Question: question}, "policy": &event.PolicyDefined{Number: 1, JSON: `{"kind":"fixed","ceiling":"2"}`},
		"buyer": &event.BuyerNamed{Number: 2, Name: "rival"}, "reserved": &event.Reserved{Deal: deal, Expires: at}, "sale": &event.SaleMade{Deal: deal},
	} {
		vote := question
		vote.Name = "vote"
		var log []entry
		for i, c := range []event.Change{
			&event.Created{Currency: "USD", LogKey: public}, &event.QuestionDefined{Number: 1, Question: vote}, &event.BuyerNamed{Number: 1, Name: "acme"}, of,
			&event.Enrolled{Object: "ann", Question: 1, Cap: one}, &event.Stated{Object: "ann", Events: []uint64{5}, Account: event.Account{Cap: one}},
		} {
			ev := event.Event{Number: uint64(i + 1), Time: at, Change: c}
			log = append(log, entry{ev, ev.Leaf()})
		}
		needed := slices.Concat(log[:2], log[4:])
		proof, edge := proofOf(t, log, needed)
		signed := check.Value(merkle.Checkpoint{Origin: key.Name(), Size: edge.Size(), Root: edge.Root()}.Sign(signer))(t)
		st := Statement{Object: "ann", Events: factsOf(t, needed), Proof: proof, Checkpoint: string(signed)}
		check.Must(t, st.Summarize())
		if checked := st.Verify(note.VerifierList(key)); !checked.OK() {
			t.Fatalf("%s: %+v", name, checked)
		}
		st.Events = factsOf(t, log)
		st.Proof, _ = proofOf(t, log, log)
		st = check.Value(ReadStatement(text(t, st)))(t)
		checked := st.Verify(note.VerifierList(key))
		var all strings.Builder
		for _, f := range checked.Faults {
			all.WriteString(f.Text + "\n")
		}
		check.That(t, !checked.OK() && checked.Signed &&
			strings.Contains(all.String(), "event 4 is neither about the object nor needed by another event\n"), "%s: %+v", name, checked)
	}
}
