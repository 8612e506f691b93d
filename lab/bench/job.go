package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// job is one run of "go test".
type job struct {
	pkg     string
	pattern string // for -bench
	oneCore bool   // otherwise on all cores
	time    time.Duration
	count   int
	env     []string
}

// growthTime is the time of the growth benchmark for each size. Small ledgers have many lives in
// it.
const growthTime = 20 * time.Second

// jobs returns the jobs for rows: one for each package, on all cores and on one core, and one for
// the growth.
func jobs(groups []group, o options) (all []job) {
	for _, pkg := range []string{"rrchain", "mechanism", "mechanism/graph", "ledger", "lab/bench"} {
		for _, oneCore := range []bool{false, true} {
			if names := functions(groups, pkg, oneCore); len(names) > 0 {
				all = append(all, job{pkg: pkg, pattern: oneOf(names), oneCore: oneCore, time: o.time, count: o.count})
			}
		}
	}
	if o.growth {
		all = append(all, growthJob(o))
	}
	return all
}

// functions returns the names of the benchmark functions of a package that rows need, except that
// of the growth.
func functions(groups []group, pkg string, oneCore bool) []string {
	names := map[string]bool{}
	for _, g := range groups {
		if g.pkg == pkg && g.oneCore == oneCore && !g.growth {
			for _, r := range g.rows {
				names[topLevel(r.benchmark)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func growthJob(o options) job {
	var sizes []string
	for _, n := range crowds(o.largest) {
		sizes = append(sizes, "objects="+strconv.Itoa(n))
	}
	return job{
		pkg: "ledger", pattern: "^BenchmarkGrowth$/" + oneOf(sizes), time: growthTime, count: 1,
		env: []string{"SLUICE_LONG=1"}, // includes the largest size
	}
}

// topLevel returns the name of the function that a benchmark belongs to.
func topLevel(benchmark string) string {
	name, _, _ := strings.Cut(benchmark, "/")
	return name
}

// oneOf returns a pattern that matches exactly the given names.
func oneOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// cores returns the number of cores that the benchmarks may use.
func (j job) cores() int {
	if j.oneCore {
		return 1
	}
	return runtime.NumCPU()
}

// module returns the directory of the package's module below that of Sluice.
func (j job) module() string {
	if strings.HasPrefix(j.pkg, "lab/") {
		return "lab"
	}
	return ""
}

func (j job) args() []string {
	return []string{
		"test", "-run", "^$", "-bench", j.pattern, "-benchtime", j.time.String(), "-count", strconv.Itoa(j.count),
		"-cpu", strconv.Itoa(j.cores()), "-timeout", "0", "./" + strings.TrimPrefix(j.pkg, j.module()+"/"),
	}
}

// run runs the benchmarks, and adds their results to found. Their output is copied to progress.
func (j job) run(ctx context.Context, found results, progress io.Writer) error {
	dir, err := report.SluiceDir(ctx)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", j.args()...)
	command.Dir = filepath.Join(dir, j.module())
	// Tests collect garbage later than programs do, unless GOGC is set.
	command.Env = append(append([]string{"GOGC=100"}, os.Environ()...), j.env...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	read, write := io.Pipe()
	command.Stdout, command.Stderr = io.MultiWriter(write, progress), progress
	parsed := make(chan error, 1)
	go func() {
		err := found.read(read, j.pkg, j.oneCore, j.cores())
		_ = read.CloseWithError(err)
		parsed <- err
	}()
	err = command.Run()
	_ = write.Close()
	if fault := <-parsed; fault != nil {
		return fault
	}
	if err != nil {
		return fmt.Errorf("benchmarks of %s: %w", j.pkg, err)
	}
	return nil
}
