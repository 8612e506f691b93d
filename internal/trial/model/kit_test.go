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

// T is a test of what every ledger must do.
type T struct {
	*testing.T
	file   bool // the ledger is in a file; otherwise in memory
	served bool // the ledger is called over HTTP
}

// Tests of what every ledger must do are methods. Those of anyLedger run on a ledger in memory, on
// one in a file and, in the deep form, on one that is called over HTTP. Those of openLedger do not
// run over HTTP. Under the race detector, games of the model are played over HTTP instead, which is
// faster.
type anyLedger struct{}
type openLedger struct{}

func TestAnyLedger_Conforms(t *testing.T) {
	eachMethod(t, anyLedger{}, testenv.Deep() && !testenv.Short())
}
func TestOpenLedger_Conforms(t *testing.T) { eachMethod(t, openLedger{}, false) }

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

// Run runs a subtest.
func (t *T) Run(name string, test func(t *T)) bool {
	return t.T.Run(name, func(inner *testing.T) { test(&T{inner, t.file, t.served}) })
}

// NewLedger opens a new ledger, in a file if the test requires it, and else in memory. Its clock
// begins at [ledgertest.Begin], and runs at normal speed.
func NewLedger(t testing.TB) LedgerAPI {
	t.Helper()
	return Open(t, ledger.Options{})
}

// Open is [NewLedger] with options.
func Open(t testing.TB, o ledger.Options) LedgerAPI {
	t.Helper()
	return NewStorage(t).Open(t, o)
}

// Storage stores a ledger that can be opened repeatedly.
type Storage struct {
	memory *ledgertest.Memory
	path   string
	built  time.Time
}

// NewStorage returns storage with a new ledger, in a file if the test requires it, and else in
// memory.
func NewStorage(t testing.TB) *Storage {
	t.Helper()
	origin := ledgertest.Origin{Currency: "EUR"}
	if both, ok := t.(*T); ok && both.file {
		path := filepath.Join(testenv.TempDir(t), "ledger.db")
		check.Must(t, ledgertest.NewFile(path, origin))
		return &Storage{path: path, built: time.Now()}
	}
	memory := check.Value(ledgertest.NewMemory(origin))(t)
	return &Storage{memory: memory, built: time.Now()}
}

// Open opens the ledger. It is closed when the test ends, at the latest.
func (h *Storage) Open(t testing.TB, o ledger.Options) LedgerAPI {
	t.Helper()
	l := check.Value(h.Try(o))(t)
	t.Cleanup(func() { _ = l.Close() })
	if both, ok := t.(*T); ok && both.served {
		return &served{Served(t, l), l}
	}
	return l
}

// Try opens the ledger, or returns the error.
func (h *Storage) Try(o ledger.Options) (*ledger.Ledger, error) {
	if o.Now == nil {
		o.Now = func() time.Time { return ledgertest.Begin().Add(time.Since(h.built)) }
	}
	if h.memory != nil {
		return h.memory.Open(o)
	}
	return ledger.Open(context.Background(), h.path, o)
}

// LedgerAPI is a ledger as a host calls it: an open ledger, or a client of one. The methods are
// documented in package ledger.
type LedgerAPI interface {
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
	_ LedgerAPI = (*ledger.Ledger)(nil)
	_ LedgerAPI = (*ledgerclient.Client)(nil)
)

// Served returns a client that calls a ledger over HTTP, without a network.
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

// Close closes the client and the ledger.
func (s *served) Close() error { return errors.Join(s.Client.Close(), s.ledger.Close()) }

// Verify verifies the open ledger. The client would verify a copy, which a ledger in memory cannot
// make.
func (s *served) Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error) {
	return s.ledger.Verify(ctx, r)
}

// Refusals returns the refusals in an error.
func Refusals(t testing.TB, err error) []api.Refusal {
	t.Helper()
	var refused *api.RefusedError
	check.Need(t, errors.As(err, &refused), "got the error %v, want a RefusedError", err)
	return refused.Refused
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// WantChanged fails unless a request was refused only for changed true values of these objects.
func WantChanged(t testing.TB, err error, names ...string) {
	t.Helper()
	var refused *api.RefusedError
	check.Need(t, errors.As(err, &refused) && slices.Equal(refused.TruthChanged, names),
		"got the error %v, want a refusal for changed true values of %q", err, names)
	var plain []string
	for _, r := range refused.Refused {
		plain = append(plain, r.Object)
		if r != (api.Refusal{Object: r.Object, Reason: api.NoTruth, Asked: r.Asked, Remedy: "truth", Largest: r.Largest}) {
			t.Errorf("a changed true value is refused with %+v", r)
		}
	}
	check.That(t, slices.Equal(plain, names) && !strings.Contains(err.Error(), "chang"), "%v for %q", err, names)
}

// Eps parses an ε.
func Eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	return check.Eps(t, text)
}

