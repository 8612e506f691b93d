package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Invariants 9 and 11 for responses that are bits or outputs of a mechanism: each change that is
// not in the log is found and named, no forged event is applied, and nothing panics.

// unaryStore is a ledger with a question in unary encoding: ann and bob have answered home, a
// question of 11 values, at 1 and 2; ann also at 1.5. Both are sold at 2 to acme. vote is the
// second question, with one response of ann.
func unaryStore(t testing.TB) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := dwellers(t, openMemory(t, s, Options{Now: epoch}), unaryValues, "ann", "bob")
	l.engine.Chances.Values, _ = sampler(12)
	raise := func(r api.RaiseRequest) { must(t, check.Err(l.Raise(t.Context(), r))) }
	raise(homesOf(t, "1", "1"))
	sell(t, l, homesFor(t, "2", "acme", "2", "ann", "bob"))
	raise(homesOf(t, "3", "1.5", "ann"))
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "9"), "9", "ann")
	sell(t, l, purchase(t, "4", "acme", "1", "ann"))
	return s
}

const unaryValues = 11

// finiteStore is a ledger with questions that have a mechanism: ann and bob have answered party,
// the first question, at 1 and 2; ann also at 0.5. Both are sold at 2 to acme. The second question
// is odds, with the mechanism skewed, which ann has answered at the odds 3. vote is the third, with
// one response.
func finiteStore(t testing.TB) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := partySellers(t, openMemory(t, s, Options{Now: epoch, NoiseKey: noiseKeys("2026")}), "ann", "bob")
	l.engine.Chances.Values, _ = sampler(11)
	l.engine.Chances.Outputs = steadyOutputs(11)
	raise(t, l, partiesOf(t, "1", "1"))
	sell(t, l, partiesFor(t, "2", "acme", "2", "ann", "bob"))
	raise(t, l, partiesOf(t, "3", "0.5", "ann"))
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

// finiteParty returns the question party as the ledger stores it.
func finiteParty(t testing.TB) api.Question {
	t.Helper()
	q := fixture.Party(t)
	q.Encoding = "finite"
	return q
}

// flippedBit returns bits with one of them flipped.
func flippedBit(t testing.TB, bits rrchain.Bits, at int) rrchain.Bits {
	t.Helper()
	packed := bits.Pack()
	packed[at/8] ^= 1 << (at % 8)
	return check.Value(rrchain.NewBits(bits.Len(), packed))(t)
}

func chainOfMemory(t testing.TB, s *kv.Memory, question uint32, name string) (c state.Chain) {
	t.Helper()
	l := openMemory(t, s, Options{})
	must(t, l.engine.View(t.Context(), func(st *state.State) (err error) {
		c, _, err = st.Chain(question, name)
		return err
	}))
	return c
}

// questionRecord returns the record of a question.
func questionRecord(number uint32, q api.Question, encoding string) []byte {
	q.Encoding = encoding
	e := &wire.Encoder{}
	(&event.QuestionDefined{Number: number, Question: q}).Fields(wire.Writing(e))
	return e.Buf
}

// partyOutputs returns the names of the outputs for party at a level.
func partyOutputs(t testing.TB, at privacy.Epsilon) []string {
	t.Helper()
	return fixture.Party(t).Mechanism.Outputs[min(at.Nano()/1e9, 2)]
}

// otherResponses returns all responses other than v at a level: to home with one bit flipped, or to
// party the other outputs.
func otherResponses(t testing.TB, v event.Value, at privacy.Epsilon) (all []event.Value) {
	t.Helper()
	for bit := range v.Bits.Len() {
		all = append(all, event.Value{Bits: flippedBit(t, v.Bits, bit)})
	}
	if v.Bits.Len() > 0 {
		return all
	}
	for i := range partyOutputs(t, at) {
		if i != v.Index {
			all = append(all, event.Value{Index: i})
		}
	}
	return all
}

func responseText(t testing.TB, v event.Value, at privacy.Epsilon) string {
	t.Helper()
	if v.Bits.Len() > 0 {
		return v.Bits.String()
	}
	return partyOutputs(t, at)[v.Index]
}

// damage changes records without the log.
type damage func(t testing.TB, s kv.Store)

func alterChain(question uint32, change func(c *state.Chain)) damage {
	return func(t testing.TB, s kv.Store) {
		t.Helper()
		alter(t, s, state.BucketChains, state.ChainKey(question, "ann"), edited(t, state.DecodeChain, change))
	}
}

// alterFirst replaces ann's first response to a question.
func alterFirst(question uint32, v event.Value) damage {
	return alterChain(question, func(c *state.Chain) { c.Levels[0].Response = v })
}

// alterLast replaces ann's last response to a question.
func alterLast(question uint32, v event.Value) damage {
	return alterChain(question, func(c *state.Chain) { c.Levels[len(c.Levels)-1].Response = v })
}

func alterTally(question uint32, epsilon string, value uint32, payload ...byte) damage {
	return func(t testing.TB, s kv.Store) {
		t.Helper()
		key := state.TallyKey{Question: question, Epsilon: eps(t, epsilon), Value: value}
		putRecord(t, s, state.BucketTallies, key.Bytes(), payload)
	}
}

func alterQuestion(number uint32, q api.Question, encoding string) damage {
	return func(t testing.TB, s kv.Store) {
		t.Helper()
		alter(t, s, state.BucketQuestions, state.NumberKey(number), func([]byte) []byte { return questionRecord(number, q, encoding) })
	}
}

func TestVerify_AlteredResponse_IsNamed(t *testing.T) {
	for question, one := range map[string]struct {
		make  func(testing.TB) *kv.Memory
		tries int
	}{"home": {unaryStore, 3 * unaryValues}, "party": {finiteStore, 5 + 3 + 3}} {
		original, tries := pairs(t, one.make(t)), 0
		for i, at := range chainOfMemory(t, fill(t, original), 1, "ann").Levels {
			for _, is := range otherResponses(t, at.Response, at.Epsilon) {
				tries++
				s := fill(t, original)
				l := openMemory(t, s, Options{})
				alterChain(1, func(c *state.Chain) { c.Levels[i].Response = is })(t, s)
				want := api.Finding{Kind: "chain", Object: "ann", Question: question,
					Text: fmt.Sprintf(`chain of "ann" in %q: the response at ε=%s is %q, the events say %q`,
						question, at.Epsilon, responseText(t, is, at.Epsilon), responseText(t, at.Response, at.Epsilon))}
				wantProblems(t, findings(t, l, api.VerifyRequest{}), []api.Finding{want})
				again, _ := verified(t, l, api.VerifyRequest{}, slow())
				check.That(t, len(again) == 1 && again[0].Text == want.Text, "the slow audit finds %+v, want %+v", again, want)
			}
		}
		check.That(t, tries == one.tries, "%s: %d tries", question, tries)
	}
}

