package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/observe"
)

// benchCrowd is how many objects are enrolled where the benchmark does not say otherwise.
const benchCrowd = 100_000

func benchNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("person-%08d", i)
	}
	return names
}

// benchFile makes a ledger of so many objects without a response.
func benchFile(t testing.TB, objects int) (path string, names []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	must(t, Create(path, CreateOptions{Currency: "USD"}))
	l := open(t, path, Options{})
	define(t, l, vote())
	names = benchNames(objects)
	enroll(t, l, "vote", "10", names...)
	closed(t, l)
	must(t, os.Rename(bareCopy(t, path), path)) // laid out on the disk as other copies are
	return path, names
}

// age gives a file the free pages of long use.
func age(t testing.TB, path string, bytes int) {
	t.Helper()
	db := openBare(t, path)
	const size = 1 << 20
	for i := range bytes / size {
		must(t, db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("junk"))
			if err != nil {
				return err
			}
			for j := range size / 3000 {
				if err := bucket.Put(fmt.Appendf(nil, "%06d %06d", i, j), make([]byte, 3000)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	must(t, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("junk")) }))
	must(t, db.Close())
}

func BenchmarkReleaseAlone(b *testing.B) {
	usualGarbage(b)
	for _, c := range []struct {
		name string
		aged bool
		disk slowDisk
	}{{name: "aged=false"}, {name: "aged=true", aged: true}, {name: "flush=1ms", disk: slowDisk(time.Millisecond)}} {
		b.Run(c.name, func(b *testing.B) {
			path, names := benchFile(b, benchCrowd)
			if c.aged {
				age(b, path, 512<<20)
			}
			oneByOne(b, c.disk, path, names, func(l *Ledger, key, name, epsilon string) func() error {
				r := releaseOf(b, key, name, epsilon)
				return func() error { _, err := l.Release(context.Background(), r); return err }
			})
		})
	}
}

// BenchmarkSellAlone sells one object at a time to one of ten buyers.
func BenchmarkSellAlone(b *testing.B) {
	usualGarbage(b)
	for _, disk := range []slowDisk{0, slowDisk(time.Millisecond)} {
		b.Run(fmt.Sprintf("flush=%v", time.Duration(disk)), func(b *testing.B) {
			path := create(b)
			l := open(b, path, Options{})
			names := benchNames(benchCrowd)
			closed(b, sellers(b, l, "10", "10", names...))
			oneByOne(b, disk, path, names, func(l *Ledger, key, name, epsilon string) func() error {
				r := purchase(b, key, "buyer-"+key[len(key)-1:], epsilon, name)
				return func() error { _, err := l.Sell(context.Background(), r); return err }
			})
		})
	}
}

// slowDisk is how much longer than that of this machine's disk a flush takes on another one. bbolt flushes twice a commit.
type slowDisk time.Duration

func (d slowDisk) commit(fn func() error) error {
	err := fn()
	time.Sleep(2 * time.Duration(d))
	return err
}

// slowStore is a store on a slow disk.
type slowStore struct {
	kv.Store
	disk slowDisk
}

func (s *slowStore) Update(fn func(kv.Writer) error) error {
	return s.disk.commit(func() error { return s.Store.Update(fn) })
}

// oneByOne carries out requests, one at a time, and in turns with bare bbolt that writes what each of them writes, which is
// recorded in a ledger that is not timed. Objects come in random order, and then again at the next ε.
func oneByOne(b *testing.B, disk slowDisk, path string, names []string, request func(l *Ledger, key, name, epsilon string) func() error) {
	b.Helper()
	bare, record := twoCopies(b, path)
	db := openBare(b, bare)
	file, err := bolt.Open(path, false)
	must(b, err)
	var s kv.Store = file
	if disk > 0 {
		s = &slowStore{file, disk}
	}
	l, err := openStore(s, Options{})
	must(b, err)
	b.Cleanup(func() { _ = l.Close() })
	copied, r := recorded(b, record, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var t turns
	n := 0
	for b.Loop() {
		r.transactions = nil
		const chunk = 100
		var ours [chunk]func() error
		for i := range ours {
			key, name, epsilon := fmt.Sprintf("order-%016x", random.Uint64()), names[n%len(names)], fmt.Sprint(1+n/len(names))
			must(b, request(copied, key, name, epsilon)())
			ours[i] = request(l, key, name, epsilon)
			n++
		}
		for i, do := range ours {
			t.ours = append(t.ours, timed(b, do))
			writes := lastOf(r.transactions[i])
			t.bare = append(t.bare, timed(b, func() error { return disk.commit(func() error { return applyBare(db, writes) }) }))
		}
	}
	t.reportMedians(b, "bare")
}

// twoCopies makes two copies of a file that nobody has open.
func twoCopies(b *testing.B, path string) (first, second string) {
	b.Helper()
	first, second = path+".first", path+".second"
	must(b, os.Rename(bareCopy(b, path), first))
	must(b, os.Rename(bareCopy(b, path), second))
	return first, second
}

func BenchmarkReleaseTogether(b *testing.B) {
	usualGarbage(b)
	for _, callers := range []int{64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			path, names := benchFile(b, benchCrowd)
			bare, record := twoCopies(b, path)
			random := rand.New(rand.NewPCG(1, 2))
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			keys := make([]string, len(names))
			for i := range keys {
				keys[i] = fmt.Sprintf("order-%016x", random.Uint64())
			}
			chunk := callers * 40
			group := &bareGroup{db: openBare(b, bare)}
			l := open(b, path, Options{})
			var p turns
			var tails, bareTails []float64
			n := 0
			// What one call writes, when it is alone.
			copied, r := recorded(b, record, Options{})
			for b.Loop() {
				r.transactions = nil
				asked := make([]ReleaseRequest, chunk)
				for i := range asked {
					at := n % len(names)
					asked[i] = releaseOf(b, fmt.Sprint(keys[at], n/len(names)), names[at], fmt.Sprint(1+n/len(names)))
					n++
				}
				for _, one := range asked {
					release(b, copied, one)
				}
				took, tail := crowded(b, callers, chunk, func(i int) error {
					_, err := l.Release(context.Background(), asked[i])
					return err
				})
				p.ours, tails = append(p.ours, took), append(tails, tail)
				took, tail = crowded(b, callers, chunk, func(i int) error { return group.submit(r.transactions[i]) })
				p.bare, bareTails = append(p.bare, took), append(bareTails, tail)
			}
			p.report(b, "bare", chunk)
			for i := range tails {
				tails[i] /= bareTails[i]
			}
			slices.Sort(tails)
			b.ReportMetric(tails[len(tails)/2], "p99-of-bare")
		})
	}
}

