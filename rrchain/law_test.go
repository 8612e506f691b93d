package rrchain

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// bridgeRow is a row of bridge.json.
type bridgeRow struct {
	M         int64  `json:"m"`
	Lo        string `json:"eps_lo"`
	Mid       string `json:"eps_mid"`
	Hi        string `json:"eps_hi"`
	Stay      string `json:"degrade_hi_to_lo_stay"`
	EachOther string `json:"degrade_hi_to_lo_each_other"`
	Equal     struct {
		Stay      string `json:"stay"`
		EachOther string `json:"each_other"`
	} `json:"mid_given_lo_equals_hi"`
	Differs struct {
		EqualsHi  string `json:"equals_hi"`
		EqualsLo  string `json:"equals_lo"`
		EachThird string `json:"each_third"`
	} `json:"mid_given_lo_differs_from_hi"`
}

func TestLaw_DegradeAndInsert_AgreeWithVectors(t *testing.T) {
	for _, row := range vectors[bridgeRow](t, "bridge.json") {
		lo, mid, hi := eps(row.Lo).Nano(), eps(row.Mid).Nano(), eps(row.Hi).Nano()
		name := fmt.Sprintf("m=%d, %s, %s, %s: ", row.M, row.Lo, row.Mid, row.Hi)

		degrade := trueOdds(law{m: row.M, at: lo, above: hi})
		wantNear(t, name+"degraded, stays", degrade.same, row.Stay, 1e-13)
		wantNear(t, name+"degraded, moves", degrade.other, row.EachOther, 1e-13)

		insert := trueOdds(law{m: row.M, below: lo, at: mid, above: hi})
		wantNear(t, name+"inserted between equal ones, stays", insert.same, row.Equal.Stay, 1e-13)
		wantNear(t, name+"inserted between equal ones, moves", insert.other, row.Equal.EachOther, 1e-13)
		wantNear(t, name+"inserted as the one above", insert.above, row.Differs.EqualsHi, 1e-13)
		wantNear(t, name+"inserted as the one below", insert.below, row.Differs.EqualsLo, 1e-13)
		if row.M > 2 {
			wantNear(t, name+"inserted as a third value", insert.third, row.Differs.EachThird, 1e-13)
		}
	}
}

// Without a level below, any value may be passed as its response. That value is no more likely than
// a third one, and the value above is as likely as if both were the same.
func TestLaw_NoLevelBelow_IgnoresItsResponse(t *testing.T) {
	for _, l := range []law{
		{m: 2, at: 1, above: truthAbove},
		{m: 5, at: 1_000_000_000, above: truthAbove},
		{m: 5, at: 100_000_000, above: 1_000_000_000},
		{m: maxValues, at: 999_999_999_999, above: 1_000_000_000_000},
	} {
		o := oddsOf(l.m, l.weights(2000)) // the last one redraws with a probability of 10⁻⁴³⁸
		wantNear(t, fmt.Sprintf("%+v below", l), o.below, o.third, 1e-60)
		wantNear(t, fmt.Sprintf("%+v same", l), o.same, o.above, 1e-60)
		wantNear(t, fmt.Sprintf("%+v other", l), o.other, o.third, 1e-60)
	}
}

// The closed form of the paper, and the sampler's law with the true value as the response above,
// must agree with the reference numbers.
func TestKernel_AndSamplerLaw_AgreeWithVectors(t *testing.T) {
	for _, row := range vectors[kernelRow](t, "kernel.json") {
		k := must(NewKernel(row.M, eps(row.From), eps(row.To)))
		m := int64(row.M)
		o := trueOdds(law{m, k.From.Nano(), k.To.Nano(), truthAbove})
		for _, c := range []struct {
			name   string
			law    any
			kernel float64
			vector string
		}{
			{"p_aa", o.same, k.PAA, row.PAA},
			{"1−p_aa", mul(o.other, m-1), k.OneMinusPAA, row.OneMinusPAA},
			{"p_ba", o.above, k.PBA, row.PBA},
			{"p_bb", o.below, k.PBB, row.PBB},
			{"p_bc", o.third, k.PBC, row.PBC},
		} {
			wantNear(t, row.String()+" kernel and vector "+c.name, c.kernel, c.vector, 1e-13)
			if c.name == "p_bc" && m == 2 {
				continue // there is no third value
			}
			wantNear(t, row.String()+" law and vector "+c.name, c.law, c.vector, 1e-28)
		}
	}
}

