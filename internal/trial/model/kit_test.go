package model

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
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
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// T is a test of what any ledger must do, wherever it is kept.
type T struct {
	*testing.T
	file   bool // it is kept in a file; else in memory
	served bool // it is called over HTTP
}

// Tests of what any ledger must do are methods: those of anyLedger run on a ledger in memory, on
// one in a file and, in the deep form, on one that is called over HTTP; those of openLedger not
// over HTTP. Under the race detector games of the model are played over HTTP instead, which is
// faster.
type anyLedger struct{}
type openLedger struct{}

func TestAnyLedger(t *testing.T)  { eachMethod(t, anyLedger{}, testenv.Deep() && !testenv.Short()) }
func TestOpenLedger(t *testing.T) { eachMethod(t, openLedger{}, false) }

// eachMethod runs each method of a value as a subtest.
func eachMethod(t *testing.T, of any, overHTTP bool) {
	tests := reflect.ValueOf(of)
	for i := range tests.NumMethod() {
		test := tests.Method(i).Interface().(func(*T))
		t.Run(tests.Type().Method(i).Name, func(t *testing.T) {
			t.Run("memory", func(t *testing.T) { test(&T{T: t}) })
			t.Run("file", func(t *testing.T) { test(&T{T: t, file: true}) })
			if overHTTP {
				t.Run("served", func(t *testing.T) { test(&T{T: t, served: true}) })
			}
		})
	}
}

// Run runs a subtest of a test of what any ledger must do.
func (t *T) Run(name string, test func(t *T)) bool {
	return t.T.Run(name, func(inner *testing.T) { test(&T{inner, t.file, t.served}) })
}

// NewLedger opens a new ledger for a test, in a file if the test says so, and else in memory. Its
// clock begins at [ledgertest.Begin], and goes as fast as the machine's.
func NewLedger(t testing.TB) Book {
	t.Helper()
	return Open(t, ledger.Options{})
}

// Open is [NewLedger] with options.
func Open(t testing.TB, o ledger.Options) Book {
	t.Helper()
	return NewHouse(t).Open(t, o)
}

// House is where a ledger is kept between two times that it is open.
type House struct {
	memory *ledgertest.Memory
	path   string
	built  time.Time
}

// NewHouse returns a house with a new ledger, in a file if the test says so, and else in memory.
func NewHouse(t testing.TB) *House {
	t.Helper()
	origin := ledgertest.Origin{Currency: "EUR"}
	if both, ok := t.(*T); ok && both.file {
		path := filepath.Join(testenv.TempDir(t), "ledger.db")
		check.Must(t, ledgertest.NewFile(path, origin))
		return &House{path: path, built: time.Now()}
	}
	memory := check.Value(ledgertest.NewMemory(origin))(t)
	return &House{memory: memory, built: time.Now()}
}

// Open opens the ledger until the test ends, if it is not closed before.
func (h *House) Open(t testing.TB, o ledger.Options) Book {
	t.Helper()
	l := check.Value(h.Try(o))(t)
	t.Cleanup(func() { _ = l.Close() })
	if both, ok := t.(*T); ok && both.served {
		return &served{Served(t, l), l}
	}
	return l
}

// Try opens the ledger, or says why it does not open.
func (h *House) Try(o ledger.Options) (*ledger.Ledger, error) {
	if o.Now == nil {
		o.Now = func() time.Time { return ledgertest.Begin().Add(time.Since(h.built)) }
	}
	if h.memory != nil {
		return h.memory.Open(o)
	}
	return ledger.Open(context.Background(), h.path, o)
}

