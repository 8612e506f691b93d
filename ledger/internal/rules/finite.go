package rules

import (
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// drawFinite returns a response of a chain.
func drawFinite(m *vocabulary.Mechanism, sampler *finite.Sampler, levels []state.Level, place int,
	epsilon privacy.Epsilon, truth int32) (int, error) {
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
