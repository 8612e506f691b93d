package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 6: the truth is in no file, log line, error text, metric or receipt. Refusals and error
// kinds never depend on it.

// The strongest form: if the responses come out equal, everything stored is equal, whatever the
// truths were. (The salts are random bits that nothing else has a part in.)
func TestWhatIsStoredFollowsFromTheResponsesAlone(t *testing.T) {
	history := func(truth func(name string) string) []pair {
		s := &kv.Memory{}
		begin(t, s)
		l := openMemory(t, s, Options{Now: epoch})
		l.engine.Chances.Sampler, l.engine.Salts = uniformSampler(3), steadySalts(2) // no response depends on the truth
		voters(t, l, "3", "ann", "bob", "cid")
		ask := func(_ context.Context, _ string, objects []string) (values []string, err error) {
			for _, name := range objects {
				values = append(values, truth(name))
			}
			return values, nil
		}
		for i, epsilon := range []string{"0.5", "2", "1", "0.25", "2.5"} {
			r := order(t, fmt.Sprint(i), epsilon)
			r.Truth = ask
			carryOut(t, l, r)
		}
		refused := order(t, "refused", "9")
		refused.Truth = ask
		_, err := l.Raise(t.Context(), refused)
		refusals(t, err)
		refused.Partial = true
		carryOut(t, l, refused)
		return pairs(t, s)
	}
	want := history(func(string) string { return "yes" })
	same(t, "stored for the truths no", history(func(string) string { return "no" }), want)
	same(t, "stored for mixed truths", history(func(name string) string {
		return vote().Values[len(name+"x")*int(name[0])%3]
	}), want)
}

// The file itself, free pages included: a label stands where the question is defined, and nowhere
// else, for a true value as for any other.
func TestNoLabelStandsInTheFileButInItsDefinition(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{TruthKey: []byte("0123456789abcdef")})
	q := api.Question{Name: "vote", Values: []string{"label-of-the-truth", "label-of-others-1", "label-of-others-2"}, Encoding: "direct"}
	define(t, l, q)
	enroll(t, l, "vote", "9", crowd(100)...)
	for i, epsilon := range []string{"0.5", "2", "1", "0.25", "8"} {
		r := order(t, fmt.Sprint(i), epsilon)
		r.Truth = sameTruth(q.Values[0])
		carryOut(t, l, r)
	}
	closed(t, l)
	file := check.Value(os.ReadFile(path))(t)
	definition := &wire.Encoder{}
	(&event.QuestionDefined{Number: 1, Question: q}).Fields(wire.Writing(definition))
	check.That(t, bytes.Count(file, definition.Buf) >= 2,
		"the definition is not found where it must be: in its event and in its record")
	rest := bytes.ReplaceAll(file, definition.Buf, nil)
	for _, label := range q.Values {
		n := bytes.Count(rest, []byte(label))
		check.That(t, n == 0, "%q stands %d times outside its definition", label, n)
	}
}

// secret is a question whose labels are told apart from everything else in a text.
func secret() api.Question {
	return api.Question{Name: "secret", Values: []string{"zwölf-Zitronen", "vier-Feigen"}, Encoding: "direct"}
}

func mentionsSecret(text string) bool {
	for _, label := range secret().Values {
		if strings.Contains(text, label) || strings.Contains(text, strings.Trim(fmt.Sprintf("%+q", label), `"`)) {
			return true
		}
	}
	return strings.Contains(text, "acht-Birnen")
}

