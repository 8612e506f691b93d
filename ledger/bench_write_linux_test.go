package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// slowFlush is how much longer a flush takes on the disk that some benchmarks pretend to have.
const slowFlush = time.Millisecond

// BenchmarkReleaseAlone releases one response at a time, each of another person, in turns with a [bareJournal] that appends as much.
func BenchmarkReleaseAlone(b *testing.B) {
	usualGarbage(b)
	for _, flush := range []time.Duration{0, slowFlush} {
		b.Run(fmt.Sprintf("flush=%v", flush), func(b *testing.B) {
			path, names := benchFile(b, benchCrowd)
			oneByOne(b, flush, path, names, func(l *Ledger, key, name, epsilon string) func() error {
				r := atHand(releaseOf(b, key, name, epsilon))
				return func() error { return check.Err(l.Release(context.Background(), r)) }
			})
		})
	}
}

// BenchmarkSellAlone sells one object at a time to one of ten buyers.
func BenchmarkSellAlone(b *testing.B) {
	usualGarbage(b)
	for _, flush := range []time.Duration{0, slowFlush} {
		b.Run(fmt.Sprintf("flush=%v", flush), func(b *testing.B) {
			path := create(b)
			names := benchNames(benchCrowd)
			closed(b, sellers(b, open(b, path, Options{}), "10", "10", names...))
			oneByOne(b, flush, path, names, func(l *Ledger, key, name, epsilon string) func() error {
				r := purchase(b, key, "buyer-"+key[len(key)-1:], epsilon, name)
				return func() error { return check.Err(l.Sell(context.Background(), r)) }
			})
		})
	}
}

// oneByOne carries out requests, one at a time, and in turns with a bare journal. Objects come in random order, and then again at the next ε.
func oneByOne(b *testing.B, flush time.Duration, path string, names []string, request func(l *Ledger, key, name, epsilon string) func() error) {
	b.Helper()
	l, s := onScales(b, path, flush, Options{})
	bare := newBareJournal(b, flush)
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var t turns
	n := 0
	for b.Loop() {
		const chunk = 100
		for range chunk {
			key, name, epsilon := fmt.Sprintf("order-%016x", random.Uint64()), names[n%len(names)], fmt.Sprint(1+n/len(names))
			t.ours = append(t.ours, timed(b, request(l, key, name, epsilon)))
			t.bare = append(t.bare, timed(b, func() error { return bare.append(s.last) }))
			n++
		}
	}
	t.reportMedians(b, "bare")
}

// BenchmarkRaiseAll raises everybody to three levels, one after the other, in transactions of bounded size. What that
// writes is recorded in another run than the one that is timed.
func BenchmarkRaiseAll(b *testing.B) {
	usualGarbage(b)
	for _, objects := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) { raiseAll(b, objects) })
	}
}

func raiseAll(b *testing.B, objects int) {
	b.Helper()
	const levels = 3
	path, _ := benchFile(b, objects)
	raise := func(l *Ledger) error {
		for round := range levels {
			if _, err := l.Raise(context.Background(), order(b, fmt.Sprint("round", round), fmt.Sprint(1+round))); err != nil {
				return err
			}
		}
		return nil
	}
	var t bulk
	for b.Loop() {
		t.both(b, path, raise)
		t.bare = append(t.bare, bareTime(b, path, raise))
	}
	t.report(b, levels*objects)
}

// BenchmarkSellAll sells the responses of the largest panel there may be, which is one transaction: first levels, and then
// higher ones, to one buyer.
func BenchmarkSellAll(b *testing.B) {
	usualGarbage(b)
	path := create(b)
	l := open(b, path, Options{})
	closed(b, sellers(b, l, "10", "10", benchNames(api.MaxPanel)...))
	const levels = 2
	sellAll := func(l *Ledger) error {
		for round := range levels {
			if _, err := l.Sell(context.Background(), purchase(b, fmt.Sprint("sale ", round), "buyer", fmt.Sprint(1+round))); err != nil {
				return err
			}
		}
		return nil
	}
	var t bulk
	most := 0.0
	for b.Loop() {
		runtime.GC()
		heap, stop := watchHeap()
		t.both(b, path, sellAll)
		stop()
		most = max(most, float64(heap.most.Load())/(1<<20))
		t.bare = append(t.bare, bareTime(b, path, sellAll))
	}
	t.report(b, levels*api.MaxPanel)
	b.ReportMetric(most, "sale-MiB")
}

// bulk compares a large request with bare bbolt: until its callers hear of it, which is when the journal has it, and until all of it is in the file.
type bulk struct {
	turns
	inFile []time.Duration
}

// both carries a request out on a copy of a file, with a checkpoint behind it.
func (t *bulk) both(b *testing.B, path string, request func(*Ledger) error) {
	b.Helper()
	l := open(b, bareCopy(b, path), Options{})
	took := timed(b, func() error { return request(l) })
	t.ours = append(t.ours, took)
	t.inFile = append(t.inFile, took+timed(b, l.engine.Checkpoint))
	closed(b, l)
}

func (t *bulk) report(b *testing.B, each int) {
	b.Helper()
	(&turns{t.inFile, t.bare}).report(b, "bare-in-file", each)
	t.turns.report(b, "bare", each)
}
