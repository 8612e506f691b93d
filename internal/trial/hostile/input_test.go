package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// field is a parameter for which a caller can pass a text.
type field struct {
	name string
	put  func(l *ledger.Ledger, text string) error
}

// copies returns how many copies of the text the test itself makes.
func (f field) copies() uint64 {
	if f.name == "Answer majority" || f.name == "Answer threshold" || f.name == "Answer number" {
		return 1
	}
	return 0
}

// lists returns whether an unknown name results in an empty list.
func (f field) lists() bool { return f.name == "Sales buyer" || f.name == "Reservations buyer" }

// textFields returns the fields of a request that hold a text, or a list with one. Each has its own
// key for each length.
func textFields[R, T any](ctx context.Context, of string, call func(*ledger.Ledger, context.Context, R) (T, error), request R, names ...string) (all []field) {
	for _, name := range names {
		all = append(all, field{of + " " + name, func(l *ledger.Ledger, text string) error {
			r := request
			fields := reflect.ValueOf(&r).Elem()
			if key := fields.FieldByName("Key"); key.IsValid() {
				key.SetString(fmt.Sprint(of, " ", name, " ", len(text)))
			}
			if at := fields.FieldByName(name); at.Kind() == reflect.String {
				at.SetString(text)
			} else {
				at.Set(reflect.ValueOf([]string{text}))
			}
			return check.Err(call(l, ctx, r))
		}})
	}
	return all
}

// withoutResult adapts a call that returns only an error to [textFields].
func withoutResult[R any](call func(*ledger.Ledger, context.Context, R) error) func(*ledger.Ledger, context.Context, R) (any, error) {
	return func(l *ledger.Ledger, ctx context.Context, r R) (any, error) { return nil, call(l, ctx, r) }
}

// fields returns all parameters for names, keys and queries.
func fields(ctx context.Context) []field {
	type ledgers = *ledger.Ledger
	yes, half, ann := sameTruth("yes"), tenths(5), []string{"ann"}
	order := api.Order{Buyer: "acme", Question: "vote", Epsilon: half, Objects: ann}
	query := api.AnswerRequest{Question: "vote", Query: "majority:yes", Objects: ann, Epsilon: half, Truth: yes}
	ask := func(l ledgers, kind string) error {
		r := query
		r.Key, r.Query = "9", kind
		return check.Err(l.Answer(ctx, r))
	}
	define := func(l ledgers, ctx context.Context, q api.Question) error { return l.DefineQuestion(ctx, q.Name, q) }
	reconcile := func(l ledgers, ctx context.Context, m api.Member) (api.ReconcileResult, error) {
		return l.Reconcile(ctx, api.ReconcileRequest{Members: func(yield func(api.Member, error) bool) { yield(m, nil) }})
	}
	return slices.Concat(
		textFields(ctx, "DefineQuestion", withoutResult(define), api.Question{Name: "third", Values: []string{"a", "b"}}, "Name", "Encoding"),
		textFields(ctx, "Enroll", ledgers.Enroll, api.EnrollRequest{Question: "vote", Objects: []string{"bob"}, Cap: noCap()}, "Key", "Question", "Objects"),
		textFields(ctx, "Release", ledgers.Release, api.ReleaseRequest{Question: "vote", Object: "ann", Epsilon: half, Truth: yes}, "Key", "Question", "Object"),
		textFields(ctx, "Raise", ledgers.Raise, api.RaiseRequest{Question: "vote", Objects: ann, Epsilon: half, Truth: yes}, "Key", "Question", "Objects"),
		textFields(ctx, "Answer", ledgers.Answer, query, "Key", "Question", "Query"),
		textFields(ctx, "QuoteAnswer", ledgers.QuoteAnswer, query, "Query"),
		textFields(ctx, "Advance", ledgers.Advance, api.AdvanceRequest{Truth: yes}, "Key", "Question"),
		textFields(ctx, "Quote", ledgers.Quote, order, "Buyer", "Question", "Objects"),
		textFields(ctx, "Sell", ledgers.Sell, api.SellRequest{Order: order, Truth: yes}, "Key", "Buyer", "QuoteID"),
		textFields(ctx, "Reserve", ledgers.Reserve, api.ReserveRequest{Order: order, For: time.Hour}, "Key"),
		textFields(ctx, "Commit", ledgers.Capture, api.CaptureRequest{Reservation: 99, Truth: yes}, "Key"),
		textFields(ctx, "ChangeTerms", ledgers.ChangeTerms, api.ChangeTermsRequest{Question: "vote", Objects: ann, Cap: half}, "Key", "Question", "Objects", "Consent"),
		textFields(ctx, "Reconcile", reconcile, api.Member{Object: "ann", Question: "vote", Cap: half}, "Object", "Question"),
		textFields(ctx, "Withdraw", withoutResult(ledgers.Withdraw), api.ObjectRequest{Object: "unknown"}, "Key", "Object"),
		textFields(ctx, "Forget", withoutResult(ledgers.Forget), api.ObjectRequest{Object: "unknown"}, "Key", "Object"),
		textFields(ctx, "Statement", ledgers.Statement, api.ObjectRequest{Object: "ann"}, "Key", "Object"),
		textFields(ctx, "Estimate", ledgers.Estimate, api.EstimateRequest{}, "Question"),
		[]field{
			{"DefineQuestion key", func(l ledgers, s string) error {
				return l.DefineQuestion(ctx, s, api.Question{Name: "other", Values: []string{"a", "b"}})
			}},
			{"DefineQuestion value", func(l ledgers, s string) error {
				return l.DefineQuestion(ctx, "value", api.Question{Name: "third", Values: []string{"aa", s}})
			}},
			{"Answer majority", func(l ledgers, s string) error { return ask(l, "majority:"+s) }},
			{"Answer threshold", func(l ledgers, s string) error { return ask(l, "threshold:"+s) }},
			{"Answer number", func(l ledgers, s string) error { return ask(l, "threshold:yes:"+s) }},
			{"Cancel key", func(l ledgers, s string) error { return l.Cancel(ctx, s, 99) }},
			{"Object", func(l ledgers, s string) error { return check.Err(l.Object(ctx, s)) }},
			{"Levels question", func(l ledgers, s string) error { return check.Err(api.Collect(l.Levels(ctx, s))) }},
			{"Responses question", func(l ledgers, s string) error { return check.Err(api.Collect(l.Responses(ctx, s, half))) }},
			{"Sales buyer", func(l ledgers, s string) error { return check.Err(api.Collect(l.Sales(ctx, s))) }},
			{"Reservations buyer", func(l ledgers, s string) error { return check.Err(api.Collect(l.Reservations(ctx, s))) }},
		},
	)
}

