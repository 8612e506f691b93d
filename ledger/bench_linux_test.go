package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/documents"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
)

// dropPages drops the pages of a file from the page cache, except those that a process has mapped.
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

// provenFile creates a ledger with about half events before a sale and half after it.
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

// BenchmarkProve measures the proof that one event is in the log, and a receipt (five events and a
// signature), with none of the file in memory.
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

// bareJournal is the minimum that makes a commit durable: it writes bytes to a file that is long
// enough already, and flushes it.
type bareJournal struct {
	file  *os.File
	at    int64
	bytes []byte        // what is appended; it is never read
	flush time.Duration // how much longer a flush takes than on this disk
}

// bareSize is the size of the file: that of a segment of the journal. After the end, writing starts
// again at the beginning.
const bareSize = 64 << 20

func newBareJournal(t testing.TB, flush time.Duration) *bareJournal {
	t.Helper()
	file := check.Value(os.Create(filepath.Join(t.TempDir(), "bare")))(t)
	t.Cleanup(func() { _ = file.Close() })
	j := &bareJournal{file: file, bytes: bytes.Repeat([]byte("bare"), 1<<18), flush: flush}
	for at := int64(0); at < bareSize; at += int64(len(j.bytes)) {
		must(t, check.Err(file.WriteAt(j.bytes, at)))
	}
	must(t, file.Sync())
	return j
}

// append makes n bytes durable.
func (j *bareJournal) append(n int) error {
	if j.at+int64(n) > bareSize {
		j.at = 0
	}
	_, err := j.file.WriteAt(j.bytes[:n], j.at)
	j.at += int64(n)
	err = errors.Join(err, syscall.Fdatasync(int(j.file.Fd())))
	time.Sleep(j.flush)
	return err
}

// bareGroup appends for many callers: one caller at a time appends for all that have queued up.
type bareGroup struct {
	journal *bareJournal
	mu      sync.Mutex
	queue   []*bareCall
	leading bool
}

type bareCall struct {
	bytes int
	done  chan error
	lead  chan struct{}
}

func (g *bareGroup) append(bytes int) error {
	c := &bareCall{bytes, make(chan error, 1), make(chan struct{}, 1)}
	g.mu.Lock()
	g.queue = append(g.queue, c)
	lead := !g.leading
	g.leading = true
	g.mu.Unlock()
	if !lead {
		select {
		case err := <-c.done:
			return err
		case <-c.lead:
		}
	}
	for range engine.Yields {
		runtime.Gosched()
	}
	g.mu.Lock()
	batch := g.queue
	g.queue = nil
	g.mu.Unlock()
	all := 0
	for _, one := range batch {
		all += one.bytes
	}
	err := g.journal.append(all)
	for _, one := range batch {
		one.done <- err
	}
	g.mu.Lock()
	if g.leading = len(g.queue) > 0; g.leading {
		g.queue[0].lead <- struct{}{}
	}
	g.mu.Unlock()
	return <-c.done
}

// meteredJournals opens the journal beside a ledger file. It counts the bytes that are appended,
// and the checkpoints.
type meteredJournals struct {
	besideFile
	flush       time.Duration // how much longer a flush takes than on this disk
	last        int           // bytes in the file of the last append; not synchronized, for a single caller
	all         atomic.Int64  // bytes
	checkpoints atomic.Int64
}

func (s *meteredJournals) Make(w journal.Wanted) (journal.Journal, error) {
	j, err := s.besideFile.Make(w)
	return meteredJournal{j, s}, err
}

func (s *meteredJournals) Remove(j journal.Journal) error {
	return s.besideFile.Remove(j.(meteredJournal).Journal)
}

// meteredJournal is a journal that meteredJournals has opened.
type meteredJournal struct {
	journal.Journal
	meters *meteredJournals
}

func (j meteredJournal) Append(ctx context.Context, g journal.Group) error {
	err := j.Journal.Append(ctx, g)
	j.meters.last = groupBytes(g)
	j.meters.all.Add(int64(j.meters.last))
	time.Sleep(j.meters.flush)
	return err
}

