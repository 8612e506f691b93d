package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Invariant 11 for each decoder: any bytes give a record or an error that says ErrCorrupt (or, for an
// event of a later encoding, ErrVersion). Encodings are canonical: what a decoder accepts encodes to
// the bytes it was decoded from. Lists are never larger than the record that claims to hold them.

// fuzz checks the decoder of one bucket's records, beginning with those of the specimen that match.
func fuzz[T any](f *testing.F, bucket string, match func(key []byte) bool, decode func([]byte) (T, error), encode func(T) []byte, items func(T) int) {
	var seeds [][]byte
	for _, p := range specimen(f) {
		if p.bucket == bucket && match(p.key) {
			payload, err := unsealed(p)
			must(f, err)
			seeds = append(seeds, payload)
		}
	}
	if len(seeds) == 0 {
		f.Errorf("the specimen has no such record in %s", bucket)
	}
	fuzzFrom(f, seeds, decode, encode, items)
}

// fuzzFrom checks a decoder, beginning with some records.
func fuzzFrom[T any](f *testing.F, seeds [][]byte, decode func([]byte) (T, error), encode func(T) []byte, items func(T) int) {
	for _, seed := range append(seeds, oddPayloads()...) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		record, err := decode(payload)
		if !bytes.Equal(payload, before) {
			t.Error("the decoder writes to its input")
		}
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("got the error %v", err)
			}
			return
		}
		if again := encode(record); !bytes.Equal(again, payload) {
			t.Errorf("%x decodes to %+v, which encodes to %x", payload, record, again)
		}
		if n := items(record); n > len(payload) {
			t.Errorf("%d items from %d bytes", n, len(payload))
		}
	})
}

// oddPayloads are short, long and boundary cases that flipping bits seldom finds.
func oddPayloads() [][]byte {
	long := bytes.Repeat([]byte{0xff}, 9)
	numbers := [][]byte{{}, {0}, {0x80, 0}, {0x80}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0x80, 0x80, 0x80, 0x80, 0x10}, append(long, 1), append(long, 2), append(long, 0x7f)}
	var odd [][]byte
	for _, n := range numbers {
		for before := range 8 { // the number as each of the first fields, with any number of zeros behind
			for behind := range 8 {
				odd = append(odd, slices.Concat([]byte{4, 0, 0, 0, 0, 0, 0}[:before], n, make([]byte, behind)))
			}
		}
	}
	// Flags that are neither 0 nor 1.
	odd = append(odd, []byte{4, 0, 0, 0, 2, 0, 0}, []byte{1, 4, 2, 0, 1, 1, 1}, append(make([]byte, 32), 2, 0), append(make([]byte, 32), 0xff, 0))
	// Sales with a status that there is none of, and one without the expiry that it announces.
	odd = append(odd, []byte{0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 9, 0, 0, 0}, []byte{4, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 9, 0, 0, 0}, []byte{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 9, 9, 1, 0})
	// A level of a chain with 8 bits, with 9 and one beyond the last, with fewer bytes than bits, and with no bits.
	odd = append(odd, []byte{4, 0, 0, 0, 0, 1, 1, 0x88, 0x80, 0x40, 0xff, 5, 0}, []byte{4, 0, 0, 0, 0, 1, 1, 0x89, 0x80, 0x40, 0xff, 3, 5, 0},
		[]byte{4, 0, 0, 0, 0, 1, 1, 0xff, 0xff, 0x43, 0xff, 5, 0}, []byte{4, 0, 0, 0, 0, 1, 1, 0x80, 0x80, 0x40, 5, 0})
	// Tallies of bits: one in all responses, one in more, one current in none, and half of one.
	odd = append(odd, []byte{2, 1, 2, 1, 0, 0}, []byte{2, 1, 3, 1}, []byte{2, 1, 1, 2}, []byte{2, 1, 2})
	// A level of a chain at ε = 1001, one with a response that no question can have, one that a buyer
	// beyond 2³² holds, and one of more buyers than the record has bytes.
	return append(odd, []byte{4, 0, 0, 0, 0, 0, 1, 0x80, 0x94, 0xd2, 0xa8, 0x91, 0x1d, 0, 5, 0}, []byte{4, 0, 0, 0, 0, 0, 1, 1, 0x80, 0x80, 0x40, 5, 0},
		[]byte{4, 0, 0, 0, 0, 0, 1, 1, 0, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x10}, []byte{4, 0, 0, 0, 0, 0, 1, 1, 0, 5, 9, 1})
}

