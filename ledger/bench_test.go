package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// The benchmarks of bulk requests compare the ledger with bare bbolt, which writes the same records
// in as many transactions to a copy of the same file, and does nothing else. Those of single
// requests compare it with a [bareJournal]. "go run ./bench" prints them as a table.

// bareWrite is one record put, or deleted if the value is nil.
type bareWrite struct {
	bucket     string
	key, value []byte
}

// recorder is a store that passes the writes of each transaction to a function.
type recorder struct {
	kv.Store
	each func([]bareWrite)
}

func (r *recorder) Update(fn func(kv.Writer) error) error {
	w := &recordingWriter{}
	err := r.Store.Update(func(into kv.Writer) error {
		w.Writer = into
		return fn(w)
	})
	if err == nil && len(w.writes) > 0 {
		r.each(w.writes)
	}
	return err
}

type recordingWriter struct {
	kv.Writer
	writes []bareWrite
}

func (w *recordingWriter) Put(bucket string, key, value []byte) error {
	w.writes = append(w.writes, bareWrite{bucket, key, value})
	return w.Writer.Put(bucket, key, value)
}

func (w *recordingWriter) Delete(bucket string, key []byte) error {
	w.writes = append(w.writes, bareWrite{bucket, key, nil})
	return w.Writer.Delete(bucket, key)
}

// lastWrites keeps the last write of each record, and sorts by bucket and key: the least work for
// bbolt.
func lastWrites(writes []bareWrite) []bareWrite {
	all := slices.Clone(writes)
	slices.SortStableFunc(all, func(a, b bareWrite) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), bytes.Compare(a.key, b.key))
	})
	last := all[:0]
	for i, w := range all {
		if i+1 == len(all) || all[i+1].bucket != w.bucket || !bytes.Equal(all[i+1].key, w.key) {
			last = append(last, w)
		}
	}
	return last
}

// openBare opens a file in bbolt alone, with the settings of the store on disk.
func openBare(t testing.TB, path string) *bbolt.DB {
	t.Helper()
	db := check.Value(bbolt.Open(path, 0o600, bolt.Settings()))(t)
	db.AllocSize = bolt.Growth
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// bareFill returns how full the leaves of buckets are.
func bareFill(t testing.TB, path string, buckets ...string) map[string]float64 {
	t.Helper()
	fill := map[string]float64{}
	must(t, openBare(t, path).View(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			stats := tx.Bucket([]byte(name)).Stats()
			fill[name] = float64(stats.LeafInuse) / float64(stats.LeafAlloc)
		}
		return nil
	}))
	return fill
}

// applyBare makes the writes of one transaction. Like the store, it fills the pages of the log
// completely.
func applyBare(db *bbolt.DB, writes []bareWrite) error {
	return db.Update(func(tx *bbolt.Tx) error {
		var b *bbolt.Bucket
		name := ""
		for _, w := range writes {
			if b == nil || name != w.bucket {
				name = w.bucket
				if b = tx.Bucket([]byte(name)); b == nil {
					var err error
					if b, err = tx.CreateBucket([]byte(name)); err != nil {
						return err
					}
				}
				if name == state.BucketEvents {
					b.FillPercent = 1
				}
			}
			if w.value == nil {
				if err := b.Delete(w.key); err != nil {
					return err
				}
			} else if err := b.Put(w.key, w.value); err != nil {
				return err
			}
		}
		return nil
	})
}

// bareCopy copies a file that no process has open.
func bareCopy(t testing.TB, from string) (to string) {
	t.Helper()
	to = from + ".bare"
	_ = os.Remove(to)
	in := check.Value(os.Open(from))(t)
	defer in.Close()
	out := check.Value(os.Create(to))(t)
	must(t, errors.Join(check.Err(io.Copy(out, in)), out.Sync(), out.Close()))
	return to
}

// bareTime returns how long bare bbolt takes for the writes of a request. It records them on one
// copy of the file, without a journal, and repeats them on another.
func bareTime(b *testing.B, path string, write func(*Ledger) error) (took time.Duration) {
	b.Helper()
	ours := bareCopy(b, path)
	db := openBare(b, bareCopy(b, ours))
	file := check.Value(bolt.Open(ours, false))(b)
	l := check.Value(openStore(b.Context(), &recorder{Store: file, each: func(writes []bareWrite) {
		writes = lastWrites(writes)
		took += timed(b, func() error { return applyBare(db, writes) })
	}}, Options{}))(b)
	must(b, write(l))
	must(b, errors.Join(l.Close(), db.Close()))
	return took
}

// benchCrowd is how many objects are enrolled where the benchmark does not say otherwise.
const benchCrowd = 100_000

// crowdName returns the name of an object. Benchmarks do not keep all names, so that the heap they
// measure is the ledger's.
func crowdName(i int) string { return fmt.Sprintf("person-%08d", i) }

func benchNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = crowdName(i)
	}
	return names
}

// benchFile creates a ledger of this many objects without a response.
func benchFile(t testing.TB, objects int) (path string, names []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD"}))
	l := open(t, path, Options{})
	define(t, l, vote())
	names = benchNames(objects)
	enroll(t, l, "vote", "10", names...)
	closed(t, l)
	must(t, os.Rename(bareCopy(t, path), path)) // so that it has the same layout on the disk as the other copies
	return path, names
}

// turns compares the times of two ways to do the same, measured alternately.
type turns struct{ ours, bare []time.Duration }

func (p *turns) report(b *testing.B, what string, each int) {
	b.Helper()
	ratios := make([]float64, len(p.ours))
	for i := range ratios {
		ratios[i] = float64(p.bare[i]) / float64(p.ours[i])
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-"+what)
	slices.Sort(p.ours)
	b.ReportMetric(float64(p.ours[len(p.ours)/2].Nanoseconds())/float64(each), "ns/each")
	b.ReportMetric(0, "ns/op")
}

// medians returns the median time of each.
func (t *turns) medians() (ours, bare time.Duration) {
	slices.Sort(t.ours)
	slices.Sort(t.bare)
	return t.ours[len(t.ours)/2], t.bare[len(t.bare)/2]
}

// reportMedians reports the ratio of the medians: the ratios of single operations vary too much.
func (t *turns) reportMedians(b *testing.B, what string) {
	b.Helper()
	ours, bare := t.medians()
	b.ReportMetric(float64(bare)/float64(ours), "of-"+what)
	b.ReportMetric(float64(ours.Nanoseconds()), "ns/each")
	b.ReportMetric(0, "ns/op")
}

// timed returns how long fn takes.
func timed(t testing.TB, fn func() error) time.Duration {
	t.Helper()
	began := time.Now()
	err := fn()
	took := time.Since(began)
	must(t, err)
	return took
}

// BenchmarkBudget asks for the budget of all objects, at 100 values of ε, on a file, without the
// cache of budgets.
func BenchmarkBudget(b *testing.B) {
	for _, people := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("people=%d", people), func(b *testing.B) {
			path := create(b)
			l := open(b, path, Options{})
			define(b, l, vote())
			names := make([]string, people)
			for i := range names {
				names[i] = crowdName(i)
			}
			enrollUnder(b, l, "vote", market(b, "5"), "5", names...)
			must(b, check.Err(l.Raise(b.Context(), api.RaiseRequest{Key: "raise", Question: "vote", All: true, Epsilon: eps(b, "1"), Truth: sameTruth("yes")})))
			r := api.BudgetRequest{Question: "vote", All: true, Buyer: "acme"}
			for i := range 100 {
				epsilon := check.Value(privacy.EpsilonFromNano(int64(i+1) * 60_000_000))(b)
				r.Epsilons = append(r.Epsilons, epsilon)
			}
			for b.Loop() {
				l.requests.Forecasts.All = nil
				must(b, check.Err(l.Budget(b.Context(), r)))
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/budget")
		})
	}
}

// The benchmarks of reads compare the ledger with bare bbolt, which reads the same records of the
// same file, and neither checks nor decodes them.

// benchAnswers creates a ledger in which all objects have answered at some levels, one after the
// other, and a bare copy of the same file.
func benchAnswers(t testing.TB, objects int, levels ...string) (l *Ledger, db *bbolt.DB, names []string) {
	t.Helper()
	path, names := benchFile(t, objects)
	l = open(t, path, Options{})
	for _, epsilon := range levels {
		raise(t, l, raiseOf(t, "raise to "+epsilon, epsilon))
	}
	closed(t, l)
	return open(t, path, Options{}), openBare(t, bareCopy(t, path)), names
}

// bareObject reads the records of an object and of its chains, with as few searches as possible.
func bareObject(db *bbolt.DB, name string) (bytesRead int, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		own := state.ObjectKey(name)
		chains := tx.Bucket([]byte(state.BucketChains))
		cursor := tx.Bucket([]byte(state.BucketObjects)).Cursor()
		for key, value := cursor.Seek(own); bytes.HasPrefix(key, own); key, value = cursor.Next() {
			bytesRead += len(value)
			if member := key[len(own):]; len(member) > 0 {
				bytesRead += len(chains.Get(append(append(make([]byte, 0, 64), member...), name...)))
			}
		}
		return nil
	})
	return bytesRead, err
}

