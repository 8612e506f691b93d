package ledger

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/documents"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// dropPages drops a file's pages from the memory of the operating system, but for those that a process has mapped.
func dropPages(t testing.TB, path string) {
	t.Helper()
	file := check.Value(os.Open(path))(t)
	defer file.Close()
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	if _, _, failed := syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0); failed != 0 {
		t.Fatal(failed)
	}
}

// pagesRead returns how often this process has waited for a page of a mapped file.
func pagesRead(t testing.TB) int64 {
	t.Helper()
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return int64(usage.Majflt)
}

// provenFile makes a ledger with so many events before and behind a sale.
func provenFile(t testing.TB, half int, key string, signer note.Signer) (path string, sale uint64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: key}))
	l := open(t, path, Options{Signer: signer})
	define(t, l, vote())
	names := benchNames(2 * half)
	enrollUnder(t, l, "vote", market(t, "1"), "9", names[:half]...)
	sale = sell(t, l, purchase(t, "sale", "acme", "1", names[half/2])).Number
	enrollUnder(t, l, "vote", market(t, "1"), "9", names[half:]...)
	closed(t, l)
	return path, sale
}

// BenchmarkProve proves that an event is in the log, and that a sale is (which are five events, and a signature), when nothing of the file is in memory.
func BenchmarkProve(b *testing.B) {
	usualGarbage(b)
	signer, _, key := logKey(b, "sluice-test", 1)
	for _, events := range []int{10_000, 100_000, 1_000_000} {
		path, sale := provenFile(b, events/2, key, signer)
		number := uint64(1)
		event := func(l *Ledger) error {
			return l.engine.View(b.Context(), func(s *state.State) error {
				if _, _, err := l.documents.Prove(s, s.Counters.Events, []uint64{number}); err != nil {
					return err
				}
				return check.Err(documents.ReadEntry(s, number))
			})
		}
		receipt := func(l *Ledger) error { return check.Err(l.Receipt(b.Context(), sale)) }
		for _, what := range []struct {
			name string
			fn   func(*Ledger) error
		}{{"event", event}, {"receipt", receipt}} {
			b.Run(fmt.Sprintf("%s/events=%d", what.name, events), func(b *testing.B) {
				var cold, warm []time.Duration
				pages := int64(0)
				for b.Loop() {
					number = 1 + rand.Uint64N(uint64(events))
					dropPages(b, path)
					l := check.Value(Open(b.Context(), path, Options{Signer: signer}))(b)
					dropPages(b, path)
					before := pagesRead(b)
					cold = append(cold, timed(b, func() error { return what.fn(l) }))
					pages += pagesRead(b) - before
					warm = append(warm, timed(b, func() error { return what.fn(l) }))
					closed(b, l)
				}
				slices.Sort(cold)
				slices.Sort(warm)
				b.ReportMetric(float64(cold[len(cold)/2].Nanoseconds())/1e6, "ms-cold")
				b.ReportMetric(float64(warm[len(warm)/2].Nanoseconds())/1e6, "ms-warm")
				b.ReportMetric(float64(pages)/float64(len(cold)), "pages")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
