package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// The invariants that the tests cite by number:
//
//	 1 durable before visible    5 same key, same answer     9 the log is the truth
//	 2 never over budget         6 truth stays out          10 no quiet rollback
//	 3 one answer                7 a refusal explains       11 hostile input is an error
//	 4 maximum, not sum          8 an order is whole        12 time does not run back

func eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	return check.Eps(t, text)
}

func nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	return check.Value(privacy.EpsilonFromNano(n))(t)
}

func epsilonOf(n int64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(n)
	if err != nil {
		panic(err)
	}
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	check.Must(t, err)
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	check.Is(t, err, target)
}

// refusals returns the refusals in the error of a call.
func refusals(t testing.TB, err error) []api.Refusal {
	t.Helper()
	var refused *api.RefusedError
	check.Need(t, errors.As(err, &refused), "got the error %v, want a RefusedError", err)
	return refused.Refused
}

// Ledgers to test on.

// create creates an empty ledger file for one test, or one on a disk for a benchmark.
func create(t testing.TB) (path string) {
	t.Helper()
	dir := t.TempDir
	if _, test := t.(*testing.T); test {
		dir = func() string { return tests.TempDir(t) }
	}
	path = filepath.Join(dir(), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD"}))
	return path
}

// open opens a ledger file and closes it when the test ends.
func open(t testing.TB, path string, options Options) *Ledger {
	t.Helper()
	l := check.Value(Open(t.Context(), path, options))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func newLedger(t testing.TB) *Ledger {
	t.Helper()
	return open(t, create(t), Options{})
}

func closed(t testing.TB, l *Ledger) {
	t.Helper()
	must(t, l.Close())
}

// openShim opens a ledger file through a shim.
func openShim(t testing.TB, path string, options Options) (*Ledger, *shim) {
	t.Helper()
	file := check.Value(bolt.Open(path, options.ReadOnly))(t)
	s := &shim{Store: file, Journals: besideFile(path)}
	return openOver(t, s, s, options), s
}

// openOver opens the ledger of a store and its journals, and closes it when the test ends.
func openOver(t testing.TB, s kv.Store, journals engine.Journals, options Options) *Ledger {
	t.Helper()
	l := check.Value(readStore(t.Context(), s, journals, options))(t)
	must(t, l.begin(t.Context(), options))
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// epoch returns the time at which begin creates its ledgers.
func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// begin writes the first event of a ledger with a fixed id and time.
func begin(t testing.TB, s kv.Store) {
	t.Helper()
	beginWithKey(t, s, "")
}

// beginWithKey does the same for a log that is signed with a key.
func beginWithKey(t testing.TB, s kv.Store, logKey string) {
	t.Helper()
	must(t, s.Update(func(w kv.Writer) error {
		if err := w.Put(state.BucketMeta, []byte(state.KeyFormat), formatRecord()); err != nil {
			return err
		}
		st, err := state.Begin(w, epoch())
		if err != nil {
			return err
		}
		st.Salts = steadySalts(1)
		if _, _, err := fold.Record(st, []event.Change{&event.Created{ID: [16]byte{1, 2, 3, 15: 255}, Currency: "EUR", LogKey: logKey}}); err != nil {
			return err
		}
		return fold.Flush(st)
	}))
}

func formatRecord() []byte {
	return binary.BigEndian.AppendUint16([]byte(state.FormatName), state.FormatVersion)
}

// inMemory opens a new ledger in memory.
func inMemory(t testing.TB, options Options) *Ledger {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	return openMemory(t, s, options)
}

// openMemory opens a ledger that begin wrote. Its clock starts half a year after epoch and runs at
// the speed of the machine's clock, but does not depend on today's date.
func openMemory(t testing.TB, s kv.Store, options Options) *Ledger {
	t.Helper()
	if opened := time.Now(); options.Now == nil {
		options.Now = func() time.Time { return epoch().AddDate(0, 6, 0).Add(time.Since(opened)) }
	}
	return check.Value(openStore(t.Context(), s, options))(t)
}

// filled caches the stores from which several tests start, by a description. They are never written
// to.
var filled sync.Map

// filledOnce opens a copy of a ledger in memory, which the first test that needs it fills.
func filledOnce(t testing.TB, what string, fill func(*Ledger)) *Ledger {
	t.Helper()
	s, there := filled.Load(what)
	if !there {
		l := inMemory(t, Options{})
		fill(l)
		s, _ = filled.LoadOrStore(what, l.engine.Store.(*kv.Memory).Copy())
	}
	return openMemory(t, s.(*kv.Memory).Copy(), Options{})
}

// sampler returns a sampler on repeatable random bits, and the bits.
func sampler(seed uint64) (*rrchain.Sampler, *exact.Bits) {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	bits := exact.ReplayBits(func(p []byte) { _, _ = random.Read(p) })
	return &rrchain.Sampler{Random: bits}, bits
}

// drawWord returns the random word of a draw from m values, for an m so small that one word is
// enough. The word encodes (k+U)/m: choice selects the value k, and u is U up to its last bits.
func drawWord(m int, u, choice uint64) uint64 {
	const last = 1<<16 - 1 // near the value after or before, where rounding would matter
	k, _ := bits.Mul64(choice, uint64(m))
	word, _ := bits.Div64(k, u&^last|1<<15, uint64(m))
	return word
}

// uniformSampler returns a sampler in which every draw from the three values of [vote] ends in "one
// of all values uniformly". U is above every threshold, so that no response depends on the true
// value.
func uniformSampler(seed uint64) *rrchain.Sampler {
	random := rand.New(rand.NewPCG(seed, 0))
	return &rrchain.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := 0; i < len(p); i += 8 {
			binary.BigEndian.PutUint64(p[i:], drawWord(3, ^uint64(0), random.Uint64()))
		}
	})}
}