// storedObject returns a function that reads the same records as [bareObject], and the counters,
// through the store. It makes no allocations of its own.
func storedObject(from kv.Store) func(name string) {
	var own, chain []byte
	var in kv.Reader
	counters := []byte(state.KeyCounters)
	visit := func(key, _ []byte) bool {
		if !bytes.HasPrefix(key, own) {
			return false
		}
		if member := key[len(own):]; len(member) > 0 {
			chain = append(append(chain[:0], member...), own[:len(own)-1]...)
			_, _ = in.Get(state.BucketChains, chain)
		}
		return true
	}
	read := func(r kv.Reader) error {
		in = r
		_, _ = r.Get(state.BucketMeta, counters)
		return r.Scan(state.BucketObjects, own, visit)
	}
	return func(name string) {
		own = state.AppendObjectKey(own[:0], name)
		_ = from.View(read)
	}
}

// allocations returns how often fn allocates, in the mean of n calls.
func allocations(n int, fn func(i int)) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		fn(i)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

// BenchmarkReadObject reads objects in random order: budget, and the chain with all its levels.
func BenchmarkReadObject(b *testing.B) {
	usualGarbage(b)
	for _, levels := range [][]string{{"1"}, {"1", "2", "3"}} {
		b.Run(fmt.Sprintf("levels=%d", len(levels)), func(b *testing.B) {
			l, db, names := benchAnswers(b, benchCrowd, levels...)
			random := rand.New(rand.NewPCG(1, 2))
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			const chunk = 1000
			var p turns
			n := 0
			for b.Loop() {
				some := names[n : n+chunk]
				n = (n + chunk) % len(names)
				p.ours = append(p.ours, timed(b, func() error {
					for _, name := range some {
						if _, err := l.Object(b.Context(), name); err != nil {
							return err
						}
					}
					return nil
				}))
				p.bare = append(p.bare, timed(b, func() error {
					for _, name := range some {
						if _, err := bareObject(db, name); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			p.report(b, "bare", chunk)
			ours := allocations(chunk, func(i int) { _, _ = l.Object(b.Context(), names[i]) })
			read := storedObject(l.engine.Store)
			stored := allocations(chunk, func(i int) { read(names[i]) })
			const answer = 2 // the lists of chains and of levels
			b.ReportMetric(ours-stored-answer, "allocs-beyond")
		})
	}
}

// BenchmarkVerify compares the audit, on one core, with the minimum of any audit of the log: to
// read all events, check their checksums, and hash each into the tree.
func BenchmarkVerify(b *testing.B) {
	usualGarbage(b)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	path := filepath.Join(b.TempDir(), "ledger.db")
	bigLedger(b, path, 120_000)
	l := open(b, path, Options{ReadOnly: true})
	_, events := scanned(b, l)
	var p turns
	for b.Loop() {
		p.bare = append(p.bare, timed(b, func() error { return hashEvents(l) }))
		p.ours = append(p.ours, timed(b, func() error {
			done, err := l.Verify(b.Context(), api.VerifyRequest{})
			check.That(b, err != nil || (done.Problems == 0 && done.Events == events), "%+v", done)
			return err
		}))
	}
	p.report(b, "bare", int(events))
	b.ReportMetric(float64(events)/p.ours[len(p.ours)/2].Seconds(), "events/s")
}

// hashEvents reads all events and computes from their bytes the hashes that are stored with them.
func hashEvents(l *Ledger) error {
	var left [64]tlog.Hash // by level, the last complete subtree with no right neighbor yet
	return l.engine.Store.View(func(r kv.Reader) error {
		var fault error
		err := r.Scan(state.BucketEvents, nil, func(key, value []byte) bool {
			fault = hashEvent(&left, binary.BigEndian.Uint64(key), key, value)
			return fault == nil
		})
		return errors.Join(err, fault)
	})
}

func hashEvent(left *[64]tlog.Hash, number uint64, key, value []byte) error {
	payload, err := wire.Unseal(state.BucketEvents, key, value)
	if err != nil {
		return err
	}
	d := &wire.Decoder{Rest: payload}
	d.U8()      // the form: all events are whole
	d.Uvarint() // the event before it
	public := d.Take(d.Uvarint())
	kept := sha256.Sum256(d.Take(d.Uvarint()))
	hash := merkle.HashLeaf(append(append(make([]byte, 0, 128), public...), kept[:]...))
	top := merkle.Completes(number-1) - 1
	for level := range top {
		hash = merkle.HashNode(left[level], hash)
	}
	left[top] = hash
	if string(d.Rest[top*tlog.HashSize:]) != string(hash[:]) {
		return errors.New("the hash of an event is not what was stored")
	}
	return d.Err
}

// If objects enroll in the order of their names, the pages of their records are nearly full.
func TestEnroll_NamesInOrder_FillsPages(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	define(t, l, vote())
	enroll(t, l, "vote", "10", crowd(20_000)...)
	closed(t, l)
	for bucket, full := range bareFill(t, path, state.BucketObjects, state.BucketChains, state.BucketEvents) {
		check.That(t, !(full < 0.8), "pages of %s are full to %.2f", bucket, full)
	}
}