// Book is a ledger as a host calls it: an open one, or one behind a handler. What a method does is
// told in package ledger.
type Book interface {
	About() api.About                             // as of [ledger.Ledger]
	Stats(ctx context.Context) (api.Stats, error) // as of [ledger.Ledger]

	Questions(ctx context.Context) iter.Seq2[api.Question, error]                             // as of [ledger.Ledger]
	DefineQuestion(ctx context.Context, key string, q api.Question) error                     // as of [ledger.Ledger]
	Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error)                // as of [ledger.Ledger]
	ChangeTerms(ctx context.Context, r api.ChangeTermsRequest) (api.ChangeTermsResult, error) // as of [ledger.Ledger]
	Reconcile(ctx context.Context, r api.ReconcileRequest) (api.ReconcileResult, error)       // as of [ledger.Ledger]
	Release(ctx context.Context, r api.ReleaseRequest) (api.Response, error)                  // as of [ledger.Ledger]
	Raise(ctx context.Context, r api.RaiseRequest) (api.RaiseResult, error)                   // as of [ledger.Ledger]
	Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error)             // as of [ledger.Ledger]
	Answer(ctx context.Context, r api.AnswerRequest) (api.AnswerResult, error)                // as of [ledger.Ledger]
	QuoteAnswer(ctx context.Context, r api.AnswerRequest) (api.AnswerQuote, error)            // as of [ledger.Ledger]
	BeginEpoch(ctx context.Context, r api.EpochRequest) error                                 // as of [ledger.Ledger]
	Withdraw(ctx context.Context, r api.ObjectRequest) error                                  // as of [ledger.Ledger]
	Forget(ctx context.Context, r api.ObjectRequest) error                                    // as of [ledger.Ledger]

	Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error)                                // as of [ledger.Ledger]
	Quote(ctx context.Context, o api.Order) (api.Quote, error)                                          // as of [ledger.Ledger]
	Sell(ctx context.Context, r api.SellRequest) (api.Sale, error)                                      // as of [ledger.Ledger]
	Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error)                         // as of [ledger.Ledger]
	Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error)                                // as of [ledger.Ledger]
	Cancel(ctx context.Context, key string, reservation uint64) error                                   // as of [ledger.Ledger]
	Sale(ctx context.Context, number uint64) (api.Sale, error)                                          // as of [ledger.Ledger]
	Sales(ctx context.Context, buyer string) iter.Seq2[api.Sale, error]                                 // as of [ledger.Ledger]
	Reservation(ctx context.Context, number uint64) (api.Reservation, error)                            // as of [ledger.Ledger]
	Reservations(ctx context.Context, buyer string, states ...string) iter.Seq2[api.Reservation, error] // as of [ledger.Ledger]
	Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error]                         // as of [ledger.Ledger]
	Buyers(ctx context.Context) iter.Seq2[api.BuyerState, error]                                        // as of [ledger.Ledger]

	Object(ctx context.Context, name string) (api.ObjectState, error)                                       // as of [ledger.Ledger]
	Estimate(ctx context.Context, r api.EstimateRequest) (api.Estimate, error)                              // as of [ledger.Ledger]
	Levels(ctx context.Context, question string) iter.Seq2[api.LevelCount, error]                           // as of [ledger.Ledger]
	Responses(ctx context.Context, question string, epsilon privacy.Epsilon) iter.Seq2[api.Response, error] // as of [ledger.Ledger]
	Events(ctx context.Context, from uint64) iter.Seq2[says.Event, error]                                   // as of [ledger.Ledger]
	Refusals(ctx context.Context, key string, from uint64) iter.Seq2[says.Event, error]                     // as of [ledger.Ledger]

	Checkpoint(ctx context.Context) ([]byte, error)                                 // as of [ledger.Ledger]
	Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error)             // as of [ledger.Ledger]
	Statement(ctx context.Context, r api.ObjectRequest) (evidence.Statement, error) // as of [ledger.Ledger]
	Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error)      // as of [ledger.Ledger]
	Watch(ctx context.Context, from uint64) iter.Seq2[says.Event, error]            // as of [ledger.Ledger]
	Close() error                                                                   // as of [ledger.Ledger]
}

var (
	_ Book = (*ledger.Ledger)(nil)
	_ Book = (*ledgerclient.Client)(nil)
)

