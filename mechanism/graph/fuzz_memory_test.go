package graph

import (
	"runtime"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// Graphs come from files and strangers. What it takes to read them follows their bytes.
func TestReadersTakeNotMuchMoreMemoryThanTheirInput(t *testing.T) {
	const size, fixed, times = 1 << 20, 1 << 20, 200 // growing lists are copied several times
	fill := func(begin, item, end string) string { return begin + strings.Repeat(item, size/len(item)) + end }
	graph := func(nodes, edges string) func() error {
		return func() error { _, err := readText(nodes, edges, byColor); return err }
	}
	two := "id,color\na,x\nb,y\n"
	for name, read := range map[string]func() error{
		"a quote without end":  graph(fill("id,color\n\"", "x", ""), ""),
		"a field without end":  graph(fill("id,color\n", "x", ""), ""),
		"a header without end": graph(fill("id", ",", ""), ""),
		"many columns":         graph(fill("id,color", ",x", "\na,x\n"), ""),
		"one vertex again":     graph(fill("id,color\n", "a,x\n", ""), ""),
		"one edge again":       graph(two, fill("source,target\n", "a,b\n", "")),
		"loops":                graph(two, fill("source,target\n", "a,a\n", "")),
		"unknown vertices":     graph(two, fill("source,target\n", "q,r\n", "")),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		check.That(t, took <= fixed+times*size, "%s: %d bytes take %d (%v)", name, size, took, err != nil)
	}
}
