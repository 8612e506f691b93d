package event

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/rrchain"
)

// The golden files fix the encoding: existing files must stay readable, with the same meaning.
// After an intended change, which docs/reference/file-format.md describes, write them again with
//
//	go test ./ledger/internal/event -run Golden -update
//
// and check every changed line.
var update = flag.Bool("update", false, "write the golden files again")

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func logKey(t testing.TB, name string) string {
	t.Helper()
	_, key, err := note.GenerateKey(bytes.NewReader(make([]byte, 64)), name)
	check.Must(t, err)
	return key
}

func bitsOf(t testing.TB, text string) rrchain.Bits {
	t.Helper()
	var bits rrchain.Bits
	check.Must(t, bits.UnmarshalText([]byte(text)))
	return bits
}

// goldenEntries returns events of every kind, with fields of every length, as they are stored.
// Their tree hashes are distinct placeholders, not those of a real log.
func goldenEntries(t testing.TB) []Entry {
	t.Helper()
	bound := &Tag{0, 1, 2, 15: 0xff}
	changes := []Change{
		&Created{ID: [16]byte{0xaa, 15: 0xbb}, Currency: "USD"},
		&Created{Currency: "", LogKey: logKey(t, strings.Repeat("k", 100))},
		&TruthKeySet{Check: *bound},
		&QuestionDefined{Number: 1, Question: api.Question{Name: "vote", Values: []string{"yes", "no"}, Encoding: "direct"}},
		&QuestionDefined{Number: 1<<32 - 1, Question: api.Question{Name: "", Values: []string{"", "é"}, Encoding: "unary"}},
		&PolicyDefined{Number: 1, JSON: `{"kind":"fixed","ceiling":"1"}`},
		&Enrolled{Object: "ann", Question: 1, Policy: 0, Noise: 0, Cap: check.Eps(t, "1000")},
		&Enrolled{Object: strings.Repeat("n", 256), Question: 1 << 24, Policy: 1<<32 - 1, Noise: 0, Cap: nano(t, 1)},
		&Released{Object: "ann", Question: 1, Epsilon: check.Eps(t, "0.5"), Response: Response{Value: Value{Index: 0}, Method: MethodRaise}},
		&Released{Object: "ann", Question: 1, Epsilon: check.Eps(t, "0.5"), Response: Response{Value: Value{Index: 127}, Method: MethodRaise}},
		&Released{Object: "", Question: 2, Epsilon: nano(t, 1), Response: Response{Value: Value{Index: 128}, Method: MethodDegrade}},
		&Released{Object: "bob", Question: 3, Epsilon: check.Eps(t, "1000"), Response: Response{Value: Value{Index: 1<<20 - 1}, Method: MethodInsert}},
		&Released{Object: "bob", Question: 3, Epsilon: check.Eps(t, "1"), Response: Response{Value: Value{Bits: bitsOf(t, "1")}, Method: MethodRaise}},
		&Released{Object: "bob", Question: 3, Epsilon: check.Eps(t, "1"), Response: Response{Value: Value{Bits: bitsOf(t, "01000001"+"1")}, Method: MethodInsert}},
		&Settled{Key: "k", Digest: [32]byte{1, 31: 2}, First: 1, Through: 2, Object: "zoe", Alone: true, Final: true, Counts: Counts{1, 2, 3}},
		&Charged{Object: "zoe", Question: 3, Epsilon: check.Eps(t, "0.5")},
		&Charged{Object: strings.Repeat("é", 128), Question: 1<<32 - 1, Epsilon: nano(t, 1)},
		&Answered{Question: 3, Query: "threshold:groß:7", Panel: [32]byte{1, 31: 2}, Objects: 300, Epsilon: check.Eps(t, "1"), Result: Result{Output: 129}, Method: MethodFresh},
		&Answered{Question: 3, Query: "winner", Panel: [32]byte{}, Objects: 1, Epsilon: nano(t, 1), Result: Result{}, Method: MethodDegrade},
		&Settled{Key: strings.Repeat("k", 256), First: 1 << 40, Swept: []SweptCount{{Question: 1, Raised: 2, Unchanged: 3, Refused: 0}, {Question: 1<<32 - 1, Raised: 1 << 14, Unchanged: 1<<64 - 1, Refused: 0}}, Answer: 1 << 40, Through: 1<<64 - 1, Object: "é", Done: 300},
		&Released{Object: "bob", Question: 1 << 8, Epsilon: nano(t, 127), Response: Response{Value: Value{Index: 0}, Method: MethodDegrade}},
		&BuyerNamed{Number: 1, Name: "acme"},
		&BuyerNamed{Number: 1<<32 - 1, Name: strings.Repeat("ü", 128)},
		&Reserved{Deal: Deal{Sale: 1, Buyer: 2, Question: 3, Epsilon: check.Eps(t, "0.5"), Objects: 4, Price: 5, Refused: 6}, Expires: time.Date(2027, 1, 1, 0, 0, 0, 1, time.UTC)},
		&Reserved{Deal: Deal{Sale: 1<<64 - 1, Buyer: 1<<32 - 1, Question: 1<<32 - 1, Epsilon: check.Eps(t, "1000"), Objects: 1 << 18, Price: 1<<63 - 1, Refused: 1 << 18}, Expires: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		&Held{Object: "ann", Sale: 1, Price: 0},
		&Held{Object: strings.Repeat("n", 256), Sale: 1 << 14, Price: 1_000_000_000_000},
		&Cancelled{Sale: 127},
		&Cancelled{Sale: 128},
		&SaleMade{Deal: Deal{Sale: 300, Buyer: 1, Question: 1, Epsilon: nano(t, 1), Objects: 15, Price: 1 << 14, Refused: 0}, Tally: SaleTally{Draws: 1, Resales: 2, Degradations: 3, Insertions: 4, Upgrades: 5}},
		&SaleMade{Deal: Deal{Sale: 1, Buyer: 1, Question: 1, Epsilon: check.Eps(t, "1"), Objects: 1, Price: 0, Refused: 127}, Tally: SaleTally{}},
		&SaleMade{Deal: Deal{Sale: 1, Buyer: 1, Question: 1, Epsilon: check.Eps(t, "1"), Objects: 1 << 18, Price: 1, Refused: 128}, Tally: SaleTally{Draws: 1 << 18, Resales: 128, Degradations: 1<<14 - 1, Insertions: 1 << 14, Upgrades: 1<<64 - 1}},
		&Sold{Object: "ann", Sale: 1, Price: 0, Response: Response{Value: Value{Index: 0}, Method: MethodResale}},
		&Sold{Object: "ann", Sale: 128, Price: 127, Response: Response{Value: Value{Index: 1}, Method: MethodRaise}},
		&Sold{Object: "", Sale: 1 << 32, Price: 128, Response: Response{Value: Value{Index: 127}, Method: MethodDegrade}},
		&Sold{Object: strings.Repeat("n", 256), Sale: 1<<64 - 1, Price: 1_000_000_000_000, Response: Response{Value: Value{Index: 1<<20 - 1}, Method: MethodInsert}},
		&Sold{Object: "ann", Sale: 1, Price: 0, Response: Response{Value: Value{Bits: bitsOf(t, strings.Repeat("10", 50))}, Method: MethodResale}},
		&Withdrawn{Object: "ann"},
		&Withdrawn{Object: strings.Repeat("é", 128)},
		&Settled{Key: "k", Swept: []SweptCount{{Question: 128, Raised: 0, Unchanged: 0, Refused: 1}, {Question: 129, Raised: 0, Unchanged: 0, Refused: 127}}, Refused: 128, Sale: 1<<64 - 1},
		&Settled{Key: "k", Final: true, Refused: 1, Answer: 1, Sale: 128},
		&EpochBegun{Object: "ann", Question: 1},
		&EpochBegun{Object: strings.Repeat("é", 128), Question: 1<<32 - 1},
		&TruthBound{Object: "ann", Question: 1, Tag: *bound},
		&TruthBound{Object: strings.Repeat("n", 256), Question: 1<<32 - 1, Tag: Tag{}},
		&ObjectRefused{Question: 0, Refusal: api.Refusal{Object: "ann", Reason: api.ObjectCap, Ceiling: check.Eps(t, "1"), Spent: check.Eps(t, "0.5"), Asked: check.Eps(t, "2"), Cost: check.Eps(t, "1.5"), Remaining: check.Eps(t, "0.5"), Remedy: "waiting", Largest: check.Eps(t, "1")}},
		&ObjectRefused{Question: 1<<32 - 1, Refusal: api.Refusal{Object: strings.Repeat("é", 128), Reason: api.NotEnrolled, Remedy: "enrolling"}},
		&Stated{Object: "ann", Forgotten: 0, Events: []uint64{1}, Account: Account{Cap: check.Eps(t, "1000"), Spent: check.Eps(t, "0.5"), Earned: 0}},
		&Stated{Object: strings.Repeat("n", 256), Forgotten: 1<<64 - 1, Events: []uint64{1, 127, 128, 1<<64 - 1}, Account: Account{Cap: nano(t, 1), Spent: nano(t, 1), Earned: 1<<63 - 1}},
		&Forgotten{Object: "zoe", Events: 1, Account: Account{}, Chains: nil},
		&Forgotten{Object: "ann", Events: 127, Account: Account{Cap: check.Eps(t, "1"), Spent: check.Eps(t, "0.5"), Earned: 100}, Chains: []Remnant{{Question: 1, Policy: 0, Spent: check.Eps(t, "0.5")}}},
		&Forgotten{Object: strings.Repeat("é", 128), Events: 1<<64 - 1, Account: Account{Cap: check.Eps(t, "1000"), Spent: nano(t, 129), Earned: 1<<63 - 1}, Chains: []Remnant{{Question: 1, Policy: 1<<32 - 1, Spent: nano(t, 1)}, {Question: 128, Policy: 0, Spent: nano(t, 128)}, {Question: 1<<32 - 1, Policy: 1, Spent: nano(t, 0)}}},
		&NoiseKeySet{Number: 1, Name: "2026", Check: Tag{1, 15: 2}},
		&NoiseKeySet{Number: 1<<32 - 1, Name: strings.Repeat("é", 128), Check: Tag{}},
		&Enrolled{Object: "ann", Question: 1, Policy: 2, Noise: 1<<32 - 1, Cap: check.Eps(t, "1")},
		&Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: check.Eps(t, "0.5"), Result: Result{Scored: true}, Method: MethodFresh},
		&Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: check.Eps(t, "1"), Result: Result{Scored: true, Score: -1}, Method: MethodRaise, Base: 56},
		&Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: check.Eps(t, "0.7"), Result: Result{Scored: true, Score: 64}, Method: MethodInsert, Base: 1 << 40},
		&Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: check.Eps(t, "0.2"), Result: Result{Scored: true, Score: -1 << 61}, Method: MethodDegrade},
		&TermsChanged{Object: "ann", Question: 1, Policy: 0, Cap: nano(t, 1)},
		&TermsChanged{Object: strings.Repeat("é", 128), Question: 1<<32 - 1, Policy: 1<<32 - 1, Cap: check.Eps(t, "1000"), Consent: strings.Repeat("ü", 512)},
		&Held{Object: "ann", Sale: 1, Price: 7, Policy: 127},
		&Held{Object: "ann", Sale: 1, Price: 7, Policy: 1<<32 - 1},
		&ObjectRefused{Question: 1, Refusal: api.Refusal{Object: "ann", Reason: api.NeedsConsent, Ceiling: check.Eps(t, "1"), Asked: check.Eps(t, "2"), Remedy: "consent", Why: "the cap would be ε=2, and is ε=1"}},
		&ObjectRefused{Question: 1, Refusal: api.Refusal{Object: "ann", Reason: api.PolicyDiffers, Spent: check.Eps(t, "1"), Remedy: "terms"}},
		&Settled{Key: "k", Digest: [32]byte{1}, Named: true, Names: Sum{Digest: [32]byte{31: 3}, Marks: Marks{count: 1, of: [mostFields]byte{4}}}, First: 1, Through: 2, Final: true, Counts: Counts{2, 0, 0}},
	}
	return entries(changes)
}