// Served returns a ledger as who calls it over HTTP has it, without a network.
func Served(t testing.TB, l *ledger.Ledger) *ledgerclient.Client {
	t.Helper()
	crowded := ledgerhttp.Limits{Rate: 1e9, Burst: 1e9, Running: 1e4, Memory: 1e12, Streams: 1e4, Each: 1e4, Records: 1e12, RecordBurst: 1e12, Panels: 1e4}
	h := check.Value(ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: "operator"}.Admit, Limits: crowded}))(t)
	return check.Value(ledgerclient.Dial(t.Context(), "http://localhost", ledgerclient.Options{HTTP: &http.Client{Transport: direct{h}}}))(t)
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

// served is a ledger that is called over HTTP, and is closed with its client.
type served struct {
	*ledgerclient.Client
	ledger *ledger.Ledger
}

// Close closes both.
func (s *served) Close() error { return errors.Join(s.Client.Close(), s.ledger.Close()) }

// Verify verifies where the ledger is: a copy, which the client would verify, cannot be made of one
// in memory.
func (s *served) Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error) {
	return s.ledger.Verify(ctx, r)
}

// Refusals returns what a call was refused for.
func Refusals(t testing.TB, err error) []api.Refusal {
	t.Helper()
	var refused *api.RefusedError
	check.Need(t, errors.As(err, &refused), "got the error %v, want a RefusedError", err)
	return refused.Refused
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// WantChanged fails unless a request was refused for the changed truths of these people, and for
// nothing else.
func WantChanged(t testing.TB, err error, names ...string) {
	t.Helper()
	var refused *api.RefusedError
	check.Need(t, errors.As(err, &refused) && slices.Equal(refused.TruthChanged, names),
		"%v, want one for the changed truths of %q", err, names)
	var plain []string
	for _, r := range refused.Refused {
		plain = append(plain, r.Object)
		if r != (api.Refusal{Object: r.Object, Reason: api.NoTruth, Asked: r.Asked, Remedy: "truth", Largest: r.Largest}) {
			t.Errorf("a changed truth is refused as %+v", r)
		}
	}
	check.That(t, slices.Equal(plain, names) && !strings.Contains(err.Error(), "chang"), "%v for %q", err, names)
}

// Eps is an ε that a test writes.
func Eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	return check.Eps(t, text)
}

// Nano is an ε of so many nano-nats.
func Nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	return check.Value(privacy.EpsilonFromNano(n))(t)
}

// Boundless is the cap of those whom only a policy bounds, or nothing.
func Boundless() privacy.Epsilon { return privacy.MaxEpsilon() }

// Vote is the question that most tests ask.
func Vote() api.Question {
	return api.Question{Name: "vote", Values: []string{"yes", "no", "blank"}}
}

// Smoker is a question of two values.
func Smoker() api.Question { return api.Question{Name: "smoker", Values: []string{"yes", "no"}} }

// Define defines a question.
func Define(t testing.TB, l Book, q api.Question) {
	t.Helper()
	check.Must(t, l.DefineQuestion(t.Context(), "define "+q.Name, q))
}

// Enroll enrols objects in a question, each with the same cap.
func Enroll(t testing.TB, l Book, question, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d", question, objects[0], len(objects))
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Cap: Eps(t, limit)})))
}

// Voters defines the vote and enrols objects in it, each with the same cap.
func Voters(t testing.TB, l Book, limit string, objects ...string) Book {
	t.Helper()
	Define(t, l, Vote())
	Enroll(t, l, "vote", limit, objects...)
	return l
}

// VotersHouse is a closed ledger with voters in it.
func VotersHouse(t testing.TB, limit string, objects ...string) *House {
	t.Helper()
	h := NewHouse(t)
	check.Must(t, Voters(t, h.Open(t, ledger.Options{}), limit, objects...).Close())
	return h
}

// Crowd returns n names in order.
func Crowd(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("person-%05d", i)
	}
	return names
}

// SameTruth is a source with one value for all objects.
func SameTruth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{value}, len(objects)), nil
	}
}

// ReleaseOf asks for an object's vote, which is yes.
func ReleaseOf(t testing.TB, key, object, epsilon string) api.ReleaseRequest {
	t.Helper()
	return api.ReleaseRequest{Key: key, Question: "vote", Object: object, Epsilon: Eps(t, epsilon), Truth: SameTruth("yes")}
}