// Every way to fail that has a truth at hand, with all log lines and all error texts.
func TestNoLogLineOrErrorNamesATruth(t *testing.T) {
	var log bytes.Buffer
	path := create(t)
	options := Options{Logger: zerolog.New(&log).Level(zerolog.TraceLevel), TruthKey: []byte("0123456789abcdef")}
	l, s := openShim(t, path, options)
	define(t, l, secret())
	enroll(t, l, "secret", "1", "ann", "bob")
	raise := func(key, epsilon string, truth api.TruthFunc) error {
		_, err := l.Raise(t.Context(), api.RaiseRequest{Key: key, Question: "secret", Epsilon: eps(t, epsilon), All: true, Truth: truth})
		return err
	}
	yes := sameTruth(secret().Values[0])
	must(t, raise("first", "0.5", yes))
	for name, call := range map[string]func() error{
		"unknown label": func() error { return raise("a", "0.6", sameTruth("acht-Birnen")) },
		"too few":       func() error { return raise("b", "0.6", listOf(secret().Values[0])) },
		"too many": func() error {
			return raise("c", "0.6", listOf(secret().Values[0], secret().Values[1], secret().Values[0]))
		},
		"over the cap":  func() error { return raise("d", "2", yes) },
		"no truth":      func() error { return raise("e", "0.6", sameTruth("")) },
		"another truth": func() error { return raise("f", "0.6", sameTruth(secret().Values[1])) },
		"one of two":    func() error { return raise("g", "0.6", listOf(secret().Values[0], "")) },
		"other request": func() error { return raise("first", "0.6", yes) },
		"failing source": func() error {
			return raise("h", "0.6", func(context.Context, string, []string) ([]string, error) { return secret().Values, errDisk })
		},
		"failing disk": func() error {
			s.set(failing, nil)
			defer s.set(nil, nil)
			return raise("i", "0.6", yes)
		},
	} {
		err := call()
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if mentionsSecret(err.Error()) {
			t.Errorf("%s: the error names a value: %v", name, err)
		}
	}
	must(t, raise("last", "0.6", yes))
	if log.Len() == 0 || mentionsSecret(log.String()) {
		t.Errorf("the log says\n%s", log.String())
	}
}

func listOf(values ...string) api.TruthFunc {
	return func(context.Context, string, []string) ([]string, error) { return values, nil }
}

// A draw that cannot be made says so without the value it could not be made for.
func TestABrokenChainDoesNotTellTheTruth(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{})
	define(t, l, secret())
	enroll(t, l, "secret", "9", "ann")
	broken := state.Chain{Enrolled: 4, Levels: []state.Level{state.NewLevel(eps(t, "1"), event.Value{Index: 7}, 5)}} // of 2 values
	putRecord(t, s, state.BucketChains, state.ChainKey(1, "ann"), broken.Encode())
	_, err := l.Release(t.Context(), api.ReleaseRequest{Key: "k", Question: "secret", Object: "ann", Epsilon: eps(t, "2"), Truth: sameTruth(secret().Values[0])})
	wantErr(t, err, api.ErrCorrupt)
	if err != nil && mentionsSecret(err.Error()) {
		t.Error(err)
	}
}

// The same refusals for every truth, word for word.
func TestRefusalsDoNotDependOnTheTruth(t *testing.T) {
	outcome := func(truth string) (all []error) {
		l := voters(t, inMemory(t, Options{Now: epoch}), "1", "ann", "bob")
		l.engine.Chances.Sampler = uniformSampler(5)
		carryOut(t, l, withTruth(order(t, "0", "0.5"), truth))
		for i, r := range []api.RaiseRequest{
			order(t, "1", "1.5"), order(t, "2", "0.75", "ann", "zoe"), order(t, "3", "1000", "bob"), order(t, "0", "0.75"),
		} {
			_, err := l.Raise(t.Context(), withTruth(r, truth))
			check.That(t, err != nil, "request %d was not refused", i)
			all = append(all, err)
		}
		return all
	}
	want := outcome("yes")
	for _, truth := range vote().Values {
		got := outcome(truth)
		check.That(t, reflect.DeepEqual(got, want), "with the truth %s: %v, want %v", truth, got, want)
	}
}

func withTruth(r api.RaiseRequest, truth string) api.RaiseRequest {
	r.Truth = sameTruth(truth)
	return r
}

// The host's own error comes back as it is, so that the host can recognize it.
func TestTheErrorOfTheTruthSourceIsPassedOn(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	unchanged(t, l.engine.Store, func() {
		r := releaseOf(t, "k", "ann", "0.5")
		r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, errDisk }
		_, err := l.Release(t.Context(), r)
		wantErr(t, err, errDisk)
		check.That(t, !errors.Is(err, api.ErrInvalid), "the host's failure is called an invalid request")
	})
}

