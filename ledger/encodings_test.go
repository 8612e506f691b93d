package ledger

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// These tests run in each encoding of responses: direct, unary and finite.

// encoded is a question in one encoding, and functions for requests about it.
type encoded struct {
	question api.Question
	has      func(level int, value string) bool // whether the question has a response at level 0.5, 1 or 2
	release  func(t testing.TB, key, object, epsilon string) api.ReleaseRequest
	raise    func(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest
	order    func(t testing.TB, key, buyer, epsilon string, objects ...string) api.SellRequest
}

// inEachEncoding runs a test in each encoding.
func inEachEncoding(t *testing.T, test func(t *testing.T, e encoded)) {
	t.Helper()
	const bits = 37
	party := fixture.Party(t)
	isVote := func(_ int, value string) bool { return slices.Contains(vote().Values, value) }
	isHome := func(_ int, value string) bool { return len(value) == bits && strings.Trim(value, "01") == "" }
	isParty := func(i int, value string) bool { return slices.Contains(party.Mechanism.Outputs[i], value) }
	for encoding, e := range map[string]encoded{
		"direct": {vote(), isVote, releaseOf, raiseOf, purchase},
		"unary":  {home(bits), isHome, homeOf, homesOf, homesFor},
		"finite": {party, isParty, partyOf, partiesOf, partiesFor},
	} {
		e.question.Encoding = encoding
		t.Run(string(encoding), func(t *testing.T) { test(t, e) })
	}
}

// sellers defines the question and enrolls objects that are for sale at 100 minor units for ε=1.
func (e encoded) sellers(t testing.TB, l *Ledger, objects ...string) *Ledger {
	t.Helper()
	define(t, l, e.question)
	enrollUnder(t, l, e.question.Name, market(t, "9"), "9", objects...)
	return l
}

// Invariants 3 and 5: the same key returns the same responses, also after the file is opened again,
// and so does every other request for them. The true value is not requested again, nor for lower
// levels. All levels together cost the highest ε.
func TestResponse_RequestedAgain_IsTheSame(t *testing.T) { inEachEncoding(t, testResponsesAreTheSame) }

func testResponsesAreTheSame(t *testing.T, e encoded) {
	path := create(t)
	l := e.sellers(t, open(t, path, Options{}), "ann", "bob")
	enrolled := api.EnrollRequest{Key: "enroll", Question: e.question.Name, Objects: []string{"dot", "cid"}, Policy: market(t, "2"), Cap: eps(t, "3")}
	released := func(r api.ReleaseRequest) func(api.TruthFunc) any {
		return func(truth api.TruthFunc) any { r.Truth = truth; return release(t, l, r) }
	}
	calls := []func(api.TruthFunc) any{
		released(e.release(t, "first", "ann", "0.5")),
		func(truth api.TruthFunc) any {
			r := e.order(t, "raise", "acme", "2", "ann", "bob")
			r.Truth = truth
			return delivered(t, l, sell(t, l, r).Number)
		},
		released(e.release(t, "insert", "ann", "1")),
		func(truth api.TruthFunc) any {
			r := e.raise(t, "degrade", "0.5")
			r.Truth = truth
			return []any{raise(t, l, r), responses(t, l, e.question.Name, eps(t, "0.5"))}
		},
		released(e.release(t, "insert below", "bob", "1")),
		func(truth api.TruthFunc) any {
			r := e.raise(t, "partial", "0.5", "ann", "zoe")
			r.Partial, r.Truth = true, truth
			return raise(t, l, r)
		},
		func(api.TruthFunc) any { return check.Value(l.Enroll(t.Context(), enrolled))(t) },
		func(api.TruthFunc) any { define(t, l, e.question); return nil },
	}
	var first []any
	for i, call := range calls {
		truth := mustNotAsk(t)
		if i < 2 {
			truth = e.raise(t, "", "1").Truth
		}
		first = append(first, call(truth))
	}
	got := delivered(t, l, 1)["ann"]
	check.That(t, got.Price == 200 && got.Epsilon == eps(t, "2"), "ann sold %+v", got)
	before := pairs(t, l.engine.Store)
	for range 2 {
		for i, call := range calls {
			again := call(mustNotAsk(t))
			check.That(t, reflect.DeepEqual(again, first[i]), "call %d: repeated, it returns\n%v", i, again)
		}
		wantSameRecords(t, "stored after repetitions", pairs(t, l.engine.Store), before)
		closed(t, l)
		l = open(t, path, Options{})
	}
	for i, epsilon := range []string{"0.5", "1", "2"} { // another buyer, and the host with other keys
		r, one := e.order(t, "again "+epsilon, "zeta", epsilon, "ann"), e.release(t, "host "+epsilon, "ann", epsilon)
		r.Truth, one.Truth = mustNotAsk(t), mustNotAsk(t)
		s := sell(t, l, r)
		got := delivered(t, l, s.Number)["ann"]
		check.That(t, s.Resales == 1 && got.Price == []int64{50, 50, 100}[i] && e.has(i, got.Value) && got.Response == release(t, l, one) &&
			got.Response == responses(t, l, e.question.Name, eps(t, epsilon))["ann"], "at ε=%s zeta got %+v", epsilon, got)
	}
	for _, name := range []string{"ann", "bob"} {
		o := objectOf(t, l, name)
		c := o.Chains[0]
		check.That(t, o.Spent == eps(t, "2") && c.Epsilon == eps(t, "2") && len(c.Levels) == 3 && c.Response == c.Levels[2].Response,
			"%s: %+v", name, o)
	}
	auditAll(t, l, l.engine.Store)
	wantClean(t, l, api.VerifyRequest{})
}

// Watch returns the responses, and the mechanism only in the definition of its question.
func TestWatch_ReturnsTheResponses(t *testing.T) { inEachEncoding(t, testResponsesAreWatched) }

func testResponsesAreWatched(t *testing.T, e encoded) {
	l := e.sellers(t, inMemory(t, Options{}), "ann", "bob")
	var want, got []string
	for i, epsilon := range []string{"0.5", "2", "1"} {
		want = append(want, release(t, l, e.release(t, fmt.Sprint(i), "ann", epsilon)).Value)
	}
	s := sell(t, l, e.order(t, "s", "acme", "0.5", "bob"))
	want = append(want, delivered(t, l, s.Number)["bob"].Value)
	for ev, err := range l.Watch(t.Context(), 1) {
		must(t, err)
		d, defines := ev.Says.(event.QuestionDefined)
		if defines && e.question.Mechanism != nil {
			check.That(t, len(d.Mechanism.Outputs) == 3, "the mechanism is %+v", d.Mechanism)
		} else {
			check.That(t, !bytes.Contains(text(t, ev), []byte(`"mechanism"`)), "the event %+v has a mechanism", ev)
		}
		if r, is := recordedBy(ev); is {
			got = append(got, r.Response)
		}
		if ev.Number == s.Last {
			break
		}
	}
	check.That(t, slices.Equal(got, want), "Watch returns %q, want %q", got, want)
}

// Answers to queries are about true values: the encoding changes neither an answer nor its cost.
func TestAnswer_AnyEncoding_IsTheSame(t *testing.T) {
	names := []string{"ann", "bob", "cid"}
	var first []any
	inEachEncoding(t, func(t *testing.T, e encoded) {
		l := inMemory(t, Options{Now: epoch, TruthKey: truthKey()})
		_, random := sampler(7)
		l.requests.Sampler = &mechanism.Sampler{Random: random}
		q := api.Question{Name: "vote", Values: []string{"yes", "no", "blank", "none"}, Encoding: e.question.Encoding, Mechanism: e.question.Mechanism}
		define(t, l, q)
		enroll(t, l, "vote", "3", names...)
		raised := raiseOf(t, "0", "1", names...)
		raised.Truth = ballots("ann", "cid")
		raise(t, l, raised)
		var all []any
		for i, query := range []string{"majority:yes", "majority:no", "threshold:yes:2", "threshold:yes:3", "plurality", "winner"} {
			r := answerRequest(t, fmt.Sprint("q", i), query, "0.25", ballots("ann", "cid"), names...)
			quote, err := l.QuoteAnswer(t.Context(), r)
			all = append(all, quote, err, answerTo(t, l, r))
			r.Key, r.Epsilon, r.Truth = fmt.Sprint("d", i), eps(t, "0.125"), mustNotAsk(t)
			lower := answerTo(t, l, r)
			check.That(t, lower.Charged.IsZero(), "%s: an answer at a lower ε costs %s, want nothing", query, lower.Charged)
		}
		over := answerRequest(t, "over", "majority:yes", "1.5", ballots("ann"), names...)
		all = append(all, refusals(t, check.Err(l.Answer(t.Context(), over))))
		for _, name := range names {
			o := objectOf(t, l, name)
			all = append(all, o.Spent, o.Chains[0].Answered, o.Chains[0].Epsilon)
		}
		if first == nil {
			first = all
		}
		check.That(t, reflect.DeepEqual(all, first), "got\n%+v\nwant, as in another encoding,\n%+v", all, first)
		auditLedger(t, l)
	})
}

// counts counts the responses that objects have at one ε, or at their highest if that is 0.
func (e encoded) counts(t testing.TB, l *Ledger, only privacy.Epsilon, among []string) (counts []estimate.Counts, sizes []api.LevelCount) {
	t.Helper()
	byLevel := map[int64][]string{}
	for _, name := range among {
		c := objectOf(t, l, name).Chains[0]
		for _, at := range c.Levels {
			if at.Epsilon == only || only.IsZero() && at.Epsilon == c.Epsilon {
				byLevel[at.Epsilon.Nano()] = append(byLevel[at.Epsilon.Nano()], at.Response)
			}
		}
	}
	for _, n := range sortedKeys(byLevel) {
		epsilon, outputs := nano(t, n), e.question.Values
		c := estimate.Counts{Epsilon: epsilon}
		switch e.question.Encoding {
		case "unary":
			c.Unary, c.Objects = true, int64(len(byLevel[n]))
		case "finite":
			m, _ := e.question.Mechanism.Family.Level(epsilon)
			c = estimate.Counts{Mechanism: m}
			outputs = e.question.Mechanism.Outputs[slices.Index(e.question.Mechanism.Family.Epsilons(), epsilon)]
		}
		c.ByValue = make([]int64, len(outputs))
		for _, response := range byLevel[n] {
			if !c.Unary {
				c.ByValue[slices.Index(outputs, response)]++
				continue
			}
			for v, bit := range response {
				c.ByValue[v] += int64(bit - '0')
			}
		}
		counts, sizes = append(counts, c), append(sizes, api.LevelCount{Epsilon: epsilon, N: int64(len(byLevel[n]))})
	}
	return counts, sizes
}

// wantEstimates compares the estimates at each ε, and at the highest levels, with those of package
// estimate.
func (e encoded) wantEstimates(t testing.TB, l *Ledger, names []string, levels ...string) {
	t.Helper()
	some := func(name string) bool { return strings.HasSuffix(name, "3") || strings.HasSuffix(name, "7") }
	for _, level := range append(levels, "0") {
		for what, include := range map[string]func(string) bool{"tallies": nil, "recount": includeAll, "some": some} {
			among := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return what == "some" && !some(name) })
			r := api.EstimateRequest{Question: e.question.Name, Include: include, Epsilon: eps(t, level), Confidence: 0.9}
			counts, sizes := e.counts(t, l, r.Epsilon, among)
			got, err := l.Estimate(t.Context(), r)
			if len(counts) == 0 {
				wantErr(t, err, api.ErrNoResponses)
				continue
			}
			must(t, err)
			want := api.Estimate{Question: e.question.Name, Levels: sizes, Event: stats(t, l).Events}
			combinedAs(&want, len(counts), r, check.Value(estimate.Disagreement(counts...))(t))
			for v, s := range check.Value(estimate.Frequencies(estimate.Options{Confidence: 0.9}, counts...))(t) {
				want.Values = append(want.Values, api.ValueEstimate{Value: e.question.Values[v], Estimate: s.Estimate, StdErr: s.StdErr, Low: s.Low, High: s.High})
			}
			for _, size := range sizes {
				want.N += size.N
			}
			check.Need(t, reflect.DeepEqual(got, want), "%s at ε=%s: got\n%+v\nwant\n%+v", what, level, got, want)
		}
	}
}