// An empty text, a byte, a byte too many and a gigabyte are passed in every field. Each call
// returns a result or a short typed error. A long text costs no memory and is not recorded.
func TestRequest_TextOfAnyLength_CostsNoMemory(t *testing.T) {
	l, _ := market(t, "ann")
	long := zeros(testenv.Tries(1<<24, 1<<30, 1<<30))
	for _, f := range fields(t.Context()) {
		for _, text := range []string{long, long[:257], "", "x"} {
			before := events(t, l)
			var err error
			used := check.Allocated(func() { err = f.put(l, text) })
			check.That(t, err == nil || isRequestError(err), "%s, %d bytes: %.300v", f.name, len(text), err)
			check.That(t, err != nil || len(text) <= 1 || f.lists(), "%s: a text of %d bytes is accepted", f.name, len(text))
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("%s, %d bytes: the error has %d bytes", f.name, len(text), len(err.Error()))
			}
			check.That(t, used <= f.copies()*uint64(len(text))+4<<20,
				"%s, %d bytes: %d bytes are allocated", f.name, len(text), used)
			n := events(t, l)
			check.That(t, err == nil || n == before, "%s, %d bytes: the call failed, and the log grew to %d events from %d", f.name, len(text), n, before)
		}
	}
	wantClean(t, l)
}

// isRequestError returns whether an error describes what is wrong with a request.
func isRequestError(err error) bool {
	for _, one := range []error{api.ErrInvalid, api.ErrUnknown, &api.KeyConflictError{}, &api.ReservationError{}, api.ErrNoResponses} {
		if errors.Is(err, one) {
			return true
		}
	}
	var quote *api.QuoteError
	var refused *api.RefusedError
	return errors.As(err, &quote) || errors.As(err, &refused)
}

