package privacy

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestParseEpsilon_Decimals_AreExact(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0.0": 0, "0e9": 0, "0e999": 0, "0.1": 100_000_000, "1": 1_000_000_000, "2.5": 2_500_000_000,
		"0.000000001": 1, "1e-9": 1, "1E-9": 1, "12e-1": 1_200_000_000, "1e3": 1_000_000_000_000, "1e+2": 100_000_000_000,
		"1000": 1_000_000_000_000, "1000.000000000": 1_000_000_000_000, "999.999999999": 999_999_999_999,
		"0.100000000": 100_000_000, "1234e-3": 1_234_000_000, "0.00000001e1": 100,
		"0." + strings.Repeat("0", 58) + "1e50": 1, // 64 characters, as many as there may be
	} {
		got, err := ParseEpsilon(text)
		if err != nil || got.Nano() != want {
			t.Errorf("ParseEpsilon(%q) = %d, %v; want %d", text, got.Nano(), err, want)
		}
	}
}

func TestParse_InvalidText_ReturnsParseError(t *testing.T) {
	refused := []string{
		"", " ", " 1", "1 ", "-1", "+1", "-0", "NaN", "nan", "Inf", "inf", "0x1", "1_000", "1,5", "1.", ".5", "01", "00", "1e", "1e+",
		"1e1.5", "1e-10", "10e-10", "1.5e-9", "0.0000000001", "1.0000000000", "1000.000000001", "1001", "1e4", "1e999", "1e9999",
		"1e-999", "٣", "1\x00", "½", "1e--1", "1ee1", strings.Repeat("1", 65), "0." + strings.Repeat("0", 59) + "1e51", "1" + strings.Repeat("0", 63), "9223372036854775808", "18446744073709551617",
	}
	for _, text := range refused {
		got, err := ParseEpsilon(text)
		var parseErr *ParseError
		if !errors.As(err, &parseErr) || got != (Epsilon{}) {
			t.Errorf("ParseEpsilon(%q) = %v, %v; want a ParseError", text, got, err)
			continue
		}
		if parseErr.Kind != "epsilon" || parseErr.Reason == "" || len(parseErr.Text) > 64 {
			t.Errorf("ParseEpsilon(%q): error %#v", text, parseErr)
		}
	}
	for _, text := range []string{"1", "1.0", "1e0", "-0.1", "0.9999999999", "NaN"} {
		if got, err := ParseDelta(text); err == nil {
			t.Errorf("ParseDelta(%q) = %v; want an error", text, got)
		}
	}
}

func TestMustEpsilon_InvalidText_Panics(t *testing.T) {
	if got, err := ParseEpsilon("0.25"); err != nil || MustEpsilon("0.25") != got {
		t.Errorf("%v, %v", MustEpsilon("0.25"), err)
	}
	defer func() {
		if err, is := recover().(*ParseError); !is || err == nil {
			t.Errorf("MustEpsilon of an invalid text: %v", err)
		}
	}()
	MustEpsilon("-1")
}

