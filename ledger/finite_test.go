package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Questions with a mechanism of their own support all requests, at the ε of their levels.
// damage_responses_test.go has the tests of altered and forged records.

// partySellers defines party and enrolls objects that are for sale at 100 minor units for ε=1.
func partySellers(t testing.TB, l *Ledger, objects ...string) *Ledger {
	t.Helper()
	define(t, l, fixture.Party(t))
	enrollUnder(t, l, "party", market(t, "9"), "9", objects...)
	return l
}

// partyOf requests an object's party, which is C.
func partyOf(t testing.TB, key, object, epsilon string) api.ReleaseRequest {
	t.Helper()
	return api.ReleaseRequest{Key: key, Question: "party", Object: object, Epsilon: eps(t, epsilon), Truth: sameTruth("C")}
}

// partiesOf requests the parties of many objects, or of all.
func partiesOf(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	r := raiseOf(t, key, epsilon, objects...)
	r.Question, r.Truth = "party", sameTruth("C")
	return r
}

// partiesFor is an order for parties.
func partiesFor(t testing.TB, key, buyer, epsilon string, objects ...string) api.SellRequest {
	t.Helper()
	r := purchase(t, key, buyer, epsilon, objects...)
	r.Question, r.Truth = "party", sameTruth("C")
	return r
}

// Definitions.

func TestDefineQuestion_Mechanism_IsCopiedAndStored(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	q := fixture.Party(t)
	whole := text(t, q.Mechanism)
	define(t, l, q)
	for _, names := range q.Mechanism.Outputs {
		names[0] = "the host's"
	}
	q.Values[0] = "the host's"
	q.Mechanism.Family = fixture.Skewed(t)
	numbered := api.Question{Name: "numbered", Values: []string{"no", "yes"}, Encoding: "finite", Mechanism: &api.Mechanism{Family: fixture.Skewed(t)}}
	define(t, l, numbered)
	for range 2 {
		all := questionsOf(t, l)
		if len(all) != 2 || all[0].Encoding != "finite" || all[0].Values[0] != "A" || !bytes.Equal(text(t, all[0].Mechanism), whole) {
			t.Errorf("party is stored as %+v", all[0])
		}
		if got, want := all[1].Mechanism.Outputs, [][]string{{"0", "1"}, {"0", "1"}, {"0", "1", "2"}, {"0", "1", "2", "3"}}; !reflect.DeepEqual(got, want) || all[1].Encoding != "finite" {
			t.Errorf("outputs without names are named %q", got)
		}
		check.That(t, bytes.Equal(text(t, all[1].Mechanism.Family), text(t, fixture.Skewed(t))),
			"the stored family differs")
		closed(t, l)
		l = open(t, path, Options{})
	}
	for _, ev := range events(t, l) {
		if d, is := ev.Says.(event.QuestionDefined); is && d.Name == "party" && (d.Encoding != "finite" || !bytes.Equal(text(t, d.Mechanism), whole)) {
			t.Errorf("the log says %+v", ev)
		}
	}
	check.That(t, numbered.Mechanism.Outputs == nil, "the host's mechanism was given names")
	auditLedger(t, l)
}

