package model

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

// TestWhoseKeyIsLostHoldsNobodyUp carries out what is possible when the host has lost one of its keys: it refuses the chains
// that began with it.
func TestWhoseKeyIsLostHoldsNobodyUp(t *testing.T) {
	Anywhere(t, testWhoseKeyIsLostHoldsNobodyUp)
}

func testWhoseKeyIsLostHoldsNobodyUp(t *T) {
	house := NewHouse(t)
	for _, year := range []string{"2025", "2026"} {
		l := house.Open(t, ledger.Options{NoiseKey: NoiseKeys(year)})
		Define(t, l, Vote())
		EnrollUnder(t, l, "vote", Market(t, "3"), "9", "of "+year)
		Must(t, l.Close())
	}
	keys := NoiseKeys("2026")
	keys.Key = func(name string) ([]byte, error) {
		if name == "2025" {
			return nil, nil
		}
		return TheNoiseKey(name), nil
	}
	l := house.Open(t, ledger.Options{NoiseKey: keys})
	refusedFor := func(refused []api.Refusal) {
		t.Helper()
		if len(refused) != 1 || refused[0].Object != "of 2025" || refused[0].Reason != api.NoNoiseKey || refused[0].Remedy != api.RemedyKey {
			t.Errorf("refused: %v", refused)
		}
	}
	raised := Order(t, "1", "0.5")
	raised.Partial = true
	refusedFor(CarryOut(t, l, raised).Refused)
	bought := Purchase(t, "2", "acme", "1", "of 2025", "of 2026")
	bought.Partial = true
	refusedFor(Sell(t, l, bought).Refused)
	WantClean(t, l, api.VerifyRequest{})
}

// TestAQuoteNeedsNoKey opens a ledger for reading, without its keys: it quotes as one with them.
func TestAQuoteNeedsNoKey(t *testing.T) { Anywhere(t, testAQuoteNeedsNoKey) }

func testAQuoteNeedsNoKey(t *T) {
	house := NewHouse(t)
	l := house.Open(t, ledger.Options{NoiseKey: NoiseKeys("2026")})
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "3"), "9", "ann")
	want, err := l.Quote(t.Context(), Purchase(t, "1", "acme", "1", "ann").Order)
	Must(t, err)
	Must(t, l.Close())
	got, err := house.Open(t, ledger.Options{ReadOnly: true}).Quote(t.Context(), Purchase(t, "1", "acme", "1", "ann").Order)
	Must(t, err)
	if got.ID != want.ID || got.Objects != 1 {
		t.Errorf("%+v, with the keys %+v", got, want)
	}
}

// TestASweepGoesOnWithoutAKey is [TestWhoseKeyIsLostHoldsNobodyUp] for what comes by itself.
func TestASweepGoesOnWithoutAKey(t *testing.T) {
	Anywhere(t, testASweepGoesOnWithoutAKey)
}

func testASweepGoesOnWithoutAKey(t *T) {
	house := NewHouse(t)
	timed, err := policy.Steps(policy.Step{At: time.Unix(0, 0), Ceiling: Eps(t, "1")})
	Must(t, err)
	for _, year := range []string{"2025", ""} {
		l := house.Open(t, ledger.Options{NoiseKey: NoiseKeys(year)})
		Define(t, l, Vote())
		EnrollUnder(t, l, "vote", timed, "9", "of <"+year+">")
		Must(t, l.Close())
	}
	l := house.Open(t, ledger.Options{})
	done, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "1", Truth: SameTruth("yes")})
	Must(t, err)
	if one := done.Questions[0]; one.Raised != 1 || len(one.Refused) != 1 || one.Refused[0].Object != "of <2025>" || one.Refused[0].Reason != api.NoNoiseKey {
		t.Errorf("%+v", one)
	}
	WantClean(t, l, api.VerifyRequest{})
}