// What a request was told of truths is overwritten when it ends, and its names find only their own.
func TestTruthsAreForgotten(t *testing.T) {
	first, second := []int32{1, rules.NoTruth}, []int32{2}
	var x rules.Told
	x.Add([]string{"ann", "cid"}, first)
	x.Add([]string{"eve"}, second)
	for name, want := range map[string]int32{"ann": 1, "cid": rules.NoTruth, "eve": 2} {
		value, asked := x.Of(name)
		check.That(t, value == want && asked, "%s: %d, %v", name, value, asked)
	}
	for _, name := range []string{"", "an", "bob", "dot", "zoe"} {
		value, asked := x.Of(name)
		check.That(t, !asked && value == rules.NoTruth, "%q was asked for: %d", name, value)
	}
	x.Forget()
	for _, number := range slices.Concat(first, second) {
		check.That(t, number == 0, "a truth is still there: %d", number)
	}
}

// The market: whatever the truths are, if the responses come out equal, everything stored is equal, every
// quote, every sale and every refusal, word for word.
func TestAMarketTellsNothingButResponses(t *testing.T) {
	day := func(truth func(name string) string) (stored []pair, told []any) {
		s := &kv.Memory{}
		begin(t, s)
		l := openMemory(t, s, Options{Now: epoch})
		l.engine.Chances.Sampler, l.engine.Salts = uniformSampler(7), steadySalts(2)
		sellers(t, l, "2", "2", "ann", "bob", "cid")
		timed := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.25")}))(t)
		define(t, l, api.Question{Name: "diary", Values: vote().Values, Encoding: "direct"})
		enrollUnder(t, l, "diary", timed, "2", "ann", "bob")
		ask := func(_ context.Context, _ string, objects []string) (values []string, err error) {
			for _, name := range objects {
				values = append(values, truth(name))
			}
			return values, nil
		}
		note := func(result any, err error) { told = append(told, result, err) }
		for i, epsilon := range []string{"0.5", "1", "0.75", "0.25", "9"} {
			r := purchase(t, fmt.Sprint(i), []string{"acme", "zeta"}[i%2], epsilon)
			r.Truth = ask
			note(l.Quote(t.Context(), r.Order))
			note(l.Sell(t.Context(), r))
			note(l.Quote(t.Context(), r.Order))
		}
		held, err := l.Reserve(t.Context(), api.ReserveRequest{Key: "h", Order: purchase(t, "", "acme", "1.5", "ann", "bob").Order, For: time.Hour})
		note(held, err)
		note(l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: held.Number, Truth: ask}))
		note(l.Capture(t.Context(), api.CaptureRequest{Key: "d", Reservation: held.Number, Truth: ask}))
		note(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: ask}))
		note(nil, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "bob"}))
		late := purchase(t, "late", "acme", "2")
		late.Truth = ask
		note(l.Sell(t.Context(), late))
		return pairs(t, s), told
	}
	wantStored, wantTold := day(func(string) string { return "yes" })
	for name, truth := range map[string]func(string) string{
		"no": func(string) string { return "no" }, "mixed": func(name string) string { return vote().Values[int(name[0])%3] },
	} {
		stored, told := day(truth)
		same(t, "stored for the truths "+name, stored, wantStored)
		check.That(t, reflect.DeepEqual(told, wantTold),
			"for the truths %s a host is told %v, else %v", name, told, wantTold)
	}
}

