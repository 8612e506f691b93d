package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Helpers for tests of receipts and statements. The holder of such a document needs only the log's
// key to verify it.

// issuer is a ledger that signs its documents, and the keys that verify them.
type issuer struct {
	*Ledger
	store *kv.Memory
	clock *fakeClock
	keys  note.Verifiers
}

const issuerName = "example.com/office"

// newIssuer opens a ledger in memory that is the same in every run, for the same seed of its key.
func newIssuer(t testing.TB, seed byte) *issuer {
	t.Helper()
	signer, verifier, public := logKey(t, issuerName, seed)
	o := &issuer{store: &kv.Memory{}, clock: newClock(epoch()), keys: note.VerifierList(verifier)}
	beginWithKey(t, o.store, public)
	o.Ledger = openMemory(t, o.store, Options{Now: o.clock.read, Signer: signer})
	o.engine.Chances.Values, o.requests.Sampler, o.engine.Salts = steadySampler(), medians(), countedSalts()
	must(t, o.useKeys(t.Context(), truthKey(), nil, api.NoiseKeys{}))
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// countedSalts returns a function that fills salts with bytes that are the same in every run, and
// different for each salt.
func countedSalts() func([]byte) {
	n := byte(0)
	return func(b []byte) {
		for one := range slices.Chunk(b, len(event.Salt{})) {
			n++
			sum := sha256.Sum256([]byte{n})
			copy(one, sum[:])
		}
	}
}

// advanceClock advances the clock by a little more than an hour.
func (i *issuer) advanceClock() { i.clock.set(i.clock.read().Add(time.Hour + time.Nanosecond)) }

// excerpt returns the part of a text around a byte.
func excerpt(text []byte, at int) []byte { return text[max(0, at-20):min(at+20, len(text))] }

// document is a receipt or a statement.
type document interface {
	Verify(note.Verifiers) evidence.Checked
}

// text returns a document as JSON.
func text(t testing.TB, d any) []byte {
	t.Helper()
	return check.Value(json.Marshal(d))(t)
}

func wantSound(t testing.TB, what string, d document, keys note.Verifiers) {
	t.Helper()
	c := d.Verify(keys)
	if !c.OK() {
		t.Errorf("%s: signed %v, faults %q", what, c.Signed, faults(c))
	}
	if alone := d.Verify(nil); alone.Signed || alone.OK() || len(alone.Faults) != 0 || alone.Head != c.Head {
		t.Errorf("%s, without a key: %+v", what, alone)
	}
}

func faults(c evidence.Checked) (all []string) {
	for _, f := range c.Faults {
		all = append(all, f.String())
	}
	return all
}

// wantFault checks that a document does not verify, with a fault that contains these words.
func wantFault(t testing.TB, what string, d document, keys note.Verifiers, words string) {
	t.Helper()
	c := d.Verify(keys)
	if found := faults(c); c.OK() || !strings.Contains(strings.Join(found, "\n"), words) {
		t.Errorf("%s: got the faults %.400q, want one with %q", what, found, words)
	}
}

// copyOf returns a document that shares nothing with another.
func copyOf[T any](t testing.TB, d T) (other T) {
	t.Helper()
	must(t, json.Unmarshal(text(t, d), &other))
	return other
}

// eachAltered calls visit with copies of a document, each with one field changed, and the path of
// that field.
func eachAltered[T any](t *testing.T, d T, visit func(way string, other T)) {
	t.Helper()
	for n := 0; ; n++ {
		other := copyOf(t, d)
		left := n
		way := falsify(reflect.ValueOf(&other).Elem(), "", &left)
		if way == "" {
			return
		}
		visit(way, other)
	}
}

// falsify changes the field number *left of a value, counted from 0, and returns its path. It
// returns "" if there are fewer fields, and then reduces *left by their number.
func falsify(v reflect.Value, way string, left *int) string {
	inside := func(n int, name func(i int) string, field func(i int) reflect.Value) (found string) {
		for i := 0; i < n && found == ""; i++ {
			found = falsify(field(i), name(i), left)
		}
		return found
	}
	var other any
	switch value := v.Interface().(type) {
	case time.Time:
		other = value.Add(1)
	case privacy.Epsilon:
		other = epsilonOf(value.Nano() ^ 1)
	case policy.Policy:
		other = policy.Fixed(epsilonOf(12345))
	case tlog.Hash:
		value[7] ^= 1
		other = value
	case says.Hex:
		if len(value) == 0 {
			return ""
		}
		changed := slices.Clone(value)
		changed[len(value)-1] ^= 1
		other = changed
	default:
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if v.IsNil() {
				return ""
			}
			return falsify(v.Elem(), way, left)
		case reflect.Struct:
			return inside(v.NumField(), func(i int) string {
				if v.Type().Field(i).Anonymous {
					return way
				}
				return way + "." + v.Type().Field(i).Name
			}, v.Field)
		case reflect.Slice, reflect.Array:
			return inside(v.Len(), func(i int) string { return fmt.Sprintf("%s[%d]", way, i) }, v.Index)
		case reflect.String:
			other = v.String() + "x"
		case reflect.Bool:
			other = !v.Bool()
		case reflect.Int, reflect.Int64:
			other = v.Int() + 1
		case reflect.Uint32, reflect.Uint64:
			other = v.Uint() ^ 1
		default:
			panic(v.Kind())
		}
	}
	if *left--; *left >= 0 {
		return ""
	}
	v.Set(reflect.ValueOf(other).Convert(v.Type()))
	return way
}