// Nano returns an ε of n nano-nats.
func Nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	return check.Value(privacy.EpsilonFromNano(n))(t)
}

// NoCap is the largest cap: it limits nothing.
func NoCap() privacy.Epsilon { return privacy.MaxEpsilon() }

// Vote returns the question of most tests.
func Vote() api.Question {
	return api.Question{Name: "vote", Values: []string{"yes", "no", "blank"}}
}

// Smoker returns a question with two values.
func Smoker() api.Question { return api.Question{Name: "smoker", Values: []string{"yes", "no"}} }

// Define defines a question.
func Define(t testing.TB, l LedgerAPI, q api.Question) {
	t.Helper()
	check.Must(t, l.DefineQuestion(t.Context(), "define "+q.Name, q))
}

// Enroll enrolls objects in a question, each with the same cap.
func Enroll(t testing.TB, l LedgerAPI, question, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d", question, objects[0], len(objects))
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Cap: Eps(t, limit)})))
}

// Voters defines the vote and enrolls objects in it, each with the same cap.
func Voters(t testing.TB, l LedgerAPI, limit string, objects ...string) LedgerAPI {
	t.Helper()
	Define(t, l, Vote())
	Enroll(t, l, "vote", limit, objects...)
	return l
}

// VotersStorage returns a closed ledger with voters.
func VotersStorage(t testing.TB, limit string, objects ...string) *Storage {
	t.Helper()
	h := NewStorage(t)
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

// SameTruth returns a source with one value for all objects.
func SameTruth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{value}, len(objects)), nil
	}
}

// ReleaseOf returns a request to release an object's vote, which is yes.
func ReleaseOf(t testing.TB, key, object, epsilon string) api.ReleaseRequest {
	t.Helper()
	return api.ReleaseRequest{Key: key, Question: "vote", Object: object, Epsilon: Eps(t, epsilon), Truth: SameTruth("yes")}
}

// Release executes a request.
func Release(t testing.TB, l LedgerAPI, r api.ReleaseRequest) api.Response {
	t.Helper()
	return check.Value(l.Release(t.Context(), r))(t)
}

// RaiseOf returns a request for the votes of many objects, or of all.
func RaiseOf(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	return api.RaiseRequest{Key: key, Question: "vote", Epsilon: Eps(t, epsilon), Objects: objects, All: objects == nil, Truth: SameTruth("yes")}
}

// Raise executes a request.
func Raise(t testing.TB, l LedgerAPI, r api.RaiseRequest) api.RaiseResult {
	t.Helper()
	return check.Value(l.Raise(t.Context(), r))(t)
}

// Never returns a source of true values that must not be called.
func Never(t testing.TB) api.TruthFunc {
	return func(_ context.Context, question string, objects []string) ([]string, error) {
		t.Errorf("true values of %q requested for %.3q", question, objects)
		return nil, errors.New("no true values here")
	}
}

// Ballots returns a source of true values: the named objects vote yes, all others no.
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

// AnswerOf returns a request for a query about the votes of objects.
func AnswerOf(t testing.TB, key, query, epsilon string, truth api.TruthFunc, objects ...string) api.AnswerRequest {
	t.Helper()
	return api.AnswerRequest{Key: key, Question: "vote", Query: query, Epsilon: Eps(t, epsilon), Objects: objects, Truth: truth}
}

// AnswerTo executes a request.
func AnswerTo(t testing.TB, l LedgerAPI, r api.AnswerRequest) api.AnswerResult {
	t.Helper()
	return check.Value(l.Answer(t.Context(), r))(t)
}

// ValueName returns the name of a value.
func ValueName(v int) string { return fmt.Sprint("value ", v) }

// ValuesOf returns n values.
func ValuesOf(n int) []string {
	values := make([]string, n)
	for v := range values {
		values[v] = ValueName(v)
	}
	return values
}

// Home returns a question in unary encoding.
func Home(values int) api.Question {
	return api.Question{Name: "home", Values: ValuesOf(values), Encoding: "unary"}
}

