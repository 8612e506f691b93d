package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// samePick fails unless a scan finds in a chain what decoding all of it finds there. It returns whether the chain is sound.
func samePick(t *testing.T, x levels, payload []byte) (sound bool) {
	t.Helper()
	var found foundLevel
	picked, err := x.pick(newLevelBatch(), payload, &found)
	c, all := state.DecodeChain(payload)
	check.Need(t, (err == nil) == (all == nil), "%x: %v; decoded %v", payload, err, all)
	if err != nil {
		return false
	}
	var want state.Level
	have := false
	for _, l := range c.Levels { // in damaged ones they need not rise
		if x.Current || l.Epsilon == x.Epsilon {
			want, have = l, true
		}
	}
	check.Need(t, picked == have && (!picked || (found.epsilon == want.Epsilon && found.event == want.Event && (want.Response.IsUnary() || found.index == want.Response.Index))),
		"%x: %v, %+v; decoded %v, %+v", payload, picked, found, have, want)
	return true
}

// usualChains are chains as a ledger has them.
func usualChains(t testing.TB) (chains []state.Chain) {
	t.Helper()
	at := func(epsilon int64, index int, ev uint64, buyers ...uint32) state.Level {
		l := state.NewLevel(nano(t, epsilon), event.Value{Index: index}, ev)
		for i, buyer := range buyers {
			l.Holders = append(l.Holders, state.Holder{Buyer: buyer, Paid: []uint64{0, 127, 1 << 40}[i%3]})
		}
		return l
	}
	return []state.Chain{
		{Enrolled: 1},
		{Enrolled: 300, Levels: []state.Level{at(1_000_000_000, 2, 128)}},
		{Enrolled: 1 << 40, Policy: 7, Noise: 127, Buyers: 126, Bound: &event.Tag{1, 2, 0x80}, Answered: nano(t, 5), Levels: []state.Level{
			at(1, 0, 1), at(127, 1, 1<<62), at(128, 126, 3, 1, 300, 1<<32-1), at(privacy.MaxEpsilon().Nano(), 127, 1<<63-1, 5)}},
	}
}

// A scan finds what is there, and the faults that are there, whatever the bytes are.
func TestAScanDecodesAsAChainIsDecoded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sound := 0
	for range 50_000 {
		payload := fixture.Oddly(random, usualChains(t)[random.IntN(3)].Encode())
		if samePick(t, levels{Epsilon: nano(t, 128), Current: random.IntN(2) == 0}, payload) {
			sound++
		}
	}
	check.That(t, sound >= 10_000 && sound <= 45_000, "%d of 50,000 were sound: the test compares little", sound)
}

// A response is no row of bits because the one before was: in a damaged file both may stand next to each other.
func TestRowsAndOthersInOneBatch(t *testing.T) {
	row := func(packed byte) event.Value {
		bits := check.Value(rrchain.NewBits(3, []byte{packed}))(t)
		return event.Value{Bits: bits}
	}
	want := []event.Value{row(0b10), {}, {Index: 2}, row(0), row(0b101), {Index: 1}}
	b, x := newLevelBatch(), levels{Question: &event.Question{Number: 7}, Current: true}
	for i, response := range want {
		key := state.ChainKey(7, string('a'+rune(i)))
		c := state.Chain{Enrolled: 1, Levels: []state.Level{state.NewLevel(nano(t, 5), row(0b1), 1), state.NewLevel(nano(t, 1e9), response, uint64(i))}}
		b.stored = append(append(b.stored, key...), wire.Seal(state.BucketChains, key, c.Encode())...)
		b.ends = append(b.ends, storedRecord{len(key), len(b.stored)})
	}
	x.check(b)
	var got []event.Value
	on, err := b.visit(func(name string, at *state.Level) bool {
		check.That(t, name == string('a'+rune(len(got))) && at.Event == uint64(len(got)) && at.Epsilon == nano(t, 1e9),
			"%q: %+v", name, at)
		got = append(got, at.Response)
		return true
	})
	if must(t, err); !on || !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

func FuzzPick(f *testing.F) {
	for _, c := range usualChains(f) {
		f.Add(c.Encode(), int64(128), false)
	}
	for _, odd := range fixture.OddPayloads() {
		f.Add(odd, int64(0), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, epsilon int64, current bool) {
		if at, err := privacy.EpsilonFromNano(epsilon); err == nil {
			samePick(t, levels{Epsilon: at, Current: current}, payload)
		}
	})
}