func TestDefineQuestion_InvalidMechanism_IsErrInvalid(t *testing.T) {
	pair := []string{"no", "yes"}
	two := func() *finite.Family {
		return fixture.Family(t, fixture.Matrix(t, "3/5 2/5", "2/5 3/5"), fixture.Matrix(t, "2/3 1/3", "1/3 2/3"))
	}
	named := func(names ...[]string) *api.Mechanism { return &api.Mechanism{Family: two(), Outputs: names} }
	var large []*finite.Matrix
	for i := 1; i <= 30; i++ { // about 50 kB each, with 4096 probabilities of many digits
		epsilon := fmt.Sprintf("0.%02d", i)
		large = append(large, fixture.Subsets(t, 64, 1, epsilon))
	}
	l := inMemory(t, Options{})
	for name, test := range map[string]struct {
		q     api.Question
		words string
	}{
		"no family":                 {api.Question{Values: pair, Mechanism: &api.Mechanism{}}, "needs a mechanism"},
		"no family, but names":      {api.Question{Values: pair, Mechanism: &api.Mechanism{Outputs: [][]string{pair}}}, "needs a mechanism"},
		"a family of no levels":     {api.Question{Values: pair, Mechanism: &api.Mechanism{Family: &finite.Family{}}}, "needs a mechanism"},
		"finite without":            {api.Question{Values: pair, Encoding: "finite"}, "needs a mechanism"},
		"more inputs":               {api.Question{Values: pair, Mechanism: fixture.Party(t).Mechanism}, "4 inputs, but the question has 2 values"},
		"fewer inputs":              {api.Question{Values: []string{"a", "b", "c"}, Mechanism: named(pair, pair)}, "2 inputs, but the question has 3 values"},
		"no value":                  {api.Question{Mechanism: named(pair, pair)}, "0 values"},
		"direct encoding":           {api.Question{Values: pair, Encoding: "direct", Mechanism: named(pair, pair)}, "direct encoding has no mechanism"},
		"unary encoding":            {api.Question{Values: pair, Encoding: "unary", Mechanism: named(pair, pair)}, "unary encoding has no mechanism"},
		"another encoding":          {api.Question{Values: pair, Encoding: "Finite", Mechanism: named(pair, pair)}, "unknown encoding"},
		"names of a level too few":  {api.Question{Values: pair, Mechanism: named(pair)}, "output names for 1 of its 2 levels"},
		"names, but of no level":    {api.Question{Values: pair, Mechanism: &api.Mechanism{Family: two(), Outputs: [][]string{}}}, "output names for 0 of its 2 levels"},
		"names of a level too many": {api.Question{Values: pair, Mechanism: named(pair, pair, pair)}, "output names for 3 of its 2 levels"},
		"a name too few":            {api.Question{Values: pair, Mechanism: named(pair, pair[:1])}, "2 outputs, but 1 names"},
		"a name too many":           {api.Question{Values: pair, Mechanism: named([]string{"a", "b", "c"}, pair)}, "2 outputs, but 3 names"},
		"no names of a level":       {api.Question{Values: pair, Mechanism: named(pair, nil)}, "2 outputs, but 0 names"},
		"a name twice":              {api.Question{Values: pair, Mechanism: named(pair, []string{"x", "x"})}, `two outputs are named "x"`},
		"a name of no length":       {api.Question{Values: pair, Mechanism: named(pair, []string{"x", ""})}, "output"},
		"a long name":               {api.Question{Values: pair, Mechanism: named(pair, []string{"x", strings.Repeat("y", 257)})}, "output"},
		"a name that is no text":    {api.Question{Values: pair, Mechanism: named(pair, []string{"x", "\xff"})}, "output"},
		"a name with a zero byte":   {api.Question{Values: pair, Mechanism: named(pair, []string{"x", "\x00"})}, "output"},
		"a large one":               {api.Question{Values: valuesOf(64), Mechanism: &api.Mechanism{Family: fixture.Family(t, large...)}}, "at most 1048576"},
	} {
		unchanged(t, l.engine.Store, func() {
			test.q.Name = "q"
			if err := l.DefineQuestion(t.Context(), "k", test.q); !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%s: got the error %.300v, want %q", name, err, test.words)
			}
		})
	}
	must(t, l.DefineQuestion(t.Context(), "k", api.Question{Name: "q", Values: pair, Mechanism: named([]string{"a", strings.Repeat("y", 256)}, []string{"a", "b"})}))
	must(t, l.DefineQuestion(t.Context(), "half", api.Question{Name: "half", Values: valuesOf(64), Mechanism: &api.Mechanism{Family: fixture.Family(t, large[:3]...)}}))
	auditStore(t, l.engine.Store)
}

