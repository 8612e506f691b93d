package state

import (
	"testing"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// A log may change between any number of policies. An audit reads each of them once.
func TestCache_OfAnAudit_ReadsEachPolicyOnce(t *testing.T) {
	const many = 3 * maxCached
	for _, all := range []bool{true, false} {
		c, loads := &Cache{All: all}, 0
		for range 3 {
			for number := range uint32(many) {
				_, err := remember(c, &c.policies, number, func(uint32) (policy.Policy, error) {
					loads++
					return policy.Fixed(privacy.MaxEpsilon()), nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if all && (loads != many || len(c.policies) != many) || !all && len(c.policies) > maxCached {
			t.Errorf("all %v: %d loads, %d are kept", all, loads, len(c.policies))
		}
	}
}

// Memory for levels is asked for again and again only while the chains become longer.
func TestLevelPage_LongChain_IsReadIntoTheSameMemory(t *testing.T) {
	record := Chain{Levels: make([]Level, 1000)}
	for i := range record.Levels {
		e, err := privacy.EpsilonFromNano(int64(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		record.Levels[i].Epsilon, record.Levels[i].Event = e, 1
	}
	payload := record.Encode()
	page := LevelPage{Page: make([]Level, 4)}
	if n := testing.AllocsPerRun(20, func() {
		page.Clear()
		c, err := page.decodeChain(payload)
		if err != nil || len(c.Levels) != len(record.Levels) {
			t.Errorf("%d levels, %v", len(c.Levels), err)
		}
	}); n > 0.5 {
		t.Errorf("%v allocations", n)
	}
}
