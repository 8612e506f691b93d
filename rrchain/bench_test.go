package rrchain

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
)

// The benchmarks of draws compare them, in turns, with reading one random word from the same
// source.

// turns is the number of draws, and of reads, in one iteration.
const turns = 2000

// compareWithReads runs draws in turns with reads of a number of words. It reports the median ratio
// of their times per word: 1 would mean that a draw costs no more than its reads.
func compareWithReads(b *testing.B, s *Sampler, words int, draw func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	var ratios []float64
	var draws []time.Duration
	for b.Loop() {
		began := time.Now()
		for range turns * words {
			s.source().Uint64()
		}
		read := time.Since(began)
		began = time.Now()
		for i := range turns {
			check.Must(b, draw(i))
		}
		drawn := time.Since(began)
		ratios = append(ratios, float64(drawn)/float64(read))
		draws = append(draws, drawn)
	}
	slices.Sort(ratios)
	slices.Sort(draws)
	b.ReportMetric(ratios[len(ratios)/2], "reads")
	b.ReportMetric(float64(draws[len(draws)/2].Nanoseconds())/float64(turns*words), "ns/each")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDraw draws with cached thresholds.
func BenchmarkDraw(b *testing.B) {
	low, mid, high := eps("1"), eps("1.5"), eps("2")
	for _, c := range []struct {
		name string
		m    int
	}{{"m=2", 2}, {"m=10", 10}, {"m=2000", 2000}, {"m=100000", 100_000}} {
		for _, way := range []struct {
			name string
			draw func(s *Sampler, truth int) (int, error)
		}{
			{"first", func(s *Sampler, truth int) (int, error) { return s.Raise(c.m, Level[int]{}, low, truth) }},
			{"raise", func(s *Sampler, truth int) (int, error) { return s.Raise(c.m, Level[int]{low, 1}, high, truth) }},
			{"insert", func(s *Sampler, value int) (int, error) {
				return s.Between(c.m, Level[int]{low, 1}, mid, Level[int]{high, value})
			}},
		} {
			b.Run(way.name+"/"+c.name, func(b *testing.B) {
				s := new(Sampler)
				compareWithReads(b, s, 1, func(i int) error {
					_, err := way.draw(s, i&1)
					return err
				})
			})
		}
	}
}

// BenchmarkDrawUnary raises in unary encoding. The metric "reads" is per bit.
func BenchmarkDrawUnary(b *testing.B) {
	const m = 500
	s, current, to := new(Sampler), Level[Bits]{eps("1"), row(m, 3, 99, 400)}, eps("2")
	compareWithReads(b, s, m, func(i int) error {
		_, err := s.RaiseUnary(m, current, to, i%m)
		return err
	})
}

// BenchmarkRound rounds a wage. Most of the time is arithmetic on fractions.
func BenchmarkRound(b *testing.B) {
	r, s := Range{20, 2500}, new(Sampler)
	for b.Loop() {
		must(r.Round(s, 603.72))
	}
}

// BenchmarkFirstUse computes the thresholds that a first draw needs and later draws find in the
// cache. Most of the time is arithmetic on exponentials.
func BenchmarkFirstUse(b *testing.B) {
	for name, l := range map[string]law{
		"first":         {4, 0, 1_000_000_000, truthAbove},
		"raise":         {4, 1_000_000_000, 2_000_000_000, truthAbove},
		"insert":        {4, 1_000_000_000, 1_500_000_000, 2_000_000_000},
		"raise-extreme": {maxValues, 999_999_999_999, 1_000_000_000_000, truthAbove},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				exact.NewMixture(uint32(l.m), l.weights)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "µs/each")
			b.ReportMetric(0, "ns/op")
		})
	}
}
