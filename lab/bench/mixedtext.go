package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/lab/internal/report"
)

// tails are percentiles of waits, in ms.
type tails struct{ half, p99, p999, longest float64 }

func tailsOf(done []happening) (t tails) {
	waits := make([]float64, len(done))
	for i, h := range done {
		waits[i] = float64(h.took) * 1e3
	}
	if slices.Sort(waits); len(waits) == 0 {
		return t
	}
	but := func(one int) float64 { return waits[len(waits)-1-len(waits)/one] }
	return tails{waits[len(waits)/2], but(100), but(1000), waits[len(waits)-1]}
}

// second has the waits of the releases that were scheduled in one second.
type second struct {
	at int
	tails
}

// seconds returns the seconds in which releases were scheduled.
func (m *mixture) seconds() (all []second) {
	by := map[int][]happening{}
	for _, h := range m.done[releases] {
		by[int(h.at)] = append(by[int(h.at)], h)
	}
	for at, done := range by {
		all = append(all, second{at, tailsOf(done)})
	}
	slices.SortFunc(all, func(a, b second) int { return a.at - b.at })
	return all
}

// worst returns the second whose 99th percentile is the longest.
func (m *mixture) worst() second {
	return slices.MaxFunc(m.seconds(), func(a, b second) int {
		if a.p99 < b.p99 {
			return -1
		}
		return 1
	})
}

// check returns an error if a kind of request was never done.
func (m *mixture) check() error {
	for _, k := range []kind{releases, sales, reads, raises, backups, audits} {
		if len(m.done[k]) == 0 {
			return fmt.Errorf("mixed load: %v are too short for %s", m.length, k)
		}
	}
	return nil
}

// text returns a description of the load, and the waits.
func (m *mixture) text(commit string) string {
	var b strings.Builder
	requested := "as many releases as possible"
	if m.rate > 0 {
		requested = report.Number(m.rate) + " releases a second together"
	}
	fmt.Fprintf(&b, "For %v, on disk: %s people, %d callers who request %s, %d sales a second of 1 to %s people, %s "+
		"reads a second, and at intervals a raise of all people, a backup, an audit. Options.Memory is 64 MiB.",
		m.length, report.Number(float64(m.people)), m.callers, requested, salesASecond, report.Number(largestSale),
		report.Number(readsASecond))
	if commit != "" {
		fmt.Fprintf(&b, " Commit %s.", commit)
	}
	b.WriteString("\n\n| | done | a second | half within, ms | 99 % | 99.9 % | the longest |\n|---|" +
		strings.Repeat("---:|", 6) + "\n")
	for _, k := range []kind{releases, sales, reads, raises, backups, audits} {
		t, n := tailsOf(m.done[k]), float64(len(m.done[k]))
		took := m.length.Seconds()
		for _, h := range m.done[k] { // the load lasts longer if requests could not keep up
			took = max(took, float64(h.at+h.took))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", k, report.Number(n), report.Number(n/took),
			report.Number(t.half), report.Number(t.p99), report.Number(t.p999), report.Number(t.longest))
	}
	w := m.worst()
	fmt.Fprintf(&b, "\nIn the worst second, the one %v after the beginning, half of the releases took up to %s ms, "+
		"99 %% up to %s, and the longest %s. There were %d checkpoints. In the end the file has %s MiB.\n",
		time.Duration(w.at)*time.Second, report.Number(w.half), report.Number(w.p99), report.Number(w.longest),
		len(m.checkpoints), report.Number(float64(m.bytes)/(1<<20)))
	return b.String()
}
