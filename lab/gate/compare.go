package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// row is a measured operation: its name for the program, and for people.
type row struct{ name, what string }

// rows returns the rows to measure.
func (o options) rows() []row {
	all := []row{
		{"alone", "releases, alone"},
		{"callers64", "releases, 64 callers"},
		{"callers256", "releases, 256 callers"},
		{"raise", "bulk raise, an object"},
		{"enrol", "enrolment, an object"},
		{"read", "reading an object"},
		{"audit", "audit, an event"},
		{"open", "open after a crash, a release"},
	}
	return slices.DeleteFunc(all, func(r row) bool { return !o.only.MatchString(r.name + " " + r.what) })
}

// results are the turns of each row: of the checkout before, and of the checkout after.
type results struct {
	rows  []row
	turns map[row]*[2][]turn
}

// compare runs both sides in turns. Each round begins with the other side. The first round is not
// counted, because everything is cold.
func compare(ctx context.Context, o options, sides [2]*side, progress io.Writer) (results, error) {
	found := results{rows: o.rows(), turns: map[row]*[2][]turn{}}
	for round := range o.rounds + 1 {
		for _, r := range found.rows {
			if found.turns[r] == nil {
				found.turns[r] = &[2][]turn{}
			}
			for k := range sides {
				i := (k + round) % 2
				select {
				case <-time.After(o.rest):
				case <-ctx.Done():
					return found, ctx.Err()
				}
				one, err := sides[i].measure(r.name)
				if err != nil {
					return found, fmt.Errorf("%s: %w", r.what, err)
				}
				if round > 0 {
					found.turns[r][i] = append(found.turns[r][i], one)
				}
			}
		}
		fmt.Fprintf(progress, "round %d of %d is done\n", round, o.rounds)
	}
	return found, nil
}

// medianOf returns the median of a quantity of turns.
func medianOf(turns []turn, quantity func(turn) float64) float64 {
	all := make([]float64, len(turns))
	for i, t := range turns {
		all[i] = quantity(t)
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func wall(t turn) float64   { return float64(t.Wall) }
func cpu(t turn) float64    { return float64(t.CPU) }
func allocs(t turn) float64 { return t.Allocs }

// ratio returns the median after divided by the median before. It is 1 if both are 0.
func (found results) ratio(r row, quantity func(turn) float64) float64 {
	turns := found.turns[r]
	before, after := medianOf(turns[0], quantity), medianOf(turns[1], quantity)
	if before == after {
		return 1
	}
	return after / before
}

// spread returns the smallest and the largest ratio of times in one round.
func (found results) spread(r row) (least, most float64) {
	turns := found.turns[r]
	var ratios []float64
	for i := range turns[0] {
		ratios = append(ratios, wall(turns[1][i])/wall(turns[0][i]))
	}
	return slices.Min(ratios), slices.Max(ratios)
}

// text returns a Markdown table with a line for each row.
func (found results) text() string {
	var b strings.Builder
	b.WriteString("| row | before | after | time | by round | processor time | allocations |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range found.rows {
		turns := found.turns[r]
		least, most := found.spread(r)
		fmt.Fprintf(&b, "| %s | %s | %s | %.3f | %.2f – %.2f | %.3f | %.3f |\n", r.what,
			micros(medianOf(turns[0], wall)), micros(medianOf(turns[1], wall)), found.ratio(r, wall), least, most,
			found.ratio(r, cpu), found.ratio(r, allocs))
	}
	return b.String()
}

func micros(nanos float64) string { return fmt.Sprintf("%.2f µs", nanos/1e3) }

// limit is the largest ratio of times that passes.
const limit = 1.05

// verdict returns an error that names the rows that are too slow.
func (found results) verdict() error {
	var slow []string
	for _, r := range found.rows {
		if ratio := found.ratio(r, wall); ratio > limit {
			slow = append(slow, fmt.Sprintf("%s (%.3f)", r.what, ratio))
		}
	}
	if len(slow) == 0 {
		return nil
	}
	return fmt.Errorf("more than %.0f %% slower: %s", 100*(limit-1), strings.Join(slow, ", "))
}
