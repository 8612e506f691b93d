package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// What is read may claim any size. Memory follows the bytes that are there, not what they claim.

// memoryOf returns how many bytes a call takes from the heap; the least of some tries, because others may be at work.
func memoryOf(call func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// wantBounded fails if a reader takes more than a multiple of its input, beside what it takes for an empty one.
func wantBounded(t *testing.T, what string, input []byte, times uint64, read func([]byte)) {
	t.Helper()
	const fixed = 128 << 10
	if took := memoryOf(func() { read(input) }); took > fixed+times*uint64(len(input)) {
		t.Errorf("%s of %d bytes takes %d", what, len(input), took)
	}
}

// claims are payloads that announce lists and texts of all sizes, and do not have them.
func claims() (all [][]byte) {
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

func TestNoRecordAsksForMoreMemoryThanItHas(t *testing.T) {
	decoders := map[string]func([]byte){
		"counters":  func(b []byte) { _, _ = state.DecodeCounters(b) },
		"about":     func(b []byte) { _, _ = event.DecodeAbout(b) },
		"question":  func(b []byte) { _, _ = event.DecodeQuestion(b) },
		"object":    func(b []byte) { _, _ = state.DecodeObject(b) },
		"stranger":  func(b []byte) { _, _ = state.DecodeStranger(b) },
		"chain":     func(b []byte) { _, _ = state.DecodeChain(b) },
		"answers":   func(b []byte) { _, _ = state.DecodeAnswers(b) },
		"request":   func(b []byte) { _, _ = state.DecodeRequest(b) },
		"buyer":     func(b []byte) { _, _ = state.DecodeBuyer(b) },
		"sale":      func(b []byte) { _, _ = state.DecodeSale(b) },
		"tally":     func(b []byte) { _, _ = state.DecodeTally(b) },
		"noise key": func(b []byte) { _, _ = state.DecodeNoiseKey(b) },
		"entry":     func(b []byte) { _, _ = event.DecodeEntry(1<<62, b) },
		"entry 1":   func(b []byte) { _, _ = event.DecodeEntry(1, b) },
	}
	for _, kind := range []event.Kind{event.KindQuestion, event.KindEnrolled, event.KindReleased, event.KindSettled, event.KindAnswered, event.KindForgotten, event.KindStated, event.KindRefused} {
		decoders["event "+kind.String()] = func(b []byte) { event.DecodeChange(&wire.Decoder{Rest: b}, &wire.Decoder{Rest: b}, kind) }
	}
	all := claims()
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			for _, claim := range all {
				wantBounded(t, fmt.Sprintf("%x", claim), claim, 64, decode)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// Documents come from strangers.
func TestNoDocumentAsksForMuchMoreMemoryThanItHas(t *testing.T) {
	const size = 1 << 20
	fill := func(begin, item, end string) []byte {
		return []byte(begin + strings.TrimSuffix(strings.Repeat(item, size/len(item)), ",") + end)
	}
	hostile := map[string][]byte{
		"no document":       fill("", "x", ""),
		"brackets":          fill("", "[", ""),
		"objects in one":    fill("", `{"":`, ""),
		"empty responses":   fill(`{"responses":[`, "{},", "]}"),
		"numbers as a list": fill(`{"responses":[`, "1,", "]}"),
		"empty events":      fill(`{"events":[`, "{},", "]}"),
		"null events":       fill(`{"events":[`, "null,", "]}"),
		"proof":             fill(`{"proof":[`, `"",`, "]}"),
		"one long text":     fill(`{"ledger":"`, "x", `"}`),
		"escapes":           fill(`{"ledger":"`, `\u0000`, `"}`),
		"a field again":     fill(`{`, `"ledger":"",`, "}"),
		"lines":             fill("", "\n", ""),
		"signatures":        fill("sluice\n1\nAAAA\n\n", "— a AAAAAAA=\n", ""),
	}
	for _, name := range []string{"receipt-v3.json", "statement-v3.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", "golden", name))
		must(t, err)
		hostile[name] = data
	}
	for name, data := range hostile {
		wantBounded(t, name+" as a receipt", data, 40, func(b []byte) { _, _ = evidence.ReadReceipt(b) })
		wantBounded(t, name+" as a statement", data, 40, func(b []byte) { _, _ = evidence.ReadStatement(b) })
		wantBounded(t, name+" as a checkpoint", data, 40, func(b []byte) { _, _ = evidence.OpenCheckpoint(b, note.VerifierList()) })
	}
}