// entries returns a log of any changes.
func entries(changes []Change) []Entry {
	log := make([]Entry, len(changes))
	for i, c := range changes {
		at := epoch().Add(time.Duration(min(i, 59)-14) * 5 * 365 * 24 * time.Hour) // from before 1970 to the last representable time
		at = at.Add(time.Duration(max(0, i-59)))
		ev := Event{Number: uint64(i + 1), Time: at, Change: c}
		binary.BigEndian.PutUint64(ev.Salt[:], 1<<40+uint64(i))
		log[i] = Entry{Event: ev, Hashes: make([]tlog.Hash, merkle.Completes(uint64(i)))}
		for j := range log[i].Hashes {
			log[i].Hashes[j] = tlog.Hash{byte(i), byte(j), 31: 0xff}
		}
		if _, ok := c.(Personal); ok {
			log[i].Previous = []uint64{0, 1, 127, 128, 1<<64 - 1}[i%5]
		}
	}
	return log
}

// erasable reports whether an event may be about an object, and so may be erased.
func erasable(c Change) bool {
	if s, ok := c.(*Settled); ok {
		return s.Object != ""
	}
	_, ok := c.(Personal)
	return ok
}

// recordOf returns the record of a change as the first event of a log.
func recordOf(c Change) []byte {
	return Entry{Event: Event{Number: 1, Time: epoch(), Change: c}, Hashes: make([]tlog.Hash, 1)}.Encode()
}