// vote is the question of most tests.
func vote() api.Question { return api.Question{Name: "vote", Values: []string{"yes", "no", "blank"}} }

func define(t testing.TB, l *Ledger, q api.Question) {
	t.Helper()
	must(t, l.DefineQuestion(t.Context(), "define "+q.Name, q))
}

func enroll(t testing.TB, l *Ledger, question, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d", question, objects[0], len(objects))
	must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Cap: eps(t, limit)})))
}

// voters defines the vote and enrolls objects in it, each with the same cap.
func voters(t testing.TB, l *Ledger, limit string, objects ...string) *Ledger {
	t.Helper()
	define(t, l, vote())
	enroll(t, l, "vote", limit, objects...)
	return l
}

// votersFile returns a closed ledger file with voters.
func votersFile(t testing.TB, limit string, objects ...string) (path string) {
	t.Helper()
	path = create(t)
	l := open(t, path, Options{})
	closed(t, voters(t, l, limit, objects...))
	return path
}

// crowd returns n names in ascending order.
func crowd(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("person-%05d", i)
	}
	return names
}

// Requests.

// releaseOf returns a request for an object's vote, which is yes.
func releaseOf(t testing.TB, key, object, epsilon string) api.ReleaseRequest {
	t.Helper()
	return api.ReleaseRequest{Key: key, Question: "vote", Object: object, Epsilon: eps(t, epsilon), Truth: sameTruth("yes")}
}

// withTrueValue returns a request with the true value itself in place of a source.
func withTrueValue(r api.ReleaseRequest) api.ReleaseRequest {
	r.Truth, r.TrueValue = nil, "yes"
	return r
}

func release(t testing.TB, l *Ledger, r api.ReleaseRequest) api.Response {
	t.Helper()
	return check.Value(l.Release(t.Context(), r))(t)
}

// releaseBy returns a request with another source of true values.
func releaseBy(r api.ReleaseRequest, truth api.TruthFunc) api.ReleaseRequest {
	r.Truth = truth
	return r
}

