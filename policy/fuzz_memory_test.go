package policy

import (
	"runtime"
	"strings"
	"testing"
)

// A policy comes from files and requests. What it takes to read follows its bytes, however it is nested.
func TestParseTakesNotMuchMoreMemoryThanItsInput(t *testing.T) {
	const size, fixed, times = 1 << 20, 256 << 10, 60
	fill := func(begin, item, end string) string { return begin + strings.Repeat(item, size/len(item)) + end }
	for name, text := range map[string]string{
		"brackets":           fill("", "[", ""),
		"nested policies":    fill("", `{"kind":"min","of":[`, ""),
		"many policies":      fill(`{"kind":"sum","of":[{"kind":"fixed","ceiling":"1"}`, `,{"kind":"fixed","ceiling":"1"}`, "]}"),
		"empty policies":     fill(`{"kind":"sum","of":[{}`, ",{}", "]}"),
		"a long number":      fill(`{"kind":"fixed","ceiling":"`, "1", `"}`),
		"a large exponent":   `{"kind":"fixed","ceiling":"1e999999999"}`,
		"a small exponent":   `{"kind":"fixed","ceiling":"1e-999999999"}`,
		"a long kind":        fill(`{"kind":"`, "x", `"}`),
		"a field repeatedly": fill(`{"kind":"fixed"`, `,"kind":"fixed"`, "}"),
		"unknown fields":     fill(`{"kind":"fixed"`, `,"x":[]`, "}"),
		"steps":              fill(`{"kind":"steps","steps":[{}`, ",{}", "]}"),
		"white space":        fill("", " ", ""),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse([]byte(text))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > fixed+times*uint64(len(text)) {
			t.Errorf("%s: %d bytes take %d (%v)", name, len(text), took, err != nil)
		}
	}
}