// A question can be defined again with its encoding given or not, and with other channels: the
// first channels stay. Another mechanism is refused.
func TestDefineQuestion_AnotherMechanism_IsRefused(t *testing.T) {
	like := func(f *finite.Family, names ...[]string) api.Question {
		q := api.Question{Name: "q", Values: []string{"no", "yes"}, Mechanism: &api.Mechanism{Family: f}}
		if names != nil {
			q.Mechanism.Outputs = names
		}
		return q
	}
	numbers := [][]string{{"0", "1"}, {"0", "1"}, {"0", "1", "2"}, {"0", "1", "2", "3"}}
	renamed := [][]string{{"0", "1"}, {"0", "1"}, {"0", "1", "2"}, {"0", "1", "3", "2"}}
	first, other := fixture.Skewed(t), fixture.OtherChannels(t, fixture.Skewed(t))
	withEncoding := like(first)
	withEncoding.Encoding = "finite"
	direct := like(nil)
	direct.Mechanism = nil
	explicit := direct
	explicit.Encoding = "direct"
	for name, test := range map[string]struct {
		q    api.Question
		want error // under another key
		same error // under the same key
	}{
		"again":             {like(first), nil, nil},
		"another copy":      {like(fixture.Skewed(t)), nil, nil},
		"with its encoding": {withEncoding, nil, &api.KeyConflictError{}},
		"with names":        {like(first, numbers...), nil, nil},
		"other channels":    {like(other), nil, nil},
		"other names":       {like(first, renamed...), api.ErrInvalid, &api.KeyConflictError{}},
		"a level less":      {like(fixture.Family(t, fixture.Matrix(t, "3/5 2/5", "2/5 3/5"))), api.ErrInvalid, &api.KeyConflictError{}},
		"other levels":      {like(fixture.Family(t, fixture.Matrix(t, "3/5 2/5", "2/5 3/5"), fixture.Matrix(t, "2/3 1/3", "1/3 2/3"), fixture.Matrix(t, "3/4 0 1/4", "1/4 0 3/4"), fixture.Matrix(t, "1/12 5/12 5/12 1/12", "5/12 1/12 1/12 5/12"))), api.ErrInvalid, &api.KeyConflictError{}},
		"no mechanism":      {direct, api.ErrInvalid, &api.KeyConflictError{}},
		"direct encoding":   {explicit, api.ErrInvalid, &api.KeyConflictError{}},
	} {
		l := inMemory(t, Options{})
		must(t, l.DefineQuestion(t.Context(), "k", like(first)))
		before := questionsOf(t, l)
		for key, want := range map[string]error{"other": test.want, "k": test.same} {
			err := l.DefineQuestion(t.Context(), key, test.q)
			check.That(t, errors.Is(err, want), "%s, with the key %q: got the error %v, want %v", name, key, err, want)
		}
		if after := questionsOf(t, l); !bytes.Equal(text(t, after), text(t, before)) || len(after) != 1 {
			t.Errorf("%s: the question changed to %s", name, text(t, after))
		}
		auditStore(t, l.engine.Store)
	}
	// A question without a mechanism cannot be defined again with one.
	l := inMemory(t, Options{})
	define(t, l, direct)
	wantErr(t, l.DefineQuestion(t.Context(), "k", like(first)), api.ErrInvalid)
}

// Requests.

// A raise costs the difference of the levels' ε. Reservations hold that difference, and refusals
// report it.
func TestFiniteRaise_HigherLevel_CostsTheDifference(t *testing.T) {
	l := inMemory(t, Options{Now: epoch})
	define(t, l, fixture.Party(t))
	enrollUnder(t, l, "party", market(t, "9"), "1.75", "ann")
	spent := func(want string) {
		t.Helper()
		check.Equal(t, objectOf(t, l, "ann").Spent, eps(t, want), "ann has spent")
	}
	release(t, l, partyOf(t, "1", "ann", "0.5"))
	spent("0.5")
	r := reserve(t, l, api.ReserveRequest{Key: "r", Order: partiesFor(t, "", "acme", "1", "ann").Order, For: time.Hour})
	check.Equal(t, objectOf(t, l, "ann").Held, eps(t, "0.5"), "held")
	must(t, check.Err(l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: r.Number, Truth: sameTruth("C")})))
	spent("1")
	_, err := l.Release(t.Context(), partyOf(t, "2", "ann", "2"))
	if all := refusals(t, err); len(all) != 1 || all[0].Reason != api.ObjectCap || all[0].Cost != eps(t, "1") || all[0].Remaining != eps(t, "0.75") {
		t.Errorf("got the refusals %+v, want the cost 1 and 0.75 remaining", all)
	}
	spent("1")
	auditStore(t, l.engine.Store)
}

