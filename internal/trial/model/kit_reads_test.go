package model

import (
	"bytes"
	"encoding/json"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/privacy"
)

// ObjectOf returns what the ledger says of an object.
func ObjectOf(t testing.TB, l Book, name string) api.ObjectState {
	t.Helper()
	o, err := l.Object(t.Context(), name)
	Must(t, err)
	return o
}

// Stats returns the sum of all.
func Stats(t testing.TB, l Book) api.Stats {
	t.Helper()
	s, err := l.Stats(t.Context())
	Must(t, err)
	return s
}

// Responses returns the recorded responses at one ε, by object. They come in order, each once.
func Responses(t testing.TB, l Book, question string, epsilon privacy.Epsilon) map[string]api.Response {
	t.Helper()
	found, last := map[string]api.Response{}, ""
	for r, err := range l.Responses(t.Context(), question, epsilon) {
		Must(t, err)
		if r.Object <= last {
			t.Errorf("the response of %q comes after that of %q", r.Object, last)
		}
		found[r.Object], last = r, r.Object
	}
	return found
}

// Events returns the log in words.
func Events(t testing.TB, l Book) []says.Event {
	t.Helper()
	var all []says.Event
	for ev, err := range l.Events(t.Context(), 1) {
		Must(t, err)
		all = append(all, ev)
	}
	return all
}

// CountKind counts the events of a kind.
func CountKind(events []says.Event, kind string) (n int) {
	for _, ev := range events {
		if ev.Kind() == kind {
			n++
		}
	}
	return n
}

// Text is a document as its holder keeps it.
func Text(t testing.TB, d any) []byte {
	t.Helper()
	data, err := json.Marshal(d)
	Must(t, err)
	return data
}

// Document is a receipt or a statement.
type Document interface {
	// Verify tells what is wrong with it, and whether one of the keys signed it.
	Verify(note.Verifiers) evidence.Checked
}

// WantSound fails unless a document is signed, by one of the keys, and without fault.
func WantSound(t testing.TB, what string, d Document, keys note.Verifiers) {
	t.Helper()
	c := d.Verify(keys)
	if !c.OK() {
		t.Errorf("%s: signed %v, faults %q", what, c.Signed, Faults(c))
	}
	if alone := d.Verify(nil); alone.Signed || alone.OK() || len(alone.Faults) != 0 || alone.Head != c.Head {
		t.Errorf("%s, without a key: %+v", what, alone)
	}
}

// Faults are the faults of a document, in words.
func Faults(c evidence.Checked) (all []string) {
	for _, f := range c.Faults {
		all = append(all, f.String())
	}
	return all
}

// LogKey is a key pair that is the same in every test.
func LogKey(t testing.TB, name string, seed byte) (note.Signer, note.Verifier, string) {
	t.Helper()
	secret, public, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)), name)
	Must(t, err)
	signer, err := note.NewSigner(secret)
	Must(t, err)
	verifier, err := note.NewVerifier(public)
	Must(t, err)
	return signer, verifier, public
}

// WantSpent checks what objects have spent, all of it for answers about one question.
func WantSpent(t *testing.T, l Book, epsilon string, names ...string) {
	t.Helper()
	for _, name := range names {
		if o := ObjectOf(t, l, name); o.Spent != Eps(t, epsilon) || o.Chains[0].Answered != o.Spent {
			t.Errorf("%s has spent %s, %s of it for answers, want %s", name, o.Spent, o.Chains[0].Answered, epsilon)
		}
	}
}

// WantClean has a ledger folded again from its log, and compared with what it stores. It fails if there is any problem.
func WantClean(t testing.TB, l Book, r api.VerifyRequest) {
	t.Helper()
	r.Report = func(p api.Finding) { t.Errorf("found %+v", p) }
	_, err := l.Verify(t.Context(), r)
	Must(t, err)
}

// AuditAll compares the fold of the log with what is stored, and the money with the prices.
func AuditAll(t testing.TB, l Book) {
	t.Helper()
	WantClean(t, l, api.VerifyRequest{})
	AuditMarket(t, l)
}

// Unchanged runs fn and reports any change: a call that failed must leave nothing. The log is as it was, and what is stored
// is what follows from it.
func Unchanged(t testing.TB, l Book, fn func()) {
	t.Helper()
	log, sum := Text(t, Events(t, l)), Stats(t, l)
	fn()
	if now := Stats(t, l); !bytes.Equal(Text(t, Events(t, l)), log) || now.Events != sum.Events || now.Objects != sum.Objects {
		t.Errorf("after a call that failed there is %+v, before %+v", now, sum)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// RecordedBy returns the response that an event records, released or sold, and tells whether it does.
func RecordedBy(ev says.Event) (says.Released, bool) {
	switch d := ev.Says.(type) {
	case says.Released:
		return d, true
	case says.Sold:
		return says.Released{Object: d.Object, Question: d.Question, Epsilon: d.Epsilon, Response: d.Response, Method: d.Method}, true
	}
	return says.Released{}, false
}

// MethodOf tells how the response or answer that an event records came about; "" for other events.
func MethodOf(ev says.Event) string {
	if d, is := ev.Says.(says.Answered); is {
		return d.Method
	}
	r, _ := RecordedBy(ev)
	return r.Method
}