// Release carries a request out.
func Release(t testing.TB, l Book, r api.ReleaseRequest) api.Response {
	t.Helper()
	return check.Value(l.Release(t.Context(), r))(t)
}

// Order asks for the votes of many objects, or of all.
func Order(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	return api.RaiseRequest{Key: key, Question: "vote", Epsilon: Eps(t, epsilon), Objects: objects, All: objects == nil, Truth: SameTruth("yes")}
}

// CarryOut carries a request out.
func CarryOut(t testing.TB, l Book, r api.RaiseRequest) api.RaiseResult {
	t.Helper()
	return check.Value(l.Raise(t.Context(), r))(t)
}

// Never is a source of true values that must not be asked.
func Never(t testing.TB) api.TruthFunc {
	return func(_ context.Context, question string, objects []string) ([]string, error) {
		t.Errorf("asked for the truth of %q about %.3q", question, objects)
		return nil, errors.New("no truth for you")
	}
}

// Ballots is a source of truths: who is named votes yes, everybody else no.
func Ballots(yes ...string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, object := range objects {
			values[i] = "no"
			for _, name := range yes {
				if name == object {
					values[i] = "yes"
				}
			}
		}
		return values, nil
	}
}

// Inquire asks a query about the votes of objects.
func Inquire(t testing.TB, key, query, epsilon string, truth api.TruthFunc, objects ...string) api.AnswerRequest {
	t.Helper()
	return api.AnswerRequest{Key: key, Question: "vote", Query: query, Epsilon: Eps(t, epsilon), Objects: objects, Truth: truth}
}

// AnswerTo carries a request out.
func AnswerTo(t testing.TB, l Book, r api.AnswerRequest) api.AnswerResult {
	t.Helper()
	return check.Value(l.Answer(t.Context(), r))(t)
}

// ValueName is the name of a value, by its number.
func ValueName(v int) string { return fmt.Sprint("value ", v) }

// ValuesOf returns n values.
func ValuesOf(n int) []string {
	values := make([]string, n)
	for v := range values {
		values[v] = ValueName(v)
	}
	return values
}

// Home is a question in unary encoding.
func Home(values int) api.Question {
	return api.Question{Name: "home", Values: ValuesOf(values), Encoding: "unary"}
}

// HomesOf asks for the homes of many objects, or of all.
func HomesOf(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	r := Order(t, key, epsilon, objects...)
	r.Question, r.Truth = "home", SameTruth(ValueName(2))
	return r
}

// TheNoiseKey is the key of a name: of every name another one.
func TheNoiseKey(name string) []byte {
	key := sha256.Sum256([]byte("for tests, the key " + name))
	return key[:]
}

// NoiseKeys is a host with a key of every name.
func NoiseKeys(current string) api.NoiseKeys {
	return api.NoiseKeys{Current: current, Key: func(name string) ([]byte, error) { return TheNoiseKey(name), nil }}
}

// TruthKey is the truth key of a host.
func TruthKey() []byte { return []byte("the key of the host, 32 bytes ..") }

// ListOf is a source that gives these values, whomever it is asked about.
func ListOf(values ...string) api.TruthFunc {
	return func(context.Context, string, []string) ([]string, error) { return values, nil }
}

// Market is a policy that sells up to a level for 100 minor units of ε=1, and more as given.
func Market(t testing.TB, most string, more ...func(*policy.Market)) policy.Policy {
	t.Helper()
	m := policy.Market{Max: Eps(t, most), Prices: []policy.Price{{Epsilon: Eps(t, "1"), Amount: 100}, {Epsilon: Eps(t, "1000"), Amount: 99_901}}}
	for _, change := range more {
		change(&m)
	}
	return check.Value(m.Policy())(t)
}

// EnrollUnder enrols objects in a question under a policy, each with the same cap.
func EnrollUnder(t testing.TB, l Book, question string, p policy.Policy, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d under <%.60s>", question, objects[0], len(objects), p)
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Policy: p, Cap: Eps(t, limit)})))
}

