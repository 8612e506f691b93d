package rappor

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/rrchain"
)

// BenchmarkRaise raises reports of 128 bits from ε=1 to ε=2, and for comparison draws nothing but a
// word of the same random numbers for each bit.
func BenchmarkRaise(b *testing.B) {
	p, low, high := Params{64, 128, 2}, eps("1"), eps("2")
	sampler := new(rrchain.Sampler)
	first := must(p.NewClient(0, "Emma"))
	check.Must(b, check.Err(first.Raise(sampler, low)))
	recorded := first.Reports()
	b.Run("raise", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			client := must(p.NewClient(0, "Emma", recorded...))
			b.StartTimer()
			check.Must(b, check.Err(client.Raise(sampler, high)))
		}
		bitsPerSecond(b, p.Bits)
	})
	b.Run("restart-and-raise", func(b *testing.B) {
		for b.Loop() {
			client := must(p.NewClient(0, "Emma", recorded...))
			check.Must(b, check.Err(client.Raise(sampler, high)))
		}
		bitsPerSecond(b, p.Bits)
	})
	b.Run("baseline", func(b *testing.B) {
		source, sum := exact.NewBits(), uint64(0)
		for b.Loop() {
			for range p.Bits {
				sum += source.Uint64() & 1
			}
		}
		bitsPerSecond(b, p.Bits)
		_ = sum
	})
}

func bitsPerSecond(b *testing.B, bits int) {
	b.ReportMetric(float64(bits)*float64(b.N)/b.Elapsed().Seconds(), "bits/s")
}

func BenchmarkTally(b *testing.B) {
	p := Params{64, 128, 2}
	client := must(p.NewClient(0, "Emma"))
	report := must(client.Raise(new(rrchain.Sampler), eps("2")))
	tally := must(p.NewTally(eps("2")))
	for b.Loop() {
		check.Must(b, tally.Add(report))
	}
}

func BenchmarkDecode(b *testing.B) {
	p := Params{64, 128, 2}
	for _, candidates := range []int{100, 1000} {
		listed := names("name", candidates)
		tally := must(p.NewTally(eps("4")))
		sampler := new(rrchain.Sampler)
		for i := range 2000 {
			client := must(p.NewClient(i%64, listed[i*i%candidates]))
			report := must(client.Raise(sampler, tally.epsilon))
			check.Must(b, tally.Add(report))
		}
		b.Run(fmt.Sprintf("candidates=%d", candidates), func(b *testing.B) {
			for b.Loop() {
				check.Must(b, check.Err(tally.Decode(listed, 0.95)))
			}
		})
	}
}
