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

// growthCrowds are the numbers of objects of [BenchmarkGrowth]. The last one takes half an hour and
// 20 GB of disk.
func growthCrowds() []int {
	objects := []int{10_000, 100_000, 1_000_000}
	if testenv.Long() {
		objects = append(objects, 10_000_000)
	}
	return objects
}

// enrollCrowd enrols so many objects, a part at a time.
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

// BenchmarkGrowth goes through the life of a ledger, for several numbers of objects: enrolment, a
// bulk raise, single releases, an audit, an open, a proof. Files are as they are written, in a
// cache that holds them, but for the open and the proof, which begin with nothing of the file in
// memory.
func BenchmarkGrowth(b *testing.B) {
	usualGarbage(b)
	for _, objects := range growthCrowds() {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			all := samples{}
			for b.Loop() {
				growUp(b, objects, all)
			}
			all.report(b)
		})
	}
}

// samples are what was measured, by unit.
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

// growUp goes through one life.
func growUp(b *testing.B, objects int, all samples) {
	dir := check.Value(os.MkdirTemp(b.TempDir(), "life"))(b)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	must(b, Create(b.Context(), path, CreateOptions{Currency: "USD"}))
	l := open(b, path, Options{})
	define(b, l, vote())
	all.add("enrolled/s", float64(objects)/timed(b, func() error { enrollCrowd(b, l, objects); return nil }).Seconds())
	raise := raiseOf(b, "everybody", "1")
	cost := watched(b, func() error { return check.Err(l.Raise(b.Context(), raise)) })
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
	cost = watched(b, func() error {
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

// cost is what something took.
type cost struct {
	took time.Duration
	cpu  float64 // µs that processors were busy with it: how long the disk takes does not show in them
	heap float64 // MiB of the heap at its largest
	live float64 // MiB of it that were no garbage
}

// watched measures something long.
func watched(t testing.TB, fn func() error) (c cost) {
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

// releaseSome makes single releases of objects all over the file, in random order, in turns with a
// bare journal.
func releaseSome(b *testing.B, path string, objects int, all samples) {
	l, s := onScales(b, path, 0, Options{})
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

// releaseMany releases by 64 callers, of objects at random, until all of it is in the file.
func releaseMany(b *testing.B, path string, objects int, all samples) {
	const many, above = 100_000, 30 // an ε of 3, where nobody is
	l := open(b, path, Options{})
	a := newFresh(objects)
	cost := watched(b, func() error {
		err := spread(64, before(many), func(_, i int) error { return check.Err(l.Release(b.Context(), a.at(above*objects+i))) })
		return errors.Join(err, l.engine.Checkpoint())
	})
	closed(b, l)
	all.add("released/s", many/cost.took.Seconds())
}

// openCold opens a ledger of which nothing is in memory, and proves one event of it.
func openCold(b *testing.B, path string, all samples) {
	dropPages(b, path)
	var l *Ledger
	cost := watched(b, func() (err error) { l, err = Open(b.Context(), path, Options{}); return err })
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

// proveOne proves of an event at random that it is in the log.
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

// BenchmarkSize says what is on disk for each object with one chain of three levels, as it was
// written and compacted. The information is the bytes of all keys and payloads: names, ε,
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
			var found weights
			for b.Loop() {
				found = measureFile(b, path)
			}
			found.report(b, objects)
		})
	}
}

// weights are the bytes of a file, by bucket and part.
type weights struct {
	parts map[string]map[string]int // by bucket
	free  int                       // in pages that nothing is in
	rest  int                       // what belongs to no bucket: meta pages, the list of free pages, room at the end
	file  int
}

// The parts of a bucket. The first ones are information.
const (
	partKeys     = "keys"
	partPayload  = "payload" // without salts and hashes
	partSalts    = "salts"
	partHashes   = "hashes"
	partSums     = "checksums"
	partLeaves   = "leaves"   // of leaf pages, what is neither key nor value
	partBranches = "branches" // pages of the index
)

// information tells whether a part says something that the ledger is asked to keep.
func information(part string) bool {
	return slices.Contains([]string{partKeys, partPayload, partSalts, partHashes}, part)
}

// measureFile weighs the parts of a file that nobody has open.
func measureFile(t testing.TB, path string) weights {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	s := weights{parts: map[string]map[string]int{}, file: int(info.Size())}
	db := openBare(t, path)
	must(t, db.View(func(tx *bbolt.Tx) error {
		if s.free, err = freeBytes(tx, db.Info().PageSize); err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) (err error) {
			s.parts[string(name)], err = weigh(string(name), bucket)
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

// freeBytes is the size of all free pages.
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

// weigh weighs the parts of a bucket.
func weigh(name string, bucket *bbolt.Bucket) (map[string]int, error) {
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

// report reports bytes for each object as "B:bucket:part", their sums, and the file's size over
// that of the information.
func (s weights) report(b *testing.B, objects int) {
	b.Helper()
	told := 0
	for bucket, parts := range s.parts {
		for part, n := range parts {
			b.ReportMetric(float64(n)/float64(objects), "B:"+bucket+":"+part)
			if information(part) {
				told += n
			}
		}
	}
	b.ReportMetric(float64(s.free)/float64(objects), "B:free")
	b.ReportMetric(float64(s.rest)/float64(objects), "B:rest")
	b.ReportMetric(float64(s.file)/float64(objects), "B/object")
	b.ReportMetric(float64(told)/float64(objects), "B-information/object")
	b.ReportMetric(float64(s.file)/float64(told), "of-information")
	b.ReportMetric(0, "ns/op")
}

// The sustained benchmarks go on until there were so many checkpoints: what is done in the
// background counts as well. With -short there are few, to see whether they work.

// sustain returns how many checkpoints a sustained benchmark waits for, and the memory for what is
// not in the file yet.
func sustain(memory int64) (checkpoints, room int64) {
	if testing.Short() {
		return 2, 1 << 20
	}
	return 20, memory
}

// fresh are releases that nobody has asked for before: of everybody in random order, and again at
// the next ε. They take 4 bytes a person, so that the heap is the ledger's.
type fresh struct {
	people []uint32
	made   int
}

func newFresh(people int) *fresh {
	a := &fresh{people: make([]uint32, people)}
	for i := range a.people {
		a.people[i] = uint32(i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(people, func(i, j int) { a.people[i], a.people[j] = a.people[j], a.people[i] })
	return a
}

// at returns one by its number. Two allocations are its own: those of the key and the name.
func (a *fresh) at(n int) api.ReleaseRequest {
	var key [24]byte
	const step = 100_000_000 // nano-nats
	return api.ReleaseRequest{
		Key:      string(strconv.AppendUint(append(key[:0], "o-"...), uint64(n)*0x9e3779b97f4a7c15, 16)), // in no order
		Question: "vote", Object: numbered(int(a.people[n%len(a.people)])),
		Epsilon: epsilonOf(int64(1+n/len(a.people)) * step), TrueValue: "yes",
	}
}

// numbered is [crowdName] with one allocation.
func numbered(i int) string {
	name := []byte("person-00000000")
	for at := len(name) - 1; i > 0; i /= 10 {
		name[at] = byte('0' + i%10)
		at--
	}
	return string(name)
}

func TestWhoIsAskedIsEnrolled(t *testing.T) {
	for _, n := range []int{0, 9, 10, 12_345_678} {
		check.Equal(t, numbered(n), crowdName(n), "the name of %d", n)
	}
	a, keys, people := newFresh(10), map[string]bool{}, map[string]privacy.Epsilon{}
	for n := range 30 {
		r := a.at(n)
		if r.Epsilon.Nano() <= people[r.Object].Nano() || keys[r.Key] {
			t.Errorf("%+v again, behind %v", r, people[r.Object])
		}
		keys[r.Key], people[r.Object] = true, r.Epsilon
	}
	check.That(t, len(people) == 10, "%d people were asked", len(people))
}

// rush is what many callers have come to.
type rush struct {
	took  time.Duration
	waits []time.Duration // sorted
}

// tail returns the wait that all but one in so many stay below, in ms.
func (r rush) tail(one int) float64 {
	return float64(r.waits[len(r.waits)-1-len(r.waits)/one].Nanoseconds()) / 1e6
}

// before tells whether there is more, of so many.
func before(n int) func(int) bool { return func(i int) bool { return i < n } }

// rushed has many callers do things with numbers from 0 on, as long as there is more.
func rushed(t testing.TB, callers int, more func(i int) bool, do func(i int) error) (r rush) {
	t.Helper()
	each := make([][]time.Duration, callers)
	r.took = timed(t, func() error {
		return spread(callers, more, func(caller, i int) error {
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

// spread is rushed without a watch.
func spread(callers int, more func(i int) bool, do func(caller, i int) error) error {
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

// BenchmarkReleaseTogether releases by many callers on a disk, first with checkpoints, then as much
// without any, and then by a bare journal.
func BenchmarkReleaseTogether(b *testing.B) {
	usualGarbage(b)
	for _, callers := range []int{64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			path, _ := benchFile(b, benchCrowd)
			all := samples{}
			for b.Loop() {
				together(b, path, callers, all)
			}
			all.report(b)
		})
	}
}

func together(b *testing.B, path string, callers int, all samples) {
	b.Helper()
	wanted, room := sustain(16 << 20)
	run := func(room int64, more func(*scales, int) bool) (r rush, s *scales) {
		l, s := onScales(b, bareCopy(b, path), 0, Options{Memory: room})
		a := newFresh(benchCrowd)
		runtime.GC()
		r = rushed(b, callers, func(i int) bool { return more(s, i) }, func(i int) error { return check.Err(l.Release(b.Context(), a.at(i))) })
		closed(b, l)
		return r, s
	}
	ours, s := run(room, func(s *scales, _ int) bool { return s.checkpoints.Load() < wanted })
	n := len(ours.waits)
	const plenty = 1 << 40
	quiet, none := run(plenty, func(_ *scales, i int) bool { return i < n })
	if none.checkpoints.Load() > 0 {
		b.Error("a checkpoint that was not to be")
	}
	group := &bareGroup{journal: newBareJournal(b, 0)}
	each := int(s.all.Load()) / n
	bare := rushed(b, callers, before(n), func(int) error { return group.append(each) })

	all.add("checkpoints", float64(s.checkpoints.Load()))
	all.add("memory-MiB", float64(room)/(1<<20))
	all.add("releases/s", float64(n)/ours.took.Seconds())
	all.add("of-bare", bare.took.Seconds()/ours.took.Seconds())
	all.add("ms-p99", ours.tail(100))
	all.add("ms-p99.9", ours.tail(1000))
	all.add("p99.9-of-quiet", ours.tail(1000)/quiet.tail(1000))
}

// BenchmarkReleaseWork measures what processors do for a release of many callers, checkpoints
// included, and what memory it takes. The file is in memory: how long a disk takes does not show.
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
			a, all := newFresh(people), samples{}
			for b.Loop() {
				work(b, path, a, all)
			}
			all.report(b)
		})
	}
}

func work(b *testing.B, path string, a *fresh, all samples) {
	b.Helper()
	wanted, room := sustain(64 << 20)
	l, s := onScales(b, path, 0, Options{Memory: room})
	var many atomic.Int64
	more := func(int) bool { return s.checkpoints.Load() < wanted }
	do := func(_, i int) error {
		many.Add(1)
		return check.Err(l.Release(context.Background(), a.at(a.made+i)))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := watched(b, func() error {
		return errors.Join(spread(64, more, do), l.engine.Checkpoint()) // all of the work counts
	})
	runtime.ReadMemStats(&after)
	n := float64(many.Load())
	a.made += int(many.Load())
	closed(b, l)

	all.add("checkpoints", float64(s.checkpoints.Load()))
	all.add("memory-MiB", float64(room)/(1<<20))
	all.add("cpu-µs/release", c.cpu/n)
	const own = 2 // those of the request: see at
	all.add("allocs/release", float64(after.Mallocs-before.Mallocs)/n-own)
	all.add("heap-MiB", c.heap)
	all.add("live-MiB", c.live)
	all.add("heap-over-table-MiB", c.heap-float64(2*room)/(1<<20)) // with twice as much in the table, commits wait
}