// A source of true values returns texts of a gigabyte, no values, too many or too few.
func TestTruthSource_ValuesOfAnyLength_AreRefused(t *testing.T) {
	l, _ := market(t, "ann", "bob")
	before := events(t, l)
	many, long := make([]string, 1<<22), zeros(testenv.Tries(1<<24, 1<<30, 1<<30))
	for name, values := range map[string][]string{
		"long": {"yes", long}, "both long": {long, long[:len(long)/2]}, "a byte": {"yes", "y"}, "too many": many, "too few": {"yes"}, "none": {}, "nil": nil,
	} {
		source := func(context.Context, string, []string) ([]string, error) { return values, nil }
		for call, do := range map[string]func() error{
			"Raise": func() error {
				return check.Err(l.Raise(t.Context(), api.RaiseRequest{Key: "k", Question: "vote", All: true, Epsilon: tenths(5), Truth: source}))
			},
			"Sell": func() error {
				return check.Err(l.Sell(t.Context(), api.SellRequest{Key: "k", Order: api.Order{Buyer: "acme", Question: "vote", All: true, Epsilon: tenths(5)}, Truth: source}))
			},
			"Answer": func() error {
				return check.Err(l.Answer(t.Context(), api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", All: true, Epsilon: tenths(5), AcceptLoss: true, Truth: source}))
			},
		} {
			var err error
			used := check.Allocated(func() { err = do() })
			var refused *api.RefusedError
			wanted := errors.Is(err, api.ErrTruthSource)
			if len(values) == 2 { // as many as objects, and one is not a value of the question
				wanted = errors.As(err, &refused) && len(refused.TruthInvalid) > 0
			}
			check.That(t, wanted && len(err.Error()) <= 300, "%s, %s: %.300v", call, name, err)
			check.That(t, used <= 1<<20, "%s, %s: %d bytes are allocated", call, name, used)
		}
	}
	n := events(t, l)
	check.That(t, n == before, "refused calls wrote events: %d, before %d", n, before)
}

// raceFactor is how much more memory a copy may take under the race detector, which keeps a shadow
// of it.
const raceFactor = 1 + 2*testenv.Race

// Documents from other parties have any length. A document that is too long is refused at once.
// Others are read with memory in proportion to their size.
func TestDocument_AnyLength_TakesBoundedMemory(t *testing.T) {
	_, verifier := signer(t)
	known := check.Value(note.NewVerifier(verifier))(t)
	huge := make([]byte, 1<<30+1)
	for _, one := range []struct {
		name   string
		copies uint64 // of the text, which reading may make
		read   func(text []byte) error
		wants  error
	}{
		{"receipt", 1, func(text []byte) error { _, err := evidence.ReadReceipt(text); return err }, api.ErrInvalid},
		{"statement", 1, func(text []byte) error { _, err := evidence.ReadStatement(text); return err }, api.ErrInvalid},
		{"checkpoint", 0, func(text []byte) error {
			return check.Err(evidence.OpenCheckpoint(text, note.VerifierList(known)))
		}, api.ErrCheckpoint},
		{"policy", 0, func(text []byte) error { _, err := policy.Parse(text); return err }, privacy.ErrInvalid},
	} {
		for _, size := range []int{0, 1, testenv.Scale(1<<26, 1<<30), len(huge)} {
			for _, text := range [][]byte{huge[:size], filled(' ', min(size, testenv.Scale(1<<22, 1<<29))), filled('[', min(size, testenv.Scale(1<<22, 1<<29)))} {
				var err error
				used := check.Allocated(func() { err = one.read(text) })
				check.That(t, errors.Is(err, one.wants) && len(err.Error()) <= 300,
					"a %s of %d bytes: %.300v", one.name, len(text), err)
				check.That(t, used <= raceFactor*one.copies*uint64(len(text))+1<<20,
					"a %s of %d bytes: %d bytes are allocated", one.name, len(text), used)
			}
		}
	}
	for _, digits := range []string{"", "1", textOf(huge), string(filled('1', 1<<22)), "0." + string(filled('0', 1<<22)) + "1", "1e" + string(filled('9', 1<<22))} {
		var err error
		used := check.Allocated(func() { _, err = privacy.ParseEpsilon(digits) })
		check.That(t, (err == nil) == (digits == "1") && (err == nil || len(err.Error()) <= 300) && used <= 1<<20,
			"ε in %d bytes: %d are allocated, %.300v", len(digits), used, err)
	}
}

func filled(with byte, n int) []byte { return bytes.Repeat([]byte{with}, n) }

// Files that are not ledgers, of up to a gigabyte, are refused with bounded memory.
func TestOpen_FileOfAnyLength_ReturnsErrCorrupt(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "ledger.db")
	check.Must(t, os.WriteFile(path, nil, 0o600))
	for _, size := range []int64{0, 1, 4096, 16384, 1 << 20, 1 << 30} {
		check.Must(t, os.Truncate(path, size)) // a sparse file, which takes no space
		for _, only := range []bool{false, true} {
			var err error
			used := check.Allocated(func() { _, err = ledger.Open(t.Context(), path, ledger.Options{ReadOnly: only}) })
			check.That(t, errors.Is(err, api.ErrCorrupt) && used <= 1<<20,
				"a file of %d bytes: %d bytes are allocated, error %v", size, used, err)
		}
	}
	other := filepath.Join(testenv.TempDir(t), "other.db")
	for _, text := range []string{zeros(testenv.Tries(1<<24, 1<<30, 1<<30)), zeros(257)} {
		if err := ledger.Create(t.Context(), other, ledger.CreateOptions{Currency: text}); !errors.Is(err, api.ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("a currency of %d bytes: %.300v", len(text), err)
		}
		if err := ledger.Create(t.Context(), other, ledger.CreateOptions{LogKey: text}); !errors.Is(err, api.ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("a log key of %d bytes: %.300v", len(text), err)
		}
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create was refused and left a file: %v", err)
	}
}

// countingContext is a context that is canceled when it has been read n times, by Err or Done.
type countingContext struct {
	context.Context
	mu    sync.Mutex
	reads int // the reads that are left
	done  chan struct{}
}

func cancelAfterReads(reads int) *countingContext {
	return &countingContext{Context: context.Background(), reads: reads, done: make(chan struct{})}
}

func (q *countingContext) read() (ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reads--; q.reads == 0 {
		close(q.done)
	}
	return q.reads <= 0
}

func (q *countingContext) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reads <= 0
}

