package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// recordsBench is how many records a file has where the benchmark does not say otherwise.
const recordsBench = 200_000

func benchKey(i int) []byte { return fmt.Appendf(nil, "record %08d", i) }

// benchFile is a closed file of many records.
func benchFile(b *testing.B, n int) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "bench.db")
	must(b, Create(path, func(kv.Writer) error { return nil }))
	s, err := Open(path, false)
	must(b, err)
	const each = 10_000
	for from := 0; from < n; from += each {
		must(b, s.Update(func(w kv.Writer) error {
			for i := from; i < min(n, from+each); i++ {
				if err := w.Put("records", benchKey(i), make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	must(b, s.Close())
	return path
}

// turns are times of two ways to do the same, taken in turns.
type turns struct{ ours, bare []time.Duration }

// timed returns how long something takes.
func timed(b *testing.B, do func() error) time.Duration {
	b.Helper()
	began := time.Now()
	err := do()
	took := time.Since(began)
	must(b, err)
	return took
}

func (p *turns) report(b *testing.B, each int) {
	b.Helper()
	ratios := make([]float64, len(p.ours))
	for i := range ratios {
		ratios[i] = float64(p.bare[i]) / float64(p.ours[i])
	}
	slices.Sort(ratios)
	slices.Sort(p.ours)
	b.ReportMetric(ratios[len(ratios)/2], "of-bare")
	b.ReportMetric(float64(p.ours[len(p.ours)/2].Nanoseconds())/float64(each), "ns/each")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkGet reads one record in a snapshot of its own.
func BenchmarkGet(b *testing.B) {
	s, err := Open(benchFile(b, recordsBench), false)
	must(b, err)
	defer s.Close()
	const each = 1000
	keys := make([][]byte, each)
	for i := range keys {
		keys[i] = benchKey(i * 7919 % recordsBench)
	}
	ours := func(key []byte) error {
		return s.View(func(r kv.Reader) error { _, err := r.Get("records", key); return err })
	}
	bare := func(key []byte) error {
		return s.current.db.View(func(tx *bbolt.Tx) error { tx.Bucket([]byte("records")).Get(key); return nil })
	}
	all := func(get func(key []byte) error) func() error {
		return func() error {
			for _, key := range keys {
				if err := get(key); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var p turns
	for n := 0; b.Loop(); n++ {
		if n%2 == 0 { // the second finds the pages in the processor's caches
			p.ours = append(p.ours, timed(b, all(ours)))
		}
		p.bare = append(p.bare, timed(b, all(bare)))
		if n%2 == 1 {
			p.ours = append(p.ours, timed(b, all(ours)))
		}
	}
	p.report(b, each)
}

// BenchmarkPut replaces one record in a transaction of its own.
func BenchmarkPut(b *testing.B) {
	path := benchFile(b, recordsBench)
	must(b, copyFile(path, path+".ours")) // both are copies: they lie on the disk alike
	must(b, copyFile(path, path+".bare"))
	s, err := Open(path+".ours", false)
	must(b, err)
	defer s.Close()
	db, err := bbolt.Open(path+".bare", 0, Settings())
	must(b, err)
	defer db.Close()
	db.AllocSize = Growth
	const each = 50
	var p turns
	for n := 0; b.Loop(); n++ {
		var ours, bare time.Duration
		for i := range each {
			key, value := benchKey((n*each+i)*7919%recordsBench), make([]byte, 100)
			ours += timed(b, func() error {
				return s.Update(func(w kv.Writer) error { return w.Put("records", key, value) })
			})
			bare += timed(b, func() error {
				return db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("records")).Put(key, value) })
			})
		}
		p.ours, p.bare = append(p.ours, ours), append(p.bare, bare)
	}
	p.report(b, each)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// BenchmarkOpen opens a file and closes it again, with and without a list of free pages. Bare bbolt looks at no page, but
// reads all where there is no list.
func BenchmarkOpen(b *testing.B) {
	for _, listed := range []bool{true, false} {
		b.Run(fmt.Sprintf("listed=%v", listed), func(b *testing.B) {
			path := benchFile(b, recordsBench)
			i := readImage(b, path)
			if !listed {
				i.setMeta(32, noFreeList, 8)
			}
			reset := func() error { // to open a file without a list writes one
				file, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = file.WriteAt(i.data[:metaPages*i.pageSize()], 0)
				return errors.Join(err, file.Close())
			}
			var p turns
			for b.Loop() {
				must(b, reset())
				p.ours = append(p.ours, timed(b, func() error {
					s, err := Open(path, false)
					if err != nil {
						return err
					}
					return s.Close()
				}))
				must(b, reset())
				p.bare = append(p.bare, timed(b, func() error {
					db, err := bbolt.Open(path, 0, Settings())
					if err != nil {
						return err
					}
					return db.Close()
				}))
			}
			p.report(b, 1)
			b.ReportMetric(float64(len(i.data))/(1<<20), "MiB")
		})
	}
}

// BenchmarkBulk writes many records in one transaction, and deletes every second one again in the next.
func BenchmarkBulk(b *testing.B) {
	const each = 10_000
	for name, place := range map[string]func(i, n int) int{
		"behind":  func(i, n int) int { return recordsBench + n*each + i },
		"between": func(i, n int) int { return (n*each + i) * 7919 % recordsBench },
	} {
		b.Run(name, func(b *testing.B) {
			path := benchFile(b, recordsBench)
			must(b, copyFile(path, path+".bare"))
			s, err := Open(path, false)
			must(b, err)
			defer s.Close()
			db, err := bbolt.Open(path+".bare", 0, Settings())
			must(b, err)
			defer db.Close()
			db.AllocSize = Growth
			var p turns
			for n := 0; b.Loop(); n++ {
				write := func(put func(key, value []byte) error, remove func(key []byte) error) (err error) {
					for i := 0; i < each && err == nil; i++ {
						if put == nil {
							err = remove(benchKey(place(i, n)))
							i++
							continue
						}
						err = put(benchKey(place(i, n)), make([]byte, 120))
					}
					return err
				}
				p.ours = append(p.ours, timed(b, func() error {
					return errors.Join(
						s.Update(func(w kv.Writer) error {
							return write(func(k, v []byte) error { return w.Put("records", k, v) }, nil)
						}),
						s.Update(func(w kv.Writer) error {
							return write(nil, func(k []byte) error { return w.Delete("records", k) })
						}))
				}))
				p.bare = append(p.bare, timed(b, func() error {
					return errors.Join(
						db.Update(func(tx *bbolt.Tx) error { return write(tx.Bucket([]byte("records")).Put, nil) }),
						db.Update(func(tx *bbolt.Tx) error { return write(nil, tx.Bucket([]byte("records")).Delete) }))
				}))
			}
			p.report(b, each)
		})
	}
}
