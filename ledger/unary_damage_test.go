package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariants 9 and 11 for bits: whatever is changed past the log is found and named, no forged event is applied, and
// nothing panics.

// village is a ledger in which ann and bob have answered home, a question of 11 values, at 1 and 2; ann at 1.5 as well.
// Both sold at 2 to acme. vote is the second question, with one response of ann's.
func village(t testing.TB) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := dwellers(t, openMemory(t, s, Options{Now: epoch}), villagers, "ann", "bob")
	l.engine.Chances.Sampler, _ = sampler(12)
	carryOut := func(r api.RaiseRequest) { _, err := l.Raise(t.Context(), r); must(t, err) }
	carryOut(homesOf(t, "1", "1"))
	sell(t, l, homesFor(t, "2", "acme", "2", "ann", "bob"))
	carryOut(homesOf(t, "3", "1.5", "ann"))
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "9"), "9", "ann")
	sell(t, l, purchase(t, "4", "acme", "1", "ann"))
	return s
}

const villagers = 11

// flippedBit is a row of bits with one of them the other way.
func flippedBit(t testing.TB, bits rrchain.Bits, at int) rrchain.Bits {
	t.Helper()
	packed := bits.Pack()
	packed[at/8] ^= 1 << (at % 8)
	return check.Value(rrchain.NewBits(bits.Len(), packed))(t)
}

// Every bit of every response of a chain, and every count of a tally, is compared with the events.
func TestEveryAlteredBitIsNamed(t *testing.T) {
	original := pairs(t, village(t))
	wantOne := func(change func(s *kv.Memory), want api.Finding) {
		t.Helper()
		s := fill(t, original)
		l := openMemory(t, s, Options{})
		change(s)
		wantProblems(t, findings(t, l, api.VerifyRequest{}), []api.Finding{want})
		again, _ := verified(t, l, api.VerifyRequest{}, slow())
		check.That(t, len(again) == 1 && again[0].Text == want.Text, "step by step there is %+v, want %+v", again, want)
	}
	levels := chainOfMemory(t, fill(t, original), 1, "ann").Levels
	for i, at := range levels {
		for bit := range villagers {
			is := flippedBit(t, at.Response.Bits, bit)
			wantOne(func(s *kv.Memory) {
				alter(t, s, state.BucketChains, state.ChainKey(1, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[i].Response.Bits = is }))
			}, api.Finding{Kind: "chain", Object: "ann", Question: "home",
				Text: fmt.Sprintf(`chain of "ann" in "home": the response at ε=%s is %q, the events say %q`, at.Epsilon, is, at.Response.Bits)})
		}
	}
	key := state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}.Bytes()
	tally2 := talliesOf(t, fill(t, original))[state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}]
	changes := 0
	for bit := range villagers {
		for _, now := range []state.Tallied{{Recorded: 0, Current: 0}, {Recorded: 1, Current: 0}, {Recorded: 1, Current: 1}, {Recorded: 2, Current: 0}, {Recorded: 2, Current: 1}, {Recorded: 2, Current: 2}} {
			was := tally2.Bits[bit]
			if was == now {
				continue
			}
			changes++
			s := fill(t, original)
			l := openMemory(t, s, Options{})
			alter(t, s, state.BucketTallies, key, edited(t, state.DecodeTally, func(n *state.Tally) { n.Bits[bit] = now }))
			found := fmt.Sprint(findings(t, l, api.VerifyRequest{}))
			for what, differs := range map[string]bool{
				"tally at ε=2": true,
				fmt.Sprintf("the number of chains with it in bit %d", bit):                     was.Recorded != now.Recorded,
				fmt.Sprintf("the number of chains where it is the current one in bit %d", bit): was.Current != now.Current,
			} {
				check.That(t, strings.Contains(found, what) == differs,
					"bit %d counted %v instead of %v: found %s", bit, now, was, found)
			}
		}
	}
	check.That(t, changes == villagers*5, "%d changes", changes)
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