func (q *countingContext) Done() <-chan struct{} {
	q.read()
	return q.done
}

func (q *countingContext) Err() error {
	if q.read() {
		return context.Canceled
	}
	return nil
}

// maxReads is the largest number of times that a call reads its context, for twice as many objects.
// It reads the context for every 64 records that it reads. A sweep reads most: six records of each
// object with one chain, three times.
const maxReads = 200

// cancelable is a call that the caller may cancel. n makes its key unique.
type cancelable struct {
	name string
	call func(ctx context.Context, l *ledger.Ledger, n int) (any, error)
	// writes: the call changes the ledger, and has a key.
	writes bool
}

func cancelables(t testing.TB) []cancelable {
	_, calendar := offer(t)
	key := func(n int) string { return fmt.Sprint("call ", n) }
	person := func(n int) []string { return []string{fmt.Sprintf("person %08d", n)} }
	// truths returns the context's error, as a source should.
	truths := func(ctx context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i := range values {
			values[i] = "yes"
		}
		return values, ctx.Err()
	}
	order := func(n int) api.Order {
		return api.Order{Buyer: "acme", Question: "vote", Epsilon: tenths(5), Objects: append(person(n), person(n+maxReads)...)}
	}
	none := func(err error) (any, error) { return nil, err }
	return []cancelable{
		{"DefineQuestion", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return none(l.DefineQuestion(ctx, key(n), api.Question{Name: key(n), Values: []string{"a", "b"}}))
		}, true},
		{"Enroll", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Enroll(ctx, api.EnrollRequest{Key: key(n), Question: "vote", Objects: []string{key(n)}, Policy: calendar, Cap: noCap()})
		}, true},
		{"Release", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Release(ctx, api.ReleaseRequest{Key: key(n), Question: "vote", Object: person(n)[0], Epsilon: tenths(5), Truth: truths})
		}, true},
		{"Raise", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Raise(ctx, api.RaiseRequest{Key: key(n), Question: "vote", Objects: order(n).Objects, Epsilon: tenths(5), Truth: truths})
		}, true},
		{"Raise all", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Raise(ctx, api.RaiseRequest{Key: key(n), Question: "vote", All: true, Epsilon: tenths(n%20 + 1), Truth: truths})
		}, true},
		{"Answer", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Answer(ctx, api.AnswerRequest{Key: key(n), Question: "vote", Query: "majority:yes", Objects: order(n).Objects, Epsilon: tenths(5), AcceptLoss: true, Truth: truths})
		}, true},
		{"Sell", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Sell(ctx, api.SellRequest{Key: key(n), Order: order(n), Truth: truths})
		}, true},
		{"Reserve", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Reserve(ctx, api.ReserveRequest{Key: key(n), Order: order(n), For: time.Hour})
		}, true},
		{"Commit", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			number, err := reserved(l, api.ReserveRequest{Key: "for " + key(n), Order: order(n), For: time.Hour})
			if err != nil {
				return nil, err
			}
			return l.Capture(ctx, api.CaptureRequest{Key: key(n), Reservation: number, Truth: truths})
		}, true},
		{"Cancel", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			number, err := reserved(l, api.ReserveRequest{Key: "for " + key(n), Order: order(n), For: time.Hour})
			if err != nil {
				return nil, err
			}
			return none(l.Cancel(ctx, key(n), number))
		}, true},
		{"Advance", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			if _, err := l.Enroll(context.Background(), api.EnrollRequest{Key: "for " + key(n), Question: "vote", Objects: []string{key(n)}, Policy: calendar, Cap: noCap()}); err != nil {
				return nil, err
			}
			return l.Advance(ctx, api.AdvanceRequest{Key: key(n), Truth: truths})
		}, true},
		{"ChangeTerms", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: key(n), Question: "vote", Objects: person(n), Cap: tenths(n%20 + 100), Consent: "agreed"})
		}, true},
		{"Withdraw", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return none(l.Withdraw(ctx, api.ObjectRequest{Key: key(n), Object: person(n)[0]}))
		}, true},
		{"Forget", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return none(l.Forget(ctx, api.ObjectRequest{Key: key(n), Object: person(n)[0]}))
		}, true},
		{"Statement", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			s, err := l.Statement(ctx, api.ObjectRequest{Key: key(n), Object: person(n)[0]})
			s.Checkpoint = "" // signatures differ
			return s, err
		}, true},
		{"Quote", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			q, err := l.Quote(ctx, order(n))
			return q, err
		}, false},
		{"Object", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) { return l.Object(ctx, person(n)[0]) }, false},
		{"Questions", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) { return api.Collect(l.Questions(ctx)) }, false},
		{"Levels", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) {
			return api.Collect(l.Levels(ctx, "vote"))
		}, false},
		{"Events", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) {
			for _, err := range l.Events(ctx, 1) {
				if err != nil {
					return nil, err
				}
			}
			return nil, nil
		}, false},
		{"Checkpoint", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) { return l.Checkpoint(ctx) }, false},
		{"Verify", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) {
			return l.Verify(ctx, api.VerifyRequest{})
		}, false},
		{"Backup", func(ctx context.Context, l *ledger.Ledger, n int) (any, error) {
			return l.Backup(ctx, filepath.Join(testenv.TempDir(t), key(n)), nil)
		}, false},
		{"Compact", func(ctx context.Context, l *ledger.Ledger, _ int) (any, error) { return none(l.Compact(ctx, nil)) }, false},
	}
}

