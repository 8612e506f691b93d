package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/rrchain"
)

// Questions in unary encoding do all that others do: see encodings_test.go. Their law is tested in
// internal/trial/model, and altered and forged records in damage_responses_test.go.

func valueName(v int) string { return fmt.Sprint("value ", v) }

// valuesOf returns n values.
func valuesOf(n int) []string {
	values := make([]string, n)
	for v := range values {
		values[v] = valueName(v)
	}
	return values
}

// home is a question in unary encoding.
func home(values int) api.Question {
	return api.Question{Name: "home", Values: valuesOf(values), Encoding: "unary"}
}

// dwellers defines home and enrolls objects that sell it, for 100 minor units of ε=1.
func dwellers(t testing.TB, l *Ledger, values int, objects ...string) *Ledger {
	t.Helper()
	define(t, l, home(values))
	enrollUnder(t, l, "home", market(t, "9"), "9", objects...)
	return l
}

// homeOf returns a request for an object's home, which is value 2.
func homeOf(t testing.TB, key, object, epsilon string) api.ReleaseRequest {
	t.Helper()
	return api.ReleaseRequest{Key: key, Question: "home", Object: object, Epsilon: eps(t, epsilon), Truth: sameTruth(valueName(2))}
}

// homesOf returns a request for the homes of many objects, or of all.
func homesOf(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	r := raiseOf(t, key, epsilon, objects...)
	r.Question, r.Truth = "home", sameTruth(valueName(2))
	return r
}

// homesFor returns an order for homes.
func homesFor(t testing.TB, key, buyer, epsilon string, objects ...string) api.SellRequest {
	t.Helper()
	r := purchase(t, key, buyer, epsilon, objects...)
	r.Question, r.Truth = "home", sameTruth(valueName(2))
	return r
}

func questionsOf(t testing.TB, l *Ledger) []api.Question {
	t.Helper()
	return check.Value(api.Collect(l.Questions(t.Context())))(t)
}

func TestDefineQuestion_EncodingOmitted_DependsOnNumberOfValues(t *testing.T) {
	all := valuesOf(event.MaxUnaryValues + 1)
	l := inMemory(t, Options{})
	var want []api.Question
	for n, encoding := range map[int]string{2: "direct", 3: "direct", 20: "direct", 21: "unary", 22: "unary", 500: "unary", event.MaxUnaryValues: "unary", event.MaxUnaryValues + 1: "direct"} {
		q := api.Question{Name: fmt.Sprint(n), Values: all[:n]}
		define(t, l, q)
		q.Encoding = encoding
		want = append(want, q)
	}
	for i, got := range questionsOf(t, l) {
		check.That(t, reflect.DeepEqual(got, want[i]),
			"%s values are encoded %s, want %s", want[i].Name, got.Encoding, want[i].Encoding)
	}
	logged := map[string]string{}
	for _, ev := range events(t, l) {
		if d, is := ev.Says.(says.QuestionDefined); is {
			logged[d.Name] = d.Encoding
		}
	}
	for _, q := range want {
		check.That(t, logged[q.Name] == q.Encoding, "the log says that %s values are encoded %q", q.Name, logged[q.Name])
	}
	auditStore(t, l.engine.Store)
}

func TestDefineQuestion_BadEncoding_IsErrInvalid(t *testing.T) {
	l := inMemory(t, Options{})
	for name, q := range map[string]api.Question{
		"another name":    {Name: "q", Values: valuesOf(30), Encoding: "oue"},
		"upper case":      {Name: "q", Values: valuesOf(30), Encoding: "Unary"},
		"a space":         {Name: "q", Values: valuesOf(30), Encoding: "unary "},
		"a zero byte":     {Name: "q", Values: valuesOf(30), Encoding: "\x00"},
		"a long name":     {Name: "q", Values: valuesOf(30), Encoding: string(strings.Repeat("x", 300))},
		"too many values": {Name: "q", Values: valuesOf(event.MaxUnaryValues + 1), Encoding: "unary"},
		"one value":       {Name: "q", Values: valuesOf(1), Encoding: "unary"},
		"no value":        {Name: "q", Values: nil, Encoding: "unary"},
		"no value at all": {Name: "q"},
	} {
		unchanged(t, l.engine.Store, func() {
			err := l.DefineQuestion(t.Context(), "k", q)
			check.That(t, errors.Is(err, api.ErrInvalid), "%s: got the error %v", name, err)
		})
	}
	must(t, l.DefineQuestion(t.Context(), "k", api.Question{Name: "q", Values: valuesOf(2), Encoding: "unary"}))
}

