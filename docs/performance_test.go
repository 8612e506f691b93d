package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of docs/performance.md again")

const performancePage = "docs/performance.md"

// figures writes tables of docs/performance.md from the measurements.
type figures struct {
	t *testing.T
	m measurements
}

// bench is a row of the table of lab/bench.
func (f figures) bench(path, label string) string {
	f.t.Helper()
	return f.m.of(f.t, "table", path+" | "+label, "measured")
}

// growth is the range over all sizes, from the first column with people to the last.
func (f figures) growth(row string) string {
	f.t.Helper()
	of := f.m["growth"]
	values := []string{}
	for _, size := range of.columns[1:] {
		values = append(values, f.m.of(f.t, "growth", row, size))
	}
	return spread(f.t, values)
}

func (f figures) sql(row, engine string) string    { return f.m.of(f.t, "lab/sql", row, engine) }
func (f figures) waited(row, engine string) string { return f.m.of(f.t, "lab/sql 2", row, engine) }

// spread returns a number, or the least and the largest of several.
func spread(t *testing.T, values []string) string {
	t.Helper()
	of := func(text string) float64 {
		value, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		if err != nil {
			t.Fatalf("measurements: %q is no number", text)
		}
		return value
	}
	less := func(a, b string) int { return cmp.Compare(of(a), of(b)) }
	least, most := slices.MinFunc(values, less), slices.MaxFunc(values, less)
	if least == most {
		return least
	}
	return least + " – " + most
}

// missed has each target that is not met, and how many of its rows miss it.
func (f figures) missed() string {
	var b strings.Builder
	b.WriteString("| what | measured | target | rows that miss it |\n|---|---:|---|---:|\n")
	of := f.m["table"]
	cell := func(row, column string) string { return f.m.of(f.t, "table", row, column) }
	for first := 0; first < len(of.names); {
		path, end, values := cell(of.names[first], "path"), first, []string(nil)
		for ; end < len(of.names) && of.rows[of.names[end]][0] == path; end++ {
			if row := of.names[end]; cell(row, "met?") == "**no**" {
				values = append(values, cell(row, "measured"))
			}
		}
		if len(values) > 0 {
			fmt.Fprintf(&b, "| %s | %s%s | %s | %d of %d |\n", path, spread(f.t, values), f.ofWhat(of.names[first]),
				cell(of.names[first], "target"), len(values), end-first)
		}
		first = end
	}
	return b.String()
}

// ofWhat returns what a ratio refers to, and nothing for other figures.
func (f figures) ofWhat(row string) string {
	baseline := f.baseline(row)
	if strings.Contains(baseline, "bare") || baseline == "keys and payloads" {
		return " of " + baseline
	}
	return ""
}