// wantEveryByteChecked reads a document with bits of each byte flipped in turn, or of some bytes in
// a quick run. No such variant may verify.
func wantEveryByteChecked[T document](t *testing.T, d T, keys note.Verifiers, read func([]byte) (T, error)) {
	t.Helper()
	whole := text(t, d)
	data := slices.Clone(whole)
	masks, step := []byte{1, 2, 4, 8, 16, 32, 64, 128, 255}, oneIn(64)
	unread, refused := 0, 0
	for i := range data {
		for j, mask := range masks {
			if (len(masks)*i+j)%step != 0 {
				continue
			}
			data[i] ^= mask
			got, err := read(data)
			data[i] ^= mask
			if err != nil {
				unread++
				wantErr(t, err, api.ErrInvalid)
				continue
			}
			if refused++; got.Verify(keys).OK() {
				t.Fatalf("byte %d, ^%#x, in %q: the document verifies", i, mask, excerpt(whole, i))
			}
		}
	}
	check.That(t, unread != 0 && refused != 0, "%d variants cannot be read, %d can; want some of each", unread, refused)
}

// tooLarge is never written, so that it takes no memory and no time to clear. Its length is even:
// with an odd one, the linker misaligns the coverage counters after it.
var tooLarge [1<<30 + 8]byte

