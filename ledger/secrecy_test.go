package ledger

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 6: the true value is in no file, log line, error text, metric or receipt. Refusals and
// kinds of errors never depend on it.

// wordsFor returns the random words of draws from unary chains of m values, each of which ends in
// "one of both values uniformly", so that no bit depends on the true value. A draw reads one word.
// A first response reads a word for its coin before that, and a raise makes a draw for it.
func wordsFor(m int, methods ...event.Method) *rrchain.Sampler {
	random := uint64(1)
	next := func() uint64 {
		random = random*6364136223846793005 + 1442695040888963407
		return random
	}
	var words []uint64
	for _, how := range methods {
		draws := m
		if how == event.MethodFresh {
			words = append(words, next()>>32) // the coin is the lowest bit
		} else if how == event.MethodRaise {
			draws++
		}
		for range draws {
			words = append(words, drawWord(2, ^uint64(0), next()))
		}
	}
	return &rrchain.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := 0; i < len(p); i += 8 {
			word := ^uint64(0)
			if len(words) > 0 {
				word, words = words[0], words[1:]
			}
			for j := range 8 {
				p[i+j] = byte(word >> (56 - 8*j))
			}
		}
	})}
}

// dayWithoutTruth makes raises, sales, reservations, sweeps and refusals of each kind, in which no
// response depends on the true values. It returns all stored records, all results, and the
// responses of the question.
func dayWithoutTruth(t *testing.T, q api.Question, s *rrchain.Sampler, truth func(name string) string) (stored []pair, returned []any, responses map[string]bool) {
	t.Helper()
	store := &kv.Memory{}
	begin(t, store)
	l := openMemory(t, store, Options{Now: epoch})
	l.engine.Chances.Values, l.engine.Salts = s, steadySalts(2)
	diary := q
	diary.Name = "diary"
	define(t, l, q)
	define(t, l, diary)
	enrollUnder(t, l, q.Name, market(t, "2"), "3", "ann", "bob", "cid")
	enrollUnder(t, l, "diary", check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.25")}))(t), "3", "ann", "bob")
	source := func(_ context.Context, _ string, objects []string) (values []string, err error) {
		for _, name := range objects {
			values = append(values, truth(name))
		}
		return values, nil
	}
	note := func(result any, err error) { returned = append(returned, result, err) }
	did := func(call string, d drawing) {
		d.key, d.truth = fmt.Sprint("request ", len(returned)), source
		if d.question == "" {
			d.question = q.Name
		}
		note(l.Quote(t.Context(), d.order(t)))
		got, err := d.by(t, l, call)
		note(got, err)
	}
	did("Raise", drawing{epsilon: "0.5"})
	did("Sell", drawing{epsilon: "1"})
	did("Sell", drawing{epsilon: "0.75", buyer: "zeta"})
	did("Sell", drawing{epsilon: "0.25"})
	did("Sell", drawing{epsilon: "9"})
	did("Raise", drawing{epsilon: "2.5"})
	did("Raise", drawing{epsilon: "1000", objects: []string{"bob"}})
	did("Raise", drawing{epsilon: "2.5", partial: true})
	did("Raise", drawing{epsilon: "1.5", objects: []string{"ann", "zoe"}})
	did("Raise", drawing{epsilon: "1.5", objects: []string{"ann", "zoe"}, partial: true})
	held, err := l.Reserve(t.Context(), api.ReserveRequest{Key: "h", Order: drawing{question: q.Name, epsilon: "1.75", objects: []string{"ann", "bob"}}.order(t), For: time.Hour})
	note(held, err)
	for range 2 {
		did("Capture", drawing{epsilon: "1.75", reservation: held.Number})
	}
	did("Advance", drawing{epsilon: "1", question: "diary"})
	note(l.Raise(t.Context(), api.RaiseRequest{Key: "request 0", Question: q.Name, All: true, Epsilon: eps(t, "0.75"), Truth: source}))
	note(l.Estimate(t.Context(), api.EstimateRequest{Question: q.Name}))
	note(nil, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "bob"}))
	did("Sell", drawing{epsilon: "2"})
	responses = map[string]bool{}
	for _, name := range []string{"ann", "bob", "cid"} {
		for _, at := range objectOf(t, l, name).Chains[0].Levels {
			responses[at.Response] = true
		}
	}
	return pairs(t, store), returned, responses
}

