package event

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// written returns the records of a small ledger.
func written(t testing.TB) []fixture.Record {
	t.Helper()
	return fixture.Records(t, "../../testdata/golden/format-v7.txt")
}

// publicBytes returns the bytes of an event that are never erased.
func publicBytes(ev Event) []byte {
	e := &wire.Encoder{}
	ev.public(e)
	return e.Buf
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	text := check.Value(json.Marshal(v))(t)
	return string(text)
}

// FuzzDecodeEvent decodes any record. The first byte is the number of the event, which determines
// the number of hashes in the record.
func FuzzDecodeEvent(f *testing.F) {
	var seeds [][]byte
	erased := 0
	for _, r := range written(f) {
		if r.Bucket == "events" {
			seeds = append(seeds, append([]byte{r.Key[7]}, r.Payload...))
			if r.Payload[0] == formErased {
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
	check.That(f, erased != 0, "the ledger has no erased event")
	decode := func(numbered []byte) (Entry, error) {
		if len(numbered) == 0 {
			return Entry{}, errs.ErrCorrupt
		}
		return DecodeEntry(uint64(numbered[0]), numbered[1:])
	}
	encode := func(n Entry) []byte { return append([]byte{byte(n.Number)}, n.Encode()...) }
	fixture.Fuzz(f, seeds, decode, encode, func(n Entry) int { return len(n.Hashes) + itemsOf(n.Change) }, errs.ErrCorrupt, errs.ErrVersion)
}

// itemsOf returns the total length of the lists of a change.
func itemsOf(c Change) int {
	switch c := c.(type) {
	case *QuestionDefined:
		return len(c.Values) + cellsOf(c.Mechanism)
	case *Settled:
		return len(c.Swept)
	case *Stated:
		return len(c.Events)
	case *Forgotten:
		return len(c.Chains)
	}
	return 0
}

// FuzzReadBare decodes any bytes as an event of a journal.
func FuzzReadBare(f *testing.F) {
	var seeds [][]byte
	for _, n := range append(goldenEntries(f), goldenFiniteEntries(f)...) {
		seeds = append(seeds, new(Written).Write(&n.Event).Bare())
	}
	decode := func(bare []byte) (Event, error) {
		ev, _, err := ReadBare(1, bare, nil)
		return ev, err
	}
	encode := func(ev Event) []byte { return new(Written).Write(&ev).Bare() }
	fixture.Fuzz(f, seeds, decode, encode, func(ev Event) int { return itemsOf(ev.Change) }, errs.ErrCorrupt, errs.ErrVersion)
}

func FuzzDecodeQuestion(f *testing.F) {
	encode := func(q *Question) []byte {
		e := &wire.Encoder{}
		(&QuestionDefined{Number: q.Number, Question: api.Question{Name: q.Name, Values: q.Values, Encoding: q.Encoding, Mechanism: q.Mechanism}}).Fields(wire.Writing(e))
		return e.Buf
	}
	odds := fixture.Odds(f)
	odds.Encoding = "finite"
	seeds := [][]byte{defined(1, finiteParty(f), "finite"), defined(2, odds, "finite")}
	isQuestion := func(key []byte) bool { return key[0] == 'q' }
	seeds = append(seeds, fixture.Payloads(f, written(f), "questions", isQuestion)...)
	fixture.Fuzz(f, seeds, DecodeQuestion, encode, func(q *Question) int { return len(q.Values) + cellsOf(q.Mechanism) }, errs.ErrCorrupt)
}

// cellsOf returns the number of probabilities in the levels of a mechanism. Each has at least a
// byte.
func cellsOf(m *api.Mechanism) (cells int) {
	if m == nil {
		return 0
	}
	for _, epsilon := range m.Family.Epsilons() {
		level, _ := m.Family.Level(epsilon)
		cells += level.Inputs() * level.Outputs()
	}
	return cells
}

func FuzzDecodeAbout(f *testing.F) {
	isAbout := func(key []byte) bool { return string(key) == "about" }
	fixture.Fuzz(f, fixture.Payloads(f, written(f), "meta", isAbout), DecodeAbout, About.Encode, func(About) int { return 0 }, errs.ErrCorrupt)
}

// empty returns a change of a kind that has no public part.
func empty(k Kind) Change {
	return newChange(k)
}

// An event that is read into the memory of any other event, or of one that could not be read, is
// the same as one read into new memory.
func TestEntryRead_IntoUsedMemory_IsTheSame(t *testing.T) {
	type record struct {
		number  uint64
		payload []byte
	}
	var records []record
	for _, n := range goldenEntries(t) {
		records = append(records, record{n.Number, n.Encode()})
		if erasable(n.Change) {
			records = append(records, record{n.Number, n.Erase().Encode()})
		}
		if payload, k := n.Encode(), n.Change.Kind(); k == KindReleased || k == KindEnrolled {
			wrongVersion := bytes.Clone(payload)
			wrongVersion[3]++
			cutOff := payload[:len(payload)-1]
			short := payload[:len(payload)-1-len(n.Hashes)*len(merkle.HashLeaf())]
			records = append(records, record{n.Number, wrongVersion}, record{n.Number, cutOff}, record{n.Number, short})
		}
	}
	random := rand.New(rand.NewPCG(9, 10))
	used, shared := [3]Entry{}, &Reader{Texts: &wire.Texts{}}
	read := map[Kind]int{}
	for range 20_000 {
		r, e := records[random.IntN(len(records))], &used[random.IntN(len(used))]
		var fresh Entry
		want, err := fresh.Read(r.number, r.payload, new(Reader)), e.Read(r.number, r.payload, shared)
		if want != nil || err != nil {
			check.Need(t, fmt.Sprint(err) == fmt.Sprint(want), "%v, and over another one %v", want, err)
			continue
		}
		read[e.Change.Kind()]++
		check.Need(t, reflect.DeepEqual(*e, fresh),
			"%x is read as %+v, and over another one as %+v", r.payload, fresh, *e)
	}
	n := min(read[KindReleased], read[KindEnrolled])
	check.That(t, n >= 500, "%d responses or enrolments: the test compares little", n)
}

// Only events about objects can be erased. The erased record of any other kind is ErrCorrupt.
func TestDecodeEntry_ErasedEventWithoutObject_IsCorrupt(t *testing.T) {
	for _, n := range goldenEntries(t) {
		sum := Commitment{1}
		record := Entry{Event: Event{Number: n.Number, Time: n.Time, Change: n.Change, Erased: &sum}, Hashes: n.Hashes}
		_, err := DecodeEntry(n.Number, record.Encode())
		_, about := n.Change.(Personal)
		about = about || n.Change.Kind() == KindAnswered
		check.That(t, (err == nil) == about && (err == nil || errors.Is(err, errs.ErrCorrupt)),
			"an erased event of kind %s: %v", n.Change.Kind(), err)
	}
}

// The stored form of a mechanism is canonical: any other text for it is ErrCorrupt.
func TestDecodeQuestion_MechanismNotCanonical_IsCorrupt(t *testing.T) {
	q := finiteParty(t)
	sound := recordOfQuestion(1, q)
	back := check.Value(DecodeQuestion(sound))(t)
	e := &wire.Encoder{}
	(&QuestionDefined{Number: 1, Question: api.Question{Name: back.Name, Values: back.Values, Encoding: back.Encoding, Mechanism: back.Mechanism}}).Fields(wire.Writing(e))
	check.That(t, slices.Equal(e.Buf, sound), "the record changed after decoding and encoding")
	whole := string(EncodeMechanism(q.Mechanism))
	head := strings.TrimSuffix(string(sound), whole)
	head = head[:len(head)-2] // the length
	record := func(text string) []byte {
		e := &wire.Encoder{}
		e.Raw([]byte(head))
		e.Text(text)
		return e.Buf
	}
	check.Need(t, slices.Equal(record(whole), sound), "the record differs from the encoded question")
	for name, text := range map[string]string{
		"nothing":               "",
		"null":                  "null",
		"an empty object":       "{}",
		"a list":                "[" + whole + "]",
		"no JSON":               whole[:len(whole)-1],
		"a space":               " " + whole,
		"a space at the end":    whole + " ",
		"more JSON at the end":  whole + "{}",
		"another field":         strings.Replace(whole, `{"family"`, `{"more":1,"family"`, 1),
		"another order":         `{"outputs":` + strings.SplitN(whole, `"outputs":`, 2)[1][:len(strings.SplitN(whole, `"outputs":`, 2)[1])-1] + `,"family":` + jsonOf(t, q.Mechanism.Family) + `}`,
		"capital letters":       strings.Replace(whole, `"family"`, `"Family"`, 1),
		"no family":             strings.Replace(whole, `"family":`+jsonOf(t, q.Mechanism.Family), `"family":null`, 1),
		"no names":              strings.Replace(whole, `"outputs":`, `"outputs":null,"outputs_":`, 1),
		"null for names":        whole[:strings.Index(whole, `"outputs":`)] + `"outputs":null}`,
		"escaped letters":       strings.Replace(whole, `"AB"`, `"\u0041B"`, 1),
		"no channels":           whole[:strings.Index(whole, `,"channels"`)] + whole[strings.Index(whole, `},"outputs"`):],
		"a fraction not lowest": regexp.MustCompile(`"([0-9]+)/([0-9]+)"`).ReplaceAllString(whole, `"${1}0/${2}0"`),
	} {
		check.That(t, text != whole, "%s: the change does not apply", name)
		got, err := DecodeQuestion(record(text))
		if !errors.Is(err, errs.ErrCorrupt) || name == "no channels" && !strings.Contains(err.Error(), "without the channels") {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if got, err := DecodeQuestion(record(`{"family":` + strings.Repeat(" ", wire.MaxMechanism) + whole[10:])); !errors.Is(err, errs.ErrCorrupt) || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("a large one: got %+v, %v", got, err)
	}
	got, err := DecodeQuestion(sound[:len(sound)-1])
	check.That(t, errors.Is(err, errs.ErrCorrupt), "one cut off: got %+v, %v", got, err)
}

func TestDefinitionDigest_DifferentDefinitions_Differ(t *testing.T) {
	seen := map[[32]byte]api.Question{}
	for _, q := range []api.Question{
		{Name: "q", Values: []string{"a", "b"}, Encoding: "direct"},
		{Name: "q", Values: []string{"a", "b"}, Encoding: "unary"},
		{Name: "q", Values: []string{"b", "a"}, Encoding: "direct"},
		{Name: "q", Values: []string{"a", "b", "c"}, Encoding: "direct"},
		{Name: "q", Values: []string{"ab", "c"}, Encoding: "direct"},
		{Name: "q", Values: []string{"a", "bc"}, Encoding: "direct"},
		{Name: "qa", Values: []string{"b", "c"}, Encoding: "direct"},
	} {
		id := definitionDigest(q)
		other, twice := seen[id]
		check.That(t, !twice, "%+v has the digest of %+v", q, other)
		seen[id] = q
	}
}

// Values that no ledger writes are refused, even if their encoding is valid.
func TestDecodeEntry_ImpossibleMethod_IsCorrupt(t *testing.T) {
	// A released response cannot have the method resale; a sold one can.
	for method, want := range map[Method]error{MethodRaise: nil, MethodInsert: nil, MethodFresh: errs.ErrCorrupt, MethodResale: errs.ErrCorrupt, 0: errs.ErrCorrupt, 6: errs.ErrCorrupt} {
		payload := recordOf(&Released{Object: "ann", Question: 1, Epsilon: nano(t, 1), Response: Response{Value: Value{}, Method: method}})
		check.WantErr(t, check.Err(DecodeEntry(1, payload)), want, "released by method %d", method)
		if method == MethodResale {
			want = nil
		}
		payload = recordOf(&Sold{Object: "ann", Sale: 1, Price: 0, Response: Response{Value: Value{}, Method: method}})
		check.WantErr(t, check.Err(DecodeEntry(1, payload)), want, "sold by method %d", method)
	}
}

// No decoder allocates memory for more items than the record has bytes for, for any
// claimed length.
func TestDecode_LengthTooLarge_IsCorruptWithoutMemory(t *testing.T) {
	settlement := publicBytes(Event{Change: &Settled{Key: "k"}}) // which ends with an empty list and two numbers 0
	record := recordOf(&Withdrawn{Object: "ann"})
	public := int(record[2]) // the length of the public part, after the form and a number
	said := func(k Kind, p []byte) error {
		ev := Event{}
		_, err := ev.decode(&wire.Decoder{Rest: publicBytes(Event{Change: empty(k)})}, &wire.Decoder{Rest: p})
		return err
	}
	for name, decoder := range map[string]struct {
		head   []byte // up to the length
		decode func([]byte) error
	}{
		"question": {[]byte{0, 0, 0, 1, 1, 'q'}, func(p []byte) error { _, err := DecodeQuestion(p); return err }},
		"text":     {[]byte{0, 0, 0, 1}, func(p []byte) error { _, err := DecodeQuestion(p); return err }},
		"public":   {record[:2], func(p []byte) error { _, err := DecodeEntry(1, p); return err }},
		"hidden":   {record[:3+public], func(p []byte) error { _, err := DecodeEntry(1, p); return err }},
		"swept": {settlement[:len(settlement)-3], func(p []byte) error {
			ev := Event{}
			_, err := ev.decode(&wire.Decoder{Rest: p}, &wire.Decoder{Rest: []byte{0}})
			return err
		}},
		"values":   {[]byte{0, 0, 0, 1, 1, 'q'}, func(p []byte) error { return said(KindQuestion, p) }},
		"stated":   {[]byte{1, 'a', 0}, func(p []byte) error { return said(KindStated, p) }},
		"remnants": {[]byte{1, 'a', 1, 1, 0, 0}, func(p []byte) error { return said(KindForgotten, p) }},
	} {
		for _, length := range []uint64{100, 1<<20 - 1, 1 << 31, 1 << 62, 1<<64 - 1} {
			payload := binary.AppendUvarint(slices.Clone(decoder.head), length)
			var err error
			allocated := fixture.Allocated(func() { err = decoder.decode(payload) })
			check.Is(t, err, errs.ErrCorrupt)
			check.That(t, allocated <= 1<<16,
				"%s: %d bytes are allocated for a claim of %d items", name, allocated, length)
		}
	}
}

func TestDecode_AnyClaim_MemoryIsBounded(t *testing.T) {
	decoders := map[string]func([]byte){
		"about":    func(b []byte) { _, _ = DecodeAbout(b) },
		"question": func(b []byte) { _, _ = DecodeQuestion(b) },
		"entry":    func(b []byte) { _, _ = DecodeEntry(1<<62, b) },
		"entry 1":  func(b []byte) { _, _ = DecodeEntry(1, b) },
	}
	for _, kind := range []Kind{KindQuestion, KindEnrolled, KindReleased, KindSettled, KindAnswered, KindForgotten, KindStated, KindRefused} {
		decoders["event "+kind.String()] = func(b []byte) { decodeChange(&wire.Decoder{Rest: b}, &wire.Decoder{Rest: b}, kind) }
	}
	all := fixture.FalseLengths()
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			for _, claim := range all {
				fixture.WantBounded(t, fmt.Sprintf("%x", claim), claim, 64, decode)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// The code of an encoding that does not exist is ErrCorrupt.
func TestDecodeQuestion_UnknownEncoding_IsCorrupt(t *testing.T) {
	home := api.Question{Name: "home", Values: []string{"0", "1", "2"}}
	for code := range 256 {
		payload := defined(1, home, "direct")
		payload[4+1+len("home")] = byte(code)
		q, err := DecodeQuestion(payload)
		if known := code == 1 || code == 2; (err == nil) != known || err != nil && !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("encoding %d: got %+v, %v", code, q, err)
		}
	}
}
