package policy

import (
	"math/big"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
)

// The vectors have 30 digits. The policy must have the first nine, rounded down.
func TestNoisySampling_AgreesWithVectors(t *testing.T) {
	type row struct {
		Alpha  string `json:"eps_alpha"`
		Beta   string `json:"eps_beta"`
		K      int
		Result string `json:"eps_ns"`
	}
	for _, row := range check.Vectors[row](t, "../testdata/vectors/noisy_sampling.json", 10) {
		exactly, ok := new(big.Rat).SetString(row.Result)
		check.Need(t, ok, "%q is no number", row.Result)
		exactly.Mul(exactly, big.NewRat(1_000_000_000, 1))
		want := new(big.Int).Quo(exactly.Num(), exactly.Denom()).Int64()
		p := must(t)(NoisySampling(eps(row.Alpha), eps(row.Beta), at(0), time.Hour, row.K))
		if got := p.Ceiling(at(time.Duration(row.K-1)*time.Hour), 0).Nano(); got != want || p.Limit().Nano() != want {
			t.Errorf("α=%s β=%s K=%d: %d, want %d", row.Alpha, row.Beta, row.K, got, want)
		}
	}
}

func TestNoisySampling_EachRound_RaisesTheCeiling(t *testing.T) {
	p := must(t)(NoisySampling(eps("1"), eps("0.5"), at(0), time.Hour, 3))
	wantCeilings(t, p, map[time.Time]string{
		{}: "0", at(-1): "0", at(0): "0.227336293", at(time.Hour - 1): "0.227336293", at(time.Hour): "0.43378083",
		at(2 * time.Hour): "0.60481275", at(3 * time.Hour): "0.60481275", at(1e6 * time.Hour): "0.60481275",
	})
	p = must(t)(NoisySampling(nanos(1), nanos(1), at(0), time.Hour, 3)) // about 10⁻¹⁸
	check.That(t, p.Limit().IsZero() && p.Releases(at(0), all) != nil && len(p.Releases(at(1e6*time.Hour), all)) == 0,
		"limit %v, releases %v", p.Limit(), p.Releases(at(0), all))
	p = must(t)(NoisySampling(eps("1000"), eps("1000"), at(0), time.Hour, maxSteps))
	check.That(t, p.Limit().Nano() == eps("1000").Nano()-1 && len(p.Releases(lastInstant.time(), all)) == 2,
		"limit %v after %d steps", p.Limit(), len(p.Releases(lastInstant.time(), all)))
	must(t)(NoisySampling(eps("1"), eps("1"), lastInstant.time(), 1<<62, 1))
	must(t)(NoisySampling(eps("1"), eps("1"), lastInstant.time().Add(-10), 5, 3))
	wantInvalid(t, "after 2261")(NoisySampling(eps("1"), eps("1"), lastInstant.time().Add(-9), 5, 3))
}

// For any guess, e^n ≤ e^ε < e^(n+1) must hold in a precision that the computation did not use.
func TestNoisyEpsilon_AnyGuess_IsProvenExact(t *testing.T) {
	g := newGenerator(t)
	for range 150 {
		alpha, beta, k := 1+g.Int64N(1<<(1+g.IntN(39))), 1+g.Int64N(1<<(1+g.IntN(39))), 1+g.Int64N(20)
		guess, highest := noisyBounds(alpha, k*beta)
		n := noisyEpsilon(alpha, beta, k, guess, 128)
		check.Need(t, n >= guess && n <= highest,
			"α=%d β=%d K=%d: %d is not between %d and %d", alpha, beta, k, n, guess, highest)
		if highest >= min(alpha, k*beta) { // otherwise the exact computation below takes too long
			t.Fatalf("α=%d β=%d K=%d: %d is not below both", alpha, beta, k, highest)
		}
		off := max(0, min(guess+g.Int64N(11)-5, alpha-1, k*beta-1)) // a bad guess and few bits must not matter
		again := noisyEpsilon(alpha, beta, k, off, 1+uint(g.IntN(60)))
		check.Need(t, again == n, "α=%d β=%d K=%d: %d, but %d from the guess %d", alpha, beta, k, n, again, off)
		const prec = 4096
		ratio := noisyRatio(alpha, beta, k, prec)
		check.Need(t, n >= 0 && n < min(alpha, k*beta) && exact.Exp(n, prec).Below(ratio),
			"α=%d β=%d K=%d: %d is too high", alpha, beta, k, n)
		check.Need(t, n+1 >= min(alpha, k*beta) || ratio.Below(exact.Exp(n+1, prec)),
			"α=%d β=%d K=%d: %d is too low", alpha, beta, k, n)
	}
}

func TestNoisySampling_InvalidParameters_AreRefused(t *testing.T) {
	one := eps("1")
	wantInvalid(t, "is 0")(NoisySampling(eps("0"), one, at(0), 1, 1))
	wantInvalid(t, "is 0")(NoisySampling(one, eps("0"), at(0), 1, 1))
	wantInvalid(t, "start is not")(NoisySampling(one, one, time.Time{}, 1, 1))
	wantInvalid(t, "period")(NoisySampling(one, one, at(0), 0, 1))
	wantInvalid(t, "period")(NoisySampling(one, one, at(0), -1, 1))
	wantInvalid(t, "rounds")(NoisySampling(one, one, at(0), 1, 0))
	wantInvalid(t, "rounds")(NoisySampling(one, one, at(0), 1, -1))
	wantInvalid(t, "rounds")(NoisySampling(one, one, at(0), 1, maxSteps+1))
}
