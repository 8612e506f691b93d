package input

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestGuarded_Formulas_GetAnApostrophe(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+cmd|x": "'+cmd|x", "-2+3": "'-2+3", "@SUM(A1)": "'@SUM(A1)", "\tx": "'\tx", "\rx": "'\rx", "＝1": "'＝1", "-": "'-", "+": "'+",
		"-5": "-5", "+1.5e-3": "+1.5e-3", "-Inf": "'-Inf", "-0x1p4": "'-0x1p4", "-1_0": "'-1_0",
		"": "", "'": "'", "anna": "anna", "'anna": "'anna", "a=b": "a=b", "\xff": "\xff",
		"'=x": "''=x", "''=x": "'''=x", "'-5": "'-5",
	} {
		got := guarded(text)
		check.That(t, got == want, "guarded(%q) = %q, want %q", text, got, want)
		if back := plain(got); back != text {
			t.Errorf("plain(guarded(%q)) = %q", text, back)
		}
	}
	for cell, want := range map[string]string{"'=x": "=x", "=x": "=x", "'x": "'x", "'-5": "'-5", "'": "'", "": ""} {
		if got := plain(cell); got != want {
			t.Errorf("plain(%q) = %q, want %q", cell, got, want)
		}
	}
}

// FuzzGuarded checks that a guarded text can be read back, and that no spreadsheet runs it.
func FuzzGuarded(f *testing.F) {
	for _, text := range []string{"", "'", "=1", "'=1", "''+", "-5", "\xff", "'\xff", "+1e", "＋"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cell := guarded(text)
		if plain(cell) != text || isFormula(cell) {
			t.Fatalf("%q is written as %q and read as %q", text, cell, plain(cell))
		}
	})
}
