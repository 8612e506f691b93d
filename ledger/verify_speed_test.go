package ledger

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/audit"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// bigLedger makes a ledger file with about so many events, most of them draws: five levels each of
// as many objects as that takes.
func bigLedger(t testing.TB, path string, wanted int) {
	t.Helper()
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD"}))
	l := open(t, path, Options{})
	define(t, l, vote())
	names := crowd(wanted / 6)
	for i := range names {
		names[i] = fmt.Sprintf("person-%07d", i)
	}
	enroll(t, l, "vote", "10", names...)
	for i, epsilon := range []string{"0.5", "1", "0.25", "1.5", "0.75"} {
		raise(t, l, raiseOf(t, fmt.Sprintf("round %d", i), epsilon))
	}
	closed(t, l)
}

// scanned returns how long it takes to read all events and their checksums, and how many there are.
func scanned(t testing.TB, l *Ledger) (took time.Duration, n uint64) {
	t.Helper()
	began := time.Now()
	must(t, l.engine.Store.View(func(r kv.Reader) error {
		var fault error
		must(t, r.Scan(state.BucketEvents, nil, func(key, value []byte) bool {
			_, fault = wire.Unseal(state.BucketEvents, key, value)
			n++
			return fault == nil
		}))
		return fault
	}))
	return time.Since(began), n
}

// A log also verifies if the state that it makes does not fit into the memory allowed. With more
// events this measures: SLUICE_VERIFY_EVENTS=1000000 go test -run StateLargerThanMemory -v ./ledger
func TestVerify_StateLargerThanMemory_Succeeds(t *testing.T) {
	usualGarbage(t)
	wanted, little := 12_000, 256<<10
	if asked, err := strconv.Atoi(os.Getenv("SLUICE_VERIFY_EVENTS")); err == nil {
		wanted, little = asked, 32<<20
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	bigLedger(t, path, wanted)
	l := open(t, path, Options{ReadOnly: true})
	scan, events := scanned(t, l)
	for _, memory := range []int{audit.Usual().Memory, little} {
		runtime.GC()
		heap, stop := watchHeap()
		began := time.Now()
		at := audit.Usual()
		at.Memory = memory
		done, err := l.verify(t.Context(), api.VerifyRequest{}, at)
		took := time.Since(began)
		stop()
		must(t, err)
		check.That(t, done.Problems == 0 && done.Events == events, "%+v", done)
		t.Logf("%d events, %d KiB of memory for the state: %v, %.2f µs an event, %.1f times a bare scan (%v); heap up to %d MiB",
			events, memory>>10, took, float64(took.Microseconds())/float64(events), float64(took)/float64(scan), scan, heap.most.Load()>>20)
	}
}

// Other goroutines get the processor between any two small batches, of events and of records.
func TestVerify_BetweenBatches_YieldsTheProcessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	bigLedger(t, path, 6_000)
	l := open(t, path, Options{ReadOnly: true})
	rests, at := 0, audit.Usual()
	at.Rest = func() { rests++ }
	done := check.Value(l.verify(t.Context(), api.VerifyRequest{}, at))(t)
	events, records := int(done.Events)/at.Batch, 2*int(done.Objects)/at.Batch // each has a chain
	check.That(t, rests >= events+records,
		"%d times, in %d batches of events and %d of records", rests, events, records)
}

// State that does not fit into memory is written to temporary files, and nowhere else: without a
// directory for them, only an audit that needs them fails.
func TestVerify_StateLargerThanMemory_UsesTemporaryFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	bigLedger(t, path, 6_000)
	l := open(t, path, Options{ReadOnly: true})
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	must(t, check.Err(l.verify(t.Context(), api.VerifyRequest{}, audit.Usual())))
	at := audit.Usual()
	at.Memory = 256 << 10
	wantErr(t, check.Err(l.verify(t.Context(), api.VerifyRequest{}, at)), fs.ErrNotExist)
}

// heapSeen is how large the heap has become.
type heapSeen struct {
	most atomic.Uint64 // garbage and all
	live atomic.Uint64 // what was not garbage when it was last collected
}

// watchHeap follows the size of the heap.
func watchHeap() (seen *heapSeen, stop func()) {
	seen, done, gone := new(heapSeen), make(chan struct{}), make(chan struct{})
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	go func() {
		defer close(gone)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			metrics.Read(live)
			seen.most.Store(max(seen.most.Load(), m.HeapInuse))
			seen.live.Store(max(seen.live.Load(), live[0].Value.Uint64()))
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return seen, func() { close(done); <-gone }
}
