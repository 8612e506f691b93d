package main

import (
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// group is the rows of the table for one path, with one target.
type group struct {
	path     string // what is measured
	baseline string // what it is compared with
	pkg      string // below the module
	unit     string // of the metric
	target   target
	oneCore  bool // measured with GOMAXPROCS=1
	growth   bool // measured only with -growth
	rows     []row
}

// row is one line of the table.
type row struct {
	label     string // distinguishes the rows of a group; may be empty
	benchmark string // name, as it is printed
}

// target is the bound for a metric.
type target struct {
	sense bound
	value float64
}

type bound int

const (
	none bound = iota // no target
	atLeast
	atMost
)

// table returns all rows. Rows that are measured at one size are for the largest number of objects.
func table(largest int) []group {
	const journal = "a bare journal: as many bytes appended to a file that is long enough, one fdatasync for each, " +
		"and nothing else"
	const bare = "bare bbolt: the same records in as many transactions, to a copy of the file"
	const slow = "a disk whose flush takes 1 ms longer"
	const grown = "BenchmarkGrowth/objects=%d"
	draws := func(way string, sizes ...string) (rows []row) {
		for _, m := range sizes {
			rows = append(rows, row{way + ", m = " + m, "BenchmarkDraw/" + way + "/m=" + m})
		}
		return rows
	}
	several := func(lists ...[]row) (rows []row) {
		for _, l := range lists {
			rows = append(rows, l...)
		}
		return rows
	}
	together := []row{
		{"64 callers, 100,000 people, at least 20 checkpoints of 16 MiB", "BenchmarkReleaseTogether/callers=64"},
		{"256 callers, the same", "BenchmarkReleaseTogether/callers=256"},
	}
	few := []row{{"100,000 people at random, at least 20 checkpoints of 64 MiB", "BenchmarkReleaseWork/people=100000"}}
	many := []row{{"1,000,000 people at random, the same", "BenchmarkReleaseWork/people=1000000"}}
	raises := []row{
		{"100,000 objects, three times", "BenchmarkRaiseAll/objects=100000"},
		{"1,000,000 objects, three times", "BenchmarkRaiseAll/objects=1000000"},
	}
	reading := []row{
		{"one level", "BenchmarkReadObject/levels=1"},
		{"three levels", "BenchmarkReadObject/levels=3"},
	}
	var answers []row
	for _, what := range []string{"first score", "raised score", "of three"} {
		for _, epsilon := range []string{"0.01", "1"} {
			answers = append(answers, row{what + ", ε = " + epsilon,
				"BenchmarkAnswer/" + strings.ReplaceAll(what, " ", "_") + "/" + epsilon})
		}
	}
	lastSize := row{fmt.Sprintf("%s objects", report.Number(float64(largest))), fmt.Sprintf(grown, largest)}
	sizes := []row{lastSize}
	if largest > 10_000 {
		sizes = []row{{"10,000 objects", fmt.Sprintf(grown, 10_000)}, lastSize}
	}
	return []group{
		{
			path: "one durable release, alone", baseline: journal, pkg: "ledger", unit: "of-bare",
			target: target{atLeast, 0.75},
			rows:   []row{{"", "BenchmarkReleaseAlone/flush=0s"}, {slow, "BenchmarkReleaseAlone/flush=1ms"}},
		},
		{
			path: "one durable sale of one object, alone", baseline: journal, pkg: "ledger", unit: "of-bare",
			rows: []row{{"", "BenchmarkSellAlone/flush=0s"}, {slow, "BenchmarkSellAlone/flush=1ms"}},
		},
		{
			path: "durable releases, together", baseline: "a bare journal, with group commit by leader and followers",
			pkg: "ledger", unit: "of-bare", rows: together,
		},
		{path: "durable releases a second", baseline: "the clock", pkg: "ledger", unit: "releases/s", rows: together},
		{path: "99th percentile of waits, in ms", baseline: "the clock", pkg: "ledger", unit: "ms-p99",
			rows: together},
		{path: "99.9th percentile of waits, in ms", baseline: "the clock", pkg: "ledger", unit: "ms-p99.9",
			rows: together},
		{
			path:     "99.9th percentile of waits, relative to a run without checkpoints",
			baseline: "as many releases without any checkpoint", pkg: "ledger", unit: "p99.9-of-quiet",
			target: target{atMost, 2}, rows: together,
		},
		{
			path: "processor time of a release, in µs, 64 callers, no disk", pkg: "ledger", unit: "cpu-µs/release",
			target: target{atMost, 26}, rows: few,
			baseline: "0.3 of what the code before the journal took with 100,000 people on the machine it was " +
				"measured on, 86 µs",
		},
		{
			path:     "processor time of a release with a million people, in µs",
			baseline: "0.4 of the same, 86 µs", pkg: "ledger", unit: "cpu-µs/release",
			target: target{atMost, 34}, rows: many,
		},
		{
			path: "allocations of a release", baseline: "about 100 in the code before the journal", pkg: "ledger",
			unit:   "allocs/release",
			target: target{atMost, 20}, rows: several(few, many),
		},
		{
			path:     "heap during releases beyond twice Options.Memory, in MiB",
			baseline: "twice Options.Memory", pkg: "ledger", unit: "heap-over-table-MiB",
			target: target{atMost, 64}, rows: several(few, many),
		},
		{
			path: "releases with an observer, in time", baseline: "the same without", pkg: "lab/bench",
			unit: "of-unobserved",
			rows: []row{{"1 caller, no disk", "BenchmarkReleaseObserved/callers=1"},
				{"64 callers", "BenchmarkReleaseObserved/callers=64"}},
		},
		{
			path: "open after a crash, in µs an event of the journal", baseline: "the clock", pkg: "ledger",
			unit: "µs/event", target: target{atMost, 5},
			rows: []row{{"20,000 releases of 100,000 people", "BenchmarkOpenAfterACrash"}},
		},
		{
			path: "bulk raise, in bounded transactions", baseline: bare, pkg: "ledger", unit: "of-bare",
			target: target{atLeast, 0.7},
			rows:   raises,
		},
		{
			path: "… until all of it is in the file", baseline: "the same", pkg: "ledger", unit: "of-bare-in-file",
			rows: raises,
		},
		{
			path: "… its memory, MiB", baseline: "the heap at its largest", pkg: "ledger", unit: "raise-MiB",
			target: target{atMost, 300},
			growth: true, rows: sizes,
		},
		{
			path: "largest sale, in one transaction", baseline: bare, pkg: "ledger", unit: "of-bare",
			target: target{atLeast, 0.6},
			rows:   []row{{"262,144 objects", "BenchmarkSellAll"}},
		},
		{
			path: "… until all of it is in the file", baseline: "the same", pkg: "ledger", unit: "of-bare-in-file",
			rows: []row{{"262,144 objects", "BenchmarkSellAll"}},
		},
		{
			path: "… its memory, MiB", baseline: "the heap at its largest", pkg: "ledger", unit: "sale-MiB",
			target: target{atMost, 300},
			rows:   []row{{"262,144 objects", "BenchmarkSellAll"}},
		},
		{
			path: "one draw, thresholds known, in reads", baseline: "one buffered read of 64 random bits",
			pkg: "rrchain", unit: "reads",
			target: target{atMost, 2},
			rows: several(draws("first", "2", "10", "2000", "100000"), draws("raise", "2", "10", "2000", "100000"),
				draws("insert", "2", "10", "2000", "100000"),
				[]row{{"unary encoding, each of 500 bits", "BenchmarkDrawUnary"}}),
		},
		{
			path: "… its allocations", baseline: "none", pkg: "rrchain", unit: "allocs/op", target: target{atMost, 0},
			rows: several(draws("first", "10"), draws("raise", "10"), draws("insert", "10")),
		},
		{
			path: "first use of ε₁, ε₂, m, in µs", baseline: "the clock", pkg: "rrchain", unit: "µs/each",
			target: target{atMost, 50},
			rows: []row{
				{"first", "BenchmarkFirstUse/first"}, {"raise", "BenchmarkFirstUse/raise"},
				{"insert", "BenchmarkFirstUse/insert"},
				{"raise, largest m and ε", "BenchmarkFirstUse/raise-extreme"},
			},
		},
		{
			path:     "reading one object's state",
			baseline: "bare bbolt reads the same records, and neither checks nor decodes them",
			pkg:      "ledger", unit: "of-bare", target: target{atLeast, 0.7}, rows: reading,
		},
		{
			path: "… its allocations beyond the answer", baseline: "those of the same reads through the store",
			pkg:  "ledger",
			unit: "allocs-beyond", target: target{atMost, 0.01}, rows: reading,
		},
		{
			path: "estimate from running counts", baseline: "the same with 1,000 objects (constant time: 1)",
			pkg:  "lab/bench",
			unit: "of-one-of-1000-objects", target: target{atLeast, 0.9},
			rows: []row{{"100,000 objects", "BenchmarkEstimate"}},
		},
		{
			path: "estimate from scratch", baseline: "a bare cursor walk over the same chains", pkg: "lab/bench",
			unit:   "of-bare-walk",
			target: target{atLeast, 0.5},
			rows: []row{
				{"100,000 objects", "BenchmarkEstimateFromScratch/100000"},
				{"1,000,000 objects", "BenchmarkEstimateFromScratch/1000000"},
			},
		},
		{
			path: "budget of all people at 100 values of ε, in s", baseline: "the clock", pkg: "ledger",
			unit: "s/budget",
			rows: []row{{"1,000,000 people", "BenchmarkBudget/people=1000000"}},
		},
		{
			path: "an answer about a panel, drawn but not committed, in µs", baseline: "the clock", pkg: "mechanism",
			unit:   "µs/answer",
			target: target{atMost, 100}, rows: answers,
		},
		{
			path: "verify on one core, events a second", baseline: "the clock", pkg: "ledger", unit: "events/s",
			oneCore: true,
			target:  target{atLeast, 700_000}, rows: []row{{"", "BenchmarkVerify"}},
		},
		{
			path: "… its memory, MiB", baseline: "the heap at its largest, on all cores", pkg: "ledger",
			unit: "verify-MiB", growth: true, rows: sizes,
		},
		{
			path:     "proof that an event is in the log, cold, in ms",
			baseline: "the clock; nothing of the file in memory", pkg: "ledger",
			unit: "ms-cold", target: target{atMost, 1},
			rows: []row{
				{"of 10,000", "BenchmarkProve/event/events=10000"},
				{"of 100,000", "BenchmarkProve/event/events=100000"},
				{"of 1,000,000", "BenchmarkProve/event/events=1000000"},
			},
		},
		{
			path: "bytes on disk, three levels", baseline: "keys and payloads", pkg: "ledger", unit: "of-information",
			target: target{atMost, 1.33},
			rows: []row{
				{"100,000 objects, as written", "BenchmarkSize/objects=100000/written"},
				{"100,000 objects, compacted", "BenchmarkSize/objects=100000/compacted"},
				{"1,000,000 objects, as written", weighed + "/written"},
				{"1,000,000 objects, compacted", weighed + "/compacted"},
			},
		},
		{
			path: "open, cold, in ms", baseline: "the clock; nothing of the file in memory", pkg: "ledger",
			unit: "ms-open", growth: true,
			target: target{atMost, 1000}, rows: sizes,
		},
		{
			path: "… its memory, MiB", baseline: "the heap at its largest", pkg: "ledger", unit: "open-MiB",
			growth: true, rows: sizes,
		},
		{
			path: "optimal mechanism on a graph", baseline: "a bare breadth-first sweep over the same arrays",
			pkg: "mechanism/graph", unit: "of-bare",
			rows: []row{
				{"balanced, cube of 1.1 million edges", "BenchmarkSweep/balanced/cube"},
				{"balanced, grid of 2 million", "BenchmarkSweep/balanced/grid"},
				{"extended, cube", "BenchmarkSweep/extend/cube"}, {"extended, grid", "BenchmarkSweep/extend/grid"},
			},
		},
	}
}

// crowds returns the numbers of objects of the growth benchmark, up to the largest.
func crowds(largest int) (all []int) {
	for n := 10_000; n <= min(largest, 10_000_000); n *= 10 {
		all = append(all, n)
	}
	return all
}

// chosen returns the rows that the options select.
func chosen(groups []group, o options) (some []group) {
	for _, g := range groups {
		if (!g.growth || o.growth) && (o.only == nil || o.only.MatchString(g.path)) {
			some = append(some, g)
		}
	}
	return some
}
