package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// output is the output of "go test -bench", on two cores and with two runs.
const output = `goos: linux
goarch: amd64
pkg: github.com/sluicedp/sluice/ledger
cpu: Some Processor @ 2.00GHz
BenchmarkReleaseAlone/aged=false-2         	       3	         0 ns/op	    512000 ns/each	         0.9100 of-bare
BenchmarkReleaseAlone/aged=false-2         	       3	         0 ns/op	    510000 ns/each	         0.9700 of-bare
BenchmarkReleaseAlone/aged=true-2          	       2	         0 ns/op	         0.5 of-bare
BenchmarkOdd/m-2-2                         	       2	      12.5 µs/each	    1e+06 events/s
BenchmarkLate/says-2
    late_test.go:12: a remark
--- BENCH: BenchmarkLate/says-2
BenchmarkBroken-2 failed somewhere in words here
PASS
ok  	github.com/sluicedp/sluice/ledger	12.000s
`

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readOutput reads output as if the machine had two cores.
func readOutput(t *testing.T, text string, oneCore bool) results {
	t.Helper()
	found := results{}
	must(t, found.read(strings.NewReader(text), "ledger", oneCore, 2))
	return found
}

func TestReadOutput_TwoCores_HasEachBenchmark(t *testing.T) {
	found := readOutput(t, output, false)
	for _, c := range []struct {
		benchmark, unit string
		want            []float64
	}{
		{"BenchmarkReleaseAlone/aged=false", "of-bare", []float64{0.91, 0.97}},
		{"BenchmarkReleaseAlone/aged=false", "ns/each", []float64{510_000, 512_000}},
		{"BenchmarkReleaseAlone/aged=true", "of-bare", []float64{0.5}},
		{"BenchmarkOdd/m-2", "µs/each", []float64{12.5}},
		{"BenchmarkOdd/m-2", "events/s", []float64{1e6}},
		{"BenchmarkLate/says", "ns/op", nil},
		{"BenchmarkBroken", "somewhere", nil},
	} {
		if got := found.values(group{pkg: "ledger", unit: c.unit}, row{benchmark: c.benchmark}); !slices.Equal(got, c.want) {
			t.Errorf("%s in %s: %v, want %v", c.benchmark, c.unit, got, c.want)
		}
	}
	if len(found) != 3 {
		t.Errorf("%d benchmarks, want 3: %v", len(found), found)
	}
}

// On one core, names do not end in a number of cores.
func TestReadOutput_OneCore_HasNamesWithoutCores(t *testing.T) {
	found := results{}
	must(t, found.read(strings.NewReader("BenchmarkVerify-1 \t 3\t 9 events/s\n"), "ledger", true, 1))
	if got := found.values(group{pkg: "ledger", unit: "events/s", oneCore: true}, row{benchmark: "BenchmarkVerify-1"}); !slices.Equal(got, []float64{9}) {
		t.Errorf("got %v", got)
	}
	if got := found.values(group{pkg: "ledger", unit: "events/s"}, row{benchmark: "BenchmarkVerify-1"}); len(got) > 0 {
		t.Errorf("what was measured on one core counts for all: %v", got)
	}
}

func TestReadOutput_InvalidNumber_IsAnError(t *testing.T) {
	if err := (results{}).read(strings.NewReader("BenchmarkX-2 10 nine ns/op\n"), "ledger", false, 2); err == nil {
		t.Error("no error")
	}
}

// A target is met if the written number meets it: 1.334 is written as 1.33.
func TestTarget_ValueIsRounded_BeforeComparison(t *testing.T) {
	for v, want := range map[float64]string{1.334: "yes", 1.336: "**no**"} {
		if got := (target{atMost, 1.33}).met([]float64{v}); got != want {
			t.Errorf("%v is at most 1.33: %s", v, got)
		}
	}
}

// someGroups are rows for output.
func someGroups() []group {
	return []group{
		{
			path: "alone", baseline: "bare", pkg: "ledger", unit: "of-bare", target: target{atLeast, 0.95},
			rows: []row{{"new", "BenchmarkReleaseAlone/aged=false"}, {"old", "BenchmarkReleaseAlone/aged=true"}},
		},
		{path: "odd", baseline: "clock", pkg: "ledger", unit: "µs/each", target: target{atMost, 12.5}, rows: []row{{"", "BenchmarkOdd/m-2"}}},
		{path: "speed", baseline: "clock", pkg: "ledger", unit: "events/s", rows: []row{{"", "BenchmarkOdd/m-2"}}},
	}
}