// The context of each call is canceled at each of its reads of the context. Either the call returns
// the error, nothing has happened, and the same key does all of it later; or the call is done.
// Forget may also return that it is done, but not all bytes are destroyed yet.
func TestCall_CanceledAtAnyMoment_DoesAllOrNothing(t *testing.T) {
	for _, e := range cancelables(t) {
		t.Run(e.name, func(t *testing.T) {
			l, _ := market(t, crowd(2*maxReads)...)
			given := 0
			for n := 1; ; n++ {
				check.Need(t, n != maxReads, "after %d reads of its context the call is not done", n)
				ctx := cancelAfterReads(n)
				before := events(t, l)
				first, err := e.call(ctx, l, n)
				check.Need(t, err == nil || errors.Is(err, context.Canceled), "canceled at read %d: %v", n, err)
				held, late := errors.AsType[*journal.HeldError](err)
				switch {
				case late && (e.name != "Forget" || held.Through.Events >= held.Wanted.Events):
					t.Fatalf("canceled at read %d: %v", n, err)
				case late:
					given++
				case err != nil:
					given++
					e.wantNothing(t, l, n, before)
				}
				quit := ctx.ended()
				again, fault := e.call(context.Background(), l, n)
				check.Need(t, fault == nil || errors.Is(fault, api.ErrForgotten),
					"canceled at read %d, and called again: %v", n, fault)
				check.Need(t, err != nil || !e.writes || fault != nil || reflect.DeepEqual(first, again),
					"canceled at read %d: returned %+v, and repeated %+v", n, first, again)
				e.wantOnce(t, l, n, again)
				if !quit {
					break
				}
			}
			check.That(t, given != 0, "the call never reads its context")
			wantClean(t, l)
		})
	}
}

// wantNothing checks that a canceled call wrote no events, apart from the call that prepares it.
func (c cancelable) wantNothing(t *testing.T, l *ledger.Ledger, n int, before uint64) {
	t.Helper()
	after := events(t, l)
	if c.name == "Commit" || c.name == "Cancel" || c.name == "Advance" {
		// An earlier call, which was not canceled, has made what it needs. Only that one may have
		// settled a request.
		for ev, err := range l.Events(context.Background(), before+1) {
			check.Must(t, err)
			settled, is := ev.Says.(says.Settled)
			if is && settled.Key != fmt.Sprint("for call ", n) || ev.Kind() == "released" || ev.Kind() == "sold" {
				t.Errorf("canceled at read %d: %+v", n, ev)
			}
		}
		return
	}
	check.That(t, after == before, "canceled at read %d: %d events, before %d", n, after, before)
}

