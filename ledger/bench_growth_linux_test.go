package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/documents"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// growthCrowds returns the numbers of objects for [BenchmarkGrowth]. The last one takes half an
// hour and 20 GB of disk.
func growthCrowds() []int {
	objects := []int{10_000, 100_000, 1_000_000}
	if testenv.Long() {
		objects = append(objects, 10_000_000)
	}
	return objects
}

// enrollCrowd enrolls this many objects, 50,000 in a request.
func enrollCrowd(t testing.TB, l *Ledger, objects int) {
	t.Helper()
	const part = 50_000
	names := make([]string, 0, part)
	for first := 0; first < objects; first += part {
		names = names[:0]
		for i := first; i < min(first+part, objects); i++ {
			names = append(names, crowdName(i))
		}
		enroll(t, l, "vote", "10", names...)
	}
}

// BenchmarkGrowth measures the operations of a ledger for several numbers of objects: enrollment, a
// bulk raise, single releases, an audit, Open, a proof. Files are in the page cache, except for
// Open and the proof, which start with none of the file in memory.
func BenchmarkGrowth(b *testing.B) {
	usualGarbage(b)
	for _, objects := range growthCrowds() {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			all := samples{}
			for b.Loop() {
				runAllOperations(b, objects, all)
			}
			all.report(b)
		})
	}
}

// samples are measurements by unit.
type samples map[string][]float64

func (s samples) add(unit string, value float64) { s[unit] = append(s[unit], value) }

// report reports medians.
func (s samples) report(b *testing.B) {
	b.Helper()
	for unit, values := range s {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], unit)
	}
	b.ReportMetric(0, "ns/op")
}

// runAllOperations runs all operations once on a new ledger.
func runAllOperations(b *testing.B, objects int, all samples) {
	dir := check.Value(os.MkdirTemp(b.TempDir(), "life"))(b)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	must(b, Create(b.Context(), path, CreateOptions{Currency: "USD"}))
	l := open(b, path, Options{})
	define(b, l, vote())
	all.add("enrolled/s", float64(objects)/timed(b, func() error { enrollCrowd(b, l, objects); return nil }).Seconds())
	raise := raiseOf(b, "all", "1")
	cost := measureCost(b, func() error { return check.Err(l.Raise(b.Context(), raise)) })
	all.add("raised/s", float64(objects)/cost.took.Seconds())
	all.add("µs-cpu/raised", cost.cpu/float64(objects))
	all.add("raise-MiB", cost.heap)
	closed(b, l)
	releaseSome(b, path, objects, all)
	info := check.Value(os.Stat(path))(b)
	all.add("B/object", float64(info.Size())/float64(objects))
	openCold(b, path, all)
	l = open(b, path, Options{ReadOnly: true})
	events := uint64(0)
	cost = measureCost(b, func() error {
		done, err := l.Verify(b.Context(), api.VerifyRequest{})
		if events = done.Events; done.Problems > 0 {
			err = errors.Join(err, api.ErrCorrupt)
		}
		return err
	})
	all.add("events/s", float64(events)/cost.took.Seconds())
	all.add("µs-cpu/event", cost.cpu/float64(events))
	all.add("verify-MiB", cost.heap)
	all.add("events", float64(events))
	closed(b, l)
	releaseMany(b, path, objects, all)
}

// cost is what an operation took.
type cost struct {
	took time.Duration
	cpu  float64 // µs of processor time, which does not include waiting for the disk
	heap float64 // MiB of the heap at its maximum
	live float64 // MiB of live objects in the heap
}

// measureCost measures the cost of fn, which takes long enough to sample the heap.
func measureCost(t testing.TB, fn func() error) (c cost) {
	t.Helper()
	runtime.GC()
	busy := busyTime(t)
	heap, stop := watchHeap()
	c.took = timed(t, fn)
	stop()
	c.cpu = float64((busyTime(t) - busy).Nanoseconds()) / 1e3
	c.heap, c.live = float64(heap.most.Load())/(1<<20), float64(heap.live.Load())/(1<<20)
	return c
}