// Every request for a response at an ε that is no level returns ErrInvalid, which names the levels.
// Nothing changes, and no true value is requested.
func TestFiniteQuestion_EpsilonIsNoLevel_IsErrInvalid(t *testing.T) {
	l := partySellers(t, inMemory(t, Options{Now: epoch}), "ann", "bob")
	release(t, l, partyOf(t, "1", "ann", "1"))
	for _, epsilon := range []string{"0.000000001", "0.25", "0.499999999", "0.500000001", "0.75", "1.5", "1.999999999", "2.000000001", "1000"} {
		at := eps(t, epsilon)
		unchanged(t, l.engine.Store, func() {
			for call, make := range map[string]func() error{
				"release": func() error {
					r := releaseBy(partyOf(t, "k", "ann", epsilon), mustNotAsk(t))
					return check.Err(l.Release(t.Context(), r))
				},
				"raise": func() error {
					r := partiesOf(t, "k", epsilon)
					r.Partial, r.Truth = true, mustNotAsk(t)
					return check.Err(l.Raise(t.Context(), r))
				},
				"quote": func() error { return check.Err(l.Quote(t.Context(), partiesFor(t, "", "acme", epsilon).Order)) },
				"reserve": func() error {
					return check.Err(l.Reserve(t.Context(), api.ReserveRequest{Key: "k", Order: partiesFor(t, "", "acme", epsilon).Order, For: time.Hour, Partial: true}))
				},
				"sell": func() error {
					r := partiesFor(t, "k", "acme", epsilon, "ann")
					r.Partial, r.Truth = true, mustNotAsk(t)
					return check.Err(l.Sell(t.Context(), r))
				},
			} {
				if err := make(); !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "0.5, 1, 2 only, not at "+at.String()) {
					t.Errorf("%s at ε=%s: %v", call, epsilon, err)
				}
			}
		})
	}
	// An estimate at such an ε has no responses.
	wantErr(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "party", Epsilon: eps(t, "1.5")})), api.ErrNoResponses)
	all := responses(t, l, "party", eps(t, "1.5"))
	check.That(t, len(all) == 0, "at ε=1.5: got the responses %v, want none", all)
}

// Sweeps.

// risingCeilings returns a ledger in which the ceilings of objects rise at whole days after epoch,
// and its clock.
func risingCeilings(t testing.TB, limit string, ceilings []string, objects ...string) (*Ledger, *fakeClock) {
	t.Helper()
	var steps []policy.Step
	for i, ceiling := range ceilings {
		steps = append(steps, policy.Step{At: epoch().Add(time.Duration(24*(i+1)) * time.Hour), Ceiling: eps(t, ceiling)})
	}
	clock := newClock(epoch())
	l := inMemory(t, Options{Now: clock.read})
	define(t, l, fixture.Party(t))
	enrollUnder(t, l, "party", check.Value(policy.Steps(steps...))(t), limit, objects...)
	return l, clock
}

// levelsOf returns the ε of the levels of an object's chain, in rising order.
func levelsOf(t testing.TB, l *Ledger, name string) (text string) {
	t.Helper()
	for _, at := range objectOf(t, l, name).Chains[0].Levels {
		text += at.Epsilon.String() + " "
	}
	return strings.TrimSpace(text)
}