// kernelRow is a row of kernel.json.
type kernelRow struct {
	M           int    `json:"m"`
	From        string `json:"eps_from"`
	To          string `json:"eps_to"`
	PAA         string `json:"p_aa"`
	OneMinusPAA string `json:"one_minus_p_aa"`
	PBA         string `json:"p_ba"`
	PBB         string `json:"p_bb"`
	PBC         string `json:"p_bc"`
}

func (r kernelRow) String() string { return fmt.Sprintf("m=%d, %s→%s", r.M, r.From, r.To) }

// pan2024 Tables I, II and III have the kernel to three decimals, for the raises 0.1→0.5, 0.5→1,
// 1→2 and 2→10.
func TestKernel_Rounded_AgreesWithPaperTables(t *testing.T) {
	steps := []string{"0.1", "0.5", "1", "2", "10"}
	for _, table := range []struct {
		name  string
		entry func(Kernel) float64
		rows  string
	}{
		{"I: p_aa", func(k Kernel) float64 { return k.PAA }, `
			3 0.584 0.840 0.943 1.000
			4 0.511 0.802 0.922 1.000
			5 0.463 0.775 0.906 1.000
			6 0.430 0.755 0.891 1.000
			7 0.405 0.740 0.879 1.000
			8 0.386 0.728 0.869 1.000
			9 0.371 0.718 0.860 1.000
			10 0.359 0.710 0.852 1.000`},
		{"II: p_bb", func(k Kernel) float64 { return k.PBB }, `
			3 0.392 0.509 0.347 0.000
			4 0.342 0.486 0.339 0.000
			5 0.310 0.470 0.333 0.000
			6 0.288 0.458 0.328 0.000
			7 0.272 0.449 0.324 0.000
			8 0.259 0.442 0.320 0.000
			9 0.249 0.436 0.316 0.000
			10 0.241 0.431 0.314 0.000`},
		{"III: p_ba", func(k Kernel) float64 { return k.PBA }, `
			3 0.379 0.359 0.575 1.000
			4 0.297 0.296 0.520 1.000
			5 0.245 0.252 0.474 1.000
			6 0.208 0.219 0.436 0.999
			7 0.181 0.194 0.403 0.999
			8 0.160 0.174 0.375 0.999
			9 0.143 0.158 0.351 0.999
			10 0.130 0.144 0.330 0.999`},
	} {
		for row := range strings.Lines(strings.TrimSpace(table.rows)) {
			cells := strings.Fields(row)
			m := must(strconv.Atoi(cells[0]))
			for i, printed := range cells[1:] {
				k := must(NewKernel(m, eps(steps[i]), eps(steps[i+1])))
				if got := fmt.Sprintf("%.3f", table.entry(k)); got != printed {
					t.Errorf("Table %s, m=%d, %s→%s: %s (%v), the paper prints %s", table.name, m, steps[i], steps[i+1], got, table.entry(k), printed)
				}
			}
		}
	}
}

func TestKernel_ToTheSameEpsilon_IsTheIdentity(t *testing.T) {
	for _, m := range []int{2, 3, maxValues} {
		for _, e := range []string{"0", "0.000000001", "1", "1000"} {
			got, err := NewKernel(m, eps(e), eps(e))
			want := Kernel{Values: m, From: eps(e), To: eps(e), PAA: 1, PBB: 1}
			check.That(t, err == nil && got == want, "m=%d, ε=%s: %+v, %v; want %+v", m, e, got, err, want)
		}
	}
}

