package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
	finiteestimate "github.com/sluicedp/sluice/rrchain/finite/estimate"
)

// drawFinite returns a response of a chain.
func drawFinite(m *vocabulary.Mechanism, sampler *finite.Sampler, levels []state.Level, place int, epsilon privacy.Epsilon, truth int32) (int, error) {
	at := func(i int) rrchain.Level {
		if i < 0 {
			return rrchain.Level{}
		}
		return rrchain.Level{Epsilon: levels[i].Epsilon, Response: levels[i].Response.Index}
	}
	var made rrchain.Level
	var err error
	if place == len(levels) {
		made, err = sampler.Raise(m.Family, at(place-1), epsilon, int(truth))
	} else {
		made, err = sampler.Between(m.Family, at(place-1), at(place), epsilon)
	}
	return made.Response, err
}

// finiteFrequencies returns the shares of the inputs from counts of responses.
func finiteFrequencies(m *vocabulary.Mechanism, confidence float64, levels []estimate.UnaryCounts) ([]estimate.Frequency, error) {
	counts := make([]finiteestimate.Counts, len(levels))
	for i, l := range levels {
		level, _ := m.Family.Level(l.Epsilon)
		counts[i] = finiteestimate.Counts{Mechanism: level, ByOutput: l.ByValue}
	}
	return finiteestimate.Frequencies(confidence, counts...)
}