// wantStrictReader checks that a reader accepts the one form of a document only.
func wantStrictReader[T document](t *testing.T, d T, read func([]byte) (T, error)) {
	t.Helper()
	whole := string(text(t, d))
	got, err := read([]byte(whole))
	check.That(t, err == nil && string(text(t, got)) == whole, "the document changes when it is read (%v)", err)
	for name, change := range map[string]func(string) string{
		"indented":           func(string) string { return indented(t, d) },
		"space in front":     func(s string) string { return " " + s },
		"space inside":       func(s string) string { return strings.Replace(s, ",", ", ", 1) },
		"line end":           func(s string) string { return s + "\n" },
		"carriage return":    func(s string) string { return s + "\r\n" },
		"escaped slash":      func(s string) string { return strings.Replace(s, "/", `\/`, 1) },
		"escaped dash":       func(s string) string { return strings.Replace(s, "— ", `\u2014 `, 1) },
		"nothing":            func(string) string { return "" },
		"null":               func(string) string { return "null" },
		"list":               func(s string) string { return "[" + s + "]" },
		"text":               func(string) string { return `"x"` },
		"two":                func(s string) string { return s + s },
		"trailing text":      func(s string) string { return s + "x" },
		"cut off":            func(s string) string { return s[:len(s)-1] },
		"unknown field":      func(s string) string { return `{"more":1,` + s[1:] },
		"unknown field deep": func(s string) string { return strings.Replace(s, `"leaf":`, `"more":1,"leaf":`, 1) },
		"field twice":        func(s string) string { return strings.Replace(s, `"currency":`, `"currency":"EUR","currency":`, 1) },
		"field twice deep":   func(s string) string { return strings.Replace(s, `"leaf":`, `"event":1,"leaf":`, 1) },
		"capital letters":    func(s string) string { return strings.Replace(s, `"currency"`, `"Currency"`, 1) },
		"other order":        func(s string) string { return strings.Replace(s, `"format":`, `"checkpoint":"","format":`, 1) },
		"field missing":      func(s string) string { return strings.Replace(s, `"currency":"EUR",`, "", 1) },
		"null field":         func(s string) string { return strings.Replace(s, `"currency":"EUR"`, `"currency":null`, 1) },
		"null list": func(s string) string {
			return regexp.MustCompile(`"proof":\[[^]]*\]`).ReplaceAllString(s, `"proof":null`)
		},
		"escaped letter": func(s string) string { return strings.Replace(s, `"EUR"`, `"\u0045UR"`, 1) },
		"escaped letter in a name": func(s string) string {
			return strings.Replace(s, `"currency"`, `"c\u0075rrency"`, 1)
		},
		"capital hex":          func(s string) string { return strings.Replace(s, `"salt":"`, `"salt":"AA`, 1) },
		"time with offset":     func(s string) string { return strings.Replace(s, `T12:00:00Z`, `T13:00:00+01:00`, 1) },
		"time with zeros":      func(s string) string { return strings.Replace(s, `T12:00:00Z`, `T12:00:00.000Z`, 1) },
		"ε as a number":        func(s string) string { return strings.Replace(s, `"epsilon":"0.5"`, `"epsilon":0.5`, 1) },
		"ε with zeros":         func(s string) string { return strings.Replace(s, `"epsilon":"0.5"`, `"epsilon":"0.50"`, 1) },
		"number with point":    func(s string) string { return strings.Replace(s, `"event":1,`, `"event":1.0,`, 1) },
		"number with exponent": func(s string) string { return strings.Replace(s, `"event":1,`, `"event":1e0,`, 1) },
		"negative number":      func(s string) string { return strings.Replace(s, `"event":1,`, `"event":-1,`, 1) },
		"byte order mark":      func(s string) string { return "\ufeff" + s },
		"broken UTF-8":         func(s string) string { return strings.Replace(s, "EUR", "EU\xff", 1) },
		"many short items": func(s string) string {
			from := strings.Index(s, `s":[{`) + len(`s":[`)
			return s[:from] + strings.Repeat("{},", 1_000_000) + s[from:]
		},
		"an item of another kind": func(s string) string { return strings.Replace(s, `s":[{`, `s":[0,{`, 1) },
		"no list":                 func(s string) string { return strings.Replace(s, `"values":[`, `"values":7,"x":[`, 1) },
	} {
		other := change(whole)
		check.That(t, other != whole, "%s: the change does not apply to the document", name)
		_, err := read([]byte(other))
		check.That(t, errors.Is(err, api.ErrInvalid) && len(err.Error()) <= 500 && (name != "many short items" || strings.Contains(err.Error(), "too short")),
			"%s: %v", name, err)
	}
	_, err = read(tooLarge[:1<<30+1])
	check.That(t, errors.Is(err, api.ErrInvalid) && strings.Contains(err.Error(), "at most"), "too large: got the error %v", err)
}

func indented(t testing.TB, d any) string {
	t.Helper()
	data := check.Value(json.MarshalIndent(d, "", "\t"))(t)
	return string(data)
}

// wantStrictInAnyZone checks that the time zone of the machine changes nothing about what is read.
func wantStrictInAnyZone[T document](t *testing.T, d T, read func([]byte) (T, error)) {
	t.Helper()
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = time.FixedZone("here", 3600)
	data := strings.Replace(string(text(t, d)), "T12:00:00Z", "T13:00:00+01:00", 1)
	_, err := read([]byte(data))
	check.That(t, errors.Is(err, api.ErrInvalid), "a time in the zone of this machine: got the error %v, want ErrInvalid", err)
	got, err := read(text(t, d))
	check.That(t, err == nil && bytes.Equal(text(t, got), text(t, d)), "the document as it was written: %v", err)
}

// wantOtherKeysRefused checks that a document does not verify with keys that did not sign it.
func wantOtherKeysRefused(t *testing.T, d document) {
	t.Helper()
	_, other, _ := logKey(t, issuerName, 99)
	_, named, _ := logKey(t, "example.com/else", 1)
	wantFault(t, "another key of the name", d, note.VerifierList(other), "not signed by any known key")
	wantFault(t, "another name", d, note.VerifierList(named), "not signed by any known key")
	wantFault(t, "no keys", d, note.VerifierList(), "not signed by any known key")
	for _, keys := range []note.Verifiers{note.VerifierList(other), note.VerifierList(named), note.VerifierList()} {
		check.That(t, !d.Verify(keys).Signed, "signed by a key that did not sign")
	}
}

