package rrchain

import (
	"fmt"
	"testing"
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

func TestBridgeVectors(t *testing.T) {
	for _, row := range vectors[bridgeRow](t, "bridge.json") {
		lo, mid, hi := eps(t, row.Lo).Nano(), eps(t, row.Mid).Nano(), eps(t, row.Hi).Nano()
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

// TestNoWeightBelowNothing checks that without a level below any value may stand for its response:
// that value is no more likely than a third one, and the value above is as likely as when both are
// the same.
func TestNoWeightBelowNothing(t *testing.T) {
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

// TestTheOneLawContainsTheKernel holds the law that the sampler draws by, with the truth as the
// response above, against the closed form of the paper.
func TestTheOneLawContainsTheKernel(t *testing.T) {
	for _, row := range vectors[kernelRow](t, "kernel.json") {
		k := must(NewKernel(row.M, eps(t, row.From), eps(t, row.To)))
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
			if c.name == "p_bc" && m == 2 {
				continue // there is no third value
			}
			wantNear(t, row.String()+" law and kernel "+c.name, c.law, c.kernel, 1e-13)
			wantNear(t, row.String()+" law and vector "+c.name, c.law, c.vector, 1e-28)
		}
	}
}