// Other ways in which stored records can disagree with the events.
func TestVerifyNamesWhatIsNotUnary(t *testing.T) {
	original := pairs(t, village(t))
	numbers := func(pairs int) (payload []byte) {
		for range pairs {
			payload = append(payload, 2, 2)
		}
		return payload
	}
	for name, test := range map[string]struct {
		change func(s *kv.Memory)
		words  string
	}{
		"a question is direct": {func(s *kv.Memory) {
			alter(t, s, state.BucketQuestions, state.NumberKey(1), func([]byte) []byte { return defined(1, home(villagers), api.Direct) })
		}, "question 1: the encoding is direct, the events say unary"},
		"a question is unary": {func(s *kv.Memory) {
			alter(t, s, state.BucketQuestions, state.NumberKey(2), func([]byte) []byte { return defined(2, vote(), api.Unary) })
		}, "question 2: the encoding is unary, the events say direct"},
		"a response of a value": {func(s *kv.Memory) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[0].Response = event.Value{Index: 2} }))
		}, `chain of "ann" in "home": the response at ε=1 is value 2`},
		"a response of fewer bits": {func(s *kv.Memory) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[0].Response.Bits = bitsOf(t, "1010101010") }))
		}, `chain of "ann" in "home": the response at ε=1 is 10 bits`},
		"bits to a direct question": {func(s *kv.Memory) {
			alter(t, s, state.BucketChains, state.ChainKey(2, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[0].Response = event.Value{Bits: bitsOf(t, "100")} }))
		}, `chain of "ann" in "vote": the response at ε=1 is 3 bits`},
		"a tally of fewer bits": {func(s *kv.Memory) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}.Bytes(), numbers(villagers))
		}, "tally at ε=2: the number of bits is 10"},
		"a tally of no bits": {func(s *kv.Memory) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}.Bytes(), numbers(1))
		}, "tally at ε=2: the number of bits is 0"},
		"a tally of a value": {func(s *kv.Memory) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 1}.Bytes(), numbers(1))
		}, "tally at ε=2"},
		"a tally is missing": {func(s *kv.Memory) {
			remove(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}.Bytes())
		}, "tally at ε=2"},
		"a tally with more bits than responses": {func(s *kv.Memory) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}.Bytes(), append(numbers(villagers), 3, 2))
		}, "tally at ε=2"},
		"a chain that cannot be read": {func(s *kv.Memory) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "bob"), func(p []byte) []byte { return p[:len(p)-8] })
		}, `chain of "bob" in "home"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := fill(t, original)
			l := openMemory(t, s, Options{})
			test.change(s)
			found := findings(t, l, api.VerifyRequest{})
			if len(found) == 0 || !slices.ContainsFunc(found, func(p api.Finding) bool { return strings.Contains(p.Text, test.words) }) {
				t.Errorf("found %+v, want %q", found, test.words)
			}
			again, _ := verified(t, l, api.VerifyRequest{}, slow())
			check.That(t, slices.Equal(again, found), "step by step there is %+v", again)
		})
	}
}

// defined is the record of a question.
func defined(number uint32, q api.Question, encoding api.Encoding) []byte {
	q.Encoding = encoding
	e := &wire.Encoder{}
	(&event.QuestionDefined{Number: number, Question: q}).Fields(wire.Writing(e))
	return e.Buf
}

// In the log every bit counts as well: a changed one does not fit its leaf and, with a new tree, neither the state nor
// the checkpoint.
func TestEveryAlteredBitOfTheLogIsNamed(t *testing.T) {
	original := village(t)
	trusted, log := trustedHead(t, original), eventsOf(t, original)
	tries := 0
	for i, n := range log {
		bits := responseOfEvent(n.Change)
		if bits.Len() == 0 {
			continue
		}
		for bit := range bits.Len() {
			for tree, plant := range trees(log) {
				if tree == "without their hashes" {
					continue // they are the same here
				}
				tries++
				altered := slices.Clone(log)
				altered[i].Change = withBits(n.Change, flippedBit(t, bits, bit))
				s := fill(t, pairs(t, original))
				l := openMemory(t, s, Options{})
				putEvents(t, s, plant(t, altered))
				what := fmt.Sprintf("event %d (%s), bit %d, %s", n.Number, n.Change.Kind(), bit, tree)
				found := findings(t, l, api.VerifyRequest{})
				if len(found) == 0 || tree == newTree && n.Change.Kind() == event.KindReleased && !strings.Contains(fmt.Sprint(found), "the response at ε=") {
					t.Errorf("%s: found %+v", what, found)
				}
				found = findings(t, l, trusted)
				check.That(t, len(found) != 0, "%s: nothing is found with a checkpoint", what)
			}
		}
	}
	if tries != 2*villagers*5 { // three released, two sold
		t.Errorf("%d tries", tries)
	}
}

func responseOfEvent(c event.Change) rrchain.Bits {
	switch c := c.(type) {
	case *event.Released:
		return c.Response.Value.Bits
	case *event.Sold:
		return c.Response.Value.Bits
	}
	return rrchain.Bits{}
}

// withBits is a change with another response.
func withBits(c event.Change, bits rrchain.Bits) event.Change {
	switch c := c.(type) {
	case *event.Released:
		other := *c
		other.Response.Value.Bits = bits
		return &other
	case *event.Sold:
		other := *c
		other.Response.Value.Bits = bits
		return &other
	}
	return c
}

// Forgeries of events, each beside the sound one that it was made from.
func TestApplyRefusesForgedBits(t *testing.T) {
	log := logOf(t, pairs(t, village(t)))
	must(t, replayWhole(&kv.Memory{}, log))
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
	more := func(q api.Question, encoding api.Encoding) []event.Change {
		q.Name, q.Encoding = "more", encoding
		return []event.Change{&event.QuestionDefined{Number: 3, Question: q}}
	}
	sound := draw(1, "3", row(villagers), event.MethodRaise)
	votes := draw(2, "3", event.Value{Index: 1}, event.MethodRaise)
	bought := sale(1, row(villagers), event.MethodRaise)
	again := sale(1, isHere(1, "2"), event.MethodResale)
	for name, one := range map[string]pairOfLogs{
		"a bit too few":                {sound: sound, forged: draw(1, "3", row(villagers-1), event.MethodRaise), why: "a response of 10 bits"},
		"a bit too many":               {sound: sound, forged: draw(1, "3", row(villagers+1), event.MethodRaise), why: "a response of 12 bits"},
		"as many as there may be":      {sound: sound, forged: draw(1, "3", row(event.MaxUnaryValues), event.MethodRaise), why: "a response of 4096 bits"},
		"a single bit":                 {sound: sound, forged: draw(1, "3", row(1), event.MethodRaise), why: "a response of 1 bits"},
		"a value for bits":             {sound: sound, forged: draw(1, "3", event.Value{Index: 2}, event.MethodRaise), why: "a response of value 2"},
		"the first value for bits":     {sound: sound, forged: draw(1, "3", event.Value{}, event.MethodRaise), why: "a response of value 0"},
		"bits for a value":             {sound: votes, forged: draw(2, "3", row(3), event.MethodRaise), why: "a response of 3 bits"},
		"many bits for a value":        {sound: votes, forged: draw(2, "3", row(villagers), event.MethodRaise), why: "a response of 11 bits"},
		"bits raised below":            {sound: draw(1, "1.25", row(villagers), event.MethodInsert), forged: draw(1, "1.25", row(villagers), event.MethodRaise), why: "by raise"},
		"bits twice":                   {sound: sound, forged: draw(1, "2", row(villagers), event.MethodRaise), why: "at ε=2"},
		"bits at 0":                    {sound: draw(1, "0.5", row(villagers), event.MethodDegrade), forged: draw(1, "0", row(villagers), event.MethodDegrade), why: "at ε=0"},
		"sold a bit too few":           {sound: bought, forged: sale(1, row(villagers-1), event.MethodRaise), why: "a response of 10 bits"},
		"sold a value for bits":        {sound: bought, forged: sale(1, event.Value{Index: 1}, event.MethodRaise), why: "a response of value 1"},
		"sold bits for a value":        {sound: sale(2, event.Value{Index: 1}, event.MethodRaise), forged: sale(2, row(3), event.MethodRaise), why: "a response of 3 bits"},
		"resold with a bit flipped":    {sound: again, forged: sale(1, event.Value{Bits: flippedBit(t, isHere(1, "2").Bits, 10)}, event.MethodResale), why: "not the recorded one"},
		"resold as the level below":    {sound: again, forged: sale(1, isHere(1, "1"), event.MethodResale), why: "not the recorded one"},
		"resold with a bit more":       {sound: again, forged: sale(1, event.Value{Bits: bitsOf(t, isHere(1, "2").Bits.String()+"0")}, event.MethodResale), why: "not the recorded one"},
		"resold as a value":            {sound: again, forged: sale(1, event.Value{}, event.MethodResale), why: "not the recorded one"},
		"resold bits for a value":      {sound: sale(2, isHere(2, "1"), event.MethodResale), forged: sale(2, row(3), event.MethodResale), why: "not the recorded one"},
		"too many values to be unary":  {sound: more(api.Question{Values: valuesOf(event.MaxUnaryValues + 1)}, api.Direct), forged: more(api.Question{Values: valuesOf(event.MaxUnaryValues + 1)}, api.Unary), why: "up to 4096"},
		"a unary question of a value":  {sound: more(home(2), api.Unary), forged: more(home(1), api.Unary), why: "has one value"},
		"a unary value twice":          {sound: more(home(2), api.Unary), forged: more(api.Question{Values: []string{"a", "a"}}, api.Unary), why: "twice"},
		"a question of its name twice": {sound: more(home(2), api.Unary), forged: []event.Change{&event.QuestionDefined{Number: 3, Question: home(12)}}, why: "defined twice"},
	} {
		t.Run(name, func(t *testing.T) {
			follow := func(changes []event.Change) error {
				return replayWhole(&kv.Memory{}, followedBy(withSettled(uint64(len(log))+1, changes)...)(slices.Clone(log)))
			}
			must(t, follow(one.sound))
			wantForged(t, follow(one.forged), one.why)
		})
	}
	// The encoding of the question itself, which the responses then do not fit.
	for number, encoding := range map[uint32]api.Encoding{1: api.Direct, 2: api.Unary} {
		other := slices.Clone(log)
		i := indexOf(t, other, func(c event.Change) bool { q, ok := c.(*event.QuestionDefined); return ok && q.Number == number })
		q := other[i].Change.(*event.QuestionDefined).Question
		q.Encoding = encoding
		other[i].Change = &event.QuestionDefined{Number: number, Question: q}
		reidentify(other, i)
		wantForged(t, replayWhole(&kv.Memory{}, other), "a response of")
	}
}

func TestASpoiledUnaryTallyIsNoticed(t *testing.T) {
	bits := func(n int, all ...byte) []byte { return append(all, make([]byte, 2*n-len(all)+2)...) }
	one := eps(t, "1")
	for name, spoiled := range map[string]struct {
		key     state.TallyKey
		payload []byte
	}{
		"of a value":                      {state.TallyKey{Question: 1, Epsilon: one, Value: 1}, bits(villagers, 2, 0)},
		"of the last value":               {state.TallyKey{Question: 1, Epsilon: one, Value: villagers - 1}, bits(villagers, 2, 0)},
		"of another level's value":        {state.TallyKey{Question: 1, Epsilon: eps(t, "0.75"), Value: 3}, bits(villagers, 1, 1)},
		"of a value, without bits":        {state.TallyKey{Question: 1, Epsilon: one, Value: 1}, []byte{2, 0}},
		"without bits":                    {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, []byte{2, 0}},
		"of a bit too few":                {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, bits(villagers-1, 2, 0)},
		"of a bit too many":               {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, bits(villagers+1, 2, 0)},
		"of half a bit":                   {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, append(bits(villagers, 2, 0), 0)},
		"of nobody":                       {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, bits(villagers, 0, 0)},
		"with a bit more":                 {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, bits(villagers, 2, 0, 3, 0)},
		"with more current":               {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, bits(villagers, 2, 0, 2, 1)},
		"with more current than recorded": {state.TallyKey{Question: 1, Epsilon: eps(t, "2"), Value: 0}, bits(villagers, 2, 2, 1, 2)},
		"of more than there are":          {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, bits(villagers, 4, 4)},
		"of more than can be counted":     {state.TallyKey{Question: 1, Epsilon: one, Value: 0}, append(binary.AppendUvarint(binary.AppendUvarint(nil, 1<<64-1), 1<<64-1), make([]byte, 2*villagers)...)},
	} {
		t.Run(name, func(t *testing.T) {
			s := village(t)
			l := openMemory(t, s, Options{})
			putRecord(t, s, state.BucketTallies, spoiled.key.Bytes(), spoiled.payload)
			for _, epsilon := range []privacy.Epsilon{{}, spoiled.key.Epsilon} {
				e, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "home", Epsilon: epsilon})
				check.That(t, errors.Is(err, api.ErrCorrupt), "at ε=%s got %+v, %v, want ErrCorrupt", epsilon, e, err)
			}
			check.That(t, len(findings(t, l, api.VerifyRequest{})) != 0, "the audit finds nothing")
		})
	}
}

// A chain with a response that its question cannot have, and a valid checksum: every call that needs the response says
// so, and none panics.
func TestAnImpossibleRowOfBitsIsNoPanic(t *testing.T) {
	for name, broken := range map[string]struct {
		question string
		response event.Value
	}{
		"a bit too few":         {"home", event.Value{Bits: bitsOf(t, strings.Repeat("1", villagers-1))}},
		"a bit too many":        {"home", event.Value{Bits: bitsOf(t, strings.Repeat("1", villagers+1))}},
		"the bits and one more": {"home", event.Value{Bits: bitsOf(t, chainOfMemory(t, village(t), 1, "ann").Levels[2].Response.Bits.String()+"1")}},
		"many bits":             {"home", event.Value{Bits: bitsOf(t, strings.Repeat("1", event.MaxUnaryValues))}},
		"a value":               {"home", event.Value{Index: 2}},
		"bits for a value":      {"vote", event.Value{Bits: bitsOf(t, "111")}},
		"a value too high":      {"vote", event.Value{Index: 3}},
		"the highest of values": {"vote", event.Value{Index: wire.MaxValues - 1}},
	} {
		t.Run(name, func(t *testing.T) {
			number, epsilon := uint32(1), "2"
			if broken.question == "vote" {
				number, epsilon = 2, "1"
			}
			original := village(t)
			alter(t, original, state.BucketChains, state.ChainKey(number, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) {
				c.Levels[len(c.Levels)-1].Response = broken.response
			}))
			if broken.question == "vote" { // which is counted, so that nothing else is wrong
				putRecord(t, original, state.BucketTallies, state.TallyKey{Question: 2, Epsilon: eps(t, "1"), Value: uint32(broken.response.Index)}.Bytes(), []byte{1, 1})
			}
			damaged := pairs(t, original)
			ask := func(key, epsilon string) api.ReleaseRequest {
				r := homeOf(t, key, "ann", epsilon)
				if r.Question = broken.question; broken.question == "vote" {
					r.Truth = sameTruth("yes")
				}
				return r
			}
			for call, make := range map[string]func(*Ledger) error{
				"raise":     func(l *Ledger) error { return check.Err(l.Release(t.Context(), ask("k", "5"))) },
				"derive":    func(l *Ledger) error { return check.Err(l.Release(t.Context(), ask("k", "0.125"))) },
				"again":     func(l *Ledger) error { return check.Err(l.Release(t.Context(), ask("k", epsilon))) },
				"object":    func(l *Ledger) error { return check.Err(l.Object(t.Context(), "ann")) },
				"responses": func(l *Ledger) error { return firstError(l.Responses(t.Context(), broken.question, eps(t, epsilon))) },
				"recount": func(l *Ledger) error {
					_, err := l.Estimate(t.Context(), api.EstimateRequest{Question: broken.question, Include: everybody})
					return err
				},
				"resale": func(l *Ledger) error {
					r := homesFor(t, "k", "zeta", epsilon, "ann")
					if r.Question = broken.question; broken.question == "vote" {
						r.Truth = sameTruth("yes")
					}
					var err error
					unchanged(t, l.engine.Store, func() { _, err = l.Sell(t.Context(), r) })
					return err
				},
				"deliveries": func(l *Ledger) error { return firstError(l.Deliveries(t.Context(), uint64(number))) },
				"forget":     func(l *Ledger) error { return l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"}) },
			} {
				t.Run(call, func(t *testing.T) {
					s := fill(t, damaged)
					l := openMemory(t, s, Options{})
					err := recovered(func() error { return make(l) })
					check.That(t, errors.Is(err, api.ErrCorrupt), "got the error %v, want ErrCorrupt", err)
				})
			}
		})
	}
}

// Evidence.

// hamlet is an office that has sold homes in every way, and a receipt.
func hamlet(t testing.TB) (*office, evidence.Receipt) {
	t.Helper()
	o := newOffice(t, 1)
	o.engine.Chances.Sampler, _ = sampler(5)
	dwellers(t, o.Ledger, villagers, "ann", "bob", "cid", "dan")
	for i, step := range []struct {
		buyer, epsilon string
		objects        []string
	}{
		{"acme", "0.5", []string{"ann", "bob", "dan"}}, // draws
		{"zeta", "2", []string{"ann", "dan"}},          // draws
		{"acme", "3", []string{"bob"}},
		{"acme", "1", []string{"ann", "bob", "cid", "dan"}}, // insertions, a draw
		{"acme", "0.25", []string{"ann", "bob"}},            // degradations
		{"zeta", "1", []string{"ann", "bob"}},               // resales
	} {
		o.later()
		sell(t, o.Ledger, homesFor(t, fmt.Sprint(i), step.buyer, step.epsilon, step.objects...))
	}
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "dan"}))
	o.later()
	return o, receiptOf(t, o.Ledger, 4)
}

// Every field is named when it is altered, and the encoding is one; every bit of a response is, too.
func TestEveryAlterationOfAReceiptOfBitsIsNamed(t *testing.T) {
	o, r := hamlet(t)
	wantSound(t, "the receipt", r, o.keys)
	check.Need(t, r.Encoding == api.Unary && r.Responses[3].Erased && len(r.Responses[0].Response) == villagers,
		"%+v", r)
	n := 0
	altered(t, r, func(way string, other evidence.Receipt) {
		n++
		c := other.Verify(o.keys)
		check.That(t, !c.OK() && len(c.Faults) != 0, "%s: nobody notices", way)
	})
	check.That(t, n >= 60, "only %d fields", n)
	for _, encoding := range []api.Encoding{api.Direct, "", "unary ", "Unary", "2"} {
		other := copyOf(t, r)
		other.Encoding = encoding
		wantFault(t, fmt.Sprintf("the encoding %q", encoding), other, o.keys, "question")
		wantFault(t, fmt.Sprintf("the encoding %q", encoding), other, nil, "question")
		for i := range 3 {
			if encoding == api.Direct {
				wantFault(t, "a row of bits as a value", other, o.keys, fmt.Sprintf("no. %d", i+1))
			}
		}
	}
	for i, one := range r.Responses[:3] {
		for _, text := range alteredTexts(one.Response) {
			other := copyOf(t, r)
			other.Responses[i].Response = text
			c := other.Verify(o.keys)
			if c.OK() || !slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item == i+1 }) || slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item != i+1 && f.Item != 0 }) {
				t.Errorf("response %d as %.40q: %.400q", i+1, text, faults(c))
			}
			if strange := "is no value of the question"; strings.Contains(strings.Join(faults(c), "\n"), strange) == (len(text) == villagers && strings.Trim(text, "01") == "") {
				t.Errorf("response %d as %.40q: %.400q, one of which says that it %s", i+1, text, faults(c), strange)
			}
		}
	}
	_, small := cottage(t)
	everyByte(t, small, o.keys, evidence.ReadReceipt)
}

// cottage is an office that has sold one home, and the receipt.
func cottage(t testing.TB) (*office, evidence.Receipt) {
	t.Helper()
	o := newOffice(t, 1)
	o.engine.Chances.Sampler, _ = sampler(6)
	dwellers(t, o.Ledger, villagers, "ann")
	sell(t, o.Ledger, homesFor(t, "s", "acme", "0.5", "ann"))
	return o, receiptOf(t, o.Ledger, 1)
}

// alteredTexts are a row of bits with one of them altered, one more and one less, and what is none.
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

func TestEveryAlterationOfAStatementOfBitsIsNamed(t *testing.T) {
	o, _ := hamlet(t)
	st := statementOf(t, o.Ledger, "ann's", "ann")
	wantSound(t, "the statement", st, o.keys)
	wantWholeLife(t, o, st)
	wantAllNamed(t, o, st, 100)
	for i, f := range st.Events {
		response := responseIn(&f)
		if response == nil {
			continue
		}
		for _, text := range alteredTexts(*response) {
			other := copyOf(t, st)
			*responseIn(&other.Events[i]) = text
			if c := other.Verify(o.keys); c.OK() || !slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item == i+1 }) {
				t.Errorf("event %d with %q: %q", f.Event, text, faults(c))
			}
		}
	}
	for i, f := range st.Events {
		if f.Kind() != "question" {
			continue
		}
		for _, encoding := range []api.Encoding{api.Direct, "", "Unary"} {
			other := copyOf(t, st)
			other.Events[i].Says.(*says.QuestionDefined).Encoding = encoding
			if c := other.Verify(o.keys); c.OK() || !slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item == i+1 }) {
				t.Errorf("the encoding %q: %q", encoding, faults(c))
			}
		}
	}
	for i := range st.Released {
		other := copyOf(t, st)
		other.Released[i].Response = flippedBit(t, bitsOf(t, st.Released[i].Response), i).String()
		wantFault(t, "a bit of what was released", other, o.keys, "released is not what the events come to")
	}
	small, _ := cottage(t)
	whole := text(t, statementOf(t, small.Ledger, "ann's", "ann"))
	step := oneIn(5)
	for i := rand.IntN(step); i < len(whole); i += step { // a bit of each character: of a row of bits, the one that makes a 1 of a 0
		data := slices.Clone(whole)
		data[i] ^= 1
		if got, err := evidence.ReadStatement(data); err == nil && got.Verify(small.keys).OK() {
			t.Errorf("byte %d, in %q: nobody notices", i, around(whole, i))
		}
	}
}