// HomesOf returns a request for the homes of many objects, or of all.
func HomesOf(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	r := RaiseOf(t, key, epsilon, objects...)
	r.Question, r.Truth = "home", SameTruth(ValueName(2))
	return r
}

// NoiseKeyOf returns the key of a name. Each name has another key.
func NoiseKeyOf(name string) []byte {
	key := sha256.Sum256([]byte("for tests, the key " + name))
	return key[:]
}

// NoiseKeys returns a source with a key for every name.
func NoiseKeys(current string) api.NoiseKeys {
	return api.NoiseKeys{Current: current, Key: func(name string) ([]byte, error) { return NoiseKeyOf(name), nil }}
}

// TruthKey returns the truth key of a host.
func TruthKey() []byte { return []byte("the key of the host, 32 bytes ..") }

// ListOf returns a source that returns these values for any objects.
func ListOf(values ...string) api.TruthFunc {
	return func(context.Context, string, []string) ([]string, error) { return values, nil }
}

// Market returns a policy that sells up to a level for 100 minor units at ε=1, with further
// changes.
func Market(t testing.TB, most string, more ...func(*policy.Market)) policy.Policy {
	t.Helper()
	m := policy.Market{Max: Eps(t, most), Prices: []policy.Price{{Epsilon: Eps(t, "1"), Amount: 100}, {Epsilon: Eps(t, "1000"), Amount: 99_901}}}
	for _, change := range more {
		change(&m)
	}
	return check.Value(m.Policy())(t)
}

// EnrollUnder enrolls objects in a question under a policy, each with the same cap.
func EnrollUnder(t testing.TB, l LedgerAPI, question string, p policy.Policy, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d under <%.60s>", question, objects[0], len(objects), p)
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Policy: p, Cap: Eps(t, limit)})))
}

// Sellers defines the vote and enrolls objects that are for sale.
func Sellers(t testing.TB, l LedgerAPI, most, limit string, objects ...string) LedgerAPI {
	t.Helper()
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, most), limit, objects...)
	return l
}

// Purchase returns a request to buy votes, which are all yes.
func Purchase(t testing.TB, key, buyer, epsilon string, objects ...string) api.SellRequest {
	t.Helper()
	return api.SellRequest{
		Key: key, Order: api.Order{Buyer: buyer, Question: "vote", Epsilon: Eps(t, epsilon), Objects: objects, All: objects == nil},
		Truth: SameTruth("yes"),
	}
}

// Sell makes a sale.
func Sell(t testing.TB, l LedgerAPI, r api.SellRequest) api.Sale {
	t.Helper()
	return check.Value(l.Sell(t.Context(), r))(t)
}

// Commit captures a reservation.
func Commit(t testing.TB, l LedgerAPI, key string, reservation uint64) api.Sale {
	t.Helper()
	return check.Value(l.Capture(t.Context(), api.CaptureRequest{Key: key, Reservation: reservation, Truth: SameTruth("yes")}))(t)
}

// Reserve makes a reservation.
func Reserve(t testing.TB, l LedgerAPI, r api.ReserveRequest) api.Reservation {
	t.Helper()
	return check.Value(l.Reserve(t.Context(), r))(t)
}

// Delivered returns the deliveries of a sale, by object.
func Delivered(t testing.TB, l LedgerAPI, number uint64) map[string]api.Delivery {
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
func BuyersOf(t testing.TB, l LedgerAPI) map[string]api.BuyerState {
	t.Helper()
	list := check.Value(api.Collect(l.Buyers(t.Context())))(t)
	all := map[string]api.BuyerState{}
	for _, one := range list {
		all[one.Buyer] = one
	}
	return all
}

// CountingTruths is a source of true values that counts the requests for each object.
type CountingTruths struct {
	mu    sync.Mutex
	times map[string]int
}

// Truth returns a source with one value for all objects.
func (a *CountingTruths) Truth(value string) api.TruthFunc {
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

// Times returns the number of requests for each object.
func (a *CountingTruths) Times() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.times)
}

// Names returns the objects of all requests.
func (a *CountingTruths) Names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.times))
}

// ObjectOf returns the state of an object.
func ObjectOf(t testing.TB, l LedgerAPI, name string) api.ObjectState {
	t.Helper()
	return check.Value(l.Object(t.Context(), name))(t)
}

// Stats returns the statistics of a ledger.
func Stats(t testing.TB, l LedgerAPI) api.Stats {
	t.Helper()
	return check.Value(l.Stats(t.Context()))(t)
}

