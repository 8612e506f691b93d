package replaybits_test

import (
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/replaybits"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Samplers of all three packages draw from the bits that they are given.
func TestSampler_GivenBits_DrawsFromThem(t *testing.T) {
	pages := 0
	bits := exact.ReplayBits(func([]byte) { pages++ })
	one := privacy.MustEpsilon("1")
	design := finite.Design{Inputs: 2, Blocks: [][]int{{0}, {1}}}
	family, err := design.Family(one)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		_, err1 := replaybits.Sampler[rrchain.Sampler](bits).Raise(2, rrchain.Level[int]{}, one, 0)
		_, err2 := replaybits.Sampler[finite.Sampler](bits).Raise(family, rrchain.Level[int]{}, one, 0)
		_, err3 := replaybits.Sampler[mechanism.Sampler](bits).Degrade(2, 0, privacy.MaxEpsilon(), one)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
	}
	if pages < 5 { // of 512 words; each draw reads one or more
		t.Errorf("3,000 draws read %d pages", pages)
	}
}