// busyTime returns how long processors have been busy with this process.
func busyTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// releaseSome makes single releases of objects spread over the file, in random order, alternating
// with a bare journal.
func releaseSome(b *testing.B, path string, objects int, all samples) {
	l, s := openMetered(b, path, 0, Options{})
	bare := newBareJournal(b, 0)
	const some = 300
	var t turns
	for _, at := range rand.Perm(some) {
		asked := withTrueValue(releaseOf(b, fmt.Sprintf("order-%016x", rand.Uint64()), crowdName(at*(objects/some)), "2"))
		t.ours = append(t.ours, timed(b, func() error { return check.Err(l.Release(b.Context(), asked)) }))
		t.bare = append(t.bare, timed(b, func() error { return bare.append(s.last) }))
	}
	closed(b, l)
	must(b, errors.Join(bare.file.Close(), os.Remove(bare.file.Name())))
	ours, theirs := t.medians()
	all.add("µs-release", float64(ours.Nanoseconds())/1e3)
	all.add("release-of-bare", float64(theirs)/float64(ours))
}

// releaseMany releases random objects by 64 callers, until all releases are in the file.
func releaseMany(b *testing.B, path string, objects int, all samples) {
	const many, above = 100_000, 30 // an ε of 3, above all levels
	l := open(b, path, Options{})
	a := newFreshReleases(objects)
	cost := measureCost(b, func() error {
		err := runConcurrently(64, lessThan(many), func(_, i int) error { return check.Err(l.Release(b.Context(), a.at(above*objects+i))) })
		return errors.Join(err, l.engine.Checkpoint())
	})
	closed(b, l)
	all.add("released/s", many/cost.took.Seconds())
}

// openCold opens a ledger, and proves one of its events, with none of the file in memory.
func openCold(b *testing.B, path string, all samples) {
	dropPages(b, path)
	var l *Ledger
	cost := measureCost(b, func() (err error) { l, err = Open(b.Context(), path, Options{}); return err })
	all.add("ms-open", float64(cost.took.Nanoseconds())/1e6)
	all.add("open-MiB", cost.heap)
	closed(b, l)

	const proofs = 9
	cold := make([]time.Duration, proofs)
	for i := range cold {
		l := open(b, path, Options{ReadOnly: true})
		dropPages(b, path)
		cold[i] = timed(b, func() error { return proveOne(b.Context(), l) })
		closed(b, l)
	}
	slices.Sort(cold)
	all.add("ms-proof", float64(cold[proofs/2].Nanoseconds())/1e6)
}

// proveOne proves that a random event is in the log.
func proveOne(ctx context.Context, l *Ledger) error {
	return l.engine.View(ctx, func(s *state.State) error {
		number := 1 + rand.Uint64N(s.Counters.Events)
		if _, err := documents.ReadEntry(s, number); err != nil {
			return err
		}
		_, _, err := l.documents.Prove(s, s.Counters.Events, []uint64{number})
		return err
	})
}

// BenchmarkSize reports the bytes on disk for each object with one chain of three levels, as
// written and after compaction. The information is the bytes of all keys and payloads: names, ε,
// responses, the fields of events, salts and hashes.
func BenchmarkSize(b *testing.B) {
	for _, objects := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) { sizeOf(b, objects) })
	}
}

func sizeOf(b *testing.B, objects int) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "ledger.db")
	must(b, Create(b.Context(), path, CreateOptions{Currency: "USD"}))
	l := open(b, path, Options{})
	define(b, l, vote())
	enrollCrowd(b, l, objects)
	for _, epsilon := range []string{"1", "2", "3"} {
		raise(b, l, raiseOf(b, "raise to "+epsilon, epsilon))
	}
	closed(b, l)
	for _, name := range []string{"written", "compacted"} {
		if name == "compacted" {
			l := open(b, path, Options{})
			must(b, l.Compact(b.Context(), nil))
			closed(b, l)
		}
		b.Run(name, func(b *testing.B) {
			var found fileSizes
			for b.Loop() {
				found = measureFile(b, path)
			}
			found.report(b, objects)
		})
	}
}