// Estimates equal those that package estimate computes from the responses. This holds from tallies
// and recounted, for one level and for all, and after an object withdraws, is forgotten or enrolls
// again.
func TestEstimate_AnyEncoding_EqualsPackageEstimate(t *testing.T) {
	inEachEncoding(t, testEstimates)
}

func testEstimates(t *testing.T, e encoded) {
	names, levels, top, low := crowd(60), []string{"0.5", "1", "2"}, "2", "0.5"
	if e.question.Mechanism == nil {
		levels, top, low = append(levels, "0.25", "0.500000001", "1.5", "4", "0.000000255", "0.000000256"), "4", "0.25"
	}
	s := &kv.Memory{}
	begin(t, s)
	l := e.sellers(t, openMemory(t, s, Options{}), names...)
	steps := []func(){
		func() {},
		func() { raise(t, l, e.raise(t, "1", "1", names[:55]...)) },
		func() { raise(t, l, e.raise(t, "2", "2", names[:20]...)) },
		func() { raise(t, l, e.raise(t, "3", "0.5", names[10:30]...)) },
		func() { sell(t, l, e.order(t, "6", "acme", top, names[3], names[57])) },
		func() { sell(t, l, e.order(t, "7", "zeta", low, names[:8]...)) },
		func() { l = openMemory(t, s, Options{}) },
		func() { forget(t, l, names[3]); forget(t, l, names[27]) },
		func() { // enrolled again, with a new chain
			must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: e.question.Name, Objects: []string{names[3]}, Policy: market(t, "9")})))
			release(t, l, e.release(t, "8", names[3], "0.5"))
		},
		func() { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "9", Object: names[7]})) },
	}
	if e.question.Mechanism == nil {
		steps = slices.Insert(steps, 4,
			func() { raise(t, l, e.raise(t, "4", "0.500000001", names[5:15]...)) },
			func() { raise(t, l, e.raise(t, "5", "1.5", names[:30]...)) },
			func() { raise(t, l, e.raise(t, "255", "0.000000255", names[2:9]...)) },
			func() { raise(t, l, e.raise(t, "256", "0.000000256", names[4:12]...)) })
	}
	for _, step := range steps {
		step()
		e.wantEstimates(t, l, names, levels...)
		auditStore(t, s)
	}
	wantClean(t, l, api.VerifyRequest{})
	for _, name := range names {
		must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "at last " + name, Object: name}))
	}
	e.wantEstimates(t, l, names, levels...)
	check.Equal(t, len(talliesOf(t, s)), 0, "tallies that are left when all objects are forgotten")
	auditStore(t, s)
}

