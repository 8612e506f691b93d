package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// field is a place where a caller can put a text.
type field struct {
	name string
	put  func(l *ledger.Ledger, text string) error
}

// copies is how many copies of the text the test itself makes.
func (f field) copies() uint64 {
	if f.name == "Answer majority" || f.name == "Answer threshold" || f.name == "Answer number" {
		return 1
	}
	return 0
}

// lists tells whether a name that nobody has yields an empty list.
func (f field) lists() bool { return f.name == "Sales buyer" || f.name == "Reservations buyer" }

// fields are all places for names, keys and queries.
func fields(ctx context.Context) []field {
	yes, half := sameTruth("yes"), tenths(5)
	ann := []string{"ann"}
	order := func(buyer, question string, objects ...string) api.Order {
		return api.Order{Buyer: buyer, Question: question, Epsilon: half, Objects: objects}
	}
	only := func(_ any, err error) error { return err }
	reconcile := func(l *ledger.Ledger, m api.Member) error {
		return only(l.Reconcile(ctx, api.ReconcileRequest{Members: func(yield func(api.Member, error) bool) { yield(m, nil) }}))
	}
	return []field{
		{"DefineQuestion key", func(l *ledger.Ledger, s string) error {
			return l.DefineQuestion(ctx, s, api.Question{Name: "other", Values: []string{"a", "b"}})
		}},
		{"DefineQuestion name", func(l *ledger.Ledger, s string) error {
			return l.DefineQuestion(ctx, "name", api.Question{Name: s, Values: []string{"a", "b"}})
		}},
		{"DefineQuestion value", func(l *ledger.Ledger, s string) error {
			return l.DefineQuestion(ctx, "value", api.Question{Name: "third", Values: []string{"aa", s}})
		}},
		{"DefineQuestion encoding", func(l *ledger.Ledger, s string) error {
			return l.DefineQuestion(ctx, "encoding", api.Question{Name: "fourth", Values: []string{"a", "b"}, Encoding: api.Encoding(s)})
		}},
		{"Enroll key", func(l *ledger.Ledger, s string) error {
			return only(l.Enroll(ctx, api.EnrollRequest{Key: s, Question: "vote", Objects: []string{"bob"}, Cap: boundless()}))
		}},
		{"Enroll question", func(l *ledger.Ledger, s string) error {
			return only(l.Enroll(ctx, api.EnrollRequest{Key: "2", Question: s, Objects: []string{"bob"}, Cap: boundless()}))
		}},
		{"Enroll object", func(l *ledger.Ledger, s string) error {
			return only(l.Enroll(ctx, api.EnrollRequest{Key: "3", Question: "vote", Objects: []string{s}, Cap: boundless()}))
		}},
		{"Release key", func(l *ledger.Ledger, s string) error {
			return only(l.Release(ctx, api.ReleaseRequest{Key: s, Question: "vote", Object: "ann", Epsilon: half, Truth: yes}))
		}},
		{"Release question", func(l *ledger.Ledger, s string) error {
			return only(l.Release(ctx, api.ReleaseRequest{Key: "4", Question: s, Object: "ann", Epsilon: half, Truth: yes}))
		}},
		{"Release object", func(l *ledger.Ledger, s string) error {
			return only(l.Release(ctx, api.ReleaseRequest{Key: "5", Question: "vote", Object: s, Epsilon: half, Truth: yes}))
		}},
		{"Raise key", func(l *ledger.Ledger, s string) error {
			return only(l.Raise(ctx, api.RaiseRequest{Key: s, Question: "vote", Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"Raise question", func(l *ledger.Ledger, s string) error {
			return only(l.Raise(ctx, api.RaiseRequest{Key: "6", Question: s, Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"Raise object", func(l *ledger.Ledger, s string) error {
			return only(l.Raise(ctx, api.RaiseRequest{Key: "7", Question: "vote", Objects: []string{s}, Epsilon: half, Truth: yes}))
		}},
		{"Answer key", func(l *ledger.Ledger, s string) error {
			return only(l.Answer(ctx, api.AnswerRequest{Key: s, Question: "vote", Query: "majority:yes", Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"Answer question", func(l *ledger.Ledger, s string) error {
			return only(l.Answer(ctx, api.AnswerRequest{Key: "8", Question: s, Query: "majority:yes", Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"Answer query", func(l *ledger.Ledger, s string) error {
			return only(l.Answer(ctx, api.AnswerRequest{Key: "9", Question: "vote", Query: s, Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"Answer majority", func(l *ledger.Ledger, s string) error {
			return only(l.Answer(ctx, api.AnswerRequest{Key: "9", Question: "vote", Query: "majority:" + s, Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"Answer threshold", func(l *ledger.Ledger, s string) error {
			return only(l.Answer(ctx, api.AnswerRequest{Key: "9", Question: "vote", Query: "threshold:" + s, Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"Answer number", func(l *ledger.Ledger, s string) error {
			return only(l.Answer(ctx, api.AnswerRequest{Key: "9", Question: "vote", Query: "threshold:yes:" + s, Objects: ann, Epsilon: half, Truth: yes}))
		}},
		{"QuoteAnswer query", func(l *ledger.Ledger, s string) error {
			return only(l.QuoteAnswer(ctx, api.AnswerRequest{Question: "vote", Query: s, Objects: ann, Epsilon: half}))
		}},
		{"Advance key", func(l *ledger.Ledger, s string) error {
			return only(l.Advance(ctx, api.AdvanceRequest{Key: s, Truth: yes}))
		}},
		{"Advance question", func(l *ledger.Ledger, s string) error {
			return only(l.Advance(ctx, api.AdvanceRequest{Key: "advance " + fmt.Sprint(len(s)), Question: s, Truth: yes}))
		}},
		{"Quote buyer", func(l *ledger.Ledger, s string) error { return only(l.Quote(ctx, order(s, "vote", "ann"))) }},
		{"Quote question", func(l *ledger.Ledger, s string) error { return only(l.Quote(ctx, order("acme", s, "ann"))) }},
		{"Quote object", func(l *ledger.Ledger, s string) error { return only(l.Quote(ctx, order("acme", "vote", s))) }},
		{"Sell key", func(l *ledger.Ledger, s string) error {
			return only(l.Sell(ctx, api.SellRequest{Key: s, Order: order("acme", "vote", "ann"), Truth: yes}))
		}},
		{"Sell buyer", func(l *ledger.Ledger, s string) error {
			return only(l.Sell(ctx, api.SellRequest{Key: "10", Order: order(s, "vote", "ann"), Truth: yes}))
		}},
		{"Sell quote", func(l *ledger.Ledger, s string) error {
			return only(l.Sell(ctx, api.SellRequest{Key: fmt.Sprint("11 ", len(s)), Order: order("acme", "vote", "ann"), QuoteID: s, Truth: yes}))
		}},
		{"Reserve key", func(l *ledger.Ledger, s string) error {
			return only(l.Reserve(ctx, api.ReserveRequest{Key: s, Order: order("acme", "vote", "ann"), For: time.Hour}))
		}},
		{"Commit key", func(l *ledger.Ledger, s string) error {
			return only(l.Capture(ctx, api.CaptureRequest{Key: s, Reservation: 99, Truth: yes}))
		}},
		{"Cancel key", func(l *ledger.Ledger, s string) error { return l.Cancel(ctx, s, 99) }},
		{"ChangeTerms key", func(l *ledger.Ledger, s string) error {
			return only(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: s, Question: "vote", Objects: ann, Cap: half}))
		}},
		{"ChangeTerms question", func(l *ledger.Ledger, s string) error {
			return only(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: "15", Question: s, Objects: ann, Cap: half}))
		}},
		{"ChangeTerms object", func(l *ledger.Ledger, s string) error {
			return only(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: "16", Question: "vote", Objects: []string{s}, Cap: half}))
		}},
		{"ChangeTerms consent", func(l *ledger.Ledger, s string) error {
			return only(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: "17 " + fmt.Sprint(len(s)), Question: "vote", Objects: ann, Cap: half, Consent: s}))
		}},
		{"Reconcile object", func(l *ledger.Ledger, s string) error {
			return reconcile(l, api.Member{Object: s, Question: "vote", Cap: half})
		}},
		{"Reconcile question", func(l *ledger.Ledger, s string) error {
			return reconcile(l, api.Member{Object: "ann", Question: s, Cap: half})
		}},
		{"Withdraw key", func(l *ledger.Ledger, s string) error { return l.Withdraw(ctx, s, "nobody") }},
		{"Withdraw object", func(l *ledger.Ledger, s string) error { return l.Withdraw(ctx, "12", s) }},
		{"Forget key", func(l *ledger.Ledger, s string) error { return l.Forget(ctx, s, "nobody") }},
		{"Forget object", func(l *ledger.Ledger, s string) error { return l.Forget(ctx, "13", s) }},
		{"Statement key", func(l *ledger.Ledger, s string) error { return only(l.Statement(ctx, s, "ann")) }},
		{"Statement object", func(l *ledger.Ledger, s string) error { return only(l.Statement(ctx, "14", s)) }},
		{"Object", func(l *ledger.Ledger, s string) error { return only(l.Object(ctx, s)) }},
		{"Estimate question", func(l *ledger.Ledger, s string) error {
			return only(l.Estimate(ctx, api.EstimateRequest{Question: s}))
		}},
		{"Levels question", func(l *ledger.Ledger, s string) error { return only(l.Levels(ctx, s)) }},
		{"Responses question", func(l *ledger.Ledger, s string) error {
			for _, err := range l.Responses(ctx, s, half) {
				return err
			}
			return nil
		}},
		{"Sales buyer", func(l *ledger.Ledger, s string) error {
			for _, err := range l.Sales(ctx, s) {
				return err
			}
			return nil
		}},
		{"Reservations buyer", func(l *ledger.Ledger, s string) error {
			for _, err := range l.Reservations(ctx, s) {
				return err
			}
			return nil
		}},
	}
}

// TestTextsAreAnyLength puts nothing, a byte, a byte too many and a gigabyte wherever a text goes. Each call ends with a
// result or a typed error, which is short; a long text costs no memory, and leaves no trace.
func TestTextsAreAnyLength(t *testing.T) {
	l, _ := market(t, "ann")
	long := zeros(pace.Tries(1<<24, 1<<30, 1<<30))
	for _, f := range fields(t.Context()) {
		for _, text := range []string{long, long[:257], "", "x"} {
			before := events(t, l)
			var err error
			used := allocated(func() { err = f.put(l, text) })
			if err != nil && !decided(err) {
				t.Errorf("%s, %d bytes: %.300v", f.name, len(text), err)
			}
			if err == nil && len(text) > 1 && !f.lists() {
				t.Errorf("%s: %d bytes are taken", f.name, len(text))
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("%s, %d bytes: the error has %d bytes", f.name, len(text), len(err.Error()))
			}
			if used > f.copies()*uint64(len(text))+4<<20 {
				t.Errorf("%s, %d bytes: %d more are allocated", f.name, len(text), used)
			}
			if n := events(t, l); err != nil && n != before {
				t.Errorf("%s, %d bytes: %d events after %d", f.name, len(text), n, before)
			}
		}
	}
	wantClean(t, l)
}

// decided tells whether an error is one that says what was wrong with a request.
func decided(err error) bool {
	for _, one := range []error{api.ErrInvalid, api.ErrUnknown, api.ErrKeyConflict, api.ErrNotReserved, api.ErrNoResponses} {
		if errors.Is(err, one) {
			return true
		}
	}
	var quote *api.QuoteError
	var refused *api.RefusedError
	return errors.As(err, &quote) || errors.As(err, &refused)
}

// TestTruthsAreAnyLength lets a source of truths return texts of a gigabyte, nothing, too many and too few.
func TestTruthsAreAnyLength(t *testing.T) {
	l, _ := market(t, "ann", "bob")
	before := events(t, l)
	many, long := make([]string, 1<<22), zeros(pace.Tries(1<<24, 1<<30, 1<<30))
	for name, values := range map[string][]string{
		"long": {"yes", long}, "both long": {long, long[:len(long)/2]}, "a byte": {"yes", "y"}, "too many": many, "too few": {"yes"}, "none": {}, "nil": nil,
	} {
		source := func(context.Context, string, []string) ([]string, error) { return values, nil }
		for call, do := range map[string]func() error{
			"Raise": func() error {
				_, err := l.Raise(t.Context(), api.RaiseRequest{Key: "k", Question: "vote", All: true, Epsilon: tenths(5), Truth: source})
				return err
			},
			"Sell": func() error {
				_, err := l.Sell(t.Context(), api.SellRequest{Key: "k", Order: api.Order{Buyer: "acme", Question: "vote", All: true, Epsilon: tenths(5)}, Truth: source})
				return err
			},
			"Answer": func() error {
				_, err := l.Answer(t.Context(), api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", All: true, Epsilon: tenths(5), AcceptLoss: true, Truth: source})
				return err
			},
		} {
			var err error
			used := allocated(func() { err = do() })
			var refused *api.RefusedError
			wanted := errors.Is(err, api.ErrTruthSource)
			if len(values) == 2 { // as many as objects, and one is none of the question's
				wanted = errors.As(err, &refused) && len(refused.TruthInvalid) > 0
			}
			if !wanted || len(err.Error()) > 300 {
				t.Errorf("%s, %s: %.300v", call, name, err)
			}
			if used > 1<<20 {
				t.Errorf("%s, %s: %d bytes are allocated", call, name, used)
			}
		}
	}
	if n := events(t, l); n != before {
		t.Errorf("%d events after %d", n, before)
	}
}

// raceFactor is how many times more memory a copy may take: the race detector keeps a shadow of it.
const raceFactor = 1 + 2*pace.Race

// TestDocumentsAreAnyLength reads what others send, of any length. What is too long is refused at once. The rest is
// read with memory that its bytes account for.
func TestDocumentsAreAnyLength(t *testing.T) {
	_, verifier := signer(t)
	known, err := note.NewVerifier(verifier)
	must(t, err)
	huge := make([]byte, 1<<30+1)
	for _, one := range []struct {
		name   string
		copies uint64 // of the text that reading may make
		read   func(text []byte) error
		wants  error
	}{
		{"receipt", 1, func(text []byte) error { _, err := evidence.ReadReceipt(text); return err }, api.ErrInvalid},
		{"statement", 1, func(text []byte) error { _, err := evidence.ReadStatement(text); return err }, api.ErrInvalid},
		{"checkpoint", 0, func(text []byte) error {
			_, err := evidence.OpenCheckpoint(text, note.VerifierList(known))
			return err
		}, api.ErrCheckpoint},
		{"policy", 0, func(text []byte) error { _, err := policy.Parse(text); return err }, policy.ErrInvalid},
	} {
		for _, size := range []int{0, 1, pace.Scale(1<<26, 1<<30), len(huge)} {
			for _, text := range [][]byte{huge[:size], filled(' ', min(size, pace.Scale(1<<22, 1<<29))), filled('[', min(size, pace.Scale(1<<22, 1<<29)))} {
				var err error
				used := allocated(func() { err = one.read(text) })
				if !errors.Is(err, one.wants) || len(err.Error()) > 300 {
					t.Errorf("a %s of %d bytes: %.300v", one.name, len(text), err)
				}
				if used > raceFactor*one.copies*uint64(len(text))+1<<20 {
					t.Errorf("a %s of %d bytes: %d more are allocated", one.name, len(text), used)
				}
			}
		}
	}
	for _, digits := range []string{"", "1", textOf(huge), string(filled('1', 1<<22)), "0." + string(filled('0', 1<<22)) + "1", "1e" + string(filled('9', 1<<22))} {
		var err error
		used := allocated(func() { _, err = privacy.ParseEpsilon(digits) })
		if (err == nil) != (digits == "1") || err != nil && len(err.Error()) > 300 || used > 1<<20 {
			t.Errorf("ε in %d bytes: %d are allocated, %.300v", len(digits), used, err)
		}
	}
}

func filled(with byte, n int) []byte { return bytes.Repeat([]byte{with}, n) }

// TestFilesAreAnyLength opens what is no ledger, up to a gigabyte of it.
func TestFilesAreAnyLength(t *testing.T) {
	path := filepath.Join(pace.Scratch(t), "ledger.db")
	must(t, os.WriteFile(path, nil, 0o600))
	for _, size := range []int64{0, 1, 4096, 16384, 1 << 20, 1 << 30} {
		must(t, os.Truncate(path, size)) // a file with a hole, which takes no room
		for _, only := range []bool{false, true} {
			var err error
			used := allocated(func() { _, err = ledger.Open(t.Context(), path, ledger.Options{ReadOnly: only}) })
			if !errors.Is(err, api.ErrCorrupt) || used > 1<<20 {
				t.Errorf("a file of %d bytes: %d are allocated, %v", size, used, err)
			}
		}
	}
	other := filepath.Join(pace.Scratch(t), "other.db")
	for _, text := range []string{zeros(pace.Tries(1<<24, 1<<30, 1<<30)), zeros(257)} {
		if err := ledger.Create(t.Context(), other, ledger.CreateOptions{Currency: text}); !errors.Is(err, api.ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("a currency of %d bytes: %.300v", len(text), err)
		}
		if err := ledger.Create(t.Context(), other, ledger.CreateOptions{LogKey: text}); !errors.Is(err, api.ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("a log key of %d bytes: %.300v", len(text), err)
		}
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
}
