package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// write prints the results as a Markdown table: the median of each operation's samples and, in
// parentheses, the median of its ratios to the first engine, Sluice, in the same rounds.
func (r *race) write(w io.Writer) error {
	var b strings.Builder
	r.table(&b, func(result) bool { return true }, cell)
	b.WriteString("\nA number in parentheses is a ratio to Sluice in the same rounds: above 1 is faster, or larger. " +
		"Sluice always\n")
	b.WriteString("groups. The 99th percentile of the waits:\n\n")
	waited := func(of result) bool { return of.samples[0][0].tail > 0 }
	r.table(&b, waited, waitCell(func(s sample) time.Duration { return s.tail }))
	if long := func(of result) bool { return of.samples[0][0].checkpoints > 0 }; slices.ContainsFunc(r.results, long) {
		b.WriteString("\nThe 99.9th percentile of the waits, in rows with enough calls:\n\n")
		r.table(&b, long, waitCell(func(s sample) time.Duration { return s.worst }))
	}
	b.WriteByte('\n')
	for _, one := range r.results {
		if first := one.samples[0][0]; first.checkpoints > 0 {
			fmt.Fprintf(&b, "%s: %d objects; Sluice wrote %d checkpoints in %v, with %d MiB of memory for data "+
				"that is not in the file yet.\n",
				one.operation, r.objects, first.checkpoints, first.took.Round(time.Second), r.memory>>20)
		}
	}
	b.WriteByte('\n')
	for _, e := range r.engines {
		if e.missing != nil {
			fmt.Fprintf(&b, "%s: not measured: %v\n\n", e.name, e.missing)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *race) table(b *strings.Builder, shown func(result) bool, cell func(result, int) string) {
	b.WriteString("| |")
	for _, e := range r.engines {
		fmt.Fprintf(b, " %s |", e.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(r.engines)) + "\n")
	for _, one := range r.results {
		if !shown(one) {
			continue
		}
		fmt.Fprintf(b, "| %s |", one.operation)
		for i := range r.engines {
			fmt.Fprintf(b, " %s |", cell(one, i))
		}
		b.WriteByte('\n')
	}
}

func cell(of result, engine int) string {
	samples := of.samples[engine]
	if len(samples) == 0 {
		return "–"
	}
	text := report.Number(median(samples, func(s sample) float64 { return s.value }))
	if of.unit == aSecond {
		text += "/s"
	}
	if engine == 0 {
		return text
	}
	ratios := make([]sample, len(samples))
	for i := range ratios {
		ratios[i].value = samples[i].value / of.samples[0][i].value
	}
	return fmt.Sprintf("%s (%.2f)", text, median(ratios, func(s sample) float64 { return s.value }))
}

// waitCell returns a cell with a wait of callers.
func waitCell(waited func(sample) time.Duration) func(of result, engine int) string {
	return func(of result, engine int) string {
		samples := of.samples[engine]
		if len(samples) == 0 {
			return "–"
		}
		wait := time.Duration(median(samples, func(s sample) float64 { return float64(waited(s)) }))
		return fmt.Sprintf("%.1f ms", wait.Seconds()*1e3)
	}
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