// fileSizes has the bytes of a file, by bucket and part.
type fileSizes struct {
	parts map[string]map[string]int // by bucket
	free  int                       // in free pages
	rest  int                       // in no bucket: meta pages, the list of free pages, the unused end
	file  int
}

// The parts of a bucket. The first ones are information.
const (
	partKeys     = "keys"
	partPayload  = "payload" // without salts and hashes
	partSalts    = "salts"
	partHashes   = "hashes"
	partSums     = "checksums"
	partLeaves   = "leaves"   // the bytes of leaf pages that are neither key nor value
	partBranches = "branches" // pages of the index
)

// isInformation reports whether a part is data that the ledger must store.
func isInformation(part string) bool {
	return slices.Contains([]string{partKeys, partPayload, partSalts, partHashes}, part)
}

// measureFile returns the sizes of the parts of a file that no process has open.
func measureFile(t testing.TB, path string) fileSizes {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	s := fileSizes{parts: map[string]map[string]int{}, file: int(info.Size())}
	db := openBare(t, path)
	must(t, db.View(func(tx *bbolt.Tx) error {
		if s.free, err = freeBytes(tx, db.Info().PageSize); err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) (err error) {
			s.parts[string(name)], err = bucketSizes(string(name), bucket)
			return err
		})
	}))
	must(t, db.Close())
	s.rest = s.file - s.free
	for _, parts := range s.parts {
		for _, n := range parts {
			s.rest -= n
		}
	}
	return s
}

// freeBytes returns the size of all free pages.
func freeBytes(tx *bbolt.Tx, page int) (free int, err error) {
	for at := 0; ; {
		info, err := tx.Page(at)
		if err != nil || info == nil {
			return free, err
		}
		if info.Type == "free" {
			free += page
			at++
		} else {
			at += 1 + info.OverflowCount
		}
	}
}

// bucketSizes returns the sizes of the parts of a bucket.
func bucketSizes(name string, bucket *bbolt.Bucket) (map[string]int, error) {
	stats := bucket.Stats()
	parts := map[string]int{partLeaves: stats.LeafAlloc + stats.InlineBucketInuse, partBranches: stats.BranchAlloc}
	err := bucket.ForEach(func(key, value []byte) error {
		payload, err := wire.Unseal(name, key, value)
		if name == state.BucketMeta && string(key) == state.KeyFormat { // has no checksum
			payload, err = value, nil
		}
		if err != nil {
			return err
		}
		parts[partLeaves] -= len(key) + len(value)
		parts[partKeys] += len(key)
		parts[partPayload] += len(payload)
		parts[partSums] += len(value) - len(payload)
		if name != state.BucketEvents {
			return nil
		}
		entry, err := event.DecodeEntry(binary.BigEndian.Uint64(key), payload)
		hashes := len(entry.Hashes) * tlog.HashSize
		parts[partPayload] -= len(entry.Salt) + hashes
		parts[partSalts] += len(entry.Salt)
		parts[partHashes] += hashes
		return err
	})
	return parts, err
}

// report reports the bytes for each object as "B:bucket:part", their sums, and the ratio of the
// file's size to that of the information.
func (s fileSizes) report(b *testing.B, objects int) {
	b.Helper()
	info := 0
	for bucket, parts := range s.parts {
		for part, n := range parts {
			b.ReportMetric(float64(n)/float64(objects), "B:"+bucket+":"+part)
			if isInformation(part) {
				info += n
			}
		}
	}
	b.ReportMetric(float64(s.free)/float64(objects), "B:free")
	b.ReportMetric(float64(s.rest)/float64(objects), "B:rest")
	b.ReportMetric(float64(s.file)/float64(objects), "B/object")
	b.ReportMetric(float64(info)/float64(objects), "B-information/object")
	b.ReportMetric(float64(s.file)/float64(info), "of-information")
	b.ReportMetric(0, "ns/op")
}