func anyKey([]byte) bool { return true }

func none[T any](T) int { return 0 }

// The number of an event says how many hashes its record has. Here it is the first byte of what is decoded.
func FuzzDecodeEvent(f *testing.F) {
	var seeds [][]byte
	erased := 0
	for _, p := range specimen(f) {
		if p.bucket == state.BucketEvents {
			payload, err := unsealed(p)
			must(f, err)
			seeds = append(seeds, append([]byte{p.key[7]}, payload...))
			if payload[0] == event.FormErased {
				erased++
			}
		}
	}
	for _, n := range append(goldenEntries(f), goldenFiniteEntries(f)...) {
		seeds = append(seeds, append([]byte{byte(n.Number)}, n.Encode()...))
		if erasable(n.Change) {
			seeds = append(seeds, append([]byte{byte(n.Number)}, n.Erase().Encode()...))
		}
	}
	if erased == 0 {
		f.Error("the specimen has no erased event")
	}
	decode := func(numbered []byte) (event.Entry, error) {
		if len(numbered) == 0 {
			return event.Entry{}, ErrCorrupt
		}
		return event.DecodeEntry(uint64(numbered[0]), numbered[1:])
	}
	encode := func(n event.Entry) []byte { return append([]byte{byte(n.Number)}, n.Encode()...) }
	fuzzFrom(f, seeds, decode, encode, func(n event.Entry) int {
		items := len(n.Hashes)
		switch c := n.Change.(type) {
		case *event.QuestionDefined:
			items += len(c.Values) + cellsOf(c.Mechanism)
		case *event.Settled:
			items += len(c.Swept)
		case *event.Stated:
			items += len(c.Events)
		case *event.Forgotten:
			items += len(c.Chains)
		}
		return items
	})
}

func FuzzDecodeStranger(f *testing.F) {
	fuzz(f, state.BucketStrangers, anyKey, state.DecodeStranger, state.Stranger.Encode, none)
}

func FuzzDecodeChain(f *testing.F) {
	fuzz(f, state.BucketChains, anyKey, state.DecodeChain, state.Chain.Encode, func(c state.Chain) int {
		items := len(c.Levels)
		for _, l := range c.Levels {
			items += len(l.Buyers)
		}
		return items
	})
}

func FuzzDecodeAnswers(f *testing.F) {
	fuzz(f, state.BucketAnswers, anyKey, state.DecodeAnswers, state.Answers.Encode, func(a state.Answers) int { return len(a) })
}

func FuzzDecodeObject(f *testing.F) {
	isObject := func(key []byte) bool { return bytes.IndexByte(key, 0) == len(key)-1 }
	fuzz(f, state.BucketObjects, isObject, state.DecodeObject, state.Object.Encode, func(o state.Object) int { return len(o.Held) })
}

func FuzzDecodeBuyer(f *testing.F) {
	isNumber := func(key []byte) bool { return key[0] == 'q' }
	fuzz(f, state.BucketBuyers, isNumber, state.DecodeBuyer, state.Buyer.Encode, none)
}

func FuzzDecodeSale(f *testing.F) {
	fuzz(f, state.BucketSales, anyKey, state.DecodeSale, state.Sale.Encode, none)
}

func FuzzDecodeRequest(f *testing.F) {
	fuzz(f, state.BucketRequests, anyKey, state.DecodeRequest, state.Request.Encode, func(r state.Request) int { return len(r.Settled) })
}

func FuzzDecodeQuestion(f *testing.F) {
	encode := func(q *event.Question) []byte {
		e := &wire.Encoder{}
		(&event.QuestionDefined{Number: q.Number, Question: Question{Name: q.Name, Values: q.Values, Encoding: q.Encoding, Mechanism: q.Mechanism}}).Encode(e)
		return e.Buf
	}
	odds := oddsQuestion(f)
	odds.Encoding = Finite
	seeds := [][]byte{defined(1, finiteParty(f), Finite), defined(2, odds, Finite)}
	for _, p := range specimen(f) {
		if p.bucket == state.BucketQuestions && p.key[0] == 'q' {
			payload, err := unsealed(p)
			must(f, err)
			seeds = append(seeds, payload)
		}
	}
	fuzzFrom(f, seeds, event.DecodeQuestion, encode, func(q *event.Question) int { return len(q.Values) + cellsOf(q.Mechanism) })
}

