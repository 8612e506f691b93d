package memtable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// benchStores are a table over nothing, and what it is measured against.
func benchStores(b *testing.B, run func(b *testing.B, s kv.Store)) {
	b.Run("memory", func(b *testing.B) { run(b, new(kv.Memory)) })
	b.Run("table", func(b *testing.B) {
		run(b, tableOver(b, new(kv.Memory), Options{Limit: math.MaxInt64 / 2}))
	})
}

const benchKeys = 100_000

func benchKey(n int) []byte { return fmt.Appendf(nil, "object %08d", n) }

func fill(b *testing.B, s kv.Store) {
	b.Helper()
	for n := 0; n < benchKeys; n += 1000 {
		err := s.Update(func(w kv.Writer) error {
			for i := range 1000 {
				if err := w.Put("b", benchKey((n+i)*7919%benchKeys), make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		})
		must(b, err)
	}
}

// A put, of ten in an update: of new records, and of others.
func BenchmarkPut(b *testing.B) {
	for _, kind := range []string{"new", "known"} {
		b.Run(kind, func(b *testing.B) {
			benchStores(b, func(b *testing.B, s kv.Store) {
				if kind == "known" {
					fill(b, s)
				}
				value, n := make([]byte, 100), 0
				keys := make([][]byte, benchKeys)
				for i := range keys {
					keys[i] = benchKey(i)
				}
				b.ReportAllocs()
				for b.Loop() {
					err := s.Update(func(w kv.Writer) error {
						for range 10 {
							if err := w.Put("b", keys[n*7919%benchKeys], value); err != nil {
								return err
							}
							n++
						}
						return nil
					})
					must(b, err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(10*b.N), "ns/put")
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	benchStores(b, func(b *testing.B, s kv.Store) {
		fill(b, s)
		key := benchKey(rand.IntN(benchKeys))
		b.ReportAllocs()
		err := s.View(func(r kv.Reader) error {
			for b.Loop() {
				if v, err := r.Get("b", key); v == nil || err != nil {
					return fmt.Errorf("%s: %v, %w", key, v, err)
				}
			}
			return nil
		})
		must(b, err)
	})
}

// A view that reads one record.
func BenchmarkView(b *testing.B) {
	benchStores(b, func(b *testing.B, s kv.Store) {
		fill(b, s)
		key := benchKey(rand.IntN(benchKeys))
		b.ReportAllocs()
		for b.Loop() {
			err := s.View(func(r kv.Reader) error {
				_, err := r.Get("b", key)
				return err
			})
			must(b, err)
		}
	})
}

// A scan of ten records after an update of ten.
func BenchmarkScan(b *testing.B) {
	benchStores(b, func(b *testing.B, s kv.Store) {
		fill(b, s)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			err := s.Update(func(w kv.Writer) error {
				for range 10 {
					n++
					if err := w.Put("b", fmt.Appendf(nil, "object %08d new", n*7919%benchKeys), []byte("x")); err != nil {
						return err
					}
				}
				left := 10
				return w.Scan("b", benchKey(n*31%benchKeys), func(_, _ []byte) bool { left--; return left > 0 })
			})
			must(b, err)
		}
	})
}

// A scan of everything.
func BenchmarkScanAll(b *testing.B) {
	benchStores(b, func(b *testing.B, s kv.Store) {
		fill(b, s)
		b.ReportAllocs()
		for b.Loop() {
			err := s.View(func(r kv.Reader) error {
				return r.Scan("b", nil, func(_, _ []byte) bool { return true })
			})
			must(b, err)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(benchKeys*b.N), "ns/record")
	})
}