// A question is the same whether its encoding is given or not. Another encoding is another
// question.
func TestDefineQuestion_Redefined_KeepsItsEncoding(t *testing.T) {
	for _, test := range []struct {
		values        int
		first, second string
		want          error // under another key
	}{
		{30, "", "", nil}, {30, "", "unary", nil}, {30, "", "direct", api.ErrInvalid},
		{30, "unary", "", nil}, {30, "unary", "unary", nil}, {30, "unary", "direct", api.ErrInvalid},
		{30, "direct", "", nil}, {30, "direct", "direct", nil}, {30, "direct", "unary", api.ErrInvalid},
		{3, "", "", nil}, {3, "", "direct", nil}, {3, "", "unary", api.ErrInvalid},
		{3, "unary", "", nil}, {3, "direct", "", nil}, {3, "unary", "direct", api.ErrInvalid},
	} {
		name := fmt.Sprintf("%d values, %q and then %q", test.values, test.first, test.second)
		l := inMemory(t, Options{})
		first, second := api.Question{Name: "q", Values: valuesOf(test.values), Encoding: test.first}, api.Question{Name: "q", Values: valuesOf(test.values), Encoding: test.second}
		must(t, l.DefineQuestion(t.Context(), "k", first))
		before := questionsOf(t, l)
		unchanged(t, l.engine.Store, func() {
			must(t, l.DefineQuestion(t.Context(), "k", first))
			if test.first != test.second {
				wantErr(t, l.DefineQuestion(t.Context(), "k", second), &api.KeyConflictError{})
			}
		})
		err := l.DefineQuestion(t.Context(), "other", second)
		check.That(t, errors.Is(err, test.want), "%s: got the error %v, want %v", name, err, test.want)
		more := first
		more.Values = valuesOf(test.values + 1)
		wantErr(t, l.DefineQuestion(t.Context(), "more", more), api.ErrInvalid)
		if after := questionsOf(t, l); !reflect.DeepEqual(after, before) || countKind(events(t, l), "question") != 1 {
			t.Errorf("%s: the question has changed from %v to %v", name, before, after)
		}
		auditStore(t, l.engine.Store)
	}
}

// A definition whose commit fails, or may have failed, can be repeated with its key.
func TestDefineQuestion_CommitFails_CanBeRepeated(t *testing.T) {
	q := api.Question{Name: "home", Values: valuesOf(21)}
	for name, after := range map[string]func() error{"lost": nil, "held": uncertain} {
		t.Run(name, func(t *testing.T) {
			path := create(t)
			l, s := openShim(t, path, Options{})
			if s.set(failing, nil); after != nil {
				s.set(nil, after)
			}
			err := l.DefineQuestion(t.Context(), "k", q)
			check.That(t, errors.Is(err, errDisk), "got the error %v", err)
			closed(t, l)
			l = open(t, path, Options{})
			for range 2 {
				must(t, l.DefineQuestion(t.Context(), "k", q))
			}
			explicit := q
			explicit.Encoding = "unary"
			wantErr(t, l.DefineQuestion(t.Context(), "k", explicit), &api.KeyConflictError{})
			must(t, l.DefineQuestion(t.Context(), "k2", explicit))
			if all := questionsOf(t, l); !reflect.DeepEqual(all, []api.Question{explicit}) || countKind(events(t, l), "question") != 1 {
				t.Errorf("the questions are %.300v", all)
			}
			auditStore(t, l.engine.Store)
		})
	}
}