// Every kind of event has the same record and leaf as in the golden file.
func TestEntry_EveryKind_IsAsInTheGoldenFile(t *testing.T) {
	text := "# kind, record, leaf of the tree, and record when erased, of events, in hex\n"
	there := func(n Entry) string {
		payload := n.Encode()
		back := check.Value(DecodeEntry(n.Number, payload))(t)
		check.That(t, reflect.DeepEqual(back, n), "%+v became %+v", n, back)
		return fmt.Sprintf("%x", payload)
	}
	for _, n := range goldenEntries(t) {
		leaf := n.Leaf()
		text += fmt.Sprintf("%s %s\n\tleaf %x\n", n.Change.Kind(), there(n), leaf[:])
		if !erasable(n.Change) {
			continue
		}
		erased := n.Erase()
		text += fmt.Sprintf("\terased %s\n", there(erased))
		check.That(t, erased.Leaf() == leaf, "%s: another leaf when erased", n.Change.Kind())
	}
	fixture.Golden(t, "testdata/golden/events-v5.txt", text, *update)
	for k := Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		check.That(t, strings.Contains(text, "\n"+k.String()+" "), "there is no event of the kind %s", k)
	}
}

// The stored numbers of kinds, methods, reasons and remedies never change their meaning.
func TestCodes_AreAsInTheGoldenFile(t *testing.T) {
	var text strings.Builder
	for k := Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		fmt.Fprintf(&text, "kind %d %s\n", k, k)
	}
	for m := Method(1); !strings.HasPrefix(m.String(), "method "); m++ {
		fmt.Fprintf(&text, "method %d %s\n", m, m)
	}
	for i, reason := range ReasonCodes() {
		fmt.Fprintf(&text, "reason %d %s\n", i+1, reason)
	}
	for i, help := range RemedyCodes() {
		fmt.Fprintf(&text, "help %d %s\n", i+1, help)
	}
	fixture.Golden(t, "testdata/golden/codes-v5.txt", text.String(), *update)
}