// A response at ε = 0 is noise, so the next response depends only on the true value.
func TestKernel_FromZeroEpsilon_IsRandomizedResponse(t *testing.T) {
	for _, m := range []int{2, 3, 1000, maxValues} {
		for _, e := range []string{"0.1", "1", "20", "700"} {
			k := must(NewKernel(m, privacy.Epsilon{}, eps(e)))
			name := fmt.Sprintf("m=%d, 0→%s ", m, e)
			p, q := response(int64(m), k.To.Nano())
			wantNear(t, name+"p_aa", k.PAA, p, 1e-13)
			wantNear(t, name+"p_ba", k.PBA, p, 1e-13)
			wantNear(t, name+"p_bb", k.PBB, q, 1e-13)
			wantNear(t, name+"1−p_aa", k.OneMinusPAA, mul(q, m-1), 1e-13)
			if m > 2 {
				wantNear(t, name+"p_bc", k.PBC, q, 1e-13)
			}
		}
	}
}

// Random kernels must agree with the law of the sampler, for any m and any ε from 0 on. The
// relative error is checked for all probabilities above 10⁻³⁰⁰. Below that, floats lose digits.
func TestKernel_RandomEpsilons_AreAccurate(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		m := 2 + random.Int64N(maxValues-1)>>random.IntN(20)
		from := random.Int64N(privacy.MaxEpsilon().Nano()) >> random.IntN(41)
		to := from + 1 + random.Int64N(privacy.MaxEpsilon().Nano()-from)>>random.IntN(40)
		k := must(NewKernel(int(m), fromNano(from), fromNano(to)))
		o := oddsOf(m, law{m, from, to, truthAbove}.weights(1100)) // 10⁻³⁰⁰ is 2⁻⁹⁹⁷
		for _, c := range []struct {
			name  string
			float float64
			exact *big.Float
		}{
			{"p_aa", k.PAA, o.same}, {"1−p_aa", k.OneMinusPAA, mul(o.other, m-1)},
			{"p_ba", k.PBA, o.above}, {"p_bb", k.PBB, o.below}, {"p_bc", k.PBC, o.third},
		} {
			if c.name == "p_bc" && m == 2 || c.exact.Cmp(number("1e-300")) < 0 {
				continue
			}
			wantNear(t, fmt.Sprintf("m=%d, %v→%v: %s", m, k.From, k.To, c.name), c.float, c.exact, 1e-14)
		}
	}
}

// For the largest ε and m, rows sum to 1, no number overflows, and a probability too small for a
// float64 is 0.
func TestKernel_ExtremeEpsilons_StayProbabilities(t *testing.T) {
	levels := []string{"0", "0.000000001", "0.5", "37", "700", "999.999999999", "1000"}
	for _, m := range []int{2, 3, maxValues} {
		for i, from := range levels {
			for _, to := range levels[i:] {
				k := must(NewKernel(m, eps(from), eps(to)))
				name := fmt.Sprintf("m=%d, %s→%s: ", m, from, to)
				wantNear(t, name+"row of the true value", k.PAA+k.OneMinusPAA, 1, 1e-15)
				wantNear(t, name+"row of a false value", k.PBA+k.PBB+float64(m-2)*k.PBC, 1, 1e-13)
				for _, p := range []float64{k.PAA, k.OneMinusPAA, k.PBA, k.PBB, k.PBC} {
					check.That(t, p >= 0 && p <= 1, "%s%v is no probability (%+v)", name, p, k)
				}
			}
		}
	}
	k, err := NewKernel(2, eps("1"), privacy.MaxEpsilon())
	check.That(t, err == nil && k.PAA == 1 && k.PBA == 1 && k.OneMinusPAA == 0 && k.PBB == 0, "1→1000: %+v, %v", k, err)
}

func TestNewKernel_InvalidArguments_AreRefused(t *testing.T) {
	one, two := eps("1"), eps("2")
	for _, c := range []struct {
		m        int
		from, to privacy.Epsilon
		names    string
	}{
		{2, two, one, "from 2 to a higher ε, not to 1"},
		{2, one, privacy.Epsilon{}, "from 1 to a higher ε, not to 0"},
		{1, one, two, "1 values"},
		{0, one, two, "0 values"},
		{-3, one, two, "-3 values"},
		{maxValues + 1, one, two, "1048577 values"},
		{math.MaxInt, one, two, "a question has 2 to 1048576"},
	} {
		_, err := NewKernel(c.m, c.from, c.to)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"NewKernel(%d, %v, %v): %v, want an error that names %q", c.m, c.from, c.to, err, c.names)
	}
}
