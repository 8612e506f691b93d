package rrchain

import (
	"testing"
	"time"
)

// besideReads raises rows of n bits in turns with reading one random word for each bit from the same source: less
// than that no draw can do. It compares the fastest of many batches, for others may be using the machine. A
// batch is long enough that each gets its share of the source's pages.
func besideReads(b *testing.B, n int, raise func(*Sampler) error) {
	const batch = 50
	s := NewSampler()
	var fastest [2]time.Duration
	run := func(i int, f func()) {
		start := time.Now()
		for range batch {
			f()
		}
		if took := time.Since(start); fastest[i] == 0 || took < fastest[i] {
			fastest[i] = took
		}
	}
	for b.Loop() {
		run(0, func() {
			for range n {
				s.bits.Uint64()
			}
		})
		run(1, func() {
			if err := raise(s); err != nil {
				b.Fatal(err)
			}
		})
	}
	each := fastest[1].Seconds() / batch
	b.ReportMetric(each*1e9, "ns/op")
	b.ReportMetric(float64(n)/each, "bits/s")
	b.ReportMetric(float64(fastest[1])/float64(fastest[0]), "reads") // of one word for each bit
}

// BenchmarkRaiseUnary raises a chain that has one recorded level, for a question with 500 values.
func BenchmarkRaiseUnary(b *testing.B) {
	const m = 500
	low, to := BitLevel{eps(b, "1"), row(b, m, 3, 99, 400)}, eps(b, "2")
	besideReads(b, m, func(s *Sampler) error {
		chain, err := NewUnaryChain(m, low)
		if err != nil {
			return err
		}
		_, err = chain.Raise(s, to, 123)
		return err
	})
}

// BenchmarkRaiseBits raises a chain of 128 bits that has one recorded level.
func BenchmarkRaiseBits(b *testing.B) {
	const n = 128
	low, to, truth := BitLevel{eps(b, "1"), row(b, n, 3, 99)}, eps(b, "2"), row(b, n, 0, 64, 127)
	besideReads(b, n, func(s *Sampler) error {
		chain, err := NewBitChain(n, low)
		if err != nil {
			return err
		}
		_, err = chain.Raise(s, to, truth)
		return err
	})
}

// BenchmarkRound rounds a wage: most of it is arithmetic on fractions.
func BenchmarkRound(b *testing.B) {
	r, s := newRange(b, 20, 2500), NewSampler()
	for b.Loop() {
		if _, err := r.Round(s, 603.72); err != nil {
			b.Fatal(err)
		}
	}
}
