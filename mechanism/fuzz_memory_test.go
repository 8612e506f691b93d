package mechanism

import (
	"runtime"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// Queries come from files and strangers. What it takes to read them follows their bytes.
func TestReadersTakeNotMuchMoreMemoryThanTheirInput(t *testing.T) {
	const size, fixed, times = 1 << 20, 1 << 20, 200 // growing lists are copied several times
	fill := func(begin, item, end string) string { return begin + strings.Repeat(item, size/len(item)) + end }
	query := func(text string) func() error {
		return func() error { _, err := ParseQuery(text, []string{"yes", "no"}); return err }
	}
	for name, read := range map[string]func() error{
		"a threshold without end":   query(fill("threshold:yes:", "9", "")),
		"colons":                    query(fill("", ":", "")),
		"a value without end":       query(fill("majority:", "y", "")),
		"a threshold of no numbers": query("threshold:yes:99999999999999999999"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		check.That(t, took <= fixed+times*size, "%s: %d bytes take %d (%v)", name, size, took, err != nil)
	}
}