// goldenFiniteEntries returns events of questions with a mechanism, like goldenEntries.
func goldenFiniteEntries(t testing.TB) []Entry {
	t.Helper()
	odds := fixture.Odds(t)
	odds.Encoding, odds.Mechanism = "finite", NameOutputs(odds.Mechanism)
	return entries([]Change{
		&QuestionDefined{Number: 1, Question: finiteParty(t)},
		&QuestionDefined{Number: 1<<32 - 1, Question: odds},
		&Released{Object: "ann", Question: 1, Epsilon: check.Eps(t, "0.5"), Response: Response{Value: Value{Index: 5}, Method: MethodDegrade}},
		&Released{Object: "ann", Question: 1, Epsilon: check.Eps(t, "2"), Response: Response{Value: Value{Index: 3}, Method: MethodRaise}},
		&Sold{Object: "ann", Sale: 1, Price: 0, Response: Response{Value: Value{Index: 2}, Method: MethodInsert}},
	})
}

// Events of questions with a mechanism have the same record and leaf as in the golden file.
func TestEntry_FiniteEncoding_IsAsInTheGoldenFile(t *testing.T) {
	lines := "# kind, record and leaf of the tree, of events about questions with a mechanism, in hex\n"
	for _, n := range goldenFiniteEntries(t) {
		back := check.Value(DecodeEntry(n.Number, n.Encode()))(t)
		check.That(t, string(back.Encode()) == string(n.Encode()), "%+v became %+v", n, back)
		leaf := n.Leaf()
		lines += fmt.Sprintf("%s %x\n\tleaf %x\n", n.Change.Kind(), n.Encode(), leaf[:])
	}
	fixture.Golden(t, "testdata/golden/events-finite-v6.txt", lines, *update)
}

// A journal stores events without number, form and hashes. Erased events are never in a journal.
func TestBare_EveryKind_IsAsInTheGoldenFile(t *testing.T) {
	lines := "# kind and bytes of events as a journal keeps them, in hex\n"
	for _, n := range append(goldenEntries(t), goldenFiniteEntries(t)...) {
		bare := new(Written).Write(&n.Event).Bare()
		back, w, err := ReadBare(n.Number, bare, nil)
		check.Must(t, err)
		if again := w.Bare(); !bytes.Equal(again, bare) || back.Number != n.Number || back.Leaf() != n.Leaf() || w.Leaf() != n.Leaf() {
			t.Errorf("%+v became %+v", n.Event, back)
		}
		lines += fmt.Sprintf("%s %x\n", n.Change.Kind(), bare)
		if erasable(n.Change) {
			erased := n.Erase()
			_, _, err := ReadBare(n.Number, new(Written).Write(&erased.Event).Bare(), nil)
			check.That(t, errors.Is(err, errs.ErrCorrupt), "%s, erased: %v", n.Change.Kind(), err)
		}
	}
	fixture.Golden(t, "testdata/golden/bare-v6.txt", lines, *update)
	for k := Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		check.That(t, strings.Contains(lines, "\n"+k.String()+" "), "there is no event of the kind %s", k)
	}
}
