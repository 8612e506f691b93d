package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Invariants 9 and 11 for outputs: whatever is changed past the log is found and named, no forged event is applied,
// and nothing panics.

// ball is a ledger in which ann and bob have answered party, the first question, at 1 and 2; ann at 0.5 as well. Both
// sold at 2 to acme. The second question is odds, with the mechanism of skewed, which ann has answered at the odds 3; vote
// is the third, with one response.
func ball(t testing.TB) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := guests(t, openMemory(t, s, Options{Now: epoch, NoiseKey: noiseKeys("2026")}), "ann", "bob")
	l.engine.Chances.Sampler, _ = sampler(11)
	l.engine.Chances.Outputs = steadyOutputs(11)
	carryOut(t, l, partiesOf(t, "1", "1"))
	sell(t, l, partiesFor(t, "2", "acme", "2", "ann", "bob"))
	carryOut(t, l, partiesOf(t, "3", "0.5", "ann"))
	define(t, l, fixture.Odds(t))
	enroll(t, l, "odds", "9", "ann")
	release(t, l, api.ReleaseRequest{Key: "4", Question: "odds", Object: "ann", Epsilon: eps(t, threeToOne), Truth: sameTruth("yes")})
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "9"), "9", "ann")
	sell(t, l, purchase(t, "5", "acme", "1", "ann"))
	return s
}

// threeToOne is the level of odds whose middle output never occurs.
const threeToOne = "1.098612289"

// Every other output of every level of a chain is noticed, and called by its name.
func TestEveryAlteredOutputIsNamed(t *testing.T) {
	original := pairs(t, ball(t))
	levels := chainOfMemory(t, fill(t, original), 1, "ann").Levels
	tries := 0
	for i, at := range levels {
		names := fixture.Party(t).Mechanism.Outputs[i]
		for is := range names {
			if is == at.Response.Index {
				continue
			}
			tries++
			s := fill(t, original)
			l := openMemory(t, s, Options{})
			alter(t, s, state.BucketChains, state.ChainKey(1, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[i].Response.Index = is }))
			want := api.Finding{Kind: "chain", Object: "ann", Question: "party",
				Text: fmt.Sprintf(`chain of "ann" in "party": the response at ε=%s is %q, the events say %q`, at.Epsilon, names[is], names[at.Response.Index])}
			wantProblems(t, findings(t, l, api.VerifyRequest{}), []api.Finding{want})
			if again, _ := verified(t, l, api.VerifyRequest{}, slow()); len(again) != 1 || again[0].Text != want.Text {
				t.Errorf("step by step there is %+v, want %+v", again, want)
			}
		}
	}
	check.That(t, tries == 5+3+3, "%d tries", tries)
}

// written as the record of a question.
func recordOfQuestion(number uint32, q api.Question) []byte { return defined(number, q, q.Encoding) }

// finiteParty is party with what the ledger fills in.
func finiteParty(t testing.TB) api.Question {
	t.Helper()
	q := fixture.Party(t)
	q.Encoding = api.Finite
	return q
}

