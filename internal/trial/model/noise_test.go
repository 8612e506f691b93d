package model

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/trial/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
)

// TestWhoseKeyIsLostHoldsNobodyUp carries out what is possible when the host has lost one of its keys: it refuses the chains
// that began with it.
func TestWhoseKeyIsLostHoldsNobodyUp(t *testing.T) {
	kit.Anywhere(t, testWhoseKeyIsLostHoldsNobodyUp)
}

func testWhoseKeyIsLostHoldsNobodyUp(t *kit.T) {
	house := kit.NewHouse(t)
	for _, year := range []string{"2025", "2026"} {
		l := house.Open(t, ledger.Options{NoiseKey: kit.NoiseKeys(year)})
		kit.Define(t, l, kit.Vote())
		kit.EnrollUnder(t, l, "vote", kit.Market(t, "3"), "9", "of "+year)
		kit.Must(t, l.Close())
	}
	keys := kit.NoiseKeys("2026")
	keys.Key = func(name string) ([]byte, error) {
		if name == "2025" {
			return nil, nil
		}
		return kit.TheNoiseKey(name), nil
	}
	l := house.Open(t, ledger.Options{NoiseKey: keys})
	refusedFor := func(refused []ledger.Refusal) {
		t.Helper()
		if len(refused) != 1 || refused[0].Object != "of 2025" || refused[0].Reason != ledger.NoNoiseKey || refused[0].Remedy != vocabulary.RemedyKey {
			t.Errorf("refused: %v", refused)
		}
	}
	raised := kit.Order(t, "1", "0.5")
	raised.Partial = true
	refusedFor(kit.CarryOut(t, l, raised).Refused)
	bought := kit.Purchase(t, "2", "acme", "1", "of 2025", "of 2026")
	bought.Partial = true
	refusedFor(kit.Sell(t, l, bought).Refused)
	kit.WantClean(t, l, ledger.VerifyRequest{})
}

// TestAQuoteNeedsNoKey opens a ledger for reading, without its keys: it quotes as one with them.
func TestAQuoteNeedsNoKey(t *testing.T) { kit.Anywhere(t, testAQuoteNeedsNoKey) }

func testAQuoteNeedsNoKey(t *kit.T) {
	house := kit.NewHouse(t)
	l := house.Open(t, ledger.Options{NoiseKey: kit.NoiseKeys("2026")})
	kit.Define(t, l, kit.Vote())
	kit.EnrollUnder(t, l, "vote", kit.Market(t, "3"), "9", "ann")
	want, err := l.Quote(t.Context(), kit.Purchase(t, "1", "acme", "1", "ann").Order)
	kit.Must(t, err)
	kit.Must(t, l.Close())
	got, err := house.Open(t, ledger.Options{ReadOnly: true}).Quote(t.Context(), kit.Purchase(t, "1", "acme", "1", "ann").Order)
	kit.Must(t, err)
	if got.ID != want.ID || got.Objects != 1 {
		t.Errorf("%+v, with the keys %+v", got, want)
	}
}

// TestASweepGoesOnWithoutAKey is [TestWhoseKeyIsLostHoldsNobodyUp] for what comes by itself.
func TestASweepGoesOnWithoutAKey(t *testing.T) {
	kit.Anywhere(t, testASweepGoesOnWithoutAKey)
}

func testASweepGoesOnWithoutAKey(t *kit.T) {
	house := kit.NewHouse(t)
	timed, err := policy.Steps(policy.Step{At: time.Unix(0, 0), Ceiling: kit.Eps(t, "1")})
	kit.Must(t, err)
	for _, year := range []string{"2025", ""} {
		l := house.Open(t, ledger.Options{NoiseKey: kit.NoiseKeys(year)})
		kit.Define(t, l, kit.Vote())
		kit.EnrollUnder(t, l, "vote", timed, "9", "of <"+year+">")
		kit.Must(t, l.Close())
	}
	l := house.Open(t, ledger.Options{})
	done, err := l.Advance(t.Context(), ledger.AdvanceRequest{Key: "1", Truth: kit.SameTruth("yes")})
	kit.Must(t, err)
	if one := done.Questions[0]; one.Raised != 1 || len(one.Refused) != 1 || one.Refused[0].Object != "of <2025>" || one.Refused[0].Reason != ledger.NoNoiseKey {
		t.Errorf("%+v", one)
	}
	kit.WantClean(t, l, ledger.VerifyRequest{})
}