// Trim is called after each checkpoint.
func (j meteredJournal) Trim(ctx context.Context, at journal.Position) error {
	j.meters.checkpoints.Add(1)
	return j.Journal.Trim(ctx, at)
}

// groupBytes returns the bytes of a group in the file of a journal, if it fits into one frame.
func groupBytes(g journal.Group) int {
	const frame, positions, align = 16, 88, 8
	var n [binary.MaxVarintLen64]byte
	size := frame + positions + binary.PutUvarint(n[:], uint64(len(g.Records)))
	for _, r := range g.Records {
		size += binary.PutUvarint(n[:], uint64(len(r))) + len(r)
	}
	return (size + 1 + align - 1) / align * align // it ends with at least one byte that is not 0
}

// openMetered opens a ledger whose journal counts bytes and checkpoints.
func openMetered(t testing.TB, path string, flush time.Duration, options Options) (*Ledger, *meteredJournals) {
	t.Helper()
	file := check.Value(bolt.Open(path, false))(t)
	s := &meteredJournals{besideFile: besideFile(path), flush: flush}
	l := check.Value(openClaimed(t.Context(), file, s, options, "", false))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l, s
}

// The bytes that benchmarks append to a bare journal are as many as the ledger's journal appends.
func TestMeteredJournal_Appends_CountsBytesOfFile(t *testing.T) {
	path := votersFile(t, "9", crowd(9)...)
	l, s := openMetered(t, path, 0, Options{})
	for i, name := range crowd(9) {
		release(t, l, releaseOf(t, name, name, "1"))
		raise(t, l, raiseOf(t, name+" and all", "2", crowd(i+1)...))
	}
	segments := check.Value(filepath.Glob(filepath.Join(s.dir(), "*.segment")))(t)
	const header, align = 112, 8
	written := int64(0)
	for _, segment := range segments {
		text := bytes.TrimRight(content(t, segment), "\x00") // the unused rest of the segment, or the padding of a frame
		written += int64((len(text)+align-1)/align*align - header)
	}
	got := s.all.Load()
	check.That(t, got == written && written != 0, "%d bytes were counted, and the journal has %d", got, written)
	must(t, l.engine.Checkpoint())
	check.Equal(t, s.checkpoints.Load(), 1, "counted checkpoints")
	closed(t, l)
}

// slowFlush is how much longer a flush takes on the disk that some benchmarks pretend to have.
const slowFlush = time.Millisecond

// BenchmarkReleaseAlone releases one response at a time, each of another object, alternating with a
// [bareJournal] that appends as many bytes.
func BenchmarkReleaseAlone(b *testing.B) {
	usualGarbage(b)
	for _, flush := range []time.Duration{0, slowFlush} {
		b.Run(fmt.Sprintf("flush=%v", flush), func(b *testing.B) {
			path, names := benchFile(b, benchCrowd)
			oneByOne(b, flush, path, names, func(l *Ledger, key, name, epsilon string) func() error {
				r := withTrueValue(releaseOf(b, key, name, epsilon))
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

// oneByOne makes requests one at a time, alternating with a bare journal. It takes the objects in
// random order, and then again at the next ε.
func oneByOne(b *testing.B, flush time.Duration, path string, names []string, request func(l *Ledger, key, name, epsilon string) func() error) {
	b.Helper()
	l, s := openMetered(b, path, flush, Options{})
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

// BenchmarkRaiseAll raises all objects to three levels, one after the other, in transactions of
// bounded size. The writes for bare bbolt are recorded in another run than the one that is timed.
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
			if _, err := l.Raise(context.Background(), raiseOf(b, fmt.Sprint("round", round), fmt.Sprint(1+round))); err != nil {
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

// BenchmarkSellAll sells the responses of the largest panel allowed, which is one transaction:
// first levels, and then higher ones, to one buyer.
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

// bulk compares a large request with bare bbolt: the time until it returns, which is when the
// journal has it, and until all of it is in the file.
type bulk struct {
	turns
	inFile []time.Duration
}

// both makes a request on a copy of a file, and then a checkpoint.
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