// Other ways in which stored records can disagree with the events.
func TestVerifyNamesWhatIsNotFinite(t *testing.T) {
	original := pairs(t, ball(t))
	question := func(change func(q *api.Question)) func(s *kv.Memory) {
		return func(s *kv.Memory) {
			q := finiteParty(t)
			change(&q)
			alter(t, s, state.BucketQuestions, state.NumberKey(1), func([]byte) []byte { return recordOfQuestion(1, q) })
		}
	}
	response := func(question uint32, v event.Value) func(s *kv.Memory) {
		return func(s *kv.Memory) {
			alter(t, s, state.BucketChains, state.ChainKey(question, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[0].Response = v }))
		}
	}
	for name, test := range map[string]struct {
		change func(s *kv.Memory)
		words  string
	}{
		"a question is direct": {question(func(q *api.Question) { q.Encoding, q.Mechanism = api.Direct, nil }), "question 1: the encoding is direct, the events say finite"},
		"a name of an output":  {question(func(q *api.Question) { q.Mechanism.Outputs[0][5] = "DC" }), "question 1: the mechanism is"},
		"other levels": {question(func(q *api.Question) {
			q.Mechanism.Family = fixture.Family(t, fixture.Subsets(t, 4, 2, "0.500000001"), fixture.Subsets(t, 4, 1, "1"), fixture.Subsets(t, 4, 1, "2"))
		}), "question 1: the mechanism is"},
		"no mechanism":     {question(func(q *api.Question) { q.Mechanism = nil }), "question 1"},
		"half a mechanism": {question(func(q *api.Question) { q.Mechanism.Outputs = q.Mechanism.Outputs[:2] }), "question 1"},
		"other channels": {func(s *kv.Memory) {
			q := fixture.Odds(t)
			q.Encoding, q.Mechanism.Family = api.Finite, fixture.OtherChannels(t, fixture.Skewed(t))
			alter(t, s, state.BucketQuestions, state.NumberKey(2), func([]byte) []byte { return recordOfQuestion(2, q) })
		}, "question 2: the mechanism is"},
		"an output too high":      {response(1, event.Value{Index: 6}), `chain of "ann" in "party": the response at ε=0.5 is value 6`},
		"bits":                    {response(1, event.Value{Bits: bitsOf(t, "100000")}), `chain of "ann" in "party": the response at ε=0.5 is 6 bits`},
		"an output that is never": {response(2, event.Value{Index: 1}), `chain of "ann" in "odds": the response at ε=` + threeToOne + ` is value 1`},
		"an ε that is no level": {func(s *kv.Memory) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[0].Epsilon = eps(t, "0.75") }))
		}, `chain of "ann" in "party"`},
		"a tally too high": {func(s *kv.Memory) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "1"), Value: 4}.Bytes(), []byte{1, 0})
		}, "tally of value 4 at ε=1"},
		"a tally at an ε of no level": {func(s *kv.Memory) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "0.75"), Value: 0}.Bytes(), []byte{1, 0})
		}, "tally of value 0 at ε=0.75"},
		"a tally of what never happens": {func(s *kv.Memory) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 2, Epsilon: eps(t, threeToOne), Value: 1}.Bytes(), []byte{1, 0})
		}, "tally of value 1 at ε=" + threeToOne},
		"a noise key": {func(s *kv.Memory) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Noise = 1 }))
		}, `chain of "ann" in "party"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := fill(t, original)
			l := openMemory(t, s, Options{})
			test.change(s)
			found := findings(t, l, api.VerifyRequest{})
			if !slices.ContainsFunc(found, func(p api.Finding) bool { return strings.Contains(p.Text, test.words) }) {
				t.Errorf("found %.600s, want %q", fmt.Sprint(found), test.words)
			}
			if again, _ := verified(t, l, api.VerifyRequest{}, slow()); !slices.Equal(again, found) {
				t.Errorf("step by step there is %.600s", fmt.Sprint(again))
			}
			for _, r := range []api.EstimateRequest{{Question: "party"}, {Question: "odds"}, {Question: "odds", Epsilon: eps(t, threeToOne)}, {Question: "party", Include: everybody}} {
				err := recovered(func() error { return check.Err(l.Estimate(t.Context(), r)) })
				check.That(t, !errors.Is(err, errPanicked), "an estimate panics: %v", err)
			}
		})
	}
}

// A tally that cannot be is damage, and no estimate is made of it.
func TestASpoiledFiniteTallyIsNoticed(t *testing.T) {
	for name, spoiled := range map[string]struct {
		question string
		key      state.TallyKey
		payload  []byte
	}{
		"of an output too high":  {"party", state.TallyKey{Question: 1, Epsilon: eps(t, "1"), Value: 4}, []byte{1, 0}},
		"of the highest number":  {"party", state.TallyKey{Question: 1, Epsilon: eps(t, "1"), Value: 1 << 31}, []byte{1, 0}},
		"at an ε of no level":    {"party", state.TallyKey{Question: 1, Epsilon: eps(t, "0.75"), Value: 0}, []byte{1, 1}},
		"of bits":                {"party", state.TallyKey{Question: 1, Epsilon: eps(t, "1"), Value: 0}, []byte{1, 0, 1, 0}},
		"of more than there are": {"party", state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}, []byte{9, 9}},
	} {
		s := ball(t)
		l := openMemory(t, s, Options{})
		putRecord(t, s, state.BucketTallies, spoiled.key.Bytes(), spoiled.payload)
		for _, epsilon := range []privacy.Epsilon{{}, spoiled.key.Epsilon} {
			e, err := l.Estimate(t.Context(), api.EstimateRequest{Question: spoiled.question, Epsilon: epsilon})
			check.That(t, errors.Is(err, api.ErrCorrupt),
				"%s: at ε=%s got %+v, %v, want ErrCorrupt", name, epsilon, e, err)
		}
		check.That(t, len(findings(t, l, api.VerifyRequest{})) != 0, "%s: the audit finds nothing", name)
	}
}

// In the log every output counts as well: another one does not fit its leaf and, with a new tree, neither the state nor
// the checkpoint.
func TestEveryAlteredOutputOfTheLogIsNamed(t *testing.T) {
	original := ball(t)
	trusted, log := trustedHead(t, original), eventsOf(t, original)
	tries := 0
	for i, n := range log {
		v, of := outputOfEvent(n.Change)
		for other := range of {
			if other == v {
				continue
			}
			for tree, plant := range trees(log) {
				if tree == "without their hashes" {
					continue // they are the same here
				}
				tries++
				changed := slices.Clone(log)
				changed[i].Change = withOutput(n.Change, other)
				s := fill(t, pairs(t, original))
				l := openMemory(t, s, Options{})
				putEvents(t, s, plant(t, changed))
				what := fmt.Sprintf("event %d (%s), output %d, %s", n.Number, n.Change.Kind(), other, tree)
				found := findings(t, l, api.VerifyRequest{})
				check.That(t, len(found) != 0, "%s: nothing is found", what)
				found = findings(t, l, trusted)
				check.That(t, len(found) != 0, "%s: nothing is found with a checkpoint", what)
			}
		}
	}
	check.That(t, tries == 2*(2*3+2*3+5), "%d tries", tries)
}

// outputOfEvent returns the output of an event about party, and how many there could be.
func outputOfEvent(c event.Change) (v, of int) {
	switch c := c.(type) {
	case *event.Released:
		if c.Question == 1 {
			return c.Value.Index, map[bool]int{true: 4, false: 6}[c.Epsilon.Nano() >= 1e9]
		}
	case *event.Sold:
		if c.Sale == 1 {
			return c.Value.Index, 4
		}
	}
	return 0, 0
}

// withOutput is a change with another output.
func withOutput(c event.Change, output int) event.Change {
	switch c := c.(type) {
	case *event.Released:
		other := *c
		other.Value.Index = output
		return &other
	case *event.Sold:
		other := *c
		other.Value.Index = output
		return &other
	}
	return c
}

// Forgeries of events, each beside the sound one that it was made from.
func TestApplyRefusesForgedOutputs(t *testing.T) {
	log := logOf(t, pairs(t, ball(t)))
	must(t, replayWhole(&kv.Memory{}, log))
	draw := func(object string, question uint32, epsilon string, v event.Value, how event.Method) []event.Change {
		return []event.Change{&event.Released{Object: object, Question: question, Epsilon: eps(t, epsilon), Response: event.Response{Value: v, Method: how}}}
	}
	has := func(object string, epsilon string) event.Value {
		at, _ := chainOfMemory(t, replayed(t, log), 1, object).At(eps(t, epsilon))
		return at.Response
	}
	sale := func(epsilon string, price uint64, v event.Value, how event.Method) []event.Change {
		d := event.Deal{Sale: 3, Buyer: 1, Question: 1, Epsilon: eps(t, epsilon), Objects: 1, Price: price}
		tally := event.SaleTally{Resales: 1}
		switch how {
		case event.MethodDegrade:
			tally = event.SaleTally{Degradations: 1}
		case event.MethodInsert:
			tally = event.SaleTally{Insertions: 1}
		}
		return []event.Change{&event.SaleMade{Deal: d, Tally: tally}, &event.Sold{Object: "bob", Sale: 3, Price: price, Response: event.Response{Value: v, Method: how}}}
	}
	join := func(noise uint32, question uint32) []event.Change {
		return []event.Change{&event.Enrolled{Object: "cid", Question: question, Policy: 0, Noise: noise, Cap: eps(t, "9")}}
	}
	more := func(edit func(q *api.Question)) []event.Change {
		q := finiteParty(t)
		q.Name = "more"
		edit(&q)
		return []event.Change{&event.QuestionDefined{Number: 4, Question: q}}
	}
	sound, below := draw("bob", 1, "0.5", event.Value{Index: 5}, event.MethodDegrade), sale("0.5", 0, event.Value{Index: 5}, event.MethodDegrade)
	first := draw("ann", 2, "1.609437913", event.Value{Index: 3}, event.MethodRaise)
	again := sale("1", 0, has("bob", "1"), event.MethodResale)
	other := event.Value{Index: (has("bob", "1").Index + 1) % 4}
	whole := more(func(*api.Question) {})
	seen := map[*event.Change]bool{}
	for name, one := range map[string]pairOfLogs{
		"an output too high":              {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Index: 6}, event.MethodDegrade), why: "a response of value 6"},
		"an output of the level above":    {sound: first, forged: draw("ann", 2, "1.609437913", event.Value{Index: 4}, event.MethodRaise), why: "a response of value 4"},
		"the highest number":              {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Index: 1<<20 - 1}, event.MethodDegrade), why: "a response of value 1048575"},
		"bits for an output":              {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Bits: bitsOf(t, "100000")}, event.MethodDegrade), why: "a response of 6 bits"},
		"an output that never occurs":     {sound: slices.Concat(join(0, 2), draw("cid", 2, threeToOne, event.Value{Index: 2}, event.MethodRaise)), forged: slices.Concat(join(0, 2), draw("cid", 2, threeToOne, event.Value{Index: 1}, event.MethodRaise)), why: "a response of value 1"},
		"below all levels":                {sound: sound, forged: draw("bob", 1, "0.499999999", event.Value{Index: 1}, event.MethodDegrade), why: "at ε=0.499999999"},
		"between levels":                  {sound: sound, forged: draw("bob", 1, "1.5", event.Value{Index: 1}, event.MethodInsert), why: "at ε=1.5"},
		"above all levels":                {sound: sound, forged: draw("bob", 1, "3", event.Value{Index: 1}, event.MethodRaise), why: "at ε=3"},
		"at 0":                            {sound: sound, forged: draw("bob", 1, "0", event.Value{Index: 1}, event.MethodDegrade), why: "at ε=0"},
		"a level twice":                   {sound: sound, forged: draw("bob", 1, "2", has("bob", "2"), event.MethodRaise), why: "at ε=2"},
		"degraded by a raise":             {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Index: 5}, event.MethodRaise), why: "by raise"},
		"sold an output too high":         {sound: below, forged: sale("0.5", 0, event.Value{Index: 6}, event.MethodDegrade), why: "a response of value 6"},
		"sold between levels":             {sound: below, forged: sale("1.5", 0, event.Value{Index: 1}, event.MethodInsert), why: "at ε=1.5"},
		"sold bits":                       {sound: below, forged: sale("0.5", 0, event.Value{Bits: bitsOf(t, "1000")}, event.MethodDegrade), why: "a response of 4 bits"},
		"resold as another":               {sound: again, forged: sale("1", 0, other, event.MethodResale), why: "not the recorded one"},
		"a noise key":                     {sound: join(0, 1), forged: join(1, 1), why: "which has a mechanism of its own"},
		"a noise key of a vote is sound":  {sound: join(1, 3), forged: join(2, 3), why: "is enrolled"},
		"no mechanism":                    {sound: whole, forged: more(func(q *api.Question) { q.Mechanism = nil }), why: "has none"},
		"a mechanism for direct encoding": {sound: whole, forged: more(func(q *api.Question) { q.Encoding = api.Direct }), why: "direct encoding, and a mechanism"},
		"a mechanism of fewer inputs":     {sound: whole, forged: more(func(q *api.Question) { q.Values = append(q.Values, "E") }), why: "4 inputs, and the question has 5 values"},
		"names of fewer outputs":          {sound: whole, forged: more(func(q *api.Question) { q.Mechanism.Outputs[0] = q.Mechanism.Outputs[0][1:] }), why: "names for 5"},
		"an output's name twice":          {sound: whole, forged: more(func(q *api.Question) { q.Mechanism.Outputs[0][1] = "AB" }), why: `two outputs are named "AB"`},
		"names of fewer levels":           {sound: whole, forged: more(func(q *api.Question) { q.Mechanism.Outputs = q.Mechanism.Outputs[1:] }), why: "2 of its 3 levels"},
		"a name twice":                    {sound: whole, forged: more(func(q *api.Question) { q.Name = "party" }), why: "defined twice"},
	} {
		t.Run(name, func(t *testing.T) {
			follow := func(changes []event.Change) error {
				return replayWhole(&kv.Memory{}, followedBy(withSettled(uint64(len(log))+1, changes)...)(slices.Clone(log)))
			}
			if !seen[&one.sound[0]] { // which several forgeries are made from
				must(t, follow(one.sound))
			}
			seen[&one.sound[0]] = true
			wantForged(t, follow(one.forged), one.why)
		})
	}
	// Another mechanism of the question itself, which the responses then do not fit.
	changed := slices.Clone(log)
	i := indexOf(t, changed, func(c event.Change) bool { q, ok := c.(*event.QuestionDefined); return ok && q.Number == 1 })
	q := finiteParty(t)
	q.Mechanism = &api.Mechanism{Family: fixture.Family(t, fixture.Subsets(t, 4, 1, "1")), Outputs: [][]string{{"A", "B", "C", "D"}}}
	changed[i].Change = &event.QuestionDefined{Number: 1, Question: q}
	reidentify(changed, i)
	wantForged(t, replayWhole(&kv.Memory{}, changed), "a response of")
}

// A chain with an output that its question cannot have, and a valid checksum: every call that needs the response says
// so, and none panics.
func TestAnImpossibleOutputIsNoPanic(t *testing.T) {
	for name, broken := range map[string]struct {
		question uint32
		change   func(c *state.Chain)
	}{
		"an output too high":      {1, func(c *state.Chain) { c.Levels[len(c.Levels)-1].Response.Index = 4 }},
		"the highest of values":   {1, func(c *state.Chain) { c.Levels[len(c.Levels)-1].Response.Index = 1<<20 - 1 }},
		"bits":                    {1, func(c *state.Chain) { c.Levels[len(c.Levels)-1].Response = event.Value{Bits: bitsOf(t, "0100")} }},
		"an output that is never": {2, func(c *state.Chain) { c.Levels[0].Response.Index = 1 }},
		"an ε that is no level":   {1, func(c *state.Chain) { c.Levels[len(c.Levels)-1].Epsilon = eps(t, "1.75") }},
	} {
		original := ball(t)
		alter(t, original, state.BucketChains, state.ChainKey(broken.question, "ann"), edited(t, state.DecodeChain, broken.change))
		damaged := pairs(t, original)
		question, above, lower, at := "party", "2", "0.5", "2"
		if name == "an ε that is no level" {
			at = "1.75"
		}
		if broken.question == 2 {
			question, above, lower, at = "odds", "1.609437913", "0.693147181", threeToOne
		}
		truth := map[string]string{"party": "C", "odds": "yes"}[question]
		ask := func(key, epsilon string) api.ReleaseRequest {
			return api.ReleaseRequest{Key: key, Question: question, Object: "ann", Epsilon: eps(t, epsilon), Truth: sameTruth(truth)}
		}
		calls := map[string]func(*Ledger) error{
			"derive":    func(l *Ledger) error { return check.Err(l.Release(t.Context(), ask("k", lower))) },
			"object":    func(l *Ledger) error { return check.Err(l.Object(t.Context(), "ann")) },
			"responses": func(l *Ledger) error { return firstError(l.Responses(t.Context(), question, eps(t, at))) },
			"recount": func(l *Ledger) error {
				return check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: question, Include: everybody}))
			},
			"forget": func(l *Ledger) error { return l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"}) },
		}
		if lower == "0.5" { // which ann has already
			delete(calls, "derive")
		}
		if broken.question == 2 || at == "1.75" {
			calls["raise"] = func(l *Ledger) error { return check.Err(l.Release(t.Context(), ask("k", above))) }
		}
		for call, make := range calls {
			s := fill(t, damaged)
			l := openMemory(t, s, Options{})
			err := recovered(func() error { return make(l) })
			check.That(t, errors.Is(err, api.ErrCorrupt), "%s, %s: got the error %v, want ErrCorrupt", name, call, err)
		}
	}
}

// Evidence.

// gala is an office that has sold parties in every way, and a receipt.
func gala(t testing.TB) (*office, evidence.Receipt) {
	t.Helper()
	o := newOffice(t, 1)
	o.engine.Chances.Outputs = steadyOutputs(5)
	guests(t, o.Ledger, "ann", "bob", "cid", "dan")
	for i, step := range []struct {
		buyer, epsilon string
		objects        []string
	}{
		{"acme", "0.5", []string{"ann", "bob", "dan"}},      // draws
		{"zeta", "2", []string{"ann", "dan"}},               // draws
		{"acme", "1", []string{"ann", "bob", "cid", "dan"}}, // insertions and draws
		{"acme", "0.5", []string{"cid"}},                    // a degradation
		{"zeta", "1", []string{"ann", "bob"}},               // resales
	} {
		o.later()
		sell(t, o.Ledger, partiesFor(t, fmt.Sprint(i), step.buyer, step.epsilon, step.objects...))
	}
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "dan"}))
	o.later()
	return o, receiptOf(t, o.Ledger, 3)
}

func TestEvidenceOfOutputsIsSound(t *testing.T) {
	o, _ := gala(t)
	for number := range uint64(5) {
		r := receiptOf(t, o.Ledger, number+1)
		wantSound(t, fmt.Sprint("receipt ", number+1), r, o.keys)
		back := check.Value(evidence.ReadReceipt(text(t, r)))(t)
		wantSound(t, "the receipt, read", back, o.keys)
		check.That(t, string(text(t, back)) == string(text(t, r)) &&
			string(text(t, r.Mechanism)) == string(text(t, fixture.Party(t).Mechanism)) && r.Encoding == api.Finite, "receipt %d came back as another", number+1)
		got := delivered2(t, o.Ledger, number+1)
		for i, one := range r.Responses {
			check.That(t, one.Response == got[i].Value && one.Object == got[i].Object,
				"receipt %d has %+v, delivered was %+v", number+1, one, got[i])
		}
	}
	for _, name := range []string{"ann", "bob", "cid"} {
		st := statementOf(t, o.Ledger, name+"'s", name)
		wantSound(t, "the statement", st, o.keys)
		wantWholeLife(t, o, st)
		back := check.Value(evidence.ReadStatement(text(t, st)))(t)
		wantSound(t, "the statement, read", back, o.keys)
	}
	auditStore(t, o.store)
	wantClean(t, o.Ledger, api.VerifyRequest{})
}

// delivered2 returns what a sale delivered, in order, also of objects that were forgotten.
func delivered2(t testing.TB, l *Ledger, sale uint64) []api.Delivery {
	t.Helper()
	return check.Value(collect(l.Deliveries(t.Context(), sale)))(t)
}

// mechanisms are others than that of a question; among them none at all.
func otherMechanisms(t testing.TB, m *api.Mechanism) map[string]*api.Mechanism {
	t.Helper()
	of := func(change func(m *api.Mechanism)) *api.Mechanism {
		other := event.NameOutputs(m)
		change(other)
		return other
	}
	return map[string]*api.Mechanism{
		"absent":          nil,
		"empty":           {},
		"without family":  of(func(m *api.Mechanism) { m.Family = nil }),
		"of no levels":    of(func(m *api.Mechanism) { m.Family = &finite.Family{} }),
		"without names":   of(func(m *api.Mechanism) { m.Outputs = nil }),
		"names missing":   of(func(m *api.Mechanism) { m.Outputs = m.Outputs[:1] }),
		"names of none":   of(func(m *api.Mechanism) { m.Outputs[1] = nil }),
		"another name":    of(func(m *api.Mechanism) { m.Outputs[1][0] = "Z" }),
		"names exchanged": of(func(m *api.Mechanism) { m.Outputs[1][0], m.Outputs[1][1] = m.Outputs[1][1], m.Outputs[1][0] }),
		"another family": of(func(m *api.Mechanism) {
			m.Family = fixture.Family(t, fixture.Subsets(t, 4, 2, "0.5"), fixture.Subsets(t, 4, 1, "1"), fixture.Subsets(t, 4, 1, "2.5"))
		}),
		"of other inputs": {Family: fixture.Skewed(t), Outputs: [][]string{{"a", "b"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d"}}},
	}
}

// Every field is named when it is altered, and the mechanism is one; every response is, too.
func TestEveryAlterationOfAReceiptOfOutputsIsNamed(t *testing.T) {
	o, r := gala(t)
	wantSound(t, "the receipt", r, o.keys)
	check.Need(t, r.Encoding == api.Finite && r.Responses[3].Erased, "%+v", r)
	for name, m := range otherMechanisms(t, r.Mechanism) {
		other := r
		other.Mechanism = m
		wantFault(t, "a mechanism "+name, other, o.keys, "question")
		wantFault(t, "a mechanism "+name, other, nil, "question")
	}
	for _, encoding := range []api.Encoding{api.Direct, api.Unary, "", "Finite", "3"} {
		other := copyOf(t, r)
		other.Encoding = encoding
		wantFault(t, fmt.Sprintf("the encoding %q", encoding), other, o.keys, "question")
		other.Mechanism = nil
		wantFault(t, fmt.Sprintf("the encoding %q, without mechanism", encoding), other, o.keys, "question")
	}
	for i, one := range r.Responses[:3] {
		for _, text := range []string{"A", "B", "C", "D", "AB", "0", "", "a", "E"} {
			if text == one.Response {
				continue
			}
			other := copyOf(t, r)
			other.Responses[i].Response = text
			c := other.Verify(o.keys)
			if c.OK() || !slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item == i+1 }) || slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item != i+1 && f.Item != 0 }) {
				t.Errorf("response %d as %q: %.400q", i+1, text, faults(c))
			}
			if strange := "is no value of the question"; strings.Contains(strings.Join(faults(c), "\n"), strange) == strings.Contains("A B C D", text) && text != "" && text != " " {
				t.Errorf("response %d as %q: %.400q, one of which says that it %s", i+1, text, faults(c), strange)
			}
		}
	}
	n := 0
	small := copyOf(t, r)
	altered(t, struct{ Responses []evidence.SoldResponse }{small.Responses}, func(way string, other struct{ Responses []evidence.SoldResponse }) {
		n++
		changed := small
		changed.Responses = other.Responses
		c := changed.Verify(o.keys)
		check.That(t, !c.OK() && len(c.Faults) != 0, "%s: nobody notices", way)
	})
	check.That(t, n >= 20, "only %d fields", n)
}

// A receipt whose mechanism is altered in JSON is not read, or is found out.
func TestAMechanismInJSONIsReadStrictly(t *testing.T) {
	o, r := gala(t)
	whole := string(text(t, r))
	mechanism := string(text(t, r.Mechanism))
	family := string(text(t, r.Mechanism.Family))
	for name, other := range map[string]string{
		"absent":          strings.Replace(whole, `"mechanism":`+mechanism+`,`, ``, 1),
		"null":            strings.Replace(whole, mechanism, `null`, 1),
		"empty":           strings.Replace(whole, mechanism, `{}`, 1),
		"a text":          strings.Replace(whole, mechanism, `"x"`, 1),
		"a list":          strings.Replace(whole, mechanism, `[]`, 1),
		"null inside":     strings.Replace(whole, mechanism, `{"family":null,"outputs":null}`, 1),
		"no family":       strings.Replace(whole, family, `null`, 1),
		"an empty family": strings.Replace(whole, family, `{}`, 1),
		"no levels":       strings.Replace(whole, family, `{"levels":[],"channels":[]}`, 1),
		"null levels":     strings.Replace(whole, family, `{"levels":[null],"channels":[]}`, 1),
		"no channels":     strings.Replace(whole, family, family[:strings.Index(family, `,"channels"`)]+"}", 1),
		"a space":         strings.Replace(whole, `"outputs"`, ` "outputs"`, 1),
		"a name":          strings.Replace(whole, `"AB"`, `"BA"`, 1),
		"more":            strings.Replace(whole, `{"levels"`, `{"more":1,"levels"`, 1),
	} {
		check.That(t, other != whole, "%s: there is no place for it", name)
		got, err := evidence.ReadReceipt([]byte(other))
		if name == "no channels" && (err == nil || !strings.Contains(err.Error(), "without the channels")) {
			t.Errorf("%s: %v", name, err) // nobody looks for them
		}
		if err != nil {
			wantErr(t, err, api.ErrInvalid)
			continue
		}
		check.That(t, name == "a space" || !got.Verify(o.keys).OK(), "%s: nobody notices", name)
		if name == "a space" && !got.Verify(o.keys).OK() {
			t.Errorf("a space makes a fault: %q", faults(got.Verify(o.keys)))
		}
	}
	// A receipt without any mechanism has no field for it.
	plain := string(text(t, receiptOf(t, shop(t).Ledger, 1)))
	check.That(t, !strings.Contains(plain, "mechanism"), "a receipt of values has a mechanism: %.300s", plain)
}

func TestEveryAlterationOfAStatementOfOutputsIsNamed(t *testing.T) {
	o, _ := gala(t)
	st := statementOf(t, o.Ledger, "ann's", "ann")
	questions := 0
	for i, f := range st.Events {
		named := func(what string, change func(f *evidence.Fact)) {
			t.Helper()
			other := copyOf(t, st)
			change(&other.Events[i])
			if c := other.Verify(o.keys); c.OK() || !slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item == i+1 }) {
				t.Errorf("event %d, %s: %q", f.Event, what, faults(c))
			}
		}
		if d, ok := f.Says.(*says.QuestionDefined); ok {
			questions++
			for name, m := range otherMechanisms(t, d.Mechanism) {
				named("a mechanism "+name, func(f *evidence.Fact) { f.Says.(*says.QuestionDefined).Mechanism = m })
			}
			for _, encoding := range []api.Encoding{api.Direct, api.Unary, ""} {
				named(string(encoding), func(f *evidence.Fact) { f.Says.(*says.QuestionDefined).Encoding = encoding })
			}
		}
		if response := responseIn(&f); response != nil {
			for _, text := range []string{"A", "B", "C", "D", "AB", "BD", "", "0", "a"} {
				if text != *response {
					named(text, func(f *evidence.Fact) { *responseIn(f) = text })
				}
			}
		}
	}
	check.That(t, questions == 1, "%d questions", questions)
	for i := range st.Released {
		other := copyOf(t, st)
		other.Released[i].Response = map[bool]string{true: "B", false: "A"}[st.Released[i].Response == "A"]
		wantFault(t, "another output released", other, o.keys, "released is not what the events come to")
	}
	// With other channels than the log's, too.
	channels := newOffice(t, 1)
	define(t, channels.Ledger, fixture.Odds(t))
	enroll(t, channels.Ledger, "odds", "9", "ann")
	st = statementOf(t, channels.Ledger, "ann's", "ann")
	wantSound(t, "the statement", st, channels.keys)
	asked := detailOf[*says.QuestionDefined](&st)
	m := *asked.Mechanism
	m.Family = fixture.OtherChannels(t, m.Family)
	asked.Mechanism = &m
	wantFault(t, "other channels", st, channels.keys, "altered")
}

// Nothing that a question with a mechanism comes to names a truth: of everybody the truth is value "C".
func TestNothingNamesATruthOfAMechanism(t *testing.T) {
	o := newOffice(t, 1)
	q := fixture.Party(t)
	q.Values = []string{"truth A", "truth B", "truth C", "truth D"}
	define(t, o.Ledger, q)
	enrollUnder(t, o.Ledger, "party", market(t, "9"), "9", "ann", "bob")
	r := partiesFor(t, "s", "acme", "1", "ann", "bob")
	r.Truth = sameTruth("truth C")
	sell(t, o.Ledger, r)
	for _, p := range pairs(t, o.store) {
		check.That(t, p.bucket == state.BucketQuestions || p.bucket == state.BucketEvents ||
			!strings.Contains(string(p.value), "truth"), "%s", p)
	}
	other := partiesFor(t, "t", "acme", "2", "ann")
	for name, truth := range map[string]api.TruthFunc{"another": sameTruth("truth D"), "none": sameTruth("truth of mine"), "an output": sameTruth("AB")} {
		other.Truth = truth
		if _, err := o.Sell(t.Context(), other); err == nil || strings.Contains(err.Error(), "truth D") || strings.Contains(err.Error(), "truth C") || strings.Contains(err.Error(), "mine") || strings.Contains(err.Error(), "AB") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var told []string
	for ev, err := range o.Events(t.Context(), 1) {
		must(t, err)
		if ev.Kind() != "question" {
			data := check.Value(json.Marshal(ev))(t)
			told = append(told, string(data))
		}
	}
	check.That(t, !strings.Contains(strings.Join(told, ""), "truth "), "the log tells a truth: %.500s", told)
}