// If the responses are equal, all stored records are equal for any true values, and so is every
// quote, sale, refusal and error, word for word. (The salts are fixed here. Nothing else depends on
// them.)
func TestStoredAndReturned_OtherTruthsSameResponses_AreTheSame(t *testing.T) {
	first, raise, insert, degrade := event.MethodFresh, event.MethodRaise, event.MethodInsert, event.MethodDegrade
	for q, sampler := range map[*api.Question]func() *rrchain.Sampler{
		{Name: "vote", Values: vote().Values, Encoding: "direct"}: func() *rrchain.Sampler { return uniformSampler(7) },
		{Name: "home", Values: valuesOf(25), Encoding: "unary"}: func() *rrchain.Sampler {
			return wordsFor(25, first, first, first, raise, raise, raise, insert, insert, insert, degrade, degrade, degrade, raise, raise, raise, first, first, raise, raise)
		},
	} {
		day := func(truth func(string) string) ([]pair, []any, map[string]bool) {
			return dayWithoutTruth(t, *q, sampler(), truth)
		}
		n := len(q.Values)
		wantStored, wantReturned, responses := day(func(string) string { return q.Values[0] })
		check.That(t, len(responses) == min(n, 7+5+5), "%s: %d different responses, of 17", q.Name, len(responses))
		for name, truth := range map[string]func(string) string{
			"the second": func(string) string { return q.Values[1] },
			"the last":   func(string) string { return q.Values[n-1] },
			"mixed":      func(name string) string { return q.Values[int(name[0]+name[1])%n] },
		} {
			stored, returned, _ := day(truth)
			wantSameRecords(t, "stored for the truths "+name, stored, wantStored)
			check.That(t, reflect.DeepEqual(returned, wantReturned), "for the truths %s the results are\n%v\nwant\n%v", name, returned, wantReturned)
		}
	}
}

// secret is a question whose labels occur nowhere else in a text.
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

func listOf(values ...string) api.TruthFunc {
	return func(context.Context, string, []string) ([]string, error) { return values, nil }
}

// Each call fails in every way with a true value at hand: no log line, no error and no byte of the
// file names a value, except the definition of the question.
func TestFailure_TruthAtHand_NamesNoValue(t *testing.T) {
	for _, encoding := range []string{"direct", "unary"} {
		t.Run(string(encoding), func(t *testing.T) {
			q := secret()
			q.Values, q.Encoding = append(q.Values, valuesOf(30)...), encoding
			failWithTruths(t, q)
		})
	}
}