// partial returns a request with Partial set.
func partial(r api.RaiseRequest) api.RaiseRequest {
	r.Partial = true
	return r
}

func partialSale(r api.SellRequest) api.SellRequest {
	r.Partial = true
	return r
}

// releaseEach releases the votes of objects, under the keys "0", "1" and so on.
func releaseEach(t testing.TB, l *Ledger, epsilon string, objects ...string) {
	t.Helper()
	for i, name := range objects {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, epsilon))
	}
}

// wantSpent checks what objects have spent.
func wantSpent(t testing.TB, l *Ledger, epsilon string, objects ...string) {
	t.Helper()
	for _, name := range objects {
		check.Equal(t, objectOf(t, l, name).Spent, eps(t, epsilon), "%s has spent", name)
	}
}

// raiseOf returns a request for the votes of many objects, or of all if none is named.
func raiseOf(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	return api.RaiseRequest{Key: key, Question: "vote", Epsilon: eps(t, epsilon), Objects: objects, All: objects == nil, Truth: sameTruth("yes")}
}

func raise(t testing.TB, l *Ledger, r api.RaiseRequest) api.RaiseResult {
	t.Helper()
	return check.Value(l.Raise(t.Context(), r))(t)
}

// sameTruth is a source with one value for all objects.
func sameTruth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{value}, len(objects)), nil
	}
}

// mustNotAsk is a source of true values that fails the test if it is called.
func mustNotAsk(t testing.TB) api.TruthFunc {
	return func(_ context.Context, question string, objects []string) ([]string, error) {
		t.Errorf("asked for the truth of %q about %.3q", question, objects)
		return nil, errors.New("no truth for you")
	}
}

func objectOf(t testing.TB, l *Ledger, name string) api.ObjectState {
	t.Helper()
	return check.Value(l.Object(t.Context(), name))(t)
}

func stats(t testing.TB, l *Ledger) api.Stats {
	t.Helper()
	return check.Value(l.Stats(t.Context()))(t)
}

// responses returns the recorded responses at one ε, by object, and checks that each comes once and
// in order.
func responses(t testing.TB, l *Ledger, question string, epsilon privacy.Epsilon) map[string]api.Response {
	t.Helper()
	found, last := map[string]api.Response{}, ""
	for r, err := range l.Responses(t.Context(), question, epsilon) {
		must(t, err)
		check.That(t, r.Object > last, "the response of %q comes after that of %q", r.Object, last)
		found[r.Object], last = r, r.Object
	}
	return found
}

// events returns the events of the log.
func events(t testing.TB, l *Ledger) []says.Event {
	t.Helper()
	var all []says.Event
	for ev, err := range l.Events(t.Context(), 1) {
		must(t, err)
		all = append(all, ev)
	}
	return all
}

func countKind(events []says.Event, kind string) (n int) {
	for _, ev := range events {
		if ev.Kind() == kind {
			n++
		}
	}
	return n
}

// eventAt returns an event by its number.
func eventAt(t testing.TB, l *Ledger, number uint64) says.Event {
	t.Helper()
	for ev, err := range l.Events(t.Context(), number) {
		must(t, err)
		return ev
	}
	t.Fatalf("there is no event %d", number)
	return says.Event{}
}

// recordedBy returns the response that an event records, released or sold, and whether it records
// one.
func recordedBy(ev says.Event) (says.Released, bool) {
	switch d := ev.Says.(type) {
	case says.Released:
		return d, true
	case says.Sold:
		return says.Released{Object: d.Object, Question: d.Question, Epsilon: d.Epsilon, Response: d.Response, Method: d.Method}, true
	}
	return says.Released{}, false
}

// methodOf returns the method of the response or answer that an event records, or "" for other
// events.
func methodOf(ev says.Event) string {
	if d, is := ev.Says.(says.Answered); is {
		return d.Method
	}
	r, _ := recordedBy(ev)
	return r.Method
}