// The largest possible question works on disk, and after it is opened again.
func TestUnary_LargestQuestion_WorksOnDisk(t *testing.T) {
	path := create(t)
	l := dwellers(t, open(t, path, Options{}), event.MaxUnaryValues, "ann", "bob")
	first := release(t, l, homeOf(t, "1", "ann", "1"))
	closed(t, l)
	l = open(t, path, Options{})
	again := release(t, l, api.ReleaseRequest{Key: "1", Question: "home", Object: "ann", Epsilon: eps(t, "1"), Truth: mustNotAsk(t)})
	check.That(t, again == first, "the response has changed")
	release(t, l, homeOf(t, "2", "ann", "2"))
	release(t, l, homeOf(t, "3", "bob", "2"))
	n := len(first.Value)
	check.That(t, n == event.MaxUnaryValues && strings.Trim(first.Value, "01") == "", "a response of %d bits", n)
	wantRecount(t, l, "home", eps(t, "1"), eps(t, "2"))
	often := 1 / (math.E + 1) // except for the bit of the true value, which is set half the time
	stattest.Share(strings.Count(first.Value, "1"), event.MaxUnaryValues, often, often).Holds(t, "bits that are set")
	e := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "home"}))(t)
	check.That(t, e.N == 2 && len(e.Values) == event.MaxUnaryValues,
		"an estimate of %d values from %d objects", len(e.Values), e.N)
	auditStore(t, l.engine.Store)
	wantClean(t, l, api.VerifyRequest{})
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"}))
	wantRecount(t, l, "home", eps(t, "1"), eps(t, "2"))
}

// After Forget and Compact no released bit is in the file: neither in the events nor in the chain,
// and there is no tally of the forgotten object alone.
func TestForget_UnaryResponses_DestroysEveryBit(t *testing.T) {
	const name, values = "the one to be forgotten", 400
	path := create(t)
	options := Options{TruthKey: truthKey()}
	l := dwellers(t, open(t, path, options), values, name, "bob")
	for i, epsilon := range []string{"1", "3", "0.5", "2"} { // raised, raised, degraded, inserted
		release(t, l, homeOf(t, fmt.Sprint(i), name, epsilon))
	}
	sell(t, l, homesFor(t, "s", "acme", "4", name, "bob"))
	sell(t, l, homesFor(t, "s2", "zeta", "1", name))
	secrets := secretsOf(t, l, name)
	for _, at := range objectOf(t, l, name).Chains[0].Levels {
		secrets = append(secrets, bitsOf(t, at.Response).Pack())
	}
	kept := bitsOf(t, responses(t, l, "home", eps(t, "4"))["bob"].Value).Pack()
	must(t, l.engine.Checkpoint())
	before := check.Value(os.ReadFile(path))(t)
	for _, secret := range secrets {
		check.Need(t, bytes.Contains(before, secret), "%x is not in the file to begin with", secret)
	}
	forget(t, l, name)
	must(t, l.Compact(t.Context(), nil))
	after := check.Value(os.ReadFile(path))(t)
	for _, secret := range secrets {
		check.That(t, !bytes.Contains(after, secret), "%x is still in the file", secret)
	}
	check.That(t, bytes.Contains(after, kept), "bob's bits are gone as well")
	// One tally is left, that of bob's response, and says nothing else.
	tallies := talliesOf(t, l.engine.Store)
	left := tallies[state.TallyKey{Question: 1, Epsilon: eps(t, "4"), Value: 0}]
	check.That(t, len(tallies) == 1 && left.Tallied == (state.Tallied{Recorded: 1, Current: 1}),
		"the tallies are %v", tallies)
	for v, bit := range responses(t, l, "home", eps(t, "4"))["bob"].Value {
		n := uint64(bit - '0')
		check.That(t, left.Bits[v] == (state.Tallied{Recorded: n, Current: n}), "bit %d is counted %v", v, left.Bits[v])
	}
	wantErr(t, check.Err(l.Release(t.Context(), homeOf(t, "1", name, "3"))), api.ErrForgotten)
	auditStore(t, l.engine.Store)
	wantClean(t, l, api.VerifyRequest{})
}

