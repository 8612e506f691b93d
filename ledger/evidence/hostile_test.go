package evidence

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/event"
)

// FuzzHex checks that a text that is read is written the same, in lower case.
func FuzzHex(f *testing.F) {
	for _, text := range []string{"", "00", "0", "fF", "FF", "zz", "0x00", " 00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var h event.Hex
		if err := h.UnmarshalText(text); err != nil {
			return
		}
		if again, err := h.MarshalText(); err != nil || string(again) != strings.ToLower(string(text)) {
			t.Errorf("%q is written as %q, %v", text, again, err)
		}
	})
}

// FuzzFact checks that a fact that is read from JSON is written so that it reads the same.
func FuzzFact(f *testing.F) {
	for _, text := range []string{`{}`, `null`, `{"kind":"released"}`, `{"kind":"settled","key":"a","alone":true}`, `[1]`, `{"kind":"sold","sale":1,"price":-1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, second Fact
		if json.Unmarshal(text, &first) != nil {
			return
		}
		once, err := json.Marshal(first)
		if err != nil {
			return // it can be read, but no ledger writes it
		}
		err = json.Unmarshal(once, &second)
		check.Need(t, err == nil, "%s is written as %s: %v", text, once, err)
		if again, err := json.Marshal(second); err != nil || string(again) != string(once) {
			t.Errorf("%s is written as %s, and then as %s, %v", text, once, again, err)
		}
	})
}

// Documents come from untrusted sources: the memory for reading one is bounded by its size.
func TestReadDocument_HostileInput_BoundsMemory(t *testing.T) {
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
		"one kind again":    fill(`{"events":[{`, `"kind":"",`, "}]}"),
		"one long kind":     fill(`{"events":[{"kind":"`, "x", `"}]}`),
		"events of a kind":  fill(`{"events":[`, `{"kind":"sale"},`, "]}"),
		"proof":             fill(`{"proof":[`, `"",`, "]}"),
		"one long text":     fill(`{"ledger":"`, "x", `"}`),
		"escapes":           fill(`{"ledger":"`, `\u0000`, `"}`),
		"a field again":     fill(`{`, `"ledger":"",`, "}"),
		"lines":             fill("", "\n", ""),
		"signatures":        fill("sluice\n1\nAAAA\n\n", "— a AAAAAAA=\n", ""),
	}
	for _, name := range []string{"receipt-v4.json", "statement-v4.json"} {
		data := check.Value(os.ReadFile(filepath.Join("..", "testdata", "golden", name)))(t)
		hostile[name] = data
	}
	for name, data := range hostile {
		fixture.WantBounded(t, name+" as a receipt", data, 40, func(b []byte) { _, _ = ReadReceipt(b) })
		fixture.WantBounded(t, name+" as a statement", data, 40, func(b []byte) { _, _ = ReadStatement(b) })
		fixture.WantBounded(t, name+" as a checkpoint", data, 40, func(b []byte) { _, _ = OpenCheckpoint(b, note.VerifierList()) })
	}
	// One event with a list of tiny items is read completely before the canonical form is checked.
	// That takes 128 times its size, and more under the race detector.
	for name, data := range map[string][]byte{
		"chains forgotten": fill(`{"events":[{"kind":"forgotten","chains":[`, "{},", "]}]}"),
		"events stated":    fill(`{"events":[{"kind":"stated","events":[`, "1,", "]}]}"),
		"values":           fill(`{"events":[{"kind":"question","values":[`, `"",`, "]}]}"),
	} {
		fixture.WantBounded(t, name, data, 240, func(b []byte) { _, _ = ReadStatement(b) })
	}
}
