package ledger

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// The benchmarks of what the ledger reads compare it with bare bbolt that reads the same records of the same file, and
// neither checks nor decodes them.

// benchAnswers makes a ledger in which all objects have answered at some levels, one after the other, and a bare
// copy of the same file.
func benchAnswers(t testing.TB, objects int, levels ...string) (l *Ledger, db *bbolt.DB, names []string) {
	t.Helper()
	path, names := benchFile(t, objects)
	l = open(t, path, Options{})
	for _, epsilon := range levels {
		carryOut(t, l, order(t, "raise to "+epsilon, epsilon))
	}
	closed(t, l)
	return open(t, path, Options{}), openBare(t, bareCopy(t, path)), names
}

// bareObject reads the records of an object and of its chains, with as few searches as there can be.
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

// storedObject returns a function that reads the same records, and the counters, through the store, and allocates
// nothing itself.
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