func (f figures) expected() string {
	const work = "processor time of a release, in µs, 64 callers, no disk"
	const few64, few256 = "64 callers, 100,000 people, at least 20 checkpoints of 16 MiB", "256 callers, the same"
	const few, many = "100,000 people at random, at least 20 checkpoints of 64 MiB", "1,000,000 people at random, the same"
	const sustained = "release, %d callers, grouped, sustained"
	const http = "over HTTP"
	rate := func(callers int, label string) string {
		return fmt.Sprintf("%s a second; 99 %% wait at most %s ms", f.bench("durable releases a second", label),
			f.bench("99th percentile of waits, in ms", label)) +
			fmt.Sprintf(". Another day, 50,000 people: %s a second; %s",
				f.sql(fmt.Sprintf(sustained, callers), "Sluice"), f.waited(fmt.Sprintf(sustained, callers), "Sluice"))
	}
	columns := f.m["growth"].columns
	first, last := columns[1], columns[len(columns)-1]
	const sizes = "all sizes"
	hosts := func(column string) string {
		const row = "release, 64 callers, grouped"
		return fmt.Sprintf("%s a second, %s of the rate with a file", f.m.of(f.t, "lab/sql -hosts", row, column),
			f.m.ratio(f.t, "lab/sql -hosts", row, column))
	}
	load := func(what string) string {
		return fmt.Sprintf("%s a second, %s of the rate in process", f.m.of(f.t, "lab/load", what, http),
			f.m.of(f.t, "lab/load", what, "ratio"))
	}
	mixed := func(column string) string { return f.m.of(f.t, "mixed", "releases", column) }
	rows := [][3]string{
		{"the disk", "a flush", f.m.of(f.t, "machine facts", "overwriting 4 KiB and syncing them (fdatasync)", "value")},
		{"one release, one caller", sizes, f.growth("single release, µs") + " µs"},
		{"releases, 64 callers, sustained", "100,000 people", rate(64, few64)},
		{"releases, 256 callers, sustained", "100,000 people", rate(256, few256)},
		{"releases, 64 callers, as the file grows", sizes, f.growth("64 callers, releases/s") + " a second"},
		{"processor time of a release", "100,000 people; 1,000,000", f.bench(work, few) + " µs; " +
			f.bench("processor time of a release with a million people, in µs", many) + " µs"},
		{"enrolment", "50,000 people", f.sql("enrolling objects", "Sluice") + " people a second"},
		{"a bulk raise", sizes, f.growth("bulk raise, objects/s") + " people a second"},
		{"memory of a bulk raise", sizes, f.growth("bulk raise, CPU µs/object: its memory, MiB") + " MiB"},
		{"memory of the largest sale", "262,144 people", f.bench("largest sale, in one transaction: its memory, MiB",
			"262,144 objects") + " MiB"},
		{"reading a person's state", "50,000 people, three levels", f.sql("reading an object's state", "Sluice") +
			" a second"},
		{"`Budget` at 100 values of ε", "1,000,000 people", f.bench("budget of all people at 100 values of ε, in s",
			"1,000,000 people") + " s"},
		{"an audit, one core", "120,000 people", f.bench("verify on one core, events a second", "") + " events a second"},
		{"an audit, all cores", sizes, f.growth("verify, events/s") + " events a second"},
		{"memory of an audit", sizes, f.growth("verify, CPU µs/event: its memory, MiB") + " MiB"},
		{"opening, nothing of the file in memory", sizes, f.growth("open (cold), ms") + " ms"},
		{"opening after a crash", "20,000 releases", f.bench("open after a crash, in µs an event of the journal",
			"20,000 releases of 100,000 people") + " µs for each event that the file lacks"},
		{"a proof, nothing of the file in memory", sizes, f.growth("proof (cold), ms") + " ms"},
		{"bytes on disk for a person with one level", sizes, f.growth("bytes for each object")},
		{"bytes on disk for a person with three levels", "1,000,000 people", f.allBytes("bytes") + "; compacted " +
			f.allBytes("bytes 2")},
		{"releases over HTTP, 64 callers", "100,000 people", load("releases, a second")},
		{"reads over HTTP, 64 callers", "100,000 people", load("reads, a second")},
		{"releases, 64 callers, the journal in PostgreSQL", "the same machine", hosts("Sluice, PostgreSQL")},
		{"… that waits for one of two standbys", "the same machine", hosts("Sluice, 1 of 2 standbys")},
		{"ten minutes of a mixed load", "100,000 people, a faster machine", fmt.Sprintf(
			"%s releases a second; half within %s ms, 99 %% within %s, the longest %s", mixed("a second"),
			mixed("half within, ms"), mixed("99 %"), mixed("the longest"))},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*All sizes* are those from %s to %s people.\n\n| what | with | measured |\n|---|---|---|\n", first, last)
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	return b.String()
}

// allBytes is the whole of a budget of bytes.
func (f figures) allBytes(table string) string {
	return strings.Trim(f.m.of(f.t, table, "**all**", "all"), "*")
}

func (f figures) databases() string {
	of := f.m["lab/sql"]
	engines := of.columns[2:]
	var b strings.Builder
	b.WriteString("| | " + strings.Join(engines, " | ") + " |\n|---|" + strings.Repeat("---:|", len(engines)) + "\n")
	for _, row := range of.names {
		if strings.Contains(row, "a transaction each") {
			continue // a host with many callers shares commits
		}
		b.WriteString("| " + row + " |")
		for _, engine := range engines {
			b.WriteString(" " + f.m.ratio(f.t, "lab/sql", row, engine) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (f figures) bare() string {
	var b strings.Builder
	b.WriteString("| | with | beside | rate |\n|---|---|---|---:|\n")
	for _, row := range f.m["table"].names {
		baseline := f.baseline(row)
		if baseline != "a bare journal" && baseline != "bare bbolt" {
			continue
		}
		with, _, _ := strings.Cut(f.m["table"].rows[row][1], ", 100,000 people")
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.m.of(f.t, "table", row, "path"), with, baseline,
			f.m.of(f.t, "table", row, "measured"))
	}
	return b.String()
}

// baseline is what a row is compared with, in short. The first row of a path states it for all.
func (f figures) baseline(row string) string {
	of := f.m["table"]
	last := len(of.columns) - 1
	at := slices.Index(of.names, row)
	for of.rows[of.names[at]][last] == "″" {
		at--
	}
	short, _, _ := strings.Cut(of.rows[of.names[at]][last], ":")
	short, _, _ = strings.Cut(short, ",")
	short, _, _ = strings.Cut(short, " reads")
	return short
}

var generatedPart = regexp.MustCompile(`(?s)<!-- generated: (\w+) -->\n(.*?)<!-- end -->`)

// Each table of figures follows from the measurements.
func TestPerformance_MeasurementsChange_TablesFollow(t *testing.T) {
	f := figures{t, readMeasurements(t)}
	parts := map[string]func() string{
		"missed": f.missed, "expected": f.expected, "databases": f.databases, "bare": f.bare,
	}
	page := pages(t)[performancePage]
	seen := 0
	written := generatedPart.ReplaceAllStringFunc(page, func(part string) string {
		name := generatedPart.FindStringSubmatch(part)[1]
		if parts[name] == nil {
			t.Fatalf("%s: nothing generates %q", performancePage, name)
		}
		seen++
		return "<!-- generated: " + name + " -->\n\n" + parts[name]() + "\n<!-- end -->"
	})
	if seen != len(parts) {
		t.Errorf("%d generated parts, want %d", seen, len(parts))
	}
	if written == page {
		return
	}
	if *update {
		must(t, os.WriteFile(filepath.Join(root(t), performancePage), []byte(written), 0o644))
		return
	}
	t.Errorf("%s does not follow from lab/measurements.md: run go test ./docs -run TestPerformance -update", performancePage)
}

// limits are numbers that are no measurements: limits and defaults of the code.
var limits = map[string]string{
	"1,024":  "requests in a commit",
	"4,096":  "people in a part of a bulk request",
	"64 MiB": "the default of Options.Memory, and what an audit keeps in memory",
	"100":    "the default of GOGC",
	"1,000":  "requests a second, of a token",
	"128":    "requests at a time, of a token",
	"7":      "the version of UUIDs that rise",
	"1":      "the ratio of what is as fast",
}

var number = regexp.MustCompile(`[0-9][0-9.,]*( (MiB|GiB|µs|ms|s|%)\b)?`)

// Outside of the tables there is no figure, but for limits of the code.
func TestPerformance_TextOutsideTheTables_HasNoFigures(t *testing.T) {
	text := generatedPart.ReplaceAllString(pages(t)[performancePage], "")
	text = link.ReplaceAllString(text, "]")
	for _, found := range number.FindAllString(text, -1) {
		found = strings.TrimRight(found, ".,")
		if limits[found] == "" {
			t.Errorf("%s: %q is not from the measurements, nor is it a limit of the code", performancePage, found)
		}
	}
}

// Missed targets come first on the page.
func TestPerformance_MissedTargets_AreAtTheTop(t *testing.T) {
	page := pages(t)[performancePage]
	missed := strings.Index(page, "<!-- generated: missed -->")
	if other := strings.Index(page, "<!-- generated: expected -->"); missed < 0 || other < missed {
		t.Errorf("%s: what was missed is at byte %d, after what to expect at %d", performancePage, missed, other)
	}
}

// The text is read in three minutes, at 300 words a minute. Tables of figures are looked up.
func TestPerformance_Text_IsReadInThreeMinutes(t *testing.T) {
	const most = 3 * 300
	text := generatedPart.ReplaceAllString(pages(t)[performancePage], "")
	if words := len(strings.Fields(text)); words == 0 || words > most {
		t.Errorf("%s has %d words outside the tables; it may have %d", performancePage, words, most)
	}
}