func TestTable_SomeRows_AreWritten(t *testing.T) {
	const want = `| path | | measured | range | target | met? | compared with |
|---|---|---:|---|---|---|---|
| alone | new | 0.97 | 0.91 – 0.97 | ≥ 0.95 | yes | bare |
| ″ | old | 0.5 |  | ≥ 0.95 | **no** | ″ |
| odd |  | 12.5 |  | ≤ 12.5 | yes | clock |
| speed |  | 1,000,000 |  |  |  | clock |
`
	found := readOutput(t, output, false)
	if got := tableText(someGroups(), found); got != want {
		t.Errorf("got\n%s", got)
	}
	if faults := missing(someGroups(), found); len(faults) > 0 {
		t.Error(faults)
	}
}

func TestTable_MissingBenchmark_IsAnError(t *testing.T) {
	without := strings.ReplaceAll(output, "aged=true", "aged=other")
	found := readOutput(t, without, false)
	faults := missing(someGroups(), found)
	if len(faults) != 1 || !strings.Contains(faults[0].Error(), "BenchmarkReleaseAlone/aged=true") {
		t.Errorf("got %v", faults)
	}
	if text := tableText(someGroups(), found); !strings.Contains(text, "| ″ | old | **missing** |") {
		t.Errorf("got\n%s", text)
	}
}

func TestReplace_MarkedPart_IsReplaced(t *testing.T) {
	const text = "# Title\n<!-- measured: a -->\nold\n<!-- end of a -->\nprose\n<!-- measured: b -->\n<!-- end of b -->\n"
	const want = "# Title\n<!-- measured: a -->\n\nnew\n\n<!-- end of a -->\nprose\n<!-- measured: b -->\n<!-- end of b -->\n"
	got, err := replace(text, []section{{"a", "new\n"}})
	must(t, err)
	if got != want {
		t.Errorf("got %q", got)
	}
	if again, err := replace(got, []section{{"a", "new\n"}}); err != nil || again != want {
		t.Errorf("a second time: %q, %v", again, err)
	}
	for _, broken := range []string{
		"nothing", "<!-- measured: a -->\n", "<!-- end of a -->\n<!-- measured: a -->\n", strings.Repeat("<!-- measured: a -->\n<!-- end of a -->\n", 2),
	} {
		if _, err := replace(broken, []section{{"a", "new"}}); err == nil {
			t.Errorf("no error for %q", broken)
		}
	}
}