// wantOnce checks that a call that succeeded is not executed again.
func (c cancelable) wantOnce(t *testing.T, l *ledger.Ledger, n int, was any) {
	t.Helper()
	if !c.writes {
		return
	}
	before := events(t, l)
	again, err := c.call(context.Background(), l, n)
	check.That(t, (err == nil || errors.Is(err, api.ErrForgotten)) && (err != nil || reflect.DeepEqual(again, was)),
		"call %d returned %+v, and repeated %+v, %v", n, was, again, err)
	now := events(t, l)
	check.That(t, now == before, "call %d, repeated, writes %d events", n, now-before)
}

// The same for requests that are executed in parts. The parts that are done stay done, and the same
// key does the rest: each object gets one response. The quick form tries a third of the moments,
// others in each run.
func TestCallInParts_Canceled_RetryCompletes(t *testing.T) {
	names := crowd(9_000) // three parts
	truths := sameTruth("yes")
	sale, _ := offer(t)
	calls := func(l *ledger.Ledger) []func(context.Context) (any, error) {
		return []func(context.Context) (any, error){
			func(ctx context.Context) (any, error) {
				return l.Enroll(ctx, api.EnrollRequest{Key: "enroll", Question: "vote", Objects: names, Policy: sale, Cap: noCap()})
			},
			func(ctx context.Context) (any, error) {
				return l.Raise(ctx, api.RaiseRequest{Key: "raise", Question: "vote", All: true, Epsilon: tenths(5), Truth: truths})
			},
		}
	}
	// The number of times that each call reads its context if it is not canceled.
	var all []int
	whole, _ := market(t)
	for _, call := range calls(whole) {
		uncanceled := cancelAfterReads(math.MaxInt)
		check.Must(t, check.Err(call(uncanceled)))
		all = append(all, math.MaxInt-uncanceled.reads)
	}
	// The first moments, before anything is done, and others up to the end.
	const first, rest = 8, 12
	stride := testenv.Tries(3, 1, 1)
	partial := uint64(0) // events of canceled requests
	for i := rand.IntN(stride); i < first+rest; i += stride {
		l, _ := market(t)
		for c, call := range calls(l) {
			reads := i + 1
			if i >= first {
				reads = first + 1 + (i-first)*(all[c]-first-1)/(rest-1)
			}
			begun := events(t, l)
			_, err := call(cancelAfterReads(reads))
			if !errors.Is(err, context.Canceled) && (err != nil || reads < all[c]) {
				t.Fatalf("canceled at read %d of %d: %v", reads, all[c], err)
			}
			if err != nil {
				partial += events(t, l) - begun
			}
			first := check.Value(call(context.Background()))(t)
			before := events(t, l)
			again, err := call(context.Background())
			check.That(t, err == nil && reflect.DeepEqual(first, again) && events(t, l) == before,
				"canceled at read %d: returned %+v, and repeated %+v, %v", reads, first, again, err)
		}
		levels, err := api.Collect(l.Levels(t.Context(), "vote"))
		check.That(t, err == nil && len(levels) == 1 && levels[0].N == int64(len(names)),
			"canceled at moment %d: %+v, %v", i, levels, err)
		wantClean(t, l)
	}
	check.That(t, partial != 0, "of %d reads of the context, none was between two parts", all)
}

// reserved returns the number of a reservation, open or not.
func reserved(l *ledger.Ledger, r api.ReserveRequest) (uint64, error) {
	made, err := l.Reserve(context.Background(), r)
	var closed *api.ReservationError
	if errors.As(err, &closed) {
		return closed.Number, nil
	}
	return made.Number, err
}