// A chain is bound to its true value by one event. A raise with another value is refused, also
// after the file is opened again. At and below the highest level the value is not requested.
func TestRelease_AnotherTrueValue_IsRefused(t *testing.T) { inEachEncoding(t, testBoundToTheTruth) }

func testBoundToTheTruth(t *testing.T, e encoded) {
	path := create(t)
	l := e.sellers(t, openWithTruthKey(t, path), "ann")
	release(t, l, e.release(t, "1", "ann", "1"))
	liar := e.release(t, "2", "ann", "2")
	liar.Truth = sameTruth(e.question.Values[1])
	for range 2 {
		unchanged(t, l.engine.Store, func() { wantChanged(t, check.Err(l.Release(t.Context(), liar)), "ann") })
		closed(t, l)
		l = openWithTruthKey(t, path)
	}
	lower := e.release(t, "3", "ann", "0.5")
	lower.Truth = mustNotAsk(t)
	release(t, l, lower)
	release(t, l, e.release(t, "2", "ann", "2")) // the key of the refused call is free, and the chain usable
	liar.Key, liar.Epsilon = "4", eps(t, "1")
	release(t, l, liar)
	for _, kind := range []string{"bound", "truth-key"} {
		check.Equal(t, countKind(events(t, l), kind), 1, "events %q", kind)
	}
	auditStore(t, l.engine.Store)
}