// growthOutput is the output of the growth benchmark for sizes up to the largest.
func growthOutput(largest int) string {
	var b strings.Builder
	for _, n := range crowds(largest) {
		fmt.Fprintf(&b, "%s-2 1", growthName(n))
		for i, q := range quantities() {
			fmt.Fprintf(&b, " %d %s", (i+1)*n/100, q.unit)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestGrowth_SomeSizes_TableAndPanels(t *testing.T) {
	const largest = 1_000_000
	found := readOutput(t, growthOutput(largest), false)
	text := growthText(found, crowds(largest))
	if lines := strings.Count(text, "\n"); lines != 2+len(quantities()) || strings.Contains(text, "missing") {
		t.Errorf("got\n%s", text)
	}
	path := filepath.Join(t.TempDir(), "growth.svg")
	must(t, drawGrowth(path, found, crowds(largest)))
	picture, err := os.ReadFile(path)
	must(t, err)
	for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range quantities() {
		if q.plot != strings.Contains(string(picture), ">"+q.name+"<") {
			t.Errorf("panel of %q: want it %v", q.name, q.plot)
		}
	}
	if strings.Contains(string(picture), "NaN") {
		t.Error("a point is nowhere")
	}
	if err := drawGrowth(path, found, crowds(10_000_000)); err == nil {
		t.Error("a size that was not measured is drawn")
	}
}

func TestAround_SimilarNumbers_SpanADecade(t *testing.T) {
	for _, c := range [][2]float64{{5, 5}, {1, 3}, {1, 1000}} {
		if least, most := around(c[0], c[1]); most/least < 9.999 || least >= c[0] || most <= c[1] {
			t.Errorf("%v: from %v to %v", c, least, most)
		}
	}
}

func TestBudget_SomeParts_AreWritten(t *testing.T) {
	const size = `BenchmarkSize/objects=1000000/written-2 1 100 B/object 50 B-information/object 2 of-information 10 B:free 5 B:rest ` +
		`8 B:events:keys 20 B:events:payload 0.1 B:meta:keys -0.01 B:meta:leaves
`
	text := budget(readOutput(t, size, false), "BenchmarkSize/objects=1000000/written")
	for _, want := range []string{
		"| events | 8.0 | 20.0 | 0 | 0 | 0 | 0 | 0 | 28.0 |\n", "| other buckets | | | | | | | | 0.1 |\n",
		"| **all** | 8.0 | 20.0 | 0 | 0 | 0 | 0 | 0 | **100.0** |\n", "Information: 50.0 bytes. The file is 2 times that.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

func TestJobs_Options_DecidePatternsAndArguments(t *testing.T) {
	o := options{time: time.Second, count: 3, growth: true, largest: 100_000}
	all := jobs(chosen(table(o.largest), o), o)
	var patterns []string
	for _, j := range all {
		patterns = append(patterns, fmt.Sprint(j.pkg, " ", j.oneCore, " ", j.pattern))
	}
	for _, want := range []string{
		"ledger true ^(BenchmarkVerify)$", "ledger false ^BenchmarkGrowth$/^(objects=10000|objects=100000)$", "mechanism/graph false ^(BenchmarkSweep)$",
	} {
		if !slices.Contains(patterns, want) {
			t.Errorf("no job %q among %q", want, patterns)
		}
	}
	if last := all[len(all)-1]; !slices.Contains(last.env, "SLUICE_LONG=1") || last.count != 1 {
		t.Errorf("got %+v", last)
	}
	if args := strings.Join(all[0].args(), " "); !strings.Contains(args, " -benchtime 1s -count 3 ") {
		t.Errorf("got %s", args)
	}
	o.growth = false
	for _, j := range jobs(chosen(table(o.largest), o), o) {
		if strings.Contains(j.pattern, "Growth") {
			t.Errorf("the growth is measured without -growth: %+v", j)
		}
	}
}

// Every benchmark in the table exists in its package.
func TestGroups_EachBenchmark_Exists(t *testing.T) {
	have := map[string]bool{}
	for _, g := range table(1_000_000) {
		if !have[g.pkg] {
			have[g.pkg] = true
			for _, name := range benchmarks(t, g.pkg) {
				have[g.pkg+" "+name] = true
			}
		}
		for _, r := range g.rows {
			if !have[g.pkg+" "+topLevel(r.benchmark)] {
				t.Errorf("%s: there is no %s in %s", g.path, topLevel(r.benchmark), g.pkg)
			}
		}
	}
}

// benchmarks returns the names of the benchmark functions of a package.
func benchmarks(t *testing.T, pkg string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*_test.go"))
	must(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Benchmark") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func TestParseOptions_ValidAndInvalid_ReadOrRejected(t *testing.T) {
	o, err := parseOptions([]string{"-growth", "-largest", "1e7", "-bench-time", "3s", "-only", "^one"}, io.Discard)
	if err != nil || o.largest != 10_000_000 || !o.growth || o.time != 3*time.Second || !o.only.MatchString("one draw") {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{
		{"-largest", "3e5"}, {"-largest", "1e8"}, {"-largest", "0"}, {"-count", "0"}, {"-bench-time", "0s"}, {"more"}, {"-only", "("},
		{"-only", "x", "-write", "y"}, {"-unknown"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%q is understood", args)
		}
	}
}

func TestRun_NoMatchingRow_IsAnError(t *testing.T) {
	for only, want := range map[string]bool{"^open, cold": false, "^nothing$": false, "^one draw": true} {
		groups := chosen(table(1_000_000), options{only: regexp.MustCompile(only)})
		if got := len(groups) > 0; got != want {
			t.Errorf("%s matches a row: %v, want %v", only, got, want)
		}
	}
	if err := run(t.Context(), options{only: regexp.MustCompile("^nothing$")}, io.Discard); err == nil {
		t.Error("no error")
	}
}

func TestDescribe_ThisMachine_HasItsCores(t *testing.T) {
	text, err := describe(t.Context(), t.TempDir())
	must(t, err)
	if !strings.Contains(text, "- cores: ") { // the commit is known only in a checkout
		t.Errorf("the cores are missing in\n%s", text)
	}
	if _, err := describe(t.Context(), filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got the error %v", err)
	}
}

// The file in the repository has a place for every measurement.
func TestMeasurementsFile_EachTable_HasAPlace(t *testing.T) {
	must(t, options{file: filepath.Join("..", "measurements.md"), growth: true, mixed: mixedOptions{length: 1}}.checkFile())
	other := filepath.Join(t.TempDir(), "other.md")
	must(t, os.WriteFile(other, []byte("<!-- measured: machine -->\n<!-- end of machine -->\n"), 0o600))
	for _, o := range []options{{file: other}, {file: other + ".none"}} {
		if err := run(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "other.md") {
			t.Errorf("%s: got the error %v", o.file, err)
		}
	}
}