// cellsOf counts the probabilities of a mechanism's levels. Each takes a byte at least.
func cellsOf(m *Mechanism) (cells int) {
	if m == nil {
		return 0
	}
	for _, epsilon := range m.Family.Epsilons() {
		level, _ := m.Family.Level(epsilon)
		cells += level.Inputs() * level.Outputs()
	}
	return cells
}

func FuzzDecodeCounters(f *testing.F) {
	isCounters := func(key []byte) bool { return string(key) == state.KeyCounters }
	fuzz(f, state.BucketMeta, isCounters, state.DecodeCounters, state.Counters.Encode, none)
}

func FuzzDecodeAbout(f *testing.F) {
	isAbout := func(key []byte) bool { return string(key) == state.KeyAbout }
	fuzz(f, state.BucketMeta, isAbout, event.DecodeAbout, event.About.Encode, none)
}

// FuzzUnseal: only what seal made is accepted, and only in its place.
func FuzzUnseal(f *testing.F) {
	f.Add("chains", []byte("key"), []byte("payload"))
	f.Add("", []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, bucket string, key, value []byte) {
		payload, err := wire.Unseal(bucket, key, value)
		if err != nil {
			wantErr(t, err, ErrCorrupt)
			value = wire.Seal(bucket, key, bytes.Clone(value))
			payload, err = wire.Unseal(bucket, key, value)
			must(t, err)
		}
		if again := wire.Seal(bucket, key, bytes.Clone(payload)); !bytes.Equal(again, value) {
			t.Errorf("%x unseals to %x, which seals to %x", value, payload, again)
		}
		if _, err := wire.Unseal(bucket, append(bytes.Clone(key), 0), value); err == nil {
			t.Error("a record is accepted under another key")
		}
	})
}

// Values that no ledger writes are refused, however well they are encoded.
func TestDecodersRefuseWhatCannotBe(t *testing.T) {
	for name, payload := range map[string][]byte{
		"response 2²⁰":  {4, 0, 0, 0, 0, 0, 0, 1, 1, 0x80, 0x80, 0x40, 5, 0},
		"ε above 1,000": {4, 0, 0, 0, 0, 0, 0, 1, 0x81, 0xa0, 0x94, 0xa5, 0x8d, 0x1d, 0, 5, 0},
		"policy 2³²":    {4, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0, 0, 0},
		"noise key 2³²": {4, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0, 0},
		"buyer 2³²":     {4, 0, 0, 0, 0, 0, 0, 1, 1, 0, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x10},
	} {
		if c, err := state.DecodeChain(payload); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
	}
	// The nearest ones that can be, so that the test is about what it says.
	for _, payload := range [][]byte{
		{4, 0, 0, 0, 0, 0, 0, 1, 1, 0xff, 0xff, 0x3f, 5, 0}, {4, 0, 0, 0, 0, 0, 0, 1, 0x80, 0xa0, 0x94, 0xa5, 0x8d, 0x1d, 0, 5, 0},
		{4, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 0}, {4, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0},
		{4, 0, 0, 0, 0, 0, 0, 1, 1, 0, 5, 1, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		if _, err := state.DecodeChain(payload); err != nil {
			t.Errorf("%x: %v", payload, err)
		}
	}
	for score, want := range map[int64]error{0: nil, 1 << 61: nil, -1 << 61: nil, 1<<61 + 1: ErrCorrupt, -1<<61 - 1: ErrCorrupt, math.MaxInt64: ErrCorrupt, math.MinInt64: ErrCorrupt} {
		recorded := state.Answers{{Epsilon: nano(t, 1), Result: event.Result{Scored: true, Score: score}, Event: 1, Began: 1, Objects: 1}}
		if back, err := state.DecodeAnswers(recorded.Encode()); !errors.Is(err, want) || err == nil && !slices.Equal(back, recorded) {
			t.Errorf("a score of %d: %+v, %v", score, back, err)
		}
	}
	statuses := func(status byte) error {
		_, err := state.DecodeSale([]byte{status, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 9, 0, 0, 0})
		return err
	}
	for status := range byte(6) {
		if err := statuses(status); (err == nil) != (status >= 1 && status <= 3) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("a sale with status %d: %v", status, err)
		}
	}
	// A response of a chain is not released as one that was sold again; an order's may be.
	for method, want := range map[event.Method]error{event.MethodRaise: nil, event.MethodInsert: nil, event.MethodFresh: ErrCorrupt, event.MethodResale: ErrCorrupt, 0: ErrCorrupt, 6: ErrCorrupt} {
		payload := recordOf(&event.Released{Object: "ann", Question: 1, Epsilon: nano(t, 1), Response: event.Response{Value: event.Value{}, Method: method}})
		if _, err := event.DecodeEntry(1, payload); !errors.Is(err, want) {
			t.Errorf("released by method %d: %v", method, err)
		}
		if method == event.MethodResale {
			want = nil
		}
		payload = recordOf(&event.Sold{Object: "ann", Sale: 1, Price: 0, Response: event.Response{Value: event.Value{}, Method: method}})
		if _, err := event.DecodeEntry(1, payload); !errors.Is(err, want) {
			t.Errorf("sold by method %d: %v", method, err)
		}
	}
}