// respellSignature returns a checkpoint with the same signature in another base64 text: the last
// digit has unused bits.
func respellSignature(t *testing.T, checkpoint string) string {
	t.Helper()
	digits := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := strings.LastIndexAny(checkpoint, digits)
	at := strings.IndexByte(digits, checkpoint[last])
	if checkpoint[last+1] != '=' || at%4 != 0 {
		t.Fatalf("the checkpoint ends with %q", checkpoint[last:])
	}
	return checkpoint[:last] + digits[at+1:at+2] + checkpoint[last+1:]
}

// signChanged returns a changed checkpoint, signed with the key of the log.
func signChanged(t *testing.T, o *issuer, change func(*merkle.Checkpoint)) string {
	t.Helper()
	head := check.Value(o.Head(t.Context(), 0))(t)
	c := merkle.Checkpoint{Origin: head.Origin, Size: head.Events, Root: head.Root}
	change(&c)
	signed := check.Value(c.Sign(o.documents.Signer))(t)
	return string(signed)
}

// wantExtended checks that the log of one checkpoint extends that of an earlier one.
func wantExtended(t *testing.T, o *issuer, early, late string) {
	t.Helper()
	from := check.Value(evidence.OpenCheckpoint([]byte(early), o.keys))(t)
	to := check.Value(evidence.OpenCheckpoint([]byte(late), o.keys))(t)
	proof := check.Value(o.Consistency(t.Context(), from.Events, to.Events))(t)
	must(t, tlog.CheckTree(proof, int64(to.Events), to.Root, int64(from.Events), from.Root))
}

// truthsOf is a source with a true value for each object.
func truthsOf(truths map[string]string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) (values []string, err error) {
		for _, name := range objects {
			values = append(values, truths[name])
		}
		return values, nil
	}
}

// announcedReader is a reader that notes which events a proof announces by Prefetch, and which
// reads were not announced.
type announcedReader struct {
	kv.Reader
	announced   map[string]bool
	read        int
	unannounced []string
}

func (r *announcedReader) Prefetch(bucket string, keys [][]byte) {
	for i, key := range keys {
		if bucket != state.BucketEvents || i > 0 && bytes.Compare(keys[i-1], key) >= 0 {
			r.unannounced = append(r.unannounced, fmt.Sprintf("%s %x", bucket, key))
		}
		r.announced[string(key)] = true
	}
}

func (r *announcedReader) Get(bucket string, key []byte) ([]byte, error) {
	if r.read++; !r.announced[string(key)] {
		r.unannounced = append(r.unannounced, fmt.Sprintf("%s %x", bucket, key))
	}
	return r.Reader.Get(bucket, key)
}

// A proof announces the events that it reads, so that the store reads them together. The proof is
// the same without.
func TestProve_Prefetch_AnnouncesEveryRead(t *testing.T) {
	l := voters(t, newLedger(t), "9", crowd(300)...)
	for size := uint64(24); size <= 300; size += 23 { // a proof from a single event announces nothing
		must(t, l.engine.View(t.Context(), func(s *state.State) error {
			plain := s.Reader
			s.Reader = struct{ kv.Reader }{plain} // hides Prefetch
			numbers := []uint64{1 + size/7, 1 + size/3}
			numbers = slices.Compact(numbers)
			head, proof, err := l.documents.Prove(s, size, numbers)
			must(t, err)
			f := &announcedReader{Reader: plain, announced: map[string]bool{}}
			s.Reader = f
			again, same, err := l.documents.Prove(s, size, numbers)
			if must(t, err); head != again || !slices.Equal(proof, same) {
				t.Errorf("the proof of %d in %d differs with Prefetch", numbers, size)
			}
			check.That(t, f.read >= len(f.announced) && len(f.unannounced) <= 0 && len(f.announced) != 0,
				"the proof of %d in %d: %d events announced, %d read, and not announced: %v", numbers, size, len(f.announced), f.read, f.unannounced)
			s.Reader = plain
			return nil
		}))
	}
}

// cosigned adds the signature of another key to a checkpoint.
func cosigned(t testing.TB, checkpoint, name string, seed byte) (more string, verifier note.Verifier) {
	t.Helper()
	signer, verifier, _ := logKey(t, name, seed)
	body, _, _ := strings.Cut(checkpoint, "\n\n")
	signed := check.Value(note.Sign(&note.Note{Text: body + "\n"}, signer))(t)
	_, line, _ := strings.Cut(string(signed), "\n\n")
	return checkpoint + line, verifier
}

