package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// The benchmarks of bulk requests compare the ledger with bare bbolt that writes the records which they come to, in as many
// transactions, to a copy of the same file, and does nothing else; those of single requests, with a [bareJournal]. "go run ./bench" prints them as a table.

// bareWrite is one record put, or deleted if the value is nil.
type bareWrite struct {
	bucket     string
	key, value []byte
}

// recorder is a store that hands on what each transaction writes.
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

// lastOf leaves of several writes of one record only the last, and sorts by bucket and key: the least that bbolt can be
// asked to do.
func lastOf(writes []bareWrite) []bareWrite {
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

// applyBare makes the writes of one transaction, with what that store sets as it goes: it fills the pages of the log.
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

// bareCopy makes a copy of a file that nobody has open.
func bareCopy(t testing.TB, from string) (to string) {
	t.Helper()
	to = from + ".bare"
	_ = os.Remove(to)
	in := check.Value(os.Open(from))(t)
	defer in.Close()
	out := check.Value(os.Create(to))(t)
	_, err := io.Copy(out, in)
	must(t, errors.Join(err, out.Sync(), out.Close()))
	return to
}

// bareTime returns how long bare bbolt takes to write, to a copy of the file, what something comes to in another copy that has no journal.
func bareTime(b *testing.B, path string, write func(*Ledger) error) (took time.Duration) {
	b.Helper()
	ours := bareCopy(b, path)
	db := openBare(b, bareCopy(b, ours))
	file := check.Value(bolt.Open(ours, false))(b)
	l := check.Value(openStore(b.Context(), &recorder{Store: file, each: func(writes []bareWrite) {
		writes = lastOf(writes)
		took += timed(b, func() error { return applyBare(db, writes) })
	}}, Options{}))(b)
	must(b, write(l))
	must(b, errors.Join(l.Close(), db.Close()))
	return took
}

// benchCrowd is how many objects are enrolled where the benchmark does not say otherwise.
const benchCrowd = 100_000

// crowdName is the name of an object. A benchmark that kept all names would not see what the ledger keeps.
func crowdName(i int) string { return fmt.Sprintf("person-%08d", i) }

func benchNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = crowdName(i)
	}
	return names
}

// benchFile makes a ledger of so many objects without a response.
func benchFile(t testing.TB, objects int) (path string, names []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD"}))
	l := open(t, path, Options{})
	define(t, l, vote())
	names = benchNames(objects)
	enroll(t, l, "vote", "10", names...)
	closed(t, l)
	must(t, os.Rename(bareCopy(t, path), path)) // laid out on the disk as other copies are
	return path, names
}

// turns compares two ways to do the same, taken in turns.
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

// medians returns the median of each.
func (t *turns) medians() (ours, bare time.Duration) {
	slices.Sort(t.ours)
	slices.Sort(t.bare)
	return t.ours[len(t.ours)/2], t.bare[len(t.bare)/2]
}

// reportMedians reports the ratio of the medians: single operations vary more than what they are compared for.
func (t *turns) reportMedians(b *testing.B, what string) {
	b.Helper()
	ours, bare := t.medians()
	b.ReportMetric(float64(bare)/float64(ours), "of-"+what)
	b.ReportMetric(float64(ours.Nanoseconds()), "ns/each")
	b.ReportMetric(0, "ns/op")
}

// timed returns how long something takes.
func timed(t testing.TB, fn func() error) time.Duration {
	t.Helper()
	began := time.Now()
	err := fn()
	took := time.Since(began)
	must(t, err)
	return took
}