// Every way in which a call of the market fails with a truth at hand, with all log lines and error texts; and
// what succeeds, too.
func TestNoCallOfTheMarketNamesATruth(t *testing.T) {
	var log bytes.Buffer
	path := create(t)
	l, s := openShim(t, path, Options{Logger: zerolog.New(&log).Level(zerolog.TraceLevel), TruthKey: truthKey(), Now: epoch})
	define(t, l, secret())
	timed, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.75")})
	must(t, err)
	both, err := policy.Min(timed, market(t, "2"))
	must(t, err)
	enrollUnder(t, l, "secret", both, "1", "ann", "bob")
	enrollUnder(t, l, "secret", timed, "1", "cid", "dan") // not for sale, so that a sweep draws
	o := func(epsilon string) api.Order {
		return api.Order{Buyer: "acme", Question: "secret", Epsilon: eps(t, epsilon), Objects: []string{"ann", "bob"}}
	}
	right, other := sameTruth(secret().Values[0]), sameTruth(secret().Values[1])
	for _, name := range []string{"cid", "dan"} {
		release(t, l, api.ReleaseRequest{Key: name, Question: "secret", Object: name, Epsilon: eps(t, "0.25"), Truth: right})
	}
	_, err = l.Sell(t.Context(), api.SellRequest{Key: "first", Order: o("0.25"), Truth: right})
	must(t, err)
	held := reserve(t, l, api.ReserveRequest{Key: "held", Order: o("0.5"), For: time.Hour})
	sweeps := 0
	calls := map[string]func(api.TruthFunc) error{
		"Sell": func(truth api.TruthFunc) error {
			return check.Err(l.Sell(t.Context(), api.SellRequest{Key: "s", Order: o("0.4"), Truth: truth}))
		},
		"Commit": func(truth api.TruthFunc) error {
			_, err := l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: held.Number, Truth: truth})
			return err
		},
		"Advance": func(truth api.TruthFunc) error {
			sweeps++
			return check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint("day ", sweeps), Truth: truth}))
		},
	}
	sources := map[string]api.TruthFunc{
		"unknown": sameTruth("acht-Birnen"), "too few": listOf(secret().Values[0]), "too many": listOf(secret().Values[0], secret().Values[1], secret().Values[0]),
		"another": other, "failing": func(context.Context, string, []string) ([]string, error) { return secret().Values, errDisk }, "failing disk": right,
	}
	for _, name := range []string{"Sell", "Commit", "Advance"} { // in the order of their ε
		for kind, source := range sources {
			if s.set(nil, nil); kind == "failing disk" {
				s.set(failing, nil)
			}
			// A sweep leaves out objects whose true value is another, or none of the question's.
			if err := calls[name](source); (err == nil) != (name == "Advance" && (kind == "another" || kind == "unknown")) {
				t.Errorf("%s, %s: got the error %v", name, kind, err)
			} else if err != nil && mentionsSecret(err.Error()) {
				t.Errorf("%s, %s: the error names a value: %v", name, kind, err)
			}
		}
		s.set(nil, nil)
		if err := calls[name](listOf(secret().Values[0], "")); err != nil && mentionsSecret(err.Error()) {
			t.Errorf("%s without a truth: the error names a value: %v", name, err)
		}
		err := calls[name](right)
		check.That(t, err == nil || errors.Is(err, api.ErrKeyConflict), "%s: %v", name, err)
	}
	_, err = l.Sell(t.Context(), api.SellRequest{Key: "over", Order: o("2"), Truth: right})
	q, quoteErr := l.Quote(t.Context(), o("0.1"))
	price := int64(0)
	_, dear := l.Sell(t.Context(), api.SellRequest{Key: "dear", Order: api.Order{Buyer: "zeta", Question: "secret", Epsilon: eps(t, "0.3"), All: true}, MaxPrice: &price, Truth: right})
	for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", q), fmt.Sprint(quoteErr), fmt.Sprint(dear), log.String()} {
		check.That(t, text != "" && !mentionsSecret(text), "somebody says %q", text)
	}
	closed(t, l)
	// The file: labels stand in the definition of the question only.
	file, err := os.ReadFile(path)
	must(t, err)
	definition := &wire.Encoder{}
	(&event.QuestionDefined{Number: 1, Question: secret()}).Fields(wire.Writing(definition))
	if rest := bytes.ReplaceAll(file, definition.Buf, nil); mentionsSecret(string(rest)) || bytes.Contains(file, truthKey()) {
		t.Error("a label, or the truth key, stands in the file")
	}
}
