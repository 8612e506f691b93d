package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// tableText returns the table of all rows.
func tableText(groups []group, found results) string {
	var b strings.Builder
	b.WriteString("| path | | measured | range | target | met? | compared with |\n|---|---|---:|---|---|---|---|\n")
	for _, g := range groups {
		for i, r := range g.rows {
			path, baseline := "″", "″"
			if i == 0 {
				path, baseline = g.path, g.baseline
			}
			values := found.values(g, r)
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
				path, r.label, middle(values), spread(values), g.target, g.target.met(values), baseline)
		}
	}
	return b.String()
}

func middle(sorted []float64) string {
	if len(sorted) == 0 {
		return "**missing**"
	}
	return report.Number(median(sorted))
}

// spread returns the smallest and the largest value of several runs.
func spread(sorted []float64) string {
	if len(sorted) < 2 {
		return ""
	}
	return report.Number(sorted[0]) + " – " + report.Number(sorted[len(sorted)-1])
}

func (t target) String() string {
	switch t.sense {
	case atLeast:
		return "≥ " + report.Number(t.value)
	case atMost:
		return "≤ " + report.Number(t.value)
	default:
		return ""
	}
}

// met returns whether the rounded median meets the target, as a word.
func (t target) met(sorted []float64) string {
	if len(sorted) == 0 || t.sense == none {
		return ""
	}
	value := report.Rounded(median(sorted))
	switch {
	case t.sense == atLeast && value >= t.value, t.sense == atMost && value <= t.value:
		return "yes"
	default:
		return "**no**"
	}
}

// quantity is a quantity that may grow with the number of objects.
type quantity struct {
	name string // in the table and above the plot's panel
	unit string // of the metric
	plot bool   // has a panel
}

// quantities returns the quantities that the growth benchmark measures.
func quantities() []quantity {
	return []quantity{
		{"events in the log", "events", false},
		{"single release, µs", "µs-release", true},
		{"… of a bare journal", "release-of-bare", false},
		{"64 callers, releases/s", "released/s", true},
		{"bulk raise, objects/s", "raised/s", true},
		{"bulk raise, CPU µs/object", "µs-cpu/raised", true},
		{"… its memory, MiB", "raise-MiB", false},
		{"verify, events/s", "events/s", true},
		{"verify, CPU µs/event", "µs-cpu/event", true},
		{"… its memory, MiB", "verify-MiB", false},
		{"open (cold), ms", "ms-open", true},
		{"… its memory, MiB", "open-MiB", false},
		{"proof (cold), ms", "ms-proof", true},
		{"bytes for each object", "B/object", true},
	}
}

func growthName(objects int) string { return "BenchmarkGrowth/objects=" + strconv.Itoa(objects) }

// growthText returns the table of how cost grows.
func growthText(found results, sizes []int) string {
	var b strings.Builder
	b.WriteString("| objects |")
	for _, n := range sizes {
		b.WriteString(" " + report.Number(float64(n)) + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(sizes)) + "\n")
	for _, q := range quantities() {
		b.WriteString("| " + q.name + " |")
		for _, n := range sizes {
			text := "**missing**"
			if v, ok := found.of(growthName(n), q.unit); ok {
				text = report.Number(v)
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// parts returns the columns of the table of bytes, as the benchmark names them.
func parts() []string {
	return []string{"keys", "payload", "salts", "hashes", "checksums", "leaves", "branches"}
}

// weighed is the benchmark of the file whose bytes are listed.
const weighed = "BenchmarkSize/objects=1000000"

// sizeText returns the tables of bytes.
func sizeText(found results) string {
	return "As written:\n\n" + budget(found, weighed+"/written") + "\nCompacted:\n\n" +
		budget(found, weighed+"/compacted")
}

// budget returns a table of the bytes of a file for each object, by their use.
func budget(found results, benchmark string) string {
	of := func(unit string) float64 {
		v, _ := found.of(benchmark, unit)
		return v
	}
	buckets := map[string]float64{} // total bytes of each
	for unit := range found[place{"ledger", benchmark, false}] {
		if part := strings.Split(unit, ":"); len(part) == 3 && part[0] == "B" {
			buckets[part[1]] += of(unit)
		}
	}
	var b strings.Builder
	b.WriteString("| bytes for each object | keys | fields | salts | hashes | checksums | heads and gaps in pages | " +
		"index pages | all |\n")
	b.WriteString("|---|" + strings.Repeat("---:|", len(parts())+1) + "\n")
	sum, small := map[string]float64{}, 0.0
	for _, bucket := range slices.Sorted(maps.Keys(buckets)) {
		const little = 0.5
		if buckets[bucket] < little {
			small += buckets[bucket]
			continue
		}
		b.WriteString("| " + bucket + " |")
		for _, part := range parts() {
			v := of("B:" + bucket + ":" + part)
			sum[part] += v
			b.WriteString(" " + tenths(v) + " |")
		}
		b.WriteString(" " + tenths(buckets[bucket]) + " |\n")
	}
	lines := []struct {
		name  string
		value float64
	}{{"other buckets", small}, {"free pages", of("B:free")}, {"the rest of the file", of("B:rest")}}
	for _, l := range lines {
		b.WriteString("| " + l.name + " |" + strings.Repeat(" |", len(parts())) + " " + tenths(l.value) + " |\n")
	}
	b.WriteString("| **all** |")
	for _, part := range parts() {
		b.WriteString(" " + tenths(sum[part]) + " |")
	}
	fmt.Fprintf(&b, " **%s** |\n\nInformation: %s bytes. The file is %s times that.\n",
		tenths(of("B/object")), tenths(of("B-information/object")), report.Number(of("of-information")))
	return b.String()
}

// tenths formats a number of bytes with one decimal.
func tenths(v float64) string {
	if v = max(v, 0); v < 0.05 {
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