func TestVerify_AlteredBitCount_IsNamed(t *testing.T) {
	original := pairs(t, unaryStore(t))
	key := state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}
	tally := talliesOf(t, fill(t, original))[key]
	changes := 0
	for bit, was := range tally.Bits {
		for _, now := range []state.Tallied{{}, {Recorded: 1}, {Recorded: 1, Current: 1}, {Recorded: 2}, {Recorded: 2, Current: 1}, {Recorded: 2, Current: 2}} {
			if was == now {
				continue
			}
			changes++
			s := fill(t, original)
			l := openMemory(t, s, Options{})
			alter(t, s, state.BucketTallies, key.Bytes(), edited(t, state.DecodeTally, func(n *state.Tally) { n.Bits[bit] = now }))
			found := fmt.Sprint(findings(t, l, api.VerifyRequest{}))
			for what, differs := range map[string]bool{
				"tally at ε=2": true,
				fmt.Sprintf("the number of chains with it in bit %d", bit):                     was.Recorded != now.Recorded,
				fmt.Sprintf("the number of chains where it is the current one in bit %d", bit): was.Current != now.Current,
			} {
				check.That(t, strings.Contains(found, what) == differs,
					"bit %d counted as %v instead of %v: the audit finds %s", bit, now, was, found)
			}
		}
	}
	check.That(t, changes == unaryValues*5, "%d changes", changes)
}