// Sellers defines the vote and puts objects in it on the market.
func Sellers(t testing.TB, l Book, most, limit string, objects ...string) Book {
	t.Helper()
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, most), limit, objects...)
	return l
}

// Purchase is an order for votes, which are all yes.
func Purchase(t testing.TB, key, buyer, epsilon string, objects ...string) api.SellRequest {
	t.Helper()
	return api.SellRequest{
		Key: key, Order: api.Order{Buyer: buyer, Question: "vote", Epsilon: Eps(t, epsilon), Objects: objects, All: objects == nil},
		Truth: SameTruth("yes"),
	}
}

// Sell makes a sale.
func Sell(t testing.TB, l Book, r api.SellRequest) api.Sale {
	t.Helper()
	return check.Value(l.Sell(t.Context(), r))(t)
}

// Commit makes a sale of a reservation.
func Commit(t testing.TB, l Book, key string, reservation uint64) api.Sale {
	t.Helper()
	return check.Value(l.Capture(t.Context(), api.CaptureRequest{Key: key, Reservation: reservation, Truth: SameTruth("yes")}))(t)
}

// Reserve makes a reservation.
func Reserve(t testing.TB, l Book, r api.ReserveRequest) api.Reservation {
	t.Helper()
	return check.Value(l.Reserve(t.Context(), r))(t)
}

// Delivered returns what a sale delivered, by object.
func Delivered(t testing.TB, l Book, number uint64) map[string]api.Delivery {
	t.Helper()
	all, last := map[string]api.Delivery{}, ""
	for d, err := range l.Deliveries(t.Context(), number) {
		check.Must(t, err)
		check.That(t, d.Object > last, "sale %d delivers %q after %q", number, d.Object, last)
		all[d.Object], last = d, d.Object
	}
	return all
}

// BuyersOf returns all buyers by name.
func BuyersOf(t testing.TB, l Book) map[string]api.BuyerState {
	t.Helper()
	list := check.Value(api.Collect(l.Buyers(t.Context())))(t)
	all := map[string]api.BuyerState{}
	for _, one := range list {
		all[one.Buyer] = one
	}
	return all
}

// Asked is a source of truths that counts whom it was asked about.
type Asked struct {
	mu    sync.Mutex
	times map[string]int
}

// Truth gives everybody a value.
func (a *Asked) Truth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.times == nil {
			a.times = map[string]int{}
		}
		values := make([]string, len(objects))
		for i, name := range objects {
			a.times[name]++
			values[i] = value
		}
		return values, nil
	}
}

// Times tells how often it was asked about each.
func (a *Asked) Times() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.times)
}

// Names are those it was asked about.
func (a *Asked) Names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.times))
}

// ObjectOf returns what the ledger says of an object.
func ObjectOf(t testing.TB, l Book, name string) api.ObjectState {
	t.Helper()
	return check.Value(l.Object(t.Context(), name))(t)
}

// Stats returns the sum of all.
func Stats(t testing.TB, l Book) api.Stats {
	t.Helper()
	return check.Value(l.Stats(t.Context()))(t)
}

// Responses returns the recorded responses at one ε, by object. They come in order, each once.
func Responses(t testing.TB, l Book, question string, epsilon privacy.Epsilon) map[string]api.Response {
	t.Helper()
	found, last := map[string]api.Response{}, ""
	for r, err := range l.Responses(t.Context(), question, epsilon) {
		check.Must(t, err)
		check.That(t, r.Object > last, "the response of %q comes after that of %q", r.Object, last)
		found[r.Object], last = r, r.Object
	}
	return found
}