// wantCosigners checks documents, made by with, whose checkpoint has several signatures. The holder
// of a document can add valid cosignatures, and nothing else.
func wantCosigners(t *testing.T, o *issuer, checkpoint string, with func(checkpoint string) document) {
	t.Helper()
	key, _ := o.keys.Verifier(issuerName, o.documents.Signer.KeyHash())
	both, witness := cosigned(t, checkpoint, "witness.example", 7)
	id := fmt.Sprintf("witness.example+%08x", witness.KeyHash())
	for name, test := range map[string]struct {
		keys              []note.Verifier
		cosigned, ignored []string
	}{
		"the witness is unknown": {[]note.Verifier{key}, nil, []string{id}},
		"the witness is known":   {[]note.Verifier{key, witness}, []string{id}, nil},
	} {
		c := with(both).Verify(note.VerifierList(test.keys...))
		check.That(t, c.OK() && slices.Equal(c.Cosigned, test.cosigned) && slices.Equal(c.Ignored, test.ignored),
			"%s: %+v", name, c)
	}
	wantFault(t, "the witness alone is known", with(both), note.VerifierList(witness), "no known key with the name of its origin")
	other, _ := cosigned(t, strings.Replace(checkpoint, "\n", "\n1", 1), "witness.example", 7)
	wrong := checkpoint + other[strings.LastIndex(other, "— "):]
	wantFault(t, "a witness of another log", with(wrong), note.VerifierList(key, witness), "does not fit the text")

	_, line, _ := strings.Cut(checkpoint, "\n\n")
	again, _ := cosigned(t, checkpoint, issuerName, 77)
	disordered, _ := cosigned(t, both, "a.example", 1)
	twice, _ := cosigned(t, both, "witness.example", 7)
	for words, text := range map[string]string{
		"a signature is repeated":                          checkpoint + line,
		"signed twice in the name of its origin":           again,
		"cosignatures must be in the order of their keys":  disordered,
		"a signature is repeated ":                         twice,
		"the first signature is not in":                    strings.Replace(both, line, "", 1) + line,
		"the signature by \"" + id + "\" is not canonical": respellSignature(t, both),
	} {
		for _, keys := range []note.Verifiers{note.VerifierList(key, witness), o.keys, nil} {
			wantFault(t, words, with(text), keys, strings.TrimSpace(words))
		}
	}
	crowd := checkpoint
	for i := range merkle.MaxCosigners + 1 {
		crowd, _ = cosigned(t, crowd, fmt.Sprintf("witness%02d.example", i), 1)
		if c := with(crowd).Verify(o.keys); c.OK() != (i < merkle.MaxCosigners) || c.OK() && len(c.Ignored) != i+1 {
			t.Errorf("with %d cosigners: %+v", i+1, c)
		}
	}
}

func TestCosignatures_AddedToDocuments_AreChecked(t *testing.T) {
	o := issuerWithSales(t)
	r := receiptOf(t, o.Ledger, 4)
	wantCosigners(t, o, r.Evidence.Checkpoint, func(checkpoint string) document {
		r.Evidence.Checkpoint = checkpoint
		return r
	})
	st := check.Value(o.Statement(t.Context(), api.ObjectRequest{Key: "statement", Object: "ann"}))(t)
	wantCosigners(t, o, st.Checkpoint, func(checkpoint string) document {
		st.Checkpoint = checkpoint
		return st
	})
	signed := checkpointOf(t, o.Ledger)
	for i := range signed {
		for _, mask := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
			signed[i] ^= mask
			_, err := evidence.OpenCheckpoint(signed, o.keys)
			check.Need(t, errors.Is(err, api.ErrCheckpoint), "byte %d, ^%#x: got the error %v, want ErrCheckpoint", i, mask, err)
			signed[i] ^= mask
		}
	}
	for _, other := range []string{" " + string(signed), string(signed) + "\n", "\n" + string(signed), strings.ReplaceAll(string(signed), "\n", "\r\n"), strings.TrimSpace(string(signed)), respellSignature(t, string(signed))} {
		_, err := evidence.OpenCheckpoint([]byte(other), o.keys)
		check.That(t, errors.Is(err, api.ErrCheckpoint), "%q: got the error %v, want ErrCheckpoint", other, err)
	}
}
