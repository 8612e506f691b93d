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
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// The sustained benchmarks go on until there were so many checkpoints: what is done in the background counts as well. With -short there are few,
// to see whether they work.

// sustain returns how many checkpoints a sustained benchmark waits for, and the memory for what is not in the file yet.
func sustain(memory int64) (checkpoints, room int64) {
	if testing.Short() {
		return 2, 1 << 20
	}
	return 20, memory
}

// fresh are releases that nobody has asked for before: of everybody in random order, and again at the next ε. They take 4 bytes a person, so that
// the heap is the ledger's.
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

// BenchmarkReleaseTogether releases by many callers on a disk, first with checkpoints, then as much without any, and then by a bare journal.
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

// BenchmarkReleaseWork measures what processors do for a release of many callers, checkpoints included, and what memory it takes. The file is in memory:
// how long a disk takes does not show.
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