// empty returns a change of a kind that has no public part.
func empty(k event.Kind) event.Change {
	return event.DecodeHidden(&wire.Decoder{}, k)
}

// A claimed length must not be believed: no decoder allocates for more items than the record has
// bytes for.
func TestDecodersDoNotBelieveLengths(t *testing.T) {
	settlement := publicBytes(event.Event{Change: &event.Settled{Key: "k"}}) // which ends with an empty list and two numbers 0
	record := recordOf(&event.Withdrawn{Object: "ann"})
	public := int(record[2]) // the length of the public part, behind the form and a number
	said := func(k event.Kind, p []byte) error {
		ev := event.Event{}
		return ev.Decode(&wire.Decoder{Rest: publicBytes(event.Event{Change: empty(k)})}, &wire.Decoder{Rest: p})
	}
	for name, decoder := range map[string]struct {
		head   []byte // up to the length
		decode func([]byte) error
	}{
		"holders":  {[]byte{1, 0, 0, 0, 0, 0, 1, 1, 0, 5}, func(p []byte) error { _, err := state.DecodeChain(p); return err }},
		"holds":    {[]byte{1, 0, 0, 0, 0, 0, 0, 0}, func(p []byte) error { _, err := state.DecodeObject(p); return err }},
		"buyer":    {nil, func(p []byte) error { _, err := state.DecodeBuyer(p); return err }},
		"chain":    {[]byte{1, 0, 0, 0, 0, 0}, func(p []byte) error { _, err := state.DecodeChain(p); return err }},
		"answers":  {nil, func(p []byte) error { _, err := state.DecodeAnswers(p); return err }},
		"request":  {make([]byte, 33), func(p []byte) error { _, err := state.DecodeRequest(p); return err }},
		"question": {[]byte{0, 0, 0, 1, 1, 'q'}, func(p []byte) error { _, err := event.DecodeQuestion(p); return err }},
		"text":     {[]byte{0, 0, 0, 1}, func(p []byte) error { _, err := event.DecodeQuestion(p); return err }},
		"public":   {record[:2], func(p []byte) error { _, err := event.DecodeEntry(1, p); return err }},
		"hidden":   {record[:3+public], func(p []byte) error { _, err := event.DecodeEntry(1, p); return err }},
		"swept": {settlement[:len(settlement)-3], func(p []byte) error {
			ev := event.Event{}
			return ev.Decode(&wire.Decoder{Rest: p}, &wire.Decoder{Rest: []byte{0}})
		}},
		"values":   {[]byte{0, 0, 0, 1, 1, 'q'}, func(p []byte) error { return said(event.KindQuestion, p) }},
		"stated":   {[]byte{1, 'a', 0}, func(p []byte) error { return said(event.KindStated, p) }},
		"remnants": {[]byte{1, 'a', 1, 1, 0, 0}, func(p []byte) error { return said(event.KindForgotten, p) }},
	} {
		for _, length := range []uint64{100, 1<<20 - 1, 1 << 31, 1 << 62, 1<<64 - 1} {
			payload := binary.AppendUvarint(slices.Clone(decoder.head), length)
			var err error
			allocated := bytesAllocated(func() { err = decoder.decode(payload) })
			wantErr(t, err, ErrCorrupt)
			if allocated > 1<<16 {
				t.Errorf("%s: %d bytes are allocated for a claim of %d items", name, allocated, length)
			}
		}
	}
}

// bytesAllocated runs fn twice, because the first run may set things up, and measures the second.
func bytesAllocated(fn func()) uint64 {
	var before, after runtime.MemStats
	fn()
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