// concurrently runs calls 0 to n−1 in many goroutines, which share commits.
func concurrently(t testing.TB, n int, call func(i int) error) {
	t.Helper()
	next, faults := make(chan int), make(chan error, 1)
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			for i := range next {
				if err := call(i); err != nil {
					select {
					case faults <- fmt.Errorf("call %d: %w", i, err):
					default:
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	close(faults)
	check.Must(t, <-faults)
}

func crowd(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("person %08d", i)
	}
	return names
}

// A request that is one transaction has a limit on the number of objects, which is checked first. A
// request that is executed in parts accepts any number. The refusals are in the error, whose text
// is short.
func TestRequest_TooManyObjects_IsRefusedCheaply(t *testing.T) {
	l, _ := market(t, "ann")
	before := events(t, l)
	names, yes := crowd(testenv.Tries(api.MaxPanel+10_000, 400_000, 10_000_000)), sameTruth("yes")
	order := api.Order{Buyer: "acme", Question: "vote", Epsilon: tenths(5), Objects: names}
	for name, call := range map[string]func() error{
		"Quote": func() error { _, err := l.Quote(t.Context(), order); return err },
		"Sell": func() error {
			return check.Err(l.Sell(t.Context(), api.SellRequest{Key: "k", Order: order, Truth: yes}))
		},
		"Reserve": func() error {
			return check.Err(l.Reserve(t.Context(), api.ReserveRequest{Key: "k", Order: order, For: time.Hour}))
		},
		"Answer": func() error {
			return check.Err(l.Answer(t.Context(), api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", Epsilon: tenths(5), Objects: names, AcceptLoss: true, Truth: yes}))
		},
		"Raise": func() error {
			return check.Err(l.Raise(t.Context(), api.RaiseRequest{Key: "k", Question: "vote", Epsilon: tenths(5), Objects: names, Truth: yes}))
		},
		"Enroll": func() error {
			return check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "k", Question: "vote", Objects: append(names[:len(names):len(names)], names[0]), Cap: noCap()}))
		},
	} {
		var err error
		began := time.Now()
		used := check.Allocated(func() { err = call() })
		t.Logf("%s of %d objects: %v, %d MB allocated", name, len(names), time.Since(began).Round(time.Millisecond), used>>20)
		check.That(t, isRequestError(err) && len(err.Error()) <= 2000, "%s: %.300v", name, err)
		// A name takes 16 bytes in addition to its text, and a refusal about 200.
		limit := uint64(len(names)) * 2000
		check.That(t, used <= limit, "%s: %d bytes are allocated", name, used)
	}
	n := events(t, l)
	check.That(t, n == before, "refused requests wrote events: %d, before %d", n, before)
}

// A question with more values than the limit is refused.
func TestDefineQuestion_TooManyValues_IsRefused(t *testing.T) {
	l, _ := market(t)
	values := crowd(1<<20 + 1)
	for _, encoding := range []string{"", "direct", "unary"} {
		err := l.DefineQuestion(t.Context(), "many", api.Question{Name: "many", Values: values, Encoding: encoding})
		check.That(t, errors.Is(err, api.ErrInvalid) && len(err.Error()) <= 300, "%q: %.300v", encoding, err)
	}
	if !testenv.Deep() {
		return // defining and listing the largest question takes long
	}
	check.Must(t, l.DefineQuestion(t.Context(), "most", api.Question{Name: "most", Values: values[:1<<20], Encoding: "direct"}))
	all, err := api.Collect(l.Questions(t.Context()))
	check.That(t, err == nil && len(all) == 2 && len(all[1].Values) == 1<<20,
		"%d questions, %v", len(all), err)
}

// Each of many questions costs the same, and they are listed in the order of their definition.
func TestQuestions_Many_CostTheSameEach(t *testing.T) {
	l, path := market(t)
	n := testenv.Tries(4000, 10_000, 1_000_000)
	began := time.Now()
	first := check.Allocated(func() { defineMany(t, l, 0, n/2) })
	second := check.Allocated(func() { defineMany(t, l, n/2, n) })
	t.Logf("%d questions are defined in %v", n, time.Since(began).Round(time.Millisecond))
	check.That(t, second <= 2*first+64<<20, "the first half allocates %d bytes, the second %d", first, second)
	began = time.Now()
	var all []api.Question
	used := check.Allocated(func() {
		var err error
		all, err = api.Collect(l.Questions(t.Context()))
		check.Must(t, err)
	})
	t.Logf("they are listed in %v with %d MB", time.Since(began).Round(time.Millisecond), used>>20)
	check.That(t, len(all) == n+1 && used <= uint64(n+1)*2000, "%d questions in %d bytes", len(all), used)
	seen := map[string]bool{}
	for _, q := range all {
		seen[q.Name] = true
	}
	check.That(t, len(seen) == n+1, "%d different questions", len(seen))
	used = check.Allocated(func() {
		check.OK(t, check.Err(api.Collect(l.Levels(t.Context(), questionName(n-1)))))
	})
	check.That(t, used <= 1<<20, "reading one of them allocates %d bytes", used)
	began = time.Now()
	wantClean(t, l)
	t.Logf("they are audited in %v", time.Since(began).Round(time.Millisecond))
	check.Must(t, l.Close())
	began = time.Now()
	used = check.Allocated(func() {
		again := check.Value(ledger.Open(t.Context(), path, ledger.Options{ReadOnly: true}))(t)
		check.Must(t, again.Close())
	})
	t.Logf("the file opens in %v", time.Since(began).Round(time.Millisecond))
	if used > uint64(4<<20+100*n) { // bbolt reads the list of free pages
		t.Errorf("opening the file allocates %d bytes", used)
	}
}

func questionName(i int) string { return fmt.Sprintf("question %07d", i) }

func defineMany(t testing.TB, l *ledger.Ledger, from, to int) {
	t.Helper()
	concurrently(t, to-from, func(i int) error {
		name := questionName(from + i)
		return l.DefineQuestion(t.Context(), name, api.Question{Name: name, Values: []string{"yes", "no"}})
	})
}

// An object has very many chains. A call about all of them costs ten times as much for ten times as
// many; a call about one of them costs hardly more.
func TestObject_ManyChains_CostsGrowLinearly(t *testing.T) {
	few := chainCosts(t, testenv.Scale(200, 1_000))
	many := chainCosts(t, testenv.Scale(2_000, 10_000))
	for name, of := range many {
		bound := 45 * few[name].bytes // 10 is linear, 45 allows for growing buffers, 100 would be quadratic
		if strings.HasPrefix(name, "one: ") {
			bound = 2 * few[name].bytes
		}
		t.Logf("%-28s %10v and %10v, %9d and %9d bytes allocated", name, few[name].took.Round(time.Microsecond), of.took.Round(time.Microsecond), few[name].bytes, of.bytes)
		check.That(t, of.bytes <= bound+1<<20,
			"%s: %d bytes are allocated with few chains, %d with ten times as many", name, few[name].bytes, of.bytes)
	}
}

// cost is the cost of a call. Allocations measure its work, because time depends on the load of the
// machine.
type cost struct {
	bytes uint64
	took  time.Duration
}

// chainCosts creates n chains of one object, and measures calls about it.
func chainCosts(t *testing.T, n int) map[string]cost {
	t.Helper()
	l, _ := market(t, "ann")
	defineMany(t, l, 0, n)
	sale, calendar := offer(t)
	yes := sameTruth("yes")
	concurrently(t, n, func(i int) error {
		p := sale
		if i%2 == 0 {
			p = calendar
		}
		return check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: fmt.Sprint("chain ", i), Question: questionName(i), Objects: []string{"ann"}, Policy: p, Cap: noCap()}))
	})
	costs := map[string]cost{}
	measure := func(name string, call func() error) {
		t.Helper()
		began := time.Now()
		var err error
		used := check.Allocated(func() { err = call() })
		check.Need(t, err == nil, "%s: %v", name, err)
		costs[name] = cost{used, time.Since(began)}
	}
	odd := questionName(n/2 | 1)
	measure("all: her state", func() error {
		o, err := l.Object(t.Context(), "ann")
		if err == nil && len(o.Chains) != n+1 {
			err = fmt.Errorf("%d chains", len(o.Chains))
		}
		return err
	})
	measure("one: release", func() error {
		return check.Err(l.Release(t.Context(), api.ReleaseRequest{Key: "release", Question: odd, Object: "ann", Epsilon: tenths(1), Truth: yes}))
	})
	order := api.Order{Buyer: "acme", Question: odd, Epsilon: tenths(5), Objects: []string{"ann"}}
	measure("one: quote", func() error { _, err := l.Quote(t.Context(), order); return err })
	measure("one: sale", func() error {
		return check.Err(l.Sell(t.Context(), api.SellRequest{Key: "sell", Order: order, Truth: yes}))
	})
	measure("one: answer", func() error {
		return check.Err(l.Answer(t.Context(), api.AnswerRequest{Key: "answer", Question: odd, Query: "majority:yes", Objects: []string{"ann"}, Epsilon: tenths(1), AcceptLoss: true, Truth: yes}))
	})
	measure("one: reservation", func() error {
		order.Epsilon = tenths(15)
		return check.Err(l.Reserve(t.Context(), api.ReserveRequest{Key: "reserve", Order: order, For: time.Hour}))
	})
	measure("one: receipt", func() error { _, err := l.Receipt(t.Context(), 1); return err })
	measure("all: advance", func() error {
		r, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "advance", Truth: yes})
		if err == nil && len(r.Questions) != n+1 {
			err = fmt.Errorf("%d questions", len(r.Questions))
		}
		return err
	})
	measure("all: advance again", func() error {
		return check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "again", Truth: yes}))
	})
	measure("all: her statement", func() error {
		return check.Err(l.Statement(t.Context(), api.ObjectRequest{Key: "statement", Object: "ann"}))
	})
	measure("all: audit", func() error {
		found, err := l.Verify(t.Context(), api.VerifyRequest{})
		if err == nil && found.Problems > 0 {
			err = fmt.Errorf("%d problems", found.Problems)
		}
		return err
	})
	measure("all: withdraw", func() error { return l.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraw", Object: "ann"}) })
	measure("all: forget", func() error { return l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "ann"}) })
	measure("one: enrol again", func() error {
		return check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: odd, Objects: []string{"ann"}, Policy: sale}))
	})
	wantClean(t, l)
	return costs
}