func TestVerify_ImpossibleResponseRecords_AreNamed(t *testing.T) {
	party := func(change func(q *api.Question)) damage {
		q := finiteParty(t)
		change(&q)
		return alterQuestion(1, q, q.Encoding)
	}
	channels := fixture.Odds(t)
	channels.Mechanism.Family = fixture.OtherChannels(t, fixture.Skewed(t))
	counts := func(pairs int) []byte { return bytes.Repeat([]byte{2}, 2*pairs) }
	for name, test := range map[string]struct {
		make   func(testing.TB) *kv.Memory
		damage damage
		words  string
	}{
		"bits to a direct question":             {unaryStore, alterQuestion(1, home(unaryValues), "direct"), "question 1: the encoding is direct, the events say unary"},
		"values to a unary one":                 {unaryStore, alterQuestion(2, vote(), "unary"), "question 2: the encoding is unary, the events say direct"},
		"a value for bits":                      {unaryStore, alterFirst(1, event.Value{Index: 2}), `chain of "ann" in "home": the response at ε=1 is value 2`},
		"fewer bits":                            {unaryStore, alterFirst(1, event.Value{Bits: bitsOf(t, "1010101010")}), `chain of "ann" in "home": the response at ε=1 is 10 bits`},
		"bits for a value":                      {unaryStore, alterFirst(2, event.Value{Bits: bitsOf(t, "100")}), `chain of "ann" in "vote": the response at ε=1 is 3 bits`},
		"a tally of fewer bits":                 {unaryStore, alterTally(1, "2", 0, counts(unaryValues)...), "tally at ε=2: the number of bits is 10"},
		"a tally of no bits":                    {unaryStore, alterTally(1, "2", 0, counts(1)...), "tally at ε=2: the number of bits is 0"},
		"a tally of a value":                    {unaryStore, alterTally(1, "2", 1, counts(1)...), "tally at ε=2"},
		"a tally with more bits than responses": {unaryStore, alterTally(1, "2", 0, append(counts(unaryValues), 3, 2)...), "tally at ε=2"},
		"a tally is missing": {unaryStore, func(t testing.TB, s kv.Store) {
			remove(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}.Bytes())
		}, "tally at ε=2"},
		"a chain that cannot be read": {unaryStore, func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "bob"), func(p []byte) []byte { return p[:len(p)-8] })
		}, `chain of "bob" in "home"`},
		"outputs to a direct question": {finiteStore, party(func(q *api.Question) { q.Encoding, q.Mechanism = "direct", nil }), "question 1: the encoding is direct, the events say finite"},
		"a name of an output":          {finiteStore, party(func(q *api.Question) { q.Mechanism.Outputs[0][5] = "DC" }), "question 1: the mechanism is"},
		"other levels": {finiteStore, party(func(q *api.Question) {
			q.Mechanism.Family = fixture.Family(t, fixture.Subsets(t, 4, 2, "0.500000001"), fixture.Subsets(t, 4, 1, "1"), fixture.Subsets(t, 4, 1, "2"))
		}), "question 1: the mechanism is"},
		"no mechanism":                  {finiteStore, party(func(q *api.Question) { q.Mechanism = nil }), "question 1"},
		"half a mechanism":              {finiteStore, party(func(q *api.Question) { q.Mechanism.Outputs = q.Mechanism.Outputs[:2] }), "question 1"},
		"other channels":                {finiteStore, alterQuestion(2, channels, "finite"), "question 2: the mechanism is"},
		"an output too high":            {finiteStore, alterFirst(1, event.Value{Index: 6}), `chain of "ann" in "party": the response at ε=0.5 is value 6`},
		"bits for an output":            {finiteStore, alterFirst(1, event.Value{Bits: bitsOf(t, "100000")}), `chain of "ann" in "party": the response at ε=0.5 is 6 bits`},
		"an output that never occurs":   {finiteStore, alterFirst(2, event.Value{Index: 1}), `chain of "ann" in "odds": the response at ε=` + threeToOne + ` is value 1`},
		"an ε that is no level":         {finiteStore, alterChain(1, func(c *state.Chain) { c.Levels[0].Epsilon = eps(t, "0.75") }), `chain of "ann" in "party"`},
		"a tally of an output too high": {finiteStore, alterTally(1, "1", 4, 1, 0), "tally of value 4 at ε=1"},
		"a tally at an ε of no level":   {finiteStore, alterTally(1, "0.75", 0, 1, 0), "tally of value 0 at ε=0.75"},
		"a tally of what never occurs":  {finiteStore, alterTally(2, threeToOne, 1, 1, 0), "tally of value 1 at ε=" + threeToOne},
		"a noise key":                   {finiteStore, alterChain(1, func(c *state.Chain) { c.Noise = 1 }), `chain of "ann" in "party"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.make(t)
			l := openMemory(t, s, Options{})
			test.damage(t, s)
			found := findings(t, l, api.VerifyRequest{})
			check.That(t, slices.ContainsFunc(found, func(p api.Finding) bool { return strings.Contains(p.Text, test.words) }),
				"the audit finds %.600v, want %q", found, test.words)
			again, _ := verified(t, l, api.VerifyRequest{}, slow())
			check.That(t, slices.Equal(again, found), "the slow audit finds %.600v", again)
			for _, question := range []string{"home", "party", "odds"} {
				for _, r := range []api.EstimateRequest{{}, {Include: includeAll}, {Epsilon: eps(t, threeToOne)}} {
					r.Question = question
					err := panicAsError(func() error { return check.Err(l.Estimate(t.Context(), r)) })
					check.That(t, !errors.Is(err, errPanicked), "an estimate panics: %v", err)
				}
			}
		})
	}
}

// An estimate from a tally that is impossible returns ErrCorrupt.
func TestEstimate_ImpossibleTally_IsCorrupt(t *testing.T) {
	bits := func(n int, all ...byte) []byte { return append(all, make([]byte, 2*n-len(all)+2)...) }
	for name, one := range map[string]struct {
		make     func(testing.TB) *kv.Memory
		question string
		number   uint32
		epsilon  string
		value    uint32
		payload  []byte
	}{
		"bits of a value":                      {unaryStore, "home", 1, "1", 1, bits(unaryValues, 2, 0)},
		"bits of the last value":               {unaryStore, "home", 1, "1", unaryValues - 1, bits(unaryValues, 2, 0)},
		"bits of another level's value":        {unaryStore, "home", 1, "0.75", 3, bits(unaryValues, 1, 1)},
		"bits of a value, without bits":        {unaryStore, "home", 1, "1", 1, []byte{2, 0}},
		"bits without bits":                    {unaryStore, "home", 1, "1", 0, []byte{2, 0}},
		"bits of a bit too few":                {unaryStore, "home", 1, "1", 0, bits(unaryValues-1, 2, 0)},
		"bits of a bit too many":               {unaryStore, "home", 1, "1", 0, bits(unaryValues+1, 2, 0)},
		"bits of half a bit":                   {unaryStore, "home", 1, "1", 0, append(bits(unaryValues, 2, 0), 0)},
		"bits of no object":                    {unaryStore, "home", 1, "1", 0, bits(unaryValues, 0, 0)},
		"bits with a bit more":                 {unaryStore, "home", 1, "1", 0, bits(unaryValues, 2, 0, 3, 0)},
		"bits with more current":               {unaryStore, "home", 1, "1", 0, bits(unaryValues, 2, 0, 2, 1)},
		"bits with more current than recorded": {unaryStore, "home", 1, "2", 0, bits(unaryValues, 2, 2, 1, 2)},
		"bits of more than there are":          {unaryStore, "home", 1, "1", 0, bits(unaryValues, 4, 4)},
		"bits of more than can be counted":     {unaryStore, "home", 1, "1", 0, append(binary.AppendUvarint(binary.AppendUvarint(nil, 1<<64-1), 1<<64-1), make([]byte, 2*unaryValues)...)},
		"outputs, one too high":                {finiteStore, "party", 1, "1", 4, []byte{1, 0}},
		"outputs, of the highest number":       {finiteStore, "party", 1, "1", 1 << 31, []byte{1, 0}},
		"outputs at an ε of no level":          {finiteStore, "party", 1, "0.75", 0, []byte{1, 1}},
		"outputs of bits":                      {finiteStore, "party", 1, "1", 0, []byte{1, 0, 1, 0}},
		"outputs, more than there are":         {finiteStore, "party", 1, "2", 0, []byte{9, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			s := one.make(t)
			l := openMemory(t, s, Options{})
			alterTally(one.number, one.epsilon, one.value, one.payload...)(t, s)
			for _, epsilon := range []privacy.Epsilon{{}, eps(t, one.epsilon)} {
				e, err := l.Estimate(t.Context(), api.EstimateRequest{Question: one.question, Epsilon: epsilon})
				check.That(t, errors.Is(err, api.ErrCorrupt), "at ε=%s got %+v, %v, want ErrCorrupt", epsilon, e, err)
			}
			check.That(t, len(findings(t, l, api.VerifyRequest{})) != 0, "the audit finds nothing")
		})
	}
}

// firstResponse returns the response to the first question that an event records, and a function
// that copies the event with another response. Without such a response, that is nil.
func firstResponse(t testing.TB, c event.Change) (at privacy.Epsilon, v event.Value, with func(event.Value) event.Change) {
	t.Helper()
	switch c := c.(type) {
	case *event.Released:
		if c.Question == 1 {
			return c.Epsilon, c.Value, func(v event.Value) event.Change { other := *c; other.Value = v; return &other }
		}
	case *event.Sold:
		if c.Sale == 1 {
			return eps(t, "2"), c.Value, func(v event.Value) event.Change { other := *c; other.Value = v; return &other }
		}
	}
	return at, v, nil
}

// An altered response in the log does not match its leaf. If the tree is computed again, it matches
// neither the state nor the checkpoint.
func TestVerify_AlteredResponseInTheLog_IsFound(t *testing.T) {
	for question, one := range map[string]struct {
		make  func(testing.TB) *kv.Memory
		tries int // for each tree: three events at 1 and two that were sold, or one at 0.5 and four
	}{"home": {unaryStore, 5 * unaryValues}, "party": {finiteStore, 2*3 + 2*3 + 5}} {
		original, tries := one.make(t), 0
		trusted, log := trustedHead(t, original), eventsOf(t, original)
		for i, n := range log {
			at, v, with := firstResponse(t, n.Change)
			if with == nil {
				continue
			}
			for k, other := range otherResponses(t, v, at) {
				for tree, plant := range hashRewrites(log) {
					if tree == "without their hashes" {
						continue // they are the same here
					}
					tries++
					changed := slices.Clone(log)
					changed[i].Change = with(other)
					s := fill(t, pairs(t, original))
					l := openMemory(t, s, Options{})
					putEvents(t, s, plant(t, changed))
					what := fmt.Sprintf("%s: event %d (%s), response %d, %s", question, n.Number, n.Change.Kind(), k, tree)
					found := findings(t, l, api.VerifyRequest{})
					named := tree != newTree || n.Change.Kind() != event.KindReleased || strings.Contains(fmt.Sprint(found), "the response at ε=")
					check.That(t, len(found) != 0 && named, "%s: the audit finds %+v", what, found)
					check.That(t, len(findings(t, l, trusted)) != 0, "%s: nothing is found with a checkpoint", what)
				}
			}
		}
		check.That(t, tries == 2*one.tries, "%s: %d tries", question, tries)
	}
}

// wantAllRefused checks that each forgery is refused after a log, and that the sound events it was
// made from are not.
func wantAllRefused(t *testing.T, log []event.Event, all map[string]soundAndForged) {
	t.Helper()
	must(t, replayWhole(&kv.Memory{}, log))
	for name, one := range all {
		t.Run(name, func(t *testing.T) { baseLog{log: log}.wantRefused(t, one) })
	}
}

func TestApply_ForgedUnaryResponses_AreRefused(t *testing.T) {
	log := logOf(t, pairs(t, unaryStore(t)))
	row := func(n int) event.Value { return event.Value{Bits: bitsOf(t, strings.Repeat("10", n)[:n])} }
	draw := func(question uint32, epsilon string, v event.Value, how event.Method) []event.Change {
		return []event.Change{&event.Released{Object: "ann", Question: question, Epsilon: eps(t, epsilon), Response: event.Response{Value: v, Method: how}}}
	}
	isHere := func(question uint32, epsilon string) event.Value {
		at, _ := chainOfMemory(t, replayed(t, log), question, "ann").At(eps(t, epsilon))
		return at.Response
	}
	sale := func(question uint32, v event.Value, how event.Method) []event.Change {
		d := event.Deal{Sale: 3, Buyer: 1, Question: question, Epsilon: eps(t, "3"), Objects: 1, Price: 100}
		tally := event.SaleTally{Draws: 1, Upgrades: 1}
		if question == 2 {
			d.Price = 200
		}
		if how == event.MethodResale {
			d.Epsilon, d.Price, tally = eps(t, map[uint32]string{1: "2", 2: "1"}[question]), 0, event.SaleTally{Resales: 1}
		}
		return []event.Change{&event.SaleMade{Deal: d, Tally: tally}, &event.Sold{Object: "ann", Sale: 3, Price: d.Price, Response: event.Response{Value: v, Method: how}}}
	}
	more := func(q api.Question, encoding string) []event.Change {
		q.Name, q.Encoding = "more", encoding
		return []event.Change{&event.QuestionDefined{Number: 3, Question: q}}
	}
	sound := draw(1, "3", row(unaryValues), event.MethodRaise)
	votes := draw(2, "3", event.Value{Index: 1}, event.MethodRaise)
	bought := sale(1, row(unaryValues), event.MethodRaise)
	again := sale(1, isHere(1, "2"), event.MethodResale)
	wantAllRefused(t, log, map[string]soundAndForged{
		"a bit too few":                {sound: sound, forged: draw(1, "3", row(unaryValues-1), event.MethodRaise), why: "the response 10 bits"},
		"a bit too many":               {sound: sound, forged: draw(1, "3", row(unaryValues+1), event.MethodRaise), why: "the response 12 bits"},
		"as many as there may be":      {sound: sound, forged: draw(1, "3", row(event.MaxUnaryValues), event.MethodRaise), why: "the response 4096 bits"},
		"a single bit":                 {sound: sound, forged: draw(1, "3", row(1), event.MethodRaise), why: "the response 1 bits"},
		"a value for bits":             {sound: sound, forged: draw(1, "3", event.Value{Index: 2}, event.MethodRaise), why: "the response value 2"},
		"the first value for bits":     {sound: sound, forged: draw(1, "3", event.Value{}, event.MethodRaise), why: "the response value 0"},
		"bits for a value":             {sound: votes, forged: draw(2, "3", row(3), event.MethodRaise), why: "the response 3 bits"},
		"many bits for a value":        {sound: votes, forged: draw(2, "3", row(unaryValues), event.MethodRaise), why: "the response 11 bits"},
		"bits raised below":            {sound: draw(1, "1.25", row(unaryValues), event.MethodInsert), forged: draw(1, "1.25", row(unaryValues), event.MethodRaise), why: "by method raise"},
		"bits twice":                   {sound: sound, forged: draw(1, "2", row(unaryValues), event.MethodRaise), why: "at ε=2"},
		"bits at 0":                    {sound: draw(1, "0.5", row(unaryValues), event.MethodDegrade), forged: draw(1, "0", row(unaryValues), event.MethodDegrade), why: "at ε=0"},
		"sold a bit too few":           {sound: bought, forged: sale(1, row(unaryValues-1), event.MethodRaise), why: "the response 10 bits"},
		"sold a value for bits":        {sound: bought, forged: sale(1, event.Value{Index: 1}, event.MethodRaise), why: "the response value 1"},
		"sold bits for a value":        {sound: sale(2, event.Value{Index: 1}, event.MethodRaise), forged: sale(2, row(3), event.MethodRaise), why: "the response 3 bits"},
		"resold with a bit flipped":    {sound: again, forged: sale(1, event.Value{Bits: flippedBit(t, isHere(1, "2").Bits, 10)}, event.MethodResale), why: "not the recorded one"},
		"resold as the level below":    {sound: again, forged: sale(1, isHere(1, "1"), event.MethodResale), why: "not the recorded one"},
		"resold with a bit more":       {sound: again, forged: sale(1, event.Value{Bits: bitsOf(t, isHere(1, "2").Bits.String()+"0")}, event.MethodResale), why: "not the recorded one"},
		"resold as a value":            {sound: again, forged: sale(1, event.Value{}, event.MethodResale), why: "not the recorded one"},
		"resold bits for a value":      {sound: sale(2, isHere(2, "1"), event.MethodResale), forged: sale(2, row(3), event.MethodResale), why: "not the recorded one"},
		"too many values to be unary":  {sound: more(api.Question{Values: valuesOf(event.MaxUnaryValues + 1)}, "direct"), forged: more(api.Question{Values: valuesOf(event.MaxUnaryValues + 1)}, "unary"), why: "up to 4096"},
		"a unary question of a value":  {sound: more(home(2), "unary"), forged: more(home(1), "unary"), why: "has one value"},
		"a unary value twice":          {sound: more(home(2), "unary"), forged: more(api.Question{Values: []string{"a", "a"}}, "unary"), why: "twice"},
		"a question of its name twice": {sound: more(home(2), "unary"), forged: []event.Change{&event.QuestionDefined{Number: 3, Question: home(12)}}, why: "defined twice"},
	})
	// A forged encoding of the question, which the responses then do not match.
	for number, encoding := range map[uint32]string{1: "direct", 2: "unary"} {
		other := slices.Clone(log)
		i := indexOf(t, other, func(c event.Change) bool { q, ok := c.(*event.QuestionDefined); return ok && q.Number == number })
		q := other[i].Change.(*event.QuestionDefined).Question
		q.Encoding = encoding
		other[i].Change = &event.QuestionDefined{Number: number, Question: q}
		reidentify(other, i)
		wantForged(t, replayWhole(&kv.Memory{}, other), "the response ")
	}
}

func TestApply_ForgedFiniteResponses_AreRefused(t *testing.T) {
	log := logOf(t, pairs(t, finiteStore(t)))
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
	wantAllRefused(t, log, map[string]soundAndForged{
		"an output too high":              {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Index: 6}, event.MethodDegrade), why: "the response value 6"},
		"an output of the level above":    {sound: first, forged: draw("ann", 2, "1.609437913", event.Value{Index: 4}, event.MethodRaise), why: "the response value 4"},
		"the highest number":              {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Index: 1<<20 - 1}, event.MethodDegrade), why: "the response value 1048575"},
		"bits for an output":              {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Bits: bitsOf(t, "100000")}, event.MethodDegrade), why: "the response 6 bits"},
		"an output that never occurs":     {sound: slices.Concat(join(0, 2), draw("cid", 2, threeToOne, event.Value{Index: 2}, event.MethodRaise)), forged: slices.Concat(join(0, 2), draw("cid", 2, threeToOne, event.Value{Index: 1}, event.MethodRaise)), why: "the response value 1"},
		"below all levels":                {sound: sound, forged: draw("bob", 1, "0.499999999", event.Value{Index: 1}, event.MethodDegrade), why: "at ε=0.499999999"},
		"between levels":                  {sound: sound, forged: draw("bob", 1, "1.5", event.Value{Index: 1}, event.MethodInsert), why: "at ε=1.5"},
		"above all levels":                {sound: sound, forged: draw("bob", 1, "3", event.Value{Index: 1}, event.MethodRaise), why: "at ε=3"},
		"at 0":                            {sound: sound, forged: draw("bob", 1, "0", event.Value{Index: 1}, event.MethodDegrade), why: "at ε=0"},
		"a level twice":                   {sound: sound, forged: draw("bob", 1, "2", has("bob", "2"), event.MethodRaise), why: "at ε=2"},
		"degraded by a raise":             {sound: sound, forged: draw("bob", 1, "0.5", event.Value{Index: 5}, event.MethodRaise), why: "by method raise"},
		"sold an output too high":         {sound: below, forged: sale("0.5", 0, event.Value{Index: 6}, event.MethodDegrade), why: "the response value 6"},
		"sold between levels":             {sound: below, forged: sale("1.5", 0, event.Value{Index: 1}, event.MethodInsert), why: "at ε=1.5"},
		"sold bits":                       {sound: below, forged: sale("0.5", 0, event.Value{Bits: bitsOf(t, "1000")}, event.MethodDegrade), why: "the response 4 bits"},
		"resold as another":               {sound: again, forged: sale("1", 0, other, event.MethodResale), why: "not the recorded one"},
		"a noise key":                     {sound: join(0, 1), forged: join(1, 1), why: "which is in finite encoding"},
		"a noise key of a vote is sound":  {sound: join(1, 3), forged: join(2, 3), why: "question 3, policy"},
		"no mechanism":                    {sound: whole, forged: more(func(q *api.Question) { q.Mechanism = nil }), why: "needs a mechanism"},
		"a mechanism for direct encoding": {sound: whole, forged: more(func(q *api.Question) { q.Encoding = "direct" }), why: "direct encoding has no mechanism"},
		"a mechanism of fewer inputs":     {sound: whole, forged: more(func(q *api.Question) { q.Values = append(q.Values, "E") }), why: "4 inputs, but the question has 5 values"},
		"names of fewer outputs":          {sound: whole, forged: more(func(q *api.Question) { q.Mechanism.Outputs[0] = q.Mechanism.Outputs[0][1:] }), why: "but 5 names"},
		"an output's name twice":          {sound: whole, forged: more(func(q *api.Question) { q.Mechanism.Outputs[0][1] = "AB" }), why: `two outputs are named "AB"`},
		"names of fewer levels":           {sound: whole, forged: more(func(q *api.Question) { q.Mechanism.Outputs = q.Mechanism.Outputs[1:] }), why: "2 of its 3 levels"},
		"a name twice":                    {sound: whole, forged: more(func(q *api.Question) { q.Name = "party" }), why: "defined twice"},
	})
	// A forged mechanism of the question, which the responses then do not match.
	changed := slices.Clone(log)
	i := indexOf(t, changed, func(c event.Change) bool { q, ok := c.(*event.QuestionDefined); return ok && q.Number == 1 })
	q := finiteParty(t)
	q.Mechanism = &api.Mechanism{Family: fixture.Family(t, fixture.Subsets(t, 4, 1, "1")), Outputs: [][]string{{"A", "B", "C", "D"}}}
	changed[i].Change = &event.QuestionDefined{Number: 1, Question: q}
	reidentify(changed, i)
	wantForged(t, replayWhole(&kv.Memory{}, changed), "the response ")
}

// If a chain has a response that its question cannot have, with a valid checksum, every call that
// needs the response returns ErrCorrupt. None panics.
func TestEveryCall_ImpossibleResponse_IsCorrupt(t *testing.T) {
	bits := func(n int) event.Value { return event.Value{Bits: bitsOf(t, strings.Repeat("1", n))} }
	oneMore := event.Value{Bits: bitsOf(t, chainOfMemory(t, unaryStore(t), 1, "ann").Levels[2].Response.Bits.String()+"1")}
	type chain struct { // the damaged one, the level, and levels that can be requested above and below
		make             func(testing.TB) *kv.Memory
		number           uint32
		question, truth  string
		at, above, below string
		sold             bool
	}
	homes := chain{unaryStore, 1, "home", valueName(2), "2", "5", "0.125", true}
	votes := chain{unaryStore, 2, "vote", "yes", "1", "5", "0.125", true}
	party := chain{finiteStore, 1, "party", "C", "2", "", "", false}
	odds := chain{finiteStore, 2, "odds", "yes", threeToOne, "1.609437913", "0.693147181", false}
	between := chain{finiteStore, 1, "party", "C", "1.75", "2", "", false}
	for name, one := range map[string]struct {
		chain
		damage
		tally damage // changed as well, so that only the chain is wrong
	}{
		"a bit too few":           {homes, alterLast(1, bits(unaryValues-1)), nil},
		"a bit too many":          {homes, alterLast(1, bits(unaryValues+1)), nil},
		"the bits and one more":   {homes, alterLast(1, oneMore), nil},
		"many bits":               {homes, alterLast(1, bits(event.MaxUnaryValues)), nil},
		"a value for bits":        {homes, alterLast(1, event.Value{Index: 2}), nil},
		"bits for a value":        {votes, alterLast(2, bits(3)), alterTally(2, "1", 0, 1, 1)},
		"a value too high":        {votes, alterLast(2, event.Value{Index: 3}), alterTally(2, "1", 3, 1, 1)},
		"the highest of values":   {votes, alterLast(2, event.Value{Index: wire.MaxValues - 1}), alterTally(2, "1", wire.MaxValues-1, 1, 1)},
		"an output too high":      {party, alterLast(1, event.Value{Index: 4}), nil},
		"the highest of outputs":  {party, alterLast(1, event.Value{Index: 1<<20 - 1}), nil},
		"bits for an output":      {party, alterLast(1, event.Value{Bits: bitsOf(t, "0100")}), nil},
		"an output that is never": {odds, alterFirst(2, event.Value{Index: 1}), nil},
		"an ε that is no level":   {between, alterChain(1, func(c *state.Chain) { c.Levels[len(c.Levels)-1].Epsilon = eps(t, "1.75") }), nil},
	} {
		original := one.make(t)
		one.damage(t, original)
		if one.tally != nil {
			one.tally(t, original)
		}
		damaged := pairs(t, original)
		ask := func(epsilon string) func(*Ledger) error {
			r := api.ReleaseRequest{Key: "k", Question: one.question, Object: "ann", Epsilon: eps(t, epsilon), Truth: sameTruth(one.truth)}
			return func(l *Ledger) error { return check.Err(l.Release(t.Context(), r)) }
		}
		calls := map[string]func(*Ledger) error{
			"object":    func(l *Ledger) error { return check.Err(l.Object(t.Context(), "ann")) },
			"responses": func(l *Ledger) error { return firstError(l.Responses(t.Context(), one.question, eps(t, one.at))) },
			"recount": func(l *Ledger) error {
				return check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: one.question, Include: includeAll}))
			},
			"forget": func(l *Ledger) error { return l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"}) },
		}
		if one.above != "" {
			calls["raise"] = ask(one.above)
		}
		if one.below != "" {
			calls["derive"] = ask(one.below)
		}
		if one.sold {
			calls["again"] = ask(one.at)
			calls["deliveries"] = func(l *Ledger) error { return firstError(l.Deliveries(t.Context(), uint64(one.number))) }
			calls["resale"] = func(l *Ledger) (err error) {
				r := purchase(t, "k", "zeta", one.at, "ann")
				r.Question, r.Truth = one.question, sameTruth(one.truth)
				unchanged(t, l.engine.Store, func() { err = check.Err(l.Sell(t.Context(), r)) })
				return err
			}
		}
		for call, make := range calls {
			t.Run(name+", "+call, func(t *testing.T) {
				l := openMemory(t, fill(t, damaged), Options{})
				err := panicAsError(func() error { return make(l) })
				check.That(t, errors.Is(err, api.ErrCorrupt), "got the error %v, want ErrCorrupt", err)
			})
		}
	}
}

// Evidence.

// sellAndForget makes sales, forgets dan, and returns the receipt of a sale.
func sellAndForget(t testing.TB, o *issuer, receipt uint64, sales ...api.SellRequest) (*issuer, evidence.Receipt) {
	t.Helper()
	for _, r := range sales {
		o.advanceClock()
		sell(t, o.Ledger, r)
	}
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "dan"}))
	o.advanceClock()
	return o, receiptOf(t, o.Ledger, receipt)
}

// unaryIssuer returns an issuer that has sold unary responses by every method, and a receipt.
func unaryIssuer(t testing.TB) (*issuer, evidence.Receipt) {
	t.Helper()
	o := newIssuer(t, 1)
	o.engine.Chances.Values, _ = sampler(5)
	dwellers(t, o.Ledger, unaryValues, "ann", "bob", "cid", "dan")
	return sellAndForget(t, o, 4,
		homesFor(t, "0", "acme", "0.5", "ann", "bob", "dan"), // draws
		homesFor(t, "1", "zeta", "2", "ann", "dan"),          // draws
		homesFor(t, "2", "acme", "3", "bob"),
		homesFor(t, "3", "acme", "1", "ann", "bob", "cid", "dan"), // insertions, a draw
		homesFor(t, "4", "acme", "0.25", "ann", "bob"),            // degradations
		homesFor(t, "5", "zeta", "1", "ann", "bob"),               // resales
	)
}

// finiteIssuer returns an issuer that has sold outputs of a mechanism by every method, and a
// receipt.
func finiteIssuer(t testing.TB) (*issuer, evidence.Receipt) {
	t.Helper()
	o := newIssuer(t, 1)
	o.engine.Chances.Outputs = steadyOutputs(5)
	partySellers(t, o.Ledger, "ann", "bob", "cid", "dan")
	return sellAndForget(t, o, 3,
		partiesFor(t, "0", "acme", "0.5", "ann", "bob", "dan"),      // draws
		partiesFor(t, "1", "zeta", "2", "ann", "dan"),               // draws
		partiesFor(t, "2", "acme", "1", "ann", "bob", "cid", "dan"), // insertions and draws
		partiesFor(t, "3", "acme", "0.5", "cid"),                    // a degradation
		partiesFor(t, "4", "zeta", "1", "ann", "bob"),               // resales
	)
}

// smallIssuer returns an issuer that has sold one unary response, and its receipt.
func smallIssuer(t testing.TB) (*issuer, evidence.Receipt) {
	t.Helper()
	o := newIssuer(t, 1)
	o.engine.Chances.Values, _ = sampler(6)
	dwellers(t, o.Ledger, unaryValues, "ann")
	sell(t, o.Ledger, homesFor(t, "s", "acme", "0.5", "ann"))
	return o, receiptOf(t, o.Ledger, 1)
}

// alteredTexts returns texts of a row of bits with one bit altered, one more and one less, and
// texts that are no bits.
func alteredTexts(text string) (all []string) {
	for i := range text {
		for _, char := range "012x" {
			if other := text[:i] + string(char) + text[i+1:]; other != text {
				all = append(all, other)
			}
		}
	}
	return append(all, text+"0", text+"1", "0"+text, text[1:], "", valueName(2), strings.Repeat("0", 1<<17))
}

func isFault(item int) func(evidence.Fault) bool {
	return func(f evidence.Fault) bool { return f.Item == item }
}

// wantResponsesNamed alters each response of a receipt that is not erased. The faults must be of
// that response, or of the receipt as a whole. They must say whether the text is a value of the
// question.
func wantResponsesNamed(t *testing.T, o *issuer, r evidence.Receipt, texts func(string) []string, isValue func(string) bool) {
	t.Helper()
	for i, one := range r.Responses[:3] {
		for _, text := range texts(one.Response) {
			if text == one.Response {
				continue
			}
			other := copyOf(t, r)
			other.Responses[i].Response = text
			c := other.Verify(o.keys)
			elsewhere := slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item != i+1 && f.Item != 0 })
			strange := strings.Contains(strings.Join(faults(c), "\n"), "is no value of the question")
			check.That(t, !c.OK() && slices.ContainsFunc(c.Faults, isFault(i+1)) && !elsewhere && strange != isValue(text),
				"response %d as %.40q: %.400q", i+1, text, faults(c))
		}
	}
}

// wantFactNamed alters an event of a statement, and checks that a fault names that event.
func wantFactNamed(t *testing.T, o *issuer, st evidence.Statement, i int, what string, change func(f *evidence.Fact)) {
	t.Helper()
	other := copyOf(t, st)
	change(&other.Events[i])
	c := other.Verify(o.keys)
	check.That(t, !c.OK() && slices.ContainsFunc(c.Faults, isFault(i+1)), "event %d, %s: %q", st.Events[i].Event, what, faults(c))
}

func TestUnaryReceipt_Altered_NamesTheFault(t *testing.T) {
	o, r := unaryIssuer(t)
	wantSound(t, "the receipt", r, o.keys)
	check.Need(t, r.Encoding == "unary" && r.Responses[3].Erased && len(r.Responses[0].Response) == unaryValues, "%+v", r)
	n := 0
	eachAltered(t, r, func(way string, other evidence.Receipt) {
		n++
		c := other.Verify(o.keys)
		check.That(t, !c.OK() && len(c.Faults) != 0, "%s: the document verifies", way)
	})
	check.That(t, n >= 60, "only %d fields were altered", n)
	for _, encoding := range []string{"direct", "", "unary ", "Unary", "2"} {
		other := copyOf(t, r)
		other.Encoding = encoding
		wantFault(t, fmt.Sprintf("the encoding %q", encoding), other, o.keys, "question")
		wantFault(t, fmt.Sprintf("the encoding %q", encoding), other, nil, "question")
		for i := range 3 {
			if encoding == "direct" {
				wantFault(t, "a row of bits as a value", other, o.keys, fmt.Sprintf("no. %d", i+1))
			}
		}
	}
	wantResponsesNamed(t, o, r, alteredTexts, func(text string) bool { return len(text) == unaryValues && strings.Trim(text, "01") == "" })
	_, small := smallIssuer(t)
	wantEveryByteChecked(t, small, o.keys, evidence.ReadReceipt)
}

func TestUnaryStatement_Altered_NamesTheFault(t *testing.T) {
	o, _ := unaryIssuer(t)
	st := statementOf(t, o.Ledger, "ann's", "ann")
	wantSound(t, "the statement", st, o.keys)
	wantFullHistory(t, o, st)
	wantAllNamed(t, o, st, 100)
	for i, f := range st.Events {
		if response := responseIn(&f); response != nil {
			for _, text := range alteredTexts(*response) {
				wantFactNamed(t, o, st, i, text, func(f *evidence.Fact) { *responseIn(f) = text })
			}
		}
		if f.Kind() == "question" {
			for _, encoding := range []string{"direct", "", "Unary"} {
				wantFactNamed(t, o, st, i, string(encoding), func(f *evidence.Fact) { f.Says.(*says.QuestionDefined).Encoding = encoding })
			}
		}
	}
	for i := range st.Released {
		other := copyOf(t, st)
		other.Released[i].Response = flippedBit(t, bitsOf(t, st.Released[i].Response), i).String()
		wantFault(t, "a bit of what was released", other, o.keys, "released differs from the value computed from the events")
	}
	small, _ := smallIssuer(t)
	whole := text(t, statementOf(t, small.Ledger, "ann's", "ann"))
	step := oneIn(5)
	for i := rand.IntN(step); i < len(whole); i += step { // one bit of each character: in a row of bits, it exchanges 0 and 1
		data := slices.Clone(whole)
		data[i] ^= 1
		if got, err := evidence.ReadStatement(data); err == nil && got.Verify(small.keys).OK() {
			t.Errorf("byte %d, in %q: the document verifies", i, excerpt(whole, i))
		}
	}
}

func TestDocuments_FiniteQuestion_AreSound(t *testing.T) {
	o, _ := finiteIssuer(t)
	for number := range uint64(5) {
		r := receiptOf(t, o.Ledger, number+1)
		wantSound(t, fmt.Sprint("receipt ", number+1), r, o.keys)
		back := check.Value(evidence.ReadReceipt(text(t, r)))(t)
		wantSound(t, "the receipt, read", back, o.keys)
		check.That(t, string(text(t, back)) == string(text(t, r)) &&
			string(text(t, r.Mechanism)) == string(text(t, fixture.Party(t).Mechanism)) && r.Encoding == "finite", "receipt %d came back as another", number+1)
		got := check.Value(collect(o.Deliveries(t.Context(), number+1)))(t)
		for i, one := range r.Responses {
			check.That(t, one.Response == got[i].Value && one.Object == got[i].Object,
				"receipt %d has %+v, delivered was %+v", number+1, one, got[i])
		}
	}
	for _, name := range []string{"ann", "bob", "cid"} {
		st := statementOf(t, o.Ledger, name+"'s", name)
		wantSound(t, "the statement", st, o.keys)
		wantFullHistory(t, o, st)
		back := check.Value(evidence.ReadStatement(text(t, st)))(t)
		wantSound(t, "the statement, read", back, o.keys)
	}
	auditStore(t, o.store)
	wantClean(t, o.Ledger, api.VerifyRequest{})
}

// otherMechanisms returns mechanisms other than m, some of them invalid, and nil.
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

func TestFiniteReceipt_Altered_NamesTheFault(t *testing.T) {
	o, r := finiteIssuer(t)
	wantSound(t, "the receipt", r, o.keys)
	check.Need(t, r.Encoding == "finite" && r.Responses[3].Erased, "%+v", r)
	for name, m := range otherMechanisms(t, r.Mechanism) {
		other := r
		other.Mechanism = m
		wantFault(t, "a mechanism "+name, other, o.keys, "question")
		wantFault(t, "a mechanism "+name, other, nil, "question")
	}
	for _, encoding := range []string{"direct", "unary", "", "Finite", "3"} {
		other := copyOf(t, r)
		other.Encoding = encoding
		wantFault(t, fmt.Sprintf("the encoding %q", encoding), other, o.keys, "question")
		other.Mechanism = nil
		wantFault(t, fmt.Sprintf("the encoding %q, without mechanism", encoding), other, o.keys, "question")
	}
	texts := []string{"A", "B", "C", "D", "AB", "0", "", "a", "E"}
	wantResponsesNamed(t, o, r, func(string) []string { return texts }, func(text string) bool { return text != "" && strings.Contains("A B C D", text) })
	n := 0
	small := copyOf(t, r)
	eachAltered(t, struct{ Responses []evidence.SoldResponse }{small.Responses}, func(way string, other struct{ Responses []evidence.SoldResponse }) {
		n++
		changed := small
		changed.Responses = other.Responses
		c := changed.Verify(o.keys)
		check.That(t, !c.OK() && len(c.Faults) != 0, "%s: the document verifies", way)
	})
	check.That(t, n >= 20, "only %d fields were altered", n)
}

// A receipt whose mechanism is altered in JSON is not read, or does not verify.
func TestReceipt_MechanismAlteredInJSON_IsFound(t *testing.T) {
	o, r := finiteIssuer(t)
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
		check.That(t, other != whole, "%s: the change does not apply to the receipt", name)
		got, err := evidence.ReadReceipt([]byte(other))
		if name == "no channels" && (err == nil || !strings.Contains(err.Error(), "without the channels")) {
			t.Errorf("%s: %v", name, err) // receipts leave out the channels
		}
		if err != nil {
			wantErr(t, err, api.ErrInvalid)
			continue
		}
		check.That(t, name == "a space" || !got.Verify(o.keys).OK(), "%s: the document verifies", name)
		if name == "a space" && !got.Verify(o.keys).OK() {
			t.Errorf("a receipt with a space has the faults %q", faults(got.Verify(o.keys)))
		}
	}
	// The receipt of a question without a mechanism has no such field.
	plain := string(text(t, receiptOf(t, issuerWithSales(t).Ledger, 1)))
	check.That(t, !strings.Contains(plain, "mechanism"), "a receipt of values has a mechanism: %.300s", plain)
}

func TestFiniteStatement_Altered_NamesTheFault(t *testing.T) {
	o, _ := finiteIssuer(t)
	st := statementOf(t, o.Ledger, "ann's", "ann")
	questions := 0
	for i, f := range st.Events {
		named := func(what string, change func(f *evidence.Fact)) {
			t.Helper()
			wantFactNamed(t, o, st, i, what, change)
		}
		if d, ok := f.Says.(*says.QuestionDefined); ok {
			questions++
			for name, m := range otherMechanisms(t, d.Mechanism) {
				named("a mechanism "+name, func(f *evidence.Fact) { f.Says.(*says.QuestionDefined).Mechanism = m })
			}
			for _, encoding := range []string{"direct", "unary", ""} {
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
		wantFault(t, "another output released", other, o.keys, "released differs from the value computed from the events")
	}
	// The channels of a mechanism are checked, too.
	channels := newIssuer(t, 1)
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

// No record, event or error of a question with a mechanism contains a true value, which here is
// "truth C" for every object.
func TestFiniteQuestion_RecordsAndErrors_HaveNoTrueValue(t *testing.T) {
	o := newIssuer(t, 1)
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
	var texts []string
	for ev, err := range o.Events(t.Context(), 1) {
		must(t, err)
		if ev.Kind() != "question" {
			data := check.Value(json.Marshal(ev))(t)
			texts = append(texts, string(data))
		}
	}
	check.That(t, !strings.Contains(strings.Join(texts, ""), "truth "), "the log has a true value: %.500s", texts)
}
