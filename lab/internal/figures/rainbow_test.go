package figures

import "testing"

func TestSpread_SomeNumbers_AscendsFromFirstToLast(t *testing.T) {
	for _, test := range []struct{ n, most int }{{1, 10}, {2, 10}, {10, 10}, {11, 10}, {1_000_001, 1000}} {
		got := spread(test.n, test.most)
		if len(got) != min(test.n, test.most) || got[0] != 0 || got[len(got)-1] != test.n-1 {
			t.Errorf("%+v: %d numbers, %d to %d", test, len(got), got[0], got[len(got)-1])
		}
		for i := 1; i < len(got); i++ {
			if got[i] <= got[i-1] {
				t.Errorf("%+v: %d after %d", test, got[i], got[i-1])
			}
		}
	}
}

// Curves whose colours come again have other marks.
func TestRankLook_AllRanks_AreDifferent(t *testing.T) {
	seen := map[[2]int]bool{}
	for rank := range MaxCurves {
		look := rankLook(rank)
		seen[[2]int{look.color % 8, look.mark % 8}] = true
		if look.dash == thresholdDash {
			t.Errorf("rank %d has the dashes of thresholds", rank)
		}
	}
	if len(seen) != MaxCurves {
		t.Errorf("%d looks for %d ranks", len(seen), MaxCurves)
	}
}
