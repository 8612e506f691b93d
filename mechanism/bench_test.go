package mechanism_test

import (
	"testing"

	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// What an answer about a panel costs, but for reading the panel and recording the answer.
func BenchmarkAnswer(b *testing.B) {
	values := []string{"yes", "no", "blank"}
	place := func(text string, counts ...int64) mechanism.Place {
		query, err := mechanism.ParseQuery(text, values[:len(counts)])
		if err != nil {
			b.Fatal(err)
		}
		at, err := query.Place(counts)
		if err != nil {
			b.Fatal(err)
		}
		return at
	}
	majority, plurality := place("majority:yes", 507, 493), place("plurality", 407, 400, 193)
	for _, epsilon := range []string{"0.01", "0.1", "1"} {
		e := privacy.MustEpsilon(epsilon)
		half, err := privacy.EpsilonFromNano(e.Nano() / 2)
		if err != nil {
			b.Fatal(err)
		}
		sampler := new(mechanism.Sampler)
		run := func(name string, do func() error) {
			b.Run(name+"/"+epsilon, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N), "µs/answer")
			})
		}
		first, err := sampler.Raise(mechanism.Score{}, half, majority)
		if err != nil {
			b.Fatal(err)
		}
		above, err := sampler.Raise(first, e, majority)
		if err != nil {
			b.Fatal(err)
		}
		quarters, err := privacy.EpsilonFromNano(e.Nano() / 4 * 3)
		if err != nil {
			b.Fatal(err)
		}
		run("first score", func() error { _, err := sampler.Raise(mechanism.Score{}, e, majority); return err })
		run("raised score", func() error { _, err := sampler.Raise(first, e, majority); return err })
		run("score between", func() error { _, err := sampler.Between(first, above, quarters); return err })
		run("of three", func() error { _, err := sampler.Draw(plurality, e); return err })
		run("degraded", func() error { _, err := sampler.Degrade(3, 1, e, half); return err })
	}
}