// A sweep releases, for each ceiling of the calendar, the highest level at or below it, once. The
// result is the same if the host sweeps every day or only at the end. Below the first level nothing
// is released.
func TestAdvance_FiniteQuestion_ReleasesLevelBelowCeiling(t *testing.T) {
	names := []string{"ann", "bob", "cid"}
	calendar := []string{"0.1", "0.499999999", "0.5", "0.75", "0.999999999", "1.25", "1.5", "3"}
	wantLevels := []string{"", "", "0.5", "0.5", "0.5", "0.5 1", "0.5 1", "0.5 1 2"}
	for name, days := range map[string][]int{"daily": {0, 1, 2, 3, 4, 5, 6, 7, 8}, "twice": {4, 8}, "after all": {8}, "and again": {3, 3, 8, 8}} {
		l, clock := risingCeilings(t, "9", calendar, names...)
		released := 0
		for i, day := range days {
			clock.set(epoch().Add(time.Duration(24*day) * time.Hour))
			r := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint(i), Truth: sameTruth("C")}))(t)
			want := ""
			if day > 0 {
				want = wantLevels[day-1]
			}
			for _, one := range names {
				check.Equal(t, levelsOf(t, l, one), want, "%s: on day %d %s has the levels", name, day, one)
			}
			if one := r.Questions[0]; len(one.Refused) != 0 || one.Raised+one.Unchanged != len(names) {
				t.Errorf("%s: on day %d the result is %+v", name, day, r)
			}
			now := 0
			for range strings.Fields(want) {
				now += len(names)
			}
			check.Equal(t, countKind(events(t, l), "released"), now, "%s: releases on day %d", name, day)
			released = now
		}
		check.That(t, released == 3*len(names) && objectOf(t, l, "ann").Spent == eps(t, "2"),
			"%s: %d releases", name, released)
		auditLedger(t, l)
	}
}

// If the host has raised an object before, a sweep derives the levels below, free and without its
// true value.
func TestAdvance_FiniteLevelRaisedBefore_DerivesLowerLevels(t *testing.T) {
	l, clock := risingCeilings(t, "9", []string{"0.6", "1.5", "2.5"}, "ann", "bob")
	clock.set(epoch().Add(48 * time.Hour))
	release(t, l, api.ReleaseRequest{Key: "s", Question: "party", Object: "ann", Epsilon: eps(t, "1"), Truth: sameTruth("C")})
	check.Equal(t, levelsOf(t, l, "ann"), "1", "after the raise ann has the levels")
	a := &asked{}
	must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "1", Truth: a.truth("C")})))
	if !slices.Equal(a.names(), []string{"bob"}) || levelsOf(t, l, "ann") != "0.5 1" || levelsOf(t, l, "bob") != "0.5 1" {
		t.Errorf("true values were requested of %q; ann has the levels %q, bob %q", a.names(), levelsOf(t, l, "ann"), levelsOf(t, l, "bob"))
	}
	clock.set(epoch().Add(30 * 24 * time.Hour))
	must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "2", Truth: a.truth("C")})))
	if levelsOf(t, l, "ann") != "0.5 1 2" || levelsOf(t, l, "bob") != "0.5 1 2" {
		t.Errorf("ann has the levels %q, bob %q", levelsOf(t, l, "ann"), levelsOf(t, l, "bob"))
	}
	auditAll(t, l, l.engine.Store)
	wantClean(t, l, api.VerifyRequest{})
}

// If the cap allows no more, a sweep ends at the level before, and the refusal names the level, not
// the ceiling.
func TestAdvance_FiniteLevelAboveCap_RefusesThatLevel(t *testing.T) {
	l, clock := risingCeilings(t, "1.9", []string{"0.75", "1.5", "3"}, "ann")
	clock.set(epoch().Add(100 * time.Hour))
	r := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "1", Truth: sameTruth("C")}))(t)
	if left := r.Questions[0].Refused; len(left) != 1 || left[0].Asked != eps(t, "2") || left[0].Cost != eps(t, "1") || left[0].Reason != api.ObjectCap {
		t.Errorf("the result is %+v", r)
	}
	check.Equal(t, levelsOf(t, l, "ann"), "0.5 1", "ann has the levels")
}

// Keys.

// Chains of a question with a mechanism have no noise key, even if the ledger has one. Other chains
// have it.
func TestNoiseKey_FiniteQuestion_IsNotUsed(t *testing.T) {
	l := inMemory(t, Options{NoiseKey: noiseKeys("2026")})
	partySellers(t, l, "ann", "bob")
	define(t, l, vote())
	enroll(t, l, "vote", "9", "ann")
	for question, want := range map[uint32]uint32{1: 0, 2: 1} {
		check.Equal(t, chainOf(t, l, question, "ann").Noise, want, "the chain of question %d has the noise key", question)
	}
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}))
	enrollUnder(t, l, "party", market(t, "9"), "9", "ann")
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "bob"}))
	enrollUnder(t, l, "party", market(t, "9"), "9", "bob")
	for _, name := range []string{"ann", "bob"} {
		check.Equal(t, chainOf(t, l, 1, name).Noise, 0, "%s was enrolled again with the noise key", name)
	}
	raise(t, l, partiesOf(t, "r", "1"))
	auditLedger(t, l)
	// Such chains can be raised in a ledger that is opened without the noise keys.
	l = openMemory(t, l.engine.Store, Options{})
	raise(t, l, partiesOf(t, "r2", "2"))
	raise(t, l, partiesOf(t, "r3", "0.5"))
}