func failWithTruths(t *testing.T, q api.Question) {
	t.Helper()
	var log bytes.Buffer
	path := create(t)
	l, s := openShim(t, path, Options{Logger: zerolog.New(&log).Level(zerolog.TraceLevel), TruthKey: truthKey(), Now: epoch})
	define(t, l, q)
	timed := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.75")}))(t)
	enrollUnder(t, l, q.Name, check.Value(policy.Min(timed, market(t, "2")))(t), "1", "ann", "bob")
	enrollUnder(t, l, q.Name, timed, "1", "cid", "dan") // not for sale, so that a sweep draws
	right, another := sameTruth(q.Values[0]), sameTruth(q.Values[1])
	drawing := drawing{key: "before", question: q.Name, epsilon: "0.25", objects: []string{"ann", "bob", "cid", "dan"}, truth: right}
	must(t, check.Err(drawing.by(t, l, "Raise")))
	drawing.objects, drawing.epsilon = drawing.objects[:2], "0.5"
	held := reserve(t, l, api.ReserveRequest{Key: "held", Order: drawing.order(t), For: time.Hour})
	drawing.epsilon, drawing.reservation = "0.4", held.Number
	sources := map[string]api.TruthFunc{
		"unknown": sameTruth("acht-Birnen"), "too few": listOf(), "too many": listOf(slices.Repeat(q.Values[:1], 5)...), "another": another,
		"missing": sameTruth(""), "of one missing": truthsOf(map[string]string{"bob": q.Values[0]}),
		"bits": sameTruth(strings.Repeat("0", 31) + "1"), "failing disk": right,
		"failing": func(context.Context, string, []string) ([]string, error) { return q.Values, errDisk },
	}
	silent := func(what string, err error, fails bool) {
		t.Helper()
		check.That(t, (err != nil) == fails && !mentionsSecret(fmt.Sprint(err)), "%s: the error is %v", what, err)
	}
	for _, call := range []string{"Release", "Raise", "Sell", "Capture", "Answer", "Advance"} {
		for kind, source := range sources {
			if s.set(nil, nil); kind == "failing disk" {
				s.set(failing, nil)
			}
			drawing.key, drawing.truth = fmt.Sprint(call, " ", kind), source
			_, err := drawing.by(t, l, call)
			// A sweep leaves out objects whose true value is changed, missing or invalid.
			leftOut := call == "Advance" && slices.Contains([]string{"unknown", "another", "bits", "missing", "of one missing"}, kind)
			silent(call+", "+kind, err, !leftOut)
		}
	}
	s.set(nil, nil)
	for call, d := range map[string]struct{ key, epsilon string }{"Sell": {"over", "2"}, "Raise": {"before", "0.3"}, "Answer": {"much", "0.9"}} {
		drawing.key, drawing.epsilon, drawing.truth = d.key, d.epsilon, right
		silent(call+" "+d.key, check.Err(drawing.by(t, l, call)), true)
	}
	price := int64(0)
	dear := api.SellRequest{Key: "dear", Order: drawing.order(t), MaxPrice: &price, Truth: right}
	dear.Epsilon = eps(t, "0.3")
	redefined := q
	redefined.Encoding = map[string]string{"direct": "unary", "unary": "direct"}[q.Encoding]
	for what, call := range map[string]func() error{
		"a sale above its price": func() error { return check.Err(l.Sell(t.Context(), dear)) },
		"another encoding":       func() error { return l.DefineQuestion(t.Context(), "h", redefined) },
		"a question twice": func() error {
			return l.DefineQuestion(t.Context(), "i", api.Question{Name: q.Name, Values: q.Values[1:], Encoding: q.Encoding})
		},
		"an estimate of no ε": func() error {
			return check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: q.Name, Epsilon: eps(t, "9")}))
		},
		"an unknown object": func() error { return check.Err(l.Object(t.Context(), "zoe")) },
		"a damaged chain":   func() error { return releaseOfDamaged(t, q) },
	} {
		silent(what, call(), true)
	}
	silent("a quote", check.Err(l.Quote(t.Context(), dear.Order)), false)
	for call, epsilon := range map[string]string{"Release": "0.3", "Sell": "0.4", "Raise": "0.35"} {
		drawing.key, drawing.epsilon = "right "+call, epsilon
		must(t, check.Err(drawing.by(t, l, call)))
	}
	check.That(t, log.Len() != 0 && !mentionsSecret(log.String()), "the log says\n%s", log.String())
	closed(t, l)
	file := content(t, path)
	definition := &wire.Encoder{}
	(&event.QuestionDefined{Number: 1, Question: q}).Fields(wire.Writing(definition))
	check.That(t, bytes.Count(file, definition.Buf) >= 2,
		"the definition is not found where it must be: in its event and in its record")
	rest := bytes.ReplaceAll(file, definition.Buf, nil)
	check.That(t, !mentionsSecret(string(rest)) && !bytes.Contains(rest, []byte(valueName(0))) && !bytes.Contains(file, truthKey()),
		"a value, or the truth key, is in the file")
}

// releaseOfDamaged releases from a chain whose response the question cannot have.
func releaseOfDamaged(t *testing.T, q api.Question) error {
	t.Helper()
	l := inMemory(t, Options{})
	define(t, l, q)
	enroll(t, l, q.Name, "9", "ann")
	response := event.Value{Index: len(q.Values)}
	if q.Encoding == "unary" {
		response = event.Value{Bits: bitsOf(t, strings.Repeat("1", len(q.Values)-1))}
	}
	broken := state.Chain{Enrolled: 4, Levels: []state.Level{state.NewLevel(eps(t, "1"), response, 5)}}
	putRecord(t, l.engine.Store, state.BucketChains, state.ChainKey(1, "ann"), broken.Encode())
	_, err := drawing{key: "k", question: q.Name, epsilon: "2", objects: []string{"ann"}, truth: sameTruth(q.Values[0])}.by(t, l, "Release")
	wantErr(t, err, api.ErrCorrupt)
	return err
}

// The true values that a request got are overwritten when it ends, and names find only their own.
func TestTrueValues_Forget_OverwritesThem(t *testing.T) {
	first, second := []int32{1, rules.NoTruth}, []int32{2}
	var x rules.TrueValues
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