// The sustained benchmarks run until enough checkpoints were made, so that the work in the
// background counts as well. With -short, few checkpoints show that they work.

// sustained returns how many checkpoints a sustained benchmark waits for, and the memory limit of
// the memtable.
func sustained(memory int64) (checkpoints, room int64) {
	if testing.Short() {
		return 2, 1 << 20
	}
	return 20, memory
}

// freshReleases generates releases that were not requested before: of all objects in random order,
// and then again at the next ε. It takes 4 bytes for each object, so that the heap measured is the
// ledger's.
type freshReleases struct {
	people []uint32
	made   int
}

func newFreshReleases(people int) *freshReleases {
	f := &freshReleases{people: make([]uint32, people)}
	for i := range f.people {
		f.people[i] = uint32(i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(people, func(i, j int) { f.people[i], f.people[j] = f.people[j], f.people[i] })
	return f
}

// at returns release number n. It makes two allocations: the key and the name.
func (f *freshReleases) at(n int) api.ReleaseRequest {
	var key [24]byte
	const step = 100_000_000 // nano-nats
	return api.ReleaseRequest{
		Key:      string(strconv.AppendUint(append(key[:0], "o-"...), uint64(n)*0x9e3779b97f4a7c15, 16)), // keys in no order
		Question: "vote", Object: fastCrowdName(int(f.people[n%len(f.people)])),
		Epsilon: epsilonOf(int64(1+n/len(f.people)) * step), TrueValue: "yes",
	}
}

// fastCrowdName returns the same as [crowdName] with one allocation.
func fastCrowdName(i int) string {
	name := []byte("person-00000000")
	for at := len(name) - 1; i > 0; i /= 10 {
		name[at] = byte('0' + i%10)
		at--
	}
	return string(name)
}

func TestFreshReleases_Repeated_UseNewKeyAndHigherEpsilon(t *testing.T) {
	for _, n := range []int{0, 9, 10, 12_345_678} {
		check.Equal(t, fastCrowdName(n), crowdName(n), "the name of %d", n)
	}
	a, keys, people := newFreshReleases(10), map[string]bool{}, map[string]privacy.Epsilon{}
	for n := range 30 {
		r := a.at(n)
		if r.Epsilon.Nano() <= people[r.Object].Nano() || keys[r.Key] {
			t.Errorf("%+v after a release at %v", r, people[r.Object])
		}
		keys[r.Key], people[r.Object] = true, r.Epsilon
	}
	check.That(t, len(people) == 10, "got releases of %d objects, want 10", len(people))
}

// burst has the times of requests by many callers.
type burst struct {
	took  time.Duration
	waits []time.Duration // sorted
}

// tail returns the wait in ms that all but one in this many requests stay below.
func (b burst) tail(one int) float64 {
	return float64(b.waits[len(b.waits)-1-len(b.waits)/one].Nanoseconds()) / 1e6
}

// lessThan returns a function that reports whether a number is less than n.
func lessThan(n int) func(int) bool { return func(i int) bool { return i < n } }

// runBurst makes many callers call do with the numbers from 0 on, as long as more allows, and
// measures each call.
func runBurst(t testing.TB, callers int, more func(i int) bool, do func(i int) error) (r burst) {
	t.Helper()
	each := make([][]time.Duration, callers)
	r.took = timed(t, func() error {
		return runConcurrently(callers, more, func(caller, i int) error {
			start := time.Now()
			err := do(i)
			each[caller] = append(each[caller], time.Since(start))
			return err
		})
	})
	r.waits = slices.Concat(each...)
	slices.Sort(r.waits)
	return r
}

// runConcurrently is runBurst without measurement.
func runConcurrently(callers int, more func(i int) bool, do func(caller, i int) error) error {
	errs := make([]error, callers)
	var next atomic.Int64
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if !more(i) {
					return
				}
				errs[c] = do(c, i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// BenchmarkReleaseTogether makes releases by many callers on a disk: first with checkpoints, then
// the same number without any, and then the same bytes in a bare journal.
func BenchmarkReleaseTogether(b *testing.B) {
	usualGarbage(b)
	for _, callers := range []int{64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			path, _ := benchFile(b, benchCrowd)
			all := samples{}
			for b.Loop() {
				releaseTogether(b, path, callers, all)
			}
			all.report(b)
		})
	}
}

func releaseTogether(b *testing.B, path string, callers int, all samples) {
	b.Helper()
	wanted, room := sustained(16 << 20)
	run := func(room int64, more func(*meteredJournals, int) bool) (r burst, s *meteredJournals) {
		l, s := openMetered(b, bareCopy(b, path), 0, Options{Memory: room})
		a := newFreshReleases(benchCrowd)
		runtime.GC()
		r = runBurst(b, callers, func(i int) bool { return more(s, i) }, func(i int) error { return check.Err(l.Release(b.Context(), a.at(i))) })
		closed(b, l)
		return r, s
	}
	ours, s := run(room, func(s *meteredJournals, _ int) bool { return s.checkpoints.Load() < wanted })
	n := len(ours.waits)
	const plenty = 1 << 40
	quiet, none := run(plenty, func(_ *meteredJournals, i int) bool { return i < n })
	if none.checkpoints.Load() > 0 {
		b.Error("a checkpoint was made in the run without any")
	}
	group := &bareGroup{journal: newBareJournal(b, 0)}
	each := int(s.all.Load()) / n
	bare := runBurst(b, callers, lessThan(n), func(int) error { return group.append(each) })

	all.add("checkpoints", float64(s.checkpoints.Load()))
	all.add("memory-MiB", float64(room)/(1<<20))
	all.add("releases/s", float64(n)/ours.took.Seconds())
	all.add("of-bare", bare.took.Seconds()/ours.took.Seconds())
	all.add("ms-p99", ours.tail(100))
	all.add("ms-p99.9", ours.tail(1000))
	all.add("p99.9-of-quiet", ours.tail(1000)/quiet.tail(1000))
}

// BenchmarkReleaseWork measures the processor time and the memory of a release by many callers,
// checkpoints included. The file is in memory, so that the disk does not count.
func BenchmarkReleaseWork(b *testing.B) {
	usualGarbage(b)
	for _, people := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("people=%d", people), func(b *testing.B) {
			dir := check.Value(os.MkdirTemp("/dev/shm", "sluice"))(b)
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "ledger.db")
			must(b, Create(b.Context(), path, CreateOptions{Currency: "USD"}))
			l := open(b, path, Options{})
			define(b, l, vote())
			enrollCrowd(b, l, people)
			closed(b, l)
			a, all := newFreshReleases(people), samples{}
			for b.Loop() {
				releaseWork(b, path, a, all)
			}
			all.report(b)
		})
	}
}

func releaseWork(b *testing.B, path string, a *freshReleases, all samples) {
	b.Helper()
	wanted, room := sustained(64 << 20)
	l, s := openMetered(b, path, 0, Options{Memory: room})
	var many atomic.Int64
	more := func(int) bool { return s.checkpoints.Load() < wanted }
	do := func(_, i int) error {
		many.Add(1)
		return check.Err(l.Release(context.Background(), a.at(a.made+i)))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := measureCost(b, func() error {
		return errors.Join(runConcurrently(64, more, do), l.engine.Checkpoint()) // so that all of the work counts
	})
	runtime.ReadMemStats(&after)
	n := float64(many.Load())
	a.made += int(many.Load())
	closed(b, l)

	all.add("checkpoints", float64(s.checkpoints.Load()))
	all.add("memory-MiB", float64(room)/(1<<20))
	all.add("cpu-µs/release", c.cpu/n)
	const own = 2 // those of the request, see freshReleases.at
	all.add("allocs/release", float64(after.Mallocs-before.Mallocs)/n-own)
	all.add("heap-MiB", c.heap)
	all.add("live-MiB", c.live)
	all.add("heap-over-table-MiB", c.heap-float64(2*room)/(1<<20)) // with twice the limit in the memtable, commits wait
}