// Two ledgers with the same noise key and the same requests draw different outputs. The probability
// that all 60 at ε=0.5 are equal is (Σ p²)⁶⁰ < 0.19⁶⁰ < 10⁻⁴³.
func TestFiniteDraw_SameNoiseKey_Differs(t *testing.T) {
	names := crowd(60)
	outputs := make([]map[string]string, 2)
	for i := range outputs {
		l := inMemory(t, Options{NoiseKey: noiseKeys("2026")})
		partySellers(t, l, names...)
		raise(t, l, partiesOf(t, "r", "0.5"))
		outputs[i] = allResponses(t, l, names)
	}
	check.That(t, !reflect.DeepEqual(outputs[0], outputs[1]), "two ledgers have drawn the same outputs")
}

// A true value that is no value of the question, such as an output, is refused. The error does not
// contain it.
func TestFiniteRelease_TruthIsNoValue_IsRefused(t *testing.T) {
	l := partySellers(t, inMemory(t, Options{}), "ann")
	for _, truth := range []string{"AB", "2", "E", "c"} {
		r := releaseBy(partyOf(t, "k", "ann", "1"), sameTruth(truth))
		unchanged(t, l.engine.Store, func() {
			_, err := l.Release(t.Context(), r)
			check.That(t, err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", truth)),
				"the true value %q: got the error %v", truth, err)
		})
	}
}

// Estimates.

// For 4,000 objects with known true values, each estimated share has the true mean and the
// predicted variance. An estimate is a mean of so many bounded terms that the normal approximation
// holds far into the tails.
func TestEstimate_FiniteQuestion_IsUnbiased(t *testing.T) {
	names := crowd(4000)
	shares, truths := []int{2200, 1200, 500, 100}, map[string]string{}
	q := fixture.Party(t)
	next := 0
	for v, n := range shares {
		for range n {
			truths[names[next]] = q.Values[v]
			next++
		}
	}
	l := partySellers(t, inMemory(t, Options{}), names...)
	for i, epsilon := range []string{"1", "0.5", "2"} { // drawn, degraded, raised
		r := partiesOf(t, fmt.Sprint(i), epsilon)
		r.Truth = truthsOf(truths)
		raise(t, l, r)
	}
	for i, epsilon := range q.Mechanism.Family.Epsilons() {
		m, _ := q.Mechanism.Family.Level(epsilon)
		variances := check.Value(estimate.Variance(estimate.Counts{Mechanism: m, ByValue: []int64{2200, 1200, 500, 100}}))(t)
		e := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "party", Epsilon: epsilon}))(t)
		for v, one := range e.Values {
			stattest.Normal(one.Estimate-float64(shares[v])/4000, math.Sqrt(variances[v])).Holds(t, "level %d, %s", i, one.Value)
		}
	}
}

// A mechanism that does not distinguish all inputs gives responses, but no estimate.
func TestEstimate_IndistinguishableInputs_IsErrInvalid(t *testing.T) {
	blind := fixture.Family(t, fixture.Matrix(t, "2/3 1/3", "1/2 1/2", "1/3 2/3"), fixture.Matrix(t, "4/5 1/5", "1/2 1/2", "1/5 4/5"))
	l := inMemory(t, Options{})
	define(t, l, api.Question{Name: "q", Values: []string{"a", "b", "c"}, Mechanism: &api.Mechanism{Family: blind}})
	enroll(t, l, "q", "9", "ann", "bob")
	top := blind.Epsilons()[1]
	raise(t, l, api.RaiseRequest{Key: "r", Question: "q", Epsilon: top, All: true, Truth: sameTruth("b")})
	for _, r := range []api.EstimateRequest{{Question: "q"}, {Question: "q", Epsilon: top}, {Question: "q", Include: includeAll}} {
		_, err := l.Estimate(t.Context(), r)
		check.That(t, errors.Is(err, api.ErrInvalid) && strings.Contains(err.Error(), "does not distinguish"),
			"%+v: got the error %v", r, err)
	}
	auditLedger(t, l)
}