// What an object spent before it was forgotten still counts against its cap and its ceiling. The
// deliveries of a buyer keep their prices.
func TestForget_ObjectEnrollsAgain_KeepsWhatItSpent(t *testing.T) {
	inEachEncoding(t, testForget)
}

func testForget(t *testing.T, e encoded) {
	l, name := newLedger(t), e.question.Name
	define(t, l, e.question)
	enrollUnder(t, l, name, market(t, "2"), "3", "ann", "bob")
	sale := sell(t, l, e.order(t, "1", "acme", "1", "ann", "bob"))
	forget(t, l, "ann")
	o := objectOf(t, l, "ann")
	check.Need(t, o.Spent == eps(t, "1") && o.Earned == 100 && o.Forgotten != 0 && len(o.Chains) == 1 && len(o.Chains[0].Levels) == 0 &&
		o.Chains[0].Withdrawn && o.Chains[0].Answered == eps(t, "1"), "%+v", o)
	all := check.Value(collect(l.Deliveries(t.Context(), sale.Number)))(t)
	check.That(t, len(all) == 2 && all[0].Erased && all[0].Object == "" && all[0].Value == "" && all[0].Price == 100 &&
		all[1].Object == "bob" && !all[1].Erased && all[1].Value != "", "delivered is %+v", all)
	again := sell(t, l, e.order(t, "1", "acme", "1", "ann", "bob"))
	check.That(t, reflect.DeepEqual(again, sale) && again.Price == 200 && again.Objects == 2, "the sale, repeated by its key, is %+v, want %+v", again, sale)
	back := api.EnrollRequest{Key: "back", Question: name, Objects: []string{"ann"}, Policy: market(t, "2")}
	richer, freer := back, back
	richer.Key, richer.Cap = "another cap", eps(t, "9")
	freer.Key, freer.Policy = "another policy", market(t, "9")
	for _, r := range []api.EnrollRequest{richer, freer} {
		refusals(t, check.Err(l.Enroll(t.Context(), r)))
	}
	must(t, check.Err(l.Enroll(t.Context(), back)))
	r := refusals(t, check.Err(l.Release(t.Context(), e.release(t, "2", "ann", "2"))))[0]
	check.That(t, r.Reason == api.ChainCeiling && r.Spent == eps(t, "1") && r.Remaining == eps(t, "1"), "%+v", r)
	release(t, l, e.release(t, "3", "ann", "1")) // independent of the one destroyed, so both are charged
	o = objectOf(t, l, "ann")
	check.That(t, o.Spent == eps(t, "2") && o.Chains[0].Epsilon == eps(t, "1") && len(o.Chains[0].Levels) == 1, "%+v", o)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget again", Object: "ann"}))
	o = objectOf(t, l, "ann")
	check.That(t, o.Spent == eps(t, "2") && o.Earned == 100, "forgotten a second time: %+v", o)
	auditAll(t, l, l.engine.Store)
}
