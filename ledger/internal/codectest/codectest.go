// Package codectest holds what tests of encodings share: bytes that decoders meet seldom, what a
// decoder must never do, golden files, and the records of a small ledger as it was written when the
// format was fixed.
package codectest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Fuzz checks a decoder, beginning with some records. Any bytes give a record or an error that says
// ErrCorrupt (or, for an event of a later encoding, errs.ErrVersion). Encodings are canonical: what
// a decoder accepts encodes to the bytes it was decoded from. Lists are never longer than the
// record that claims to hold them.
func Fuzz[T any](f *testing.F, seeds [][]byte, decode func([]byte) (T, error), encode func(T) []byte, items func(T) int) {
	for _, seed := range append(seeds, OddPayloads()...) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		record, err := decode(payload)
		if !bytes.Equal(payload, before) {
			t.Error("the decoder writes to its input")
		}
		if err != nil {
			if !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrVersion) {
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

// OddPayloads are short, long and boundary cases that flipping bits seldom finds.
func OddPayloads() [][]byte {
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
	// A level of a chain with 8 bits, with 9 and one beyond the last, with fewer bytes than bits,
	// and with no bits.
	odd = append(odd, []byte{4, 0, 0, 0, 0, 1, 1, 0x88, 0x80, 0x40, 0xff, 5, 0}, []byte{4, 0, 0, 0, 0, 1, 1, 0x89, 0x80, 0x40, 0xff, 3, 5, 0},
		[]byte{4, 0, 0, 0, 0, 1, 1, 0xff, 0xff, 0x43, 0xff, 5, 0}, []byte{4, 0, 0, 0, 0, 1, 1, 0x80, 0x80, 0x40, 5, 0})
	// Tallies of bits: one in all responses, one in more, one current in none, and half of one.
	odd = append(odd, []byte{2, 1, 2, 1, 0, 0}, []byte{2, 1, 3, 1}, []byte{2, 1, 1, 2}, []byte{2, 1, 2})
	// A level of a chain at ε = 1001, one with a response that no question can have, one that a
	// buyer beyond 2³² holds, and one of more buyers than the record has bytes.
	return append(odd, []byte{4, 0, 0, 0, 0, 0, 1, 0x80, 0x94, 0xd2, 0xa8, 0x91, 0x1d, 0, 5, 0}, []byte{4, 0, 0, 0, 0, 0, 1, 1, 0x80, 0x80, 0x40, 5, 0},
		[]byte{4, 0, 0, 0, 0, 0, 1, 1, 0, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x10}, []byte{4, 0, 0, 0, 0, 0, 1, 1, 0, 5, 9, 1})
}

// Oddly changes a record in up to three places.
func Oddly(random *rand.Rand, record []byte) []byte {
	for range random.IntN(4) {
		at := random.IntN(len(record))
		odd := []byte{0, 1, 2, 3, 0x7f, 0x80, 0x81, 0xff}[random.IntN(8)]
		switch random.IntN(4) {
		case 0:
			record[at] = odd
		case 1:
			record = slices.Insert(record, at, odd)
		case 2:
			record = slices.Delete(record, at, min(at+1+random.IntN(2), len(record)-1))
		case 3:
			record[at] ^= 1 << random.IntN(8)
		}
		if len(record) == 0 {
			record = []byte{0}
		}
	}
	return record
}

// Allocated returns how many bytes fn takes from the heap. It runs fn twice, because the first run
// may set things up, and measures the second.
func Allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	fn()
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// memoryOf returns how many bytes a call takes from the heap; if that is more than so many, the
// least of some tries, because others may be at work.
func memoryOf(enough uint64, call func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= enough {
			break
		}
	}
	return least
}

// WantBounded fails if a reader takes more than a multiple of its input, beside what it takes for
// an empty one.
func WantBounded(t *testing.T, what string, input []byte, times uint64, read func([]byte)) {
	t.Helper()
	const fixed = 128 << 10
	bound := fixed + times*uint64(len(input))
	if took := memoryOf(bound, func() { read(input) }); took > bound {
		t.Errorf("%s of %d bytes takes %d", what, len(input), took)
	}
}

// Claims are payloads that announce lists and texts of all sizes, and do not have them.
func Claims() (all [][]byte) {
	for _, number := range []uint64{200, 1 << 16, 1 << 20, 1 << 24, 1 << 31, 1<<32 - 1, 1 << 40, 1<<63 - 1, 1<<64 - 1} {
		claim := binary.AppendUvarint(nil, number)
		for before := range 40 {
			for _, filler := range []byte{0, 1} {
				all = append(all, slices.Concat(bytes.Repeat([]byte{filler}, before), claim, make([]byte, 64)))
			}
		}
	}
	return all
}

// Golden compares a text with a golden file or, if it is to be updated, writes the file.
func Golden(t *testing.T, path, text string, update bool) {
	t.Helper()
	if update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("%s: from line %d on there is\n%.300q\nwant\n%.300q", path, i+1, got[min(i, len(got)):], wanted[min(i, len(wanted)):])
		}
	}
}

// Record is a record of a store: Payload is Value without the checksum.
type Record struct {
	Bucket              string // by its name, as in package state
	Key, Value, Payload []byte // as they stand in the store
}

// Records reads the dump of a small ledger, which has all buckets, and events of all sorts, erased
// ones too. A line has a bucket, a key and a value, in hex.
func Records(t testing.TB, path string) (all []Record) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var r Record
		if _, err := fmt.Sscanf(line, "%s %x %x", &r.Bucket, &r.Key, &r.Value); err != nil {
			t.Fatal(err)
		}
		const checksum = 4 // bytes
		r.Payload = r.Value[:len(r.Value)-checksum]
		all = append(all, r)
	}
	return all
}

// Payloads returns those of the records of a bucket whose key fits, of which there must be some.
func Payloads(t testing.TB, records []Record, bucket string, fits func(key []byte) bool) (payloads [][]byte) {
	t.Helper()
	for _, r := range records {
		if r.Bucket == bucket && (fits == nil || fits(r.Key)) {
			payloads = append(payloads, r.Payload)
		}
	}
	if len(payloads) == 0 {
		t.Fatalf("there is no such record in %s", bucket)
	}
	return payloads
}