// Responses returns the recorded responses at one ε, by object. They must be sorted, each once.
func Responses(t testing.TB, l LedgerAPI, question string, epsilon privacy.Epsilon) map[string]api.Response {
	t.Helper()
	found, last := map[string]api.Response{}, ""
	for r, err := range l.Responses(t.Context(), question, epsilon) {
		check.Must(t, err)
		check.That(t, r.Object > last, "the response of %q comes after that of %q", r.Object, last)
		found[r.Object], last = r, r.Object
	}
	return found
}

// Events returns the log.
func Events(t testing.TB, l LedgerAPI) []says.Event {
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

// Text returns a document in JSON.
func Text(t testing.TB, d any) []byte {
	t.Helper()
	return check.Value(json.Marshal(d))(t)
}

// Document is a receipt or a statement.
type Document interface {
	// Verify returns the faults of the document, and whether one of the keys signed it.
	Verify(note.Verifiers) evidence.Checked
}

// WantSound fails unless a document is signed by one of the keys, and has no faults.
func WantSound(t testing.TB, what string, d Document, keys note.Verifiers) {
	t.Helper()
	c := d.Verify(keys)
	check.That(t, c.OK(), "%s: signed %v, faults %q", what, c.Signed, Faults(c))
	if alone := d.Verify(nil); alone.Signed || alone.OK() || len(alone.Faults) != 0 || alone.Head != c.Head {
		t.Errorf("%s, without a key: %+v", what, alone)
	}
}

// Faults returns the texts of the faults of a document.
func Faults(c evidence.Checked) (all []string) {
	for _, f := range c.Faults {
		all = append(all, f.String())
	}
	return all
}

// LogKey returns a key pair that is the same in every test.
func LogKey(t testing.TB, name string, seed byte) (note.Signer, note.Verifier, string) {
	t.Helper()
	secret, public, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)), name)
	check.Must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	verifier := check.Value(note.NewVerifier(public))(t)
	return signer, verifier, public
}

// WantSpent checks what objects have spent, all of it for answers about one question.
func WantSpent(t *testing.T, l LedgerAPI, epsilon string, names ...string) {
	t.Helper()
	for _, name := range names {
		if o := ObjectOf(t, l, name); o.Spent != Eps(t, epsilon) || o.Chains[0].Answered != o.Spent {
			t.Errorf("%s has spent %s, %s of it for answers, want %s", name, o.Spent, o.Chains[0].Answered, epsilon)
		}
	}
}

// WantClean audits a ledger: it compares the fold of its log with the stored state.
func WantClean(t testing.TB, l LedgerAPI, r api.VerifyRequest) {
	t.Helper()
	r.Report = func(p api.Finding) { t.Errorf("found %+v", p) }
	check.Must(t, check.Err(l.Verify(t.Context(), r)))
}

// AuditAll audits a ledger, and compares the money with the prices.
func AuditAll(t testing.TB, l LedgerAPI) {
	t.Helper()
	WantClean(t, l, api.VerifyRequest{})
	AuditMarket(t, l)
}