// The memory of a raise over many objects and values is bounded by the part that it commits at a
// time.
func TestRaise_ManyBits_TakesLittleMemory(t *testing.T) {
	const objects, values = 5000, 501
	s := &measured{Store: newBolt(t)}
	l := openMemory(t, s, Options{})
	define(t, l, home(values))
	enroll(t, l, "home", "9", crowd(objects)...)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	s.most = 0
	r := homesOf(t, "1", "1")
	result := raise(t, l, r)
	check.That(t, result.Drawn == objects, "%+v", result)
	// A part has 4,096 responses of 63 bytes, and their events, hashes and records: a few hundred
	// bytes each. If all responses were kept as a number for each value, they would take 20 MB.
	grown := int64(s.most) - int64(before.HeapAlloc)
	check.That(t, grown <= 16<<20, "the heap grew by %d MiB", grown>>20)
	e := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "home"}))(t)
	check.That(t, e.N == objects, "%d objects are counted", e.N)
	t.Logf("%d responses of %d bits: the heap grew by %.1f MiB at most", objects, values, float64(grown)/(1<<20))
}

// newBolt returns a store on a file in which a ledger begins.
func newBolt(t *testing.T) kv.Store {
	t.Helper()
	file := check.Value(bolt.Open(create(t), false))(t)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// measured records the largest heap, garbage collected, at the end of each transaction.
type measured struct {
	kv.Store
	most uint64
}

func (m *measured) Update(fn func(kv.Writer) error) error {
	return m.Store.Update(func(w kv.Writer) error {
		err := fn(w)
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		m.most = max(m.most, now.HeapAlloc)
		return err
	})
}

// What one transaction draws is limited, because other requests wait for it.
func TestQuote_TooManyBits_IsErrInvalid(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, api.Question{Name: "home", Values: valuesOf(event.MaxUnaryValues), Encoding: "unary"})
	enroll(t, l, "home", "9", "ann")
	const most = 1 << 28 / event.MaxUnaryValues
	o := purchase(t, "", "acme", "1", crowd(most+1)...).Order
	o.Question = "home"
	wantErr(t, check.Err(l.Quote(t.Context(), o)), api.ErrInvalid)
	o.Objects = crowd(most)
	if q, err := l.Quote(t.Context(), o); err != nil || len(q.Refused)+q.Unlisted != most {
		t.Errorf("%d objects, none of whom is enrolled: %d refused, %v", most, len(q.Refused)+q.Unlisted, err)
	}
}

// A sale whose context is canceled ends between two draws, and changes nothing.
func TestSell_CanceledBetweenDraws_ChangesNothing(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "3"), "3", crowd(5)...)
	ctx, cancel := context.WithCancel(t.Context())
	l.engine.Chances.Values = &rrchain.Sampler{Random: exact.ReplayBits(func(p []byte) {
		cancel()
		_, _ = rand.Read(p)
	})}
	unchanged(t, l.engine.Store, func() {
		wantErr(t, check.Err(l.Sell(ctx, purchase(t, "k", "acme", "1"))), context.Canceled)
	})
	l.engine.Chances.Values = new(rrchain.Sampler)
	s := sell(t, l, purchase(t, "k", "acme", "1"))
	check.That(t, s.Draws == 5, "the same request again returned %+v", s)
}

// An audit writes its counts to a file before they fill the memory, by their number: a tally of
// bits has many.
func TestState_CountedInMemory_IncludesBits(t *testing.T) {
	s := &state.State{Tallies: map[state.TallyKey]*state.Tally{}}
	for i := range 3 {
		s.Tallies[state.TallyKey{Value: uint32(i)}] = &state.Tally{Bits: make([]state.Tallied, 100*i)}
	}
	n := s.CountedInMemory()
	check.That(t, n == 3+300, "%d counts, want 303", n)
}
