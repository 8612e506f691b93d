package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// results are the results of benchmarks: for each place and unit the values of all runs.
type results map[place]map[string][]float64

// place is a benchmark, on all cores or on one.
type place struct {
	pkg       string // below the module
	benchmark string // with the names of its parts
	oneCore   bool   // otherwise on all cores
}

// read reads the results from the output of "go test -bench" of one package, in which names end
// with the number of cores if that is above 1. Other lines are ignored. A line of results is:
//
//	BenchmarkReleaseAlone/aged=false-2    10    1200 ns/each    0.97 of-bare
func (found results) read(from io.Reader, pkg string, oneCore bool, cores int) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(fields[1]); err != nil {
			continue
		}
		name := fields[0]
		if cores > 1 {
			name = strings.TrimSuffix(name, "-"+strconv.Itoa(cores))
		}
		at := place{pkg, name, oneCore}
		if found[at] == nil {
			found[at] = map[string][]float64{}
		}
		for i := 2; i < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			found[at][fields[i+1]] = append(found[at][fields[i+1]], value)
		}
	}
	return lines.Err()
}

// values returns the results for a row, sorted.
func (found results) values(g group, r row) []float64 {
	values := slices.Clone(found[place{g.pkg, r.benchmark, g.oneCore}][g.unit])
	slices.Sort(values)
	return values
}

// of returns the median of a metric of a benchmark of the ledger on all cores.
func (found results) of(benchmark, unit string) (value float64, ok bool) {
	values := found.values(group{pkg: "ledger", unit: unit}, row{benchmark: benchmark})
	if len(values) == 0 {
		return 0, false
	}
	return median(values), true
}

// median returns the middle of sorted values.
func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// missing returns an error for each row without a result.
func missing(groups []group, found results) (faults []error) {
	for _, g := range groups {
		for _, r := range g.rows {
			if len(found.values(g, r)) == 0 {
				faults = append(faults, fmt.Errorf("%s: %s in %s has no result in the unit %s", g.path, r.benchmark,
					g.pkg, g.unit))
			}
		}
	}
	return faults
}

// measures reports whether the rows include a function.
func measures(groups []group, function string) bool {
	return slices.ContainsFunc(groups, func(g group) bool {
		return slices.ContainsFunc(g.rows, func(r row) bool { return topLevel(r.benchmark) == function })
	})
}