// Events returns the log in words.
func Events(t testing.TB, l Book) []says.Event {
	t.Helper()
	return check.Value(api.Collect(l.Events(t.Context(), 1)))(t)
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
	return check.Value(json.Marshal(d))(t)
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
	check.That(t, c.OK(), "%s: signed %v, faults %q", what, c.Signed, Faults(c))
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
	check.Must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	verifier := check.Value(note.NewVerifier(public))(t)
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

// WantClean has a ledger folded again from its log, and compared with what it stores. It fails if
// there is any problem.
func WantClean(t testing.TB, l Book, r api.VerifyRequest) {
	t.Helper()
	r.Report = func(p api.Finding) { t.Errorf("found %+v", p) }
	check.Must(t, check.Err(l.Verify(t.Context(), r)))
}

// AuditAll compares the fold of the log with what is stored, and the money with the prices.
func AuditAll(t testing.TB, l Book) {
	t.Helper()
	WantClean(t, l, api.VerifyRequest{})
	AuditMarket(t, l)
}

// Unchanged runs fn and reports any change: a call that failed must leave nothing. The log is as it
// was, and what is stored is what follows from it.
func Unchanged(t testing.TB, l Book, fn func()) {
	t.Helper()
	log, sum := Text(t, Events(t, l)), Stats(t, l)
	fn()
	if now := Stats(t, l); !bytes.Equal(Text(t, Events(t, l)), log) || now.Events != sum.Events || now.Objects != sum.Objects {
		t.Errorf("after a call that failed there is %+v, before %+v", now, sum)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// RecordedBy returns the response that an event records, released or sold, and tells whether it
// does.
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

// holding is what one buyer has of one object. Of what a forgotten object sold there is no name.
type holding struct {
	buyer, question, object string
	since                   uint64 // the epoch, by the event that began it
}

// chain is an object in a question.
type chain struct{ question, object string }

// place is where a response is recorded.
type place struct {
	chain
	since   uint64
	epsilon privacy.Epsilon
}

// books are what the log says of the market, read event by event.
type books struct {
	testing.TB
	recorded    map[place]string
	paid        map[holding]int64
	top         map[holding]privacy.Epsilon
	sales, sold map[uint64]int64          // what a sale costs, and its objects together
	since       map[chain]uint64          // the event that began the epoch
	buyers      map[chain]uint64          // who have bought something in it
	prices      map[chain]*policy.Terms   // in force
	promised    map[promise]*policy.Terms // when it was reserved
}

// promise is an object of a reservation.
type promise struct {
	sale   uint64
	object string
}

// AuditMarket checks what stands in the records of the market against the log and against the
// prices (invariants 3, 4, 9 and 13): each response is the one recorded at its ε; each buyer pays
// for each object the price of a higher level, in force or promised, less what it has paid for the
// object; and earnings, payments and revenue are the same money. Of what is erased only the money
// can be checked.
func AuditMarket(t testing.TB, l Book) {
	t.Helper()
	b := books{t, map[place]string{}, map[holding]int64{}, map[holding]privacy.Epsilon{}, map[uint64]int64{}, map[uint64]int64{}, map[chain]uint64{}, map[chain]uint64{}, map[chain]*policy.Terms{}, map[promise]*policy.Terms{}}
	for i, ev := range Events(t, l) {
		n := uint64(i) + 1
		check.Need(t, ev.Number == n, "event %d stands where event %d should", ev.Number, n)
		b.enter(ev)
	}
	for number, price := range b.sales {
		check.That(t, b.sold[number] == price, "sale %d costs %d, its objects %d", number, price, b.sold[number])
	}
	for at, want := range b.buyers {
		for _, c := range ObjectOf(t, l, at.object).Chains {
			check.That(t, c.Question != at.question || c.Buyers == want,
				"%q has %d buyers about %q, by the log %d", at.object, c.Buyers, at.question, want)
		}
	}
	auditMoney(t, l, b.paid)
}

// enter enters what an event says.
func (b books) enter(ev says.Event) {
	switch d := ev.Says.(type) {
	case says.EpochBegun:
		if at := (chain{d.Question, d.Object}); !ev.Erased { // else the object was forgotten, and so is what was bought of it
			b.since[at], b.buyers[at] = ev.Number, 0
		}
	case says.Enrolled:
		b.prices[chain{d.Question, d.Object}] = sold(d.Policy)
	case says.TermsChanged:
		b.prices[chain{d.Question, d.Object}] = sold(d.Policy)
	case says.Held:
		b.promised[promise{d.Sale, d.Object}] = b.prices[chain{d.Question, d.Object}]
	case says.Released:
		at := chain{d.Question, d.Object}
		b.recorded[place{at, b.since[at], d.Epsilon}] = d.Response
	case says.SaleMade:
		b.sales[d.Sale] = d.Price
	case says.Forgotten:
		b.paid[holding{object: d.Object}] += 0 // it may have earned what no event says
	case says.Sold:
		if b.sold[d.Sale] += d.Price; ev.Erased {
			b.paid[holding{buyer: d.Buyer}] += d.Price
		} else {
			b.enterSold(ev.Number, d)
		}
	}
}

// sold returns the terms of sale of a policy, if it has any.
func sold(p *policy.Policy) *policy.Terms {
	if p == nil {
		return nil
	}
	return p.Terms()
}

// enterSold enters one object of a sale.
func (b books) enterSold(number uint64, d says.Sold) {
	c := chain{d.Question, d.Object}
	at := place{c, b.since[c], d.Epsilon}
	if before, twice := b.recorded[at]; twice && before != d.Response {
		b.Errorf("event %d: %q answers %q at ε=%s, and %q before", number, d.Object, d.Response, d.Epsilon, before)
	} else if twice != (d.Method == "resale") {
		b.Errorf("event %d: %q is sold by %s, recorded before: %v", number, d.Object, d.Method, twice)
	}
	b.recorded[at] = d.Response
	who := holding{d.Buyer, d.Question, d.Object, b.since[c]}
	prices, reserved := b.promised[promise{d.Sale, d.Object}]
	if !reserved {
		prices = b.prices[c]
	}
	due := int64(0)
	if prices != nil {
		due = prices.Upgrade(b.top[who], d.Epsilon, b.paid[who])
	}
	check.That(b, d.Price == due, "event %d: %q pays %d for %q, and owes %d", number, d.Buyer, d.Price, d.Object, due)
	b.paid[who] += d.Price
	if b.top[who].IsZero() {
		b.buyers[c]++
	}
	if b.top[who].Less(d.Epsilon) {
		b.top[who] = d.Epsilon
	}
}

// auditMoney checks that what was paid, earned and counted is the same money.
func auditMoney(t testing.TB, l Book, paid map[holding]int64) {
	t.Helper()
	earned, objects, invoices, revenue := map[string]int64{}, map[string]api.ObjectState{}, map[string]int64{}, int64(0)
	forgotten, gone := map[string]bool{}, int64(0) // what no event says who earned it
	for who, amount := range paid {
		o, err := api.ObjectState{}, error(nil)
		if who.object != "" {
			o, err = l.Object(t.Context(), who.object)
		}
		if who.buyer == "" {
			if errors.Is(err, api.ErrUnknown) {
				continue // it was forgotten, and was never enrolled
			}
			forgotten[who.object] = true
		}
		check.Must(t, err)
		if objects[who.object] = o; who.object == "" {
			gone += amount
		}
		earned[who.object] += amount
		invoices[who.buyer] += amount
		revenue += amount
	}
	delete(objects, "")
	for name, o := range objects {
		if forgotten[name] && o.Earned >= earned[name] {
			gone -= o.Earned - earned[name]
		} else if o.Earned != earned[name] {
			t.Errorf("%q has earned %d, its buyers paid %d", name, o.Earned, earned[name])
		}
	}
	check.That(t, gone == 0, "those who were forgotten have earned %d less than was paid for them", gone)
	for name, b := range BuyersOf(t, l) {
		check.That(t, b.Paid == invoices[name], "%q has paid %d, its deliveries cost %d", name, b.Paid, invoices[name])
	}
	got := Stats(t, l).Revenue
	check.That(t, got == revenue, "the revenue is %d, the sales brought %d", got, revenue)
}

// Games make much garbage, and keep little: it is collected less often than by Go's own setting,
// which GOGC in the environment overrides.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(1 << 30)
	}
	os.Exit(m.Run())
}