// WantUnchanged runs fn, a call that fails, and reports any change of the log or the stored state.
func WantUnchanged(t testing.TB, l LedgerAPI, fn func()) {
	t.Helper()
	log, sum := Text(t, Events(t, l)), Stats(t, l)
	fn()
	if now := Stats(t, l); !bytes.Equal(Text(t, Events(t, l)), log) || now.Events != sum.Events || now.Objects != sum.Objects {
		t.Errorf("after a failed call the statistics are %+v, before %+v", now, sum)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// RecordedBy returns the response that an event records, released or sold, and whether there is
// one.
func RecordedBy(ev says.Event) (says.Released, bool) {
	switch d := ev.Says.(type) {
	case says.Released:
		return d, true
	case says.Sold:
		return says.Released{Object: d.Object, Question: d.Question, Epsilon: d.Epsilon, Response: d.Response, Method: d.Method}, true
	}
	return says.Released{}, false
}

// MethodOf returns how the response or answer of an event was made; "" for other events.
func MethodOf(ev says.Event) string {
	if d, is := ev.Says.(says.Answered); is {
		return d.Method
	}
	r, _ := RecordedBy(ev)
	return r.Method
}

// holding is what one buyer has of one object. A forgotten object has no name.
type holding struct {
	buyer, question, object string
	since                   uint64 // the epoch, as the event that began it
}

// chain is an object in a question.
type chain struct{ question, object string }

// place is where a response is recorded.
type place struct {
	chain
	since   uint64
	epsilon privacy.Epsilon
}

// books are the state of the market, computed from the events.
type books struct {
	testing.TB
	recorded    map[place]string
	paid        map[holding]int64
	top         map[holding]privacy.Epsilon
	sales, sold map[uint64]int64          // the price of a sale, and the sum of its objects
	since       map[chain]uint64          // the event that began the epoch
	buyers      map[chain]uint64          // the buyers in the epoch
	prices      map[chain]*policy.Terms   // in force
	promised    map[promise]*policy.Terms // when it was reserved
}

// promise is an object of a reservation.
type promise struct {
	sale   uint64
	object string
}

// AuditMarket checks the records of the market against the log and the prices (invariants 3, 4, 9
// and 13). Each response is the one recorded at its ε. Each buyer pays for each object the price of
// a higher level, in force or promised, less what it has paid for the object. Earnings, payments
// and revenue are the same money. For erased data, only the money can be checked.
func AuditMarket(t testing.TB, l LedgerAPI) {
	t.Helper()
	b := books{t, map[place]string{}, map[holding]int64{}, map[holding]privacy.Epsilon{}, map[uint64]int64{}, map[uint64]int64{}, map[chain]uint64{}, map[chain]uint64{}, map[chain]*policy.Terms{}, map[promise]*policy.Terms{}}
	for i, ev := range Events(t, l) {
		n := uint64(i) + 1
		check.Need(t, ev.Number == n, "event %d is at the position of event %d", ev.Number, n)
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

// enter adds an event.
func (b books) enter(ev says.Event) {
	switch d := ev.Says.(type) {
	case says.EpochBegun:
		if at := (chain{d.Question, d.Object}); !ev.Erased { // otherwise the object was forgotten, and so is what was bought of it
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
		b.paid[holding{object: d.Object}] += 0 // it may have earned money that no event shows
	case says.Sold:
		if b.sold[d.Sale] += d.Price; ev.Erased {
			b.paid[holding{buyer: d.Buyer}] += d.Price
		} else {
			b.enterSold(ev.Number, d)
		}
	}
}

// sold returns the terms of sale of a policy, or nil.
func sold(p *policy.Policy) *policy.Terms {
	if p == nil {
		return nil
	}
	return p.Terms()
}

// enterSold adds one object of a sale.
func (b books) enterSold(number uint64, d says.Sold) {
	c := chain{d.Question, d.Object}
	at := place{c, b.since[c], d.Epsilon}
	if before, twice := b.recorded[at]; twice && before != d.Response {
		b.Errorf("event %d: %q has the response %q at ε=%s, and %q before", number, d.Object, d.Response, d.Epsilon, before)
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
	check.That(b, d.Price == due, "event %d: %q pays %d for %q, want %d", number, d.Buyer, d.Price, d.Object, due)
	b.paid[who] += d.Price
	if b.top[who].IsZero() {
		b.buyers[c]++
	}
	if b.top[who].Less(d.Epsilon) {
		b.top[who] = d.Epsilon
	}
}

// auditMoney checks that the paid, earned and counted money is the same.
func auditMoney(t testing.TB, l LedgerAPI, paid map[holding]int64) {
	t.Helper()
	earned, objects, invoices, revenue := map[string]int64{}, map[string]api.ObjectState{}, map[string]int64{}, int64(0)
	forgotten, gone := map[string]bool{}, int64(0) // the money for which no event shows who earned it
	for who, amount := range paid {
		o, err := api.ObjectState{}, error(nil)
		if who.object != "" {
			o, err = l.Object(t.Context(), who.object)
		}
		if who.buyer == "" {
			if errors.Is(err, api.ErrUnknown) {
				continue // it was forgotten, and never enrolled
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
	check.That(t, gone == 0, "forgotten objects have earned %d less than was paid for them", gone)
	for name, b := range BuyersOf(t, l) {
		check.That(t, b.Paid == invoices[name], "%q has paid %d, its deliveries cost %d", name, b.Paid, invoices[name])
	}
	got := Stats(t, l).Revenue
	check.That(t, got == revenue, "the revenue is %d, the sales brought %d", got, revenue)
}

// Games allocate much memory and keep little, so garbage is collected less often than by default.
// GOGC in the environment overrides this.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(1 << 30)
	}
	os.Exit(m.Run())
}
