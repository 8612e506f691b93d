package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// text returns the table: medians of all turns, and of the ratios of the pairs, with the range.
func (r results) text(o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d callers, %d objects, %d pairs of %v each, requests by %s.\n\n", o.callers, o.objects, o.pairs,
		o.turn, o.client)
	b.WriteString("| | in process | over HTTP | ratio | range |\n|---|---:|---:|---:|---:|\n")
	for _, what := range r.kinds {
		rates := func(of func(turn) float64) (inside, http []float64) { return each(r.pairs[what], of) }
		inside, http := rates(turn.rate)
		ratios := make([]float64, len(inside))
		for i := range ratios {
			ratios[i] = http[i] / inside[i]
		}
		slices.Sort(ratios)
		fmt.Fprintf(&b, "| %ss, a second | %s | %s | %.2f | %.2f – %.2f |\n", what, report.Number(median(inside)),
			report.Number(median(http)),
			median(ratios), ratios[0], ratios[len(ratios)-1])
		for _, row := range []struct {
			name string
			of   func(turn) float64
		}{
			{"… the median wait, ms", func(t turn) float64 { return millis(t.p50) }},
			{"… the 99th percentile of waits, ms", func(t turn) float64 { return millis(t.p99) }},
			{"… processor time of the ledger's process, µs a call", func(t turn) float64 { return t.each(t.server) }},
			{"… processor time of the client, µs a call", func(t turn) float64 { return t.each(t.client) }},
		} {
			inside, http := rates(row.of)
			fmt.Fprintf(&b, "| %s | %s | %s | | |\n", row.name, report.Number(median(inside)),
				report.Number(median(http)))
		}
	}
	return b.String()
}

func each(pairs []pair, of func(turn) float64) (inside, http []float64) {
	for _, p := range pairs {
		inside, http = append(inside, of(p.inside)), append(http, of(p.http))
	}
	return inside, http
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

// each returns the time for each answered call, in µs.
func (t turn) each(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(t.answered) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