// Keeping and copying.

// steadyOutputs returns a sampler of outputs on repeatable random bits.
func steadyOutputs(seed uint64) *finite.Sampler {
	random := rand.NewChaCha8([32]byte{byte(seed)})
	return &finite.Sampler{Random: exact.ReplayBits(func(p []byte) { _, _ = random.Read(p) })}
}

// A backup, a compacted copy and the file compacted in place have the mechanism, and can be raised.
func TestCopy_FiniteQuestion_KeepsTheMechanism(t *testing.T) {
	dir := testenv.TempDir(t)
	path := filepath.Join(dir, "ledger.db")
	check.Must(t, Create(t.Context(), path, CreateOptions{Currency: "USD"}))
	l := partySellers(t, open(t, path, Options{}), "ann", "bob", "cid")
	raise(t, l, partiesOf(t, "1", "1"))
	release(t, l, partyOf(t, "2", "ann", "0.5"))
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "cid"}))
	want, stored := allResponses(t, l, []string{"ann", "bob"}), pairs(t, l.engine.Store)
	check.Value(l.Backup(t.Context(), filepath.Join(dir, "backup.db"), nil))(t)
	check.Value(l.CompactTo(t.Context(), filepath.Join(dir, "compact.db"), nil))(t)
	check.Must(t, l.Compact(t.Context(), nil))
	closed(t, l)
	for _, name := range []string{"backup.db", "compact.db", "ledger.db"} {
		l := open(t, filepath.Join(dir, name), Options{})
		got := allResponses(t, l, []string{"ann", "bob"})
		check.That(t, reflect.DeepEqual(got, want), "%s has %v, want %v", name, got, want)
		wantSameRecords(t, name, pairs(t, l.engine.Store), stored)
		wantClean(t, l, api.VerifyRequest{})
		release(t, l, partyOf(t, "3", "bob", "2"))
		auditStore(t, l.engine.Store)
		closed(t, l)
	}
}

// An object that withdraws and enrolls again has its former levels, and a raise continues from
// them.
func TestWithdraw_FiniteQuestionEnrolledAgain_KeepsLevels(t *testing.T) {
	l := partySellers(t, newLedger(t), "bob")
	release(t, l, partyOf(t, "1", "bob", "1"))
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "bob"}))
	before := objectOf(t, l, "bob").Chains[0].Levels
	back := api.EnrollRequest{Key: "back", Question: "party", Objects: []string{"bob"}, Policy: market(t, "9"), Cap: eps(t, "9")}
	check.Value(l.Enroll(t.Context(), back))(t)
	release(t, l, partyOf(t, "2", "bob", "2"))
	o := objectOf(t, l, "bob")
	check.That(t, o.Spent == eps(t, "2") && o.Chains[0].Levels[0].Response == before[0].Response, "bob is %+v", o)
}

// A chain of outputs is bound to its true value once, even if the ledger was open without the truth
// key in between.
func TestTruthKey_FiniteLedgerReopened_BindsOnce(t *testing.T) {
	path := create(t)
	l := partySellers(t, open(t, path, Options{TruthKey: truthKey()}), "ann")
	release(t, l, partyOf(t, "1", "ann", "1"))
	closed(t, l)
	l = open(t, path, Options{})
	define(t, l, api.Question{Name: "q", Values: valuesOf(2), Mechanism: &api.Mechanism{Family: fixture.Skewed(t)}})
	closed(t, l)
	l = open(t, path, Options{TruthKey: truthKey()})
	release(t, l, partyOf(t, "2", "ann", "2"))
	check.Equal(t, countKind(events(t, l), "bound"), 1, "events that bind the chain")
}