func TestParseError_NamesTextAndReason(t *testing.T) {
	_, err := ParseEpsilon("1.0000000001")
	if want := `invalid epsilon "1.0000000001": has more than 9 decimals, and is never rounded`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	for _, text := range []string{"1e0001", "1e-0009", "1E+0000", "0e9999"} {
		_, err = ParseEpsilon(text)
		if want := "invalid epsilon \"" + text + "\": has an exponent of more than 3 digits"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if e, err := ParseEpsilon("0." + strings.Repeat("1", 9) + "e001"); err != nil || e.Nano() != 1_111_111_110 {
		t.Errorf("exponent of three digits: %v, %v", e, err)
	}
	_, err = ParseDelta("1")
	if want := `invalid delta "1": is above 0.999999999`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = ParseEpsilon(strings.Repeat("é", 1000))
	if len(err.Error()) > 150 {
		t.Errorf("error of %d bytes repeats hostile text", len(err.Error()))
	}
}

func TestString_IsShortestAndParsesBack(t *testing.T) {
	for nano, want := range map[int64]string{
		0: "0", 1: "0.000000001", 10: "0.00000001", 100_000_000: "0.1", 1_000_000_000: "1", 1_500_000_000: "1.5",
		maxEpsilonNano: "1000", maxEpsilonNano - 1: "999.999999999",
	} {
		e, err := EpsilonFromNano(nano)
		if err != nil || e.String() != want {
			t.Errorf("%d: %q, %v; want %q", nano, e, err, want)
		}
		if back, err := ParseEpsilon(e.String()); err != nil || back != e {
			t.Errorf("%q reads back as %v, %v", e, back, err)
		}
	}
	if d, err := ParseDelta("0.999999999"); err != nil || d.String() != "0.999999999" {
		t.Errorf("largest delta %q, %v", d, err)
	}
}

func TestEpsilonFromNano_OutOfRange_IsRefused(t *testing.T) {
	for _, n := range []int64{-1, maxEpsilonNano + 1, math.MinInt64, math.MaxInt64} {
		if _, err := EpsilonFromNano(n); !errors.Is(err, ErrRange) {
			t.Errorf("EpsilonFromNano(%d): %v", n, err)
		}
	}
}

func TestEpsilon_Arithmetic_IsExactAndChecked(t *testing.T) {
	one, _ := ParseEpsilon("1")
	half, _ := ParseEpsilon("0.5")
	if sum, err := one.Add(half); err != nil || sum.String() != "1.5" {
		t.Errorf("1 + 0.5 = %v, %v", sum, err)
	}
	if diff, err := one.Sub(half); err != nil || diff.String() != "0.5" {
		t.Errorf("1 - 0.5 = %v, %v", diff, err)
	}
	if diff, err := half.Sub(one); !errors.Is(err, ErrRange) || !diff.IsZero() {
		t.Errorf("0.5 - 1 = %v, %v", diff, err)
	}
	if _, err := MaxEpsilon().Add(Epsilon{1}); !errors.Is(err, ErrRange) {
		t.Errorf("1000 + 1e-9: %v", err)
	}
	if !half.Less(one) || one.Less(half) || one.Less(one) {
		t.Error("Less is wrong")
	}
	if one.Compare(half) != 1 || half.Compare(one) != -1 || one.Compare(one) != 0 {
		t.Error("Compare is wrong")
	}
	if one.IsZero() || !(Epsilon{}).IsZero() || one.Float64() != 1 || half.Float64() != 0.5 {
		t.Error("IsZero or Float64 is wrong")
	}
	d, err := ParseDelta("0.6")
	if err != nil || d.Nano() != 600_000_000 {
		t.Errorf("0.6 is %d, %v", d.Nano(), err)
	}
	if d.IsZero() || !(Delta{}).IsZero() || d.Float64() != 0.6 {
		t.Error("IsZero or Float64 of delta is wrong")
	}
}

func TestJSON_OnlyStrings_AreAccepted(t *testing.T) {
	type pair struct {
		E Epsilon `json:"e"`
		D Delta   `json:"d"`
	}
	var p pair
	if err := json.Unmarshal([]byte(`{"e":"0.1","d":"0.01"}`), &p); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(p); err != nil || string(out) != `{"e":"0.1","d":"0.01"}` {
		t.Errorf("%s, %v", out, err)
	}
	before := p
	for _, text := range []string{`{"e":0.1}`, `{"e":null}`, `{"e":"x"}`, `{"d":1e-3}`, `{"d":"1"}`, `{"e":["1"]}`, `{"d":{}}`} {
		if err := json.Unmarshal([]byte(text), &p); err == nil || p != before {
			t.Errorf("%s: error %v, value %v", text, err, p)
		}
	}
	if err := p.E.UnmarshalJSON([]byte(`"\x"`)); err == nil {
		t.Error("a broken JSON string was accepted")
	}
	var e Epsilon
	if err := e.UnmarshalText([]byte("0.25")); err != nil || e.String() != "0.25" {
		t.Errorf("%v, %v", e, err)
	}
}

// exactRat parses text independently of ParseEpsilon, for comparison.
func exactRat(text string) (*big.Rat, bool) { return new(big.Rat).SetString(text) }

func FuzzParseEpsilon(f *testing.F) {
	for _, seed := range []string{"0", "0.1", "1e-9", "1000", "1e3", "-1", "NaN", "1e-10", "0.0000000001", "00", "1.", "9e99", "0x10", "1/3", "1_0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseEpsilon(text)
		if err != nil {
			var parseErr *ParseError
			if !errors.As(err, &parseErr) {
				t.Fatalf("%q: untyped error %v", text, err)
			}
			return
		}
		exact, ok := exactRat(text)
		if !ok || exact.Cmp(big.NewRat(e.Nano(), nanos)) != 0 {
			t.Fatalf("%q became %v", text, e)
		}
		if e.Nano() < 0 || e.Nano() > maxEpsilonNano {
			t.Fatalf("%q became %d, out of range", text, e.Nano())
		}
		if back, err := ParseEpsilon(e.String()); err != nil || back != e {
			t.Fatalf("%q prints as %q and reads back as %v, %v", text, e, back, err)
		}
	})
}

func FuzzParseDelta(f *testing.F) {
	for _, seed := range []string{"0", "0.5", "1e-9", "1", "0.999999999", "1e-10"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDelta(text)
		if err != nil {
			return
		}
		exact, ok := exactRat(text)
		if !ok || exact.Cmp(big.NewRat(d.Nano(), nanos)) != 0 || d.Nano() >= nanos {
			t.Fatalf("%q became %v", text, d)
		}
	})
}
