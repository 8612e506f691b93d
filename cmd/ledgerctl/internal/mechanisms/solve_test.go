package mechanisms

import (
	"strconv"
	"strings"
	"testing"
)

func TestParseProbability_DecimalsFromZeroToOne_AreAccepted(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "1": 1, "0.25": 0.25, ".5": 0.5, "5e-1": 0.5, "1.0": 1, "1e-999": 0} {
		if got, err := parseProbability(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " ", " 0.5", "NaN", "nan", "Inf", "-Inf", "-0", "-0.1", "1.1", "1e999", "0x1p-1", "0,5", "1_0e-2", "½", "0.5 %"} {
		if got, err := parseProbability(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// FuzzParseProbability checks that every accepted text is a decimal number from 0 to 1, with the
// value that package strconv parses.
func FuzzParseProbability(f *testing.F) {
	for _, text := range []string{"", "0", "1", "-0", "+1", "1e-400", "0x1p-2", "1_0", "NaN", "Inf", ".5", "5.", "1e", "0.30000000000000004", "1.0000000000000001"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseProbability(text)
		if err != nil {
			return
		}
		if !(p >= 0 && p <= 1) || strings.ContainsAny(text, "xXpP_nNiI \t") || strings.HasPrefix(text, "-") && p != 0 {
			t.Fatalf("%q became %v", text, p)
		}
		if again, err := parseProbability(strconv.FormatFloat(p, 'g', -1, 64)); err != nil || again != p {
			t.Fatalf("%q became %v, and then %v, %v", text, p, again, err)
		}
	})
}