// BenchmarkReleaseObserved releases with an observer, beside the same without: what it costs to be told of.
func BenchmarkReleaseObserved(b *testing.B) {
	usualGarbage(b)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			names := crowd(callers * 200)
			var ledgers [2]*Ledger
			var took [2]time.Duration
			for i, o := range []Options{{}, {Observer: &tally{}}} {
				ledgers[i] = voters(b, inMemory(b, o), "900", names...)
			}
			n, ratios := 0, []float64{}
			for b.Loop() {
				for i, l := range ledgers {
					began := time.Now()
					crowded(b, callers, len(names), func(at int) error {
						_, err := l.Release(context.Background(), releaseOf(b, fmt.Sprint(n, at), names[at], fmt.Sprintf("%d.%09d", 1+n/1_000_000_000, 1+n%1_000_000_000)))
						return err
					})
					took[i] = time.Since(began)
				}
				n++
				ratios = append(ratios, float64(took[1])/float64(took[0]))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "of-unobserved")
		})
	}
}

// tally adds up, as an observer that counts does.
type tally struct{ events, draws atomic.Uint64 }

func (t *tally) Committed(c observe.Commit) {
	t.events.Add(c.Events)
	for _, n := range c.Draws {
		t.draws.Add(n)
	}
}

func (t *tally) Refused(observe.Refusal) {}
func (t *tally) Audited(observe.Audit)   {}

// crowded has many callers do n things, and returns how long all took, and the 99th percentile of one.
func crowded(t testing.TB, callers, n int, do func(i int) error) (took time.Duration, tail float64) {
	t.Helper()
	each := make([]float64, n)
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range callers {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				start := time.Now()
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
				each[i] = time.Since(start).Seconds()
			}
		})
	}
	group.Wait()
	took = time.Since(began)
	slices.Sort(each)
	return took, each[n*99/100]
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
	var t turns
	for b.Loop() {
		l := open(b, bareCopy(b, path), Options{})
		t.ours = append(t.ours, timed(b, func() error { return raise(l) }))
		closed(b, l)
		t.bare = append(t.bare, bareTime(b, path, raise))
	}
	t.report(b, "bare", levels*objects)
}

// BenchmarkSellAll sells the responses of the largest panel there may be, which is one transaction: first levels, and then
// higher ones, to one buyer.
func BenchmarkSellAll(b *testing.B) {
	usualGarbage(b)
	path := create(b)
	l := open(b, path, Options{})
	closed(b, sellers(b, l, "10", "10", benchNames(MaxPanel)...))
	const levels = 2
	sellAll := func(l *Ledger) error {
		for round := range levels {
			if _, err := l.Sell(context.Background(), purchase(b, fmt.Sprint("sale ", round), "buyer", fmt.Sprint(1+round))); err != nil {
				return err
			}
		}
		return nil
	}
	var t turns
	most := 0.0
	for b.Loop() {
		l := open(b, bareCopy(b, path), Options{})
		runtime.GC()
		heap, stop := watchHeap()
		t.ours = append(t.ours, timed(b, func() error { return sellAll(l) }))
		stop()
		most = max(most, float64(heap.Load())/(1<<20))
		closed(b, l)
		t.bare = append(t.bare, bareTime(b, path, sellAll))
	}
	t.report(b, "bare", levels*MaxPanel)
	b.ReportMetric(most, "sale-MiB")
}

// bareTime returns how long bare bbolt takes to write, to a copy of the file, what something writes to another.
func bareTime(b *testing.B, path string, write func(*Ledger) error) (took time.Duration) {
	b.Helper()
	ours := bareCopy(b, path)
	db := openBare(b, bareCopy(b, ours))
	l, r := recorded(b, ours, Options{})
	r.each = func(writes []bareWrite) {
		writes = lastOf(writes)
		took += timed(b, func() error { return applyBare(db, writes) })
	}
	must(b, write(l))
	must(b, errors.Join(l.Close(), db.Close()))
	return took
}