// What is stored.

func bucketNames() []string {
	return []string{state.BucketMeta, state.BucketQuestions, state.BucketPolicies, state.BucketObjects, state.BucketChains, state.BucketAnswers, state.BucketBuyers, state.BucketSales, state.BucketOrders, state.BucketRequests, state.BucketEvents, state.BucketTallies, state.BucketStrangers}
}

// pair is one stored record.
type pair struct {
	bucket     string
	key, value []byte
}

func (p pair) String() string { return fmt.Sprintf("%s %x %x", p.bucket, p.key, p.value) }

// pairs returns all records of a store, bucket by bucket in the order of the keys.
func pairs(t testing.TB, s kv.Store) (all []pair) {
	t.Helper()
	must(t, s.View(func(r kv.Reader) error {
		for _, bucket := range bucketNames() {
			err := r.Scan(bucket, nil, func(key, value []byte) bool {
				if !state.OfFile(bucket, key) {
					all = append(all, pair{bucket, slices.Clone(key), slices.Clone(value)})
				}
				return true
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return all
}

// wantSameRecords reports the first record in which two stores differ.
func wantSameRecords(t testing.TB, what string, got, want []pair) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := pair{bucket: "(nothing)"}, pair{bucket: "(nothing)"}
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g.bucket != w.bucket || !bytes.Equal(g.key, w.key) || !bytes.Equal(g.value, w.value) {
			t.Errorf("%s: record %d is\n%.400s\nwant\n%.400s", what, i+1, g, w)
			return
		}
	}
}

// unchanged runs fn and reports any change of the stored records. A failed call must leave none.
func unchanged(t testing.TB, s kv.Store, fn func()) {
	t.Helper()
	before := pairs(t, s)
	fn()
	wantSameRecords(t, "stored after a call that failed", pairs(t, s), before)
}

// logOf returns the events of a store, decoded.
func logOf(t testing.TB, stored []pair) (all []event.Event) {
	t.Helper()
	for _, p := range stored {
		if p.bucket != state.BucketEvents {
			continue
		}
		payload := check.Value(wire.Unseal(p.bucket, p.key, p.value))(t)
		ev := check.Value(event.DecodeEntry(binary.BigEndian.Uint64(p.key), payload))(t)
		check.Need(t, ev.Number == uint64(len(all))+1, "event %d is in the place of event %d", ev.Number, len(all)+1)
		all = append(all, ev.Event)
	}
	return all
}

// steadySalts fills salts with ascending numbers.
func steadySalts(from uint64) func([]byte) {
	return func(b []byte) {
		for one := range slices.Chunk(b, len(event.Salt{})) {
			binary.BigEndian.PutUint64(one, from)
			from++
		}
	}
}

// auditStore folds the log again and compares the result with the stored records, byte for byte
// (invariant 9). It also checks every object's budget against its chains (invariant 2).
func auditStore(t testing.TB, s kv.Store) {
	t.Helper()
	stored, fold := pairs(t, s), &kv.Memory{}
	must(t, replayWhole(fold, logOf(t, stored)))
	wantSameRecords(t, "stored state against the fold of the log", stored, pairs(t, fold))
	auditBudgets(t, stored)
	auditTallies(t, stored)
}

// replay folds events into an empty store. Every hash of the tree is computed again from the
// leaves.
func replay(s kv.Store, log []event.Event) error {
	return foldInto(s, log, func(*state.State) error { return nil })
}

// replayWhole folds a log that must not end inside a request.
func replayWhole(s kv.Store, log []event.Event) error {
	return foldInto(s, log, func(s *state.State) error { return s.Counters.CheckWhole() })
}

func foldInto(s kv.Store, log []event.Event, check func(*state.State) error) error {
	return s.Update(func(w kv.Writer) error {
		if err := w.Put(state.BucketMeta, []byte(state.KeyFormat), formatRecord()); err != nil {
			return err
		}
		st, err := state.Begin(w, time.Time{})
		if err != nil {
			return err
		}
		for _, ev := range log {
			if err := fold.Append(st, filledIn(st, ev)); err != nil {
				return err
			}
		}
		if err := check(st); err != nil {
			return err
		}
		return fold.Flush(st)
	})
}

// fillSpent marks a settled event whose Spent filledIn computes from the events of its request.
const fillSpent = math.MaxUint64

// fillFirst marks a settled event whose First filledIn computes.
const fillFirst = math.MaxUint64

// fillBase marks an answer whose Base filledIn looks up.
const fillBase = math.MaxUint64

// baseOf returns the event of the answer from which another is derived or raised, or 0 if there is
// none.
func baseOf(s *state.State, c *event.Answered) uint64 {
	known, _, err := s.Answers(state.AnswerKey(c.Question, c.Query, c.Panel))
	if err != nil || c.Method == event.MethodFresh {
		return 0
	}
	if c.Method == event.MethodRaise {
		return known.Top().Event
	}
	above, _ := known.Best(c.Epsilon)
	return above.Event
}

// filledIn returns an event with its marked fields filled in.
func filledIn(s *state.State, ev event.Event) event.Event {
	if c, is := ev.Change.(*event.Answered); is && c.Base == fillBase {
		derived := *c
		derived.Base = baseOf(s, c)
		ev.Change = &derived
	}
	if c, is := ev.Change.(*event.Settled); is && c.Spent == fillSpent {
		whole := *c
		whole.Spent = s.Counters.InProgress.Spent
		if c.First == fillFirst {
			whole.First = ev.Number - s.Counters.InProgress.Events
		}
		identify(s, &whole, ev.Number)
		ev.Change = &whole
	}
	return ev
}

// identify sets the identity of the request in a settled event with a number, where the events
// before it determine that request.
func identify(s *state.State, c *event.Settled, number uint64) {
	set := func(id event.Identity) { c.Of(&id) }
	question := func(number uint32) string {
		if q, err := s.Question(number); err == nil {
			return q.Name
		}
		return ""
	}
	u := &s.Counters.InProgress
	sale, noSale := s.Sale(c.Sale)
	answer, noAnswer := s.Event(c.Answer)
	made, answered := answer.Change.(*event.Answered)
	last, noLast := s.Event(number - 1)
	switch {
	case noSale == nil && sale.Granted != 0:
		set(event.CaptureRequest(c.Sale, false))
	case noAnswer == nil && answered:
		asked := made.Objects + c.Refused
		set(event.PanelRequest{Question: question(made.Question), Query: made.Query, Epsilon: made.Epsilon, Objects: asked, All: asked == 1}.Identity())
	case len(c.Swept) > 0:
		set(event.SweepRequest(""))
	case c.Alone && u.Raised+u.Derived > 0:
		set(event.RaiseRequest(question(u.Question), u.Epsilon, false, []string{c.Object}, false))
	case u.Events == 1 && noLast == nil:
		identifyChange(c, last.Change, question)
	}
}

// identifyChange sets the identity in a settled event whose request made this single change, if
// such a request exists.
func identifyChange(c *event.Settled, change event.Change, question func(uint32) string) {
	set := func(id event.Identity) { c.Of(&id) }
	alone := func(object string) {
		if !c.Alone {
			c.Alone, c.Object = true, object
		}
	}
	switch made := change.(type) {
	case *event.QuestionDefined:
		set(event.DefineRequest(made.Question, ""))
	case *event.Cancelled:
		set(event.CancelRequest(made.Sale))
	case *event.Forgotten:
		set(event.ObjectRequest(event.RequestForget, made.Object))
	case *event.Stated:
		alone(made.Object)
		set(event.ObjectRequest(event.RequestStatement, made.Object))
	case *event.Withdrawn:
		if c.Counts == (event.Counts{}) {
			alone(made.Object)
			set(event.ObjectRequest(event.RequestWithdraw, made.Object))
		}
	case *event.EpochBegun:
		alone(made.Object)
		set(event.EpochRequest(question(made.Question), made.Object))
	}
}

// reidentify sets the identity in the settled event that follows a change of a log.
func reidentify(log []event.Event, at int) {
	end := *log[at+1].Change.(*event.Settled)
	identifyChange(&end, log[at].Change, nil)
	log[at+1].Change = &end
}

// auditLedger audits the store of a ledger and verifies the ledger.
func auditLedger(t testing.TB, l *Ledger) {
	t.Helper()
	auditStore(t, l.engine.Store)
	wantClean(t, l, api.VerifyRequest{})
}

// auditBudgets adds up the chains of every object. The sum must be what the object has spent, and
// at most its cap.
func auditBudgets(t testing.TB, stored []pair) {
	t.Helper()
	spent, caps := map[string]int64{}, map[string]int64{}
	for _, p := range stored {
		payload, _ := unsealed(p)
		switch {
		case p.bucket == state.BucketChains:
			c := check.Value(state.DecodeChain(payload))(t)
			spent[string(p.key[4:])] += c.Total().Nano()
		case p.bucket == state.BucketObjects && p.key[len(p.key)-1] == 0 && strings.Count(string(p.key), "\x00") == 1:
			o := check.Value(state.DecodeObject(payload))(t)
			name := string(p.key[:len(p.key)-1])
			caps[name] = o.Cap.Nano()
			spent[name] -= o.Spent.Nano()
			check.That(t, !o.Cap.Less(o.Spent), "object %q has spent %s of %s", name, o.Spent, o.Cap)
		}
	}
	for name, difference := range spent {
		check.That(t, difference == 0 && caps[name] != 0,
			"object %q with the cap %d: its chains spent %d more than was charged", name, caps[name], difference)
	}
}

// putRecord writes a record with a valid checksum past the log, as an attacker or a bug would.
func putRecord(t testing.TB, s kv.Store, bucket string, key, payload []byte) {
	t.Helper()
	must(t, s.Update(func(w kv.Writer) error {
		return w.Put(bucket, key, wire.Seal(bucket, key, slices.Clone(payload)))
	}))
}

func unsealed(p pair) ([]byte, error) {
	if p.bucket == state.BucketMeta && string(p.key) == state.KeyFormat {
		return p.value, nil
	}
	return wire.Unseal(p.bucket, p.key, p.value)
}

// sortedBy returns a copy of items ordered by a key.
func sortedBy[T any, K cmp.Ordered](items []T, key func(T) K) []T {
	return slices.SortedFunc(slices.Values(items), func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
}

func hiddenBytes(ev event.Event) []byte {
	e := &wire.Encoder{}
	e.Raw(ev.Salt[:])
	ev.Change.Fields(wire.Writing(e))
	return e.Buf
}

// boundless is the cap of objects that only a policy bounds.
func boundless() privacy.Epsilon { return privacy.MaxEpsilon() }

// race makes n calls concurrently and returns the errors of those that failed.
func race(t *testing.T, n int, call func(i int) error) (failed []error) {
	t.Helper()
	start := make(chan struct{})
	done := make([]chan answer[int], n)
	for i := range n {
		done[i] = async(func() (int, error) {
			<-start
			return i, call(i)
		})
	}
	close(start)
	for _, one := range done {
		if a := await(t, one); a.err != nil {
			failed = append(failed, a.err)
		}
	}
	return failed
}

// wantOverCap checks that all errors are refusals because of the cap.
func wantOverCap(t *testing.T, failed []error) {
	t.Helper()
	for _, err := range failed {
		r := refusals(t, err)
		check.That(t, r[0].Reason == api.ObjectCap, "refused for %v", r)
	}
}
