package mechanism_test

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// BenchmarkAnswer measures an answer about a panel, without reading the panel and recording the
// answer.
func BenchmarkAnswer(b *testing.B) {
	values := []string{"yes", "no", "blank"}
	place := func(text string, counts ...int64) mechanism.Place {
		query := check.Value(mechanism.ParseQuery(text, values[:len(counts)]))(b)
		return check.Value(query.Place(counts))(b)
	}
	majority, plurality := place("majority:yes", 507, 493), place("plurality", 407, 400, 193)
	for _, epsilon := range []string{"0.01", "0.1", "1"} {
		e := privacy.MustEpsilon(epsilon)
		half := check.Value(privacy.EpsilonFromNano(e.Nano() / 2))(b)
		sampler := new(mechanism.Sampler)
		run := func(name string, do func() error) {
			b.Run(name+"/"+epsilon, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					check.Must(b, do())
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N), "µs/answer")
			})
		}
		first := check.Value(sampler.Raise(mechanism.Score{}, half, majority))(b)
		above := check.Value(sampler.Raise(first, e, majority))(b)
		quarters := check.Value(privacy.EpsilonFromNano(e.Nano() / 4 * 3))(b)
		run("first score", func() error { _, err := sampler.Raise(mechanism.Score{}, e, majority); return err })
		run("raised score", func() error { _, err := sampler.Raise(first, e, majority); return err })
		run("score between", func() error { _, err := sampler.Between(first, above, quarters); return err })
		run("of three", func() error { _, err := sampler.Draw(plurality, e); return err })
		run("degraded", func() error { _, err := sampler.Degrade(3, 1, e, half); return err })
	}
}
