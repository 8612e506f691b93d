package event

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/policy"
)

// faulty returns invalid names, with the byte at which the fault begins.
func faulty() map[string]int {
	return map[string]int{
		" 17": 0, "17 ": 2, "17   ": 2, " ": 0, "   ": 0, "a  b": 1, "a\tb": 1, "\n": 0, "a\x00": 1, "\x7f": 0, "\u0085": 0,
		"17\u00a0": 2, "1\u20037": 1, "17\u3000": 2, "17\u202f": 2, "17\u1680": 2, "17\u2028": 2, "\u205f17": 0, // white space
		"17\u2800": 2, "17\u115f": 2, "17\u1160": 2, "17\u3164": 2, "17\uffa0": 2, "17\U00013441": 2, "17\U0001d159": 2, // look like it
		"ac\u200bme": 2, "acme\u202e": 4, "ac\u2066me": 2, "ac\u061cme": 2, "ac\u00adme": 2, "\ufeffacme": 0, "ac\u2060me": 2, // format
		"ac\ufe0fme": 2, "ac\U000e0101me": 2, "ac\u180bme": 2, "ac\u034fme": 2, "ac\u17b4me": 2, "ac\U000e0041me": 2, // ignorable
		"ac\ufffcme": 2, "ac\U00016fe4me": 2,
		"acme\ufffd": 4, "a\ue000": 1, "a\U00100000": 1, "a\u0378": 1, "a\uffff": 1, "a\U0010ffff": 1, // without a defined appearance
		"Rene\u0301": 3, "\u212bngstrom": 0, // not in NFC
		"ac\u200dme": 2, "acme\u200c": 4, "\u200cacme": 0, // joiners between letters that do not join
		"\u0645\u06cc\u200d\u062e": 4, "\u0645\u06cc\u200c": 4, "\u0645\u06cc\u200c\u200c\u062e": 4,
		"\u0627\u200c\u062e":       2, // alef does not join the letter after it
		"\u0628\u064e\u200c\u0621": 4, // hamza joins nothing
		"\u0915\u094d\u200c":       6,
	}
}

// faultless returns valid names that are close to invalid ones.
func faultless() []string {
	return []string{
		"a", "17", "a b", "a b c", "René", "Ångström", "Дарья", "日本語", "नमस्ते", "😀", "O'Neill", "=1+1", "~", "\u1e9b\u0323", "\uff21", "한국",
		"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", // Persian, with a non-joiner
		"\u0628\u064e\u200c\u0627",                         // the same, after a mark
		"\u0d9a\u0dca\u200d\u0dbb",                         // Sinhala, with a joiner after a virama
		"\u0915\u094d\u200c\u0937",                         // Devanagari, with a non-joiner after one
		strings.Repeat("x", MaxNameBytes), strings.Repeat("é", MaxNameBytes/2),
	}
}

// Each fault is reported at its byte, with other characters before and after it.
func TestCheckName_FaultyName_IsNameErrorAtItsByte(t *testing.T) {
	for name, at := range faulty() {
		with := map[string]int{name: at}
		if name[0] != ' ' {
			with["b "+name] = at + 2
		}
		if name[len(name)-1] != ' ' && at > 0 {
			with[name+"b"] = at
		}
		if strings.HasPrefix(name, "\u0915") || strings.HasSuffix(name, "\u200c") {
			delete(with, name+"b") // with a letter after the joiner, the name is valid
		}
		for name, at := range with {
			var fault *api.NameError
			err := CheckName("object", name)
			if !errors.As(err, &fault) || !errors.Is(err, errs.ErrInvalid) || *fault != (api.NameError{What: "object", Name: name, Offset: at, Fault: fault.Fault}) || fault.Fault == "" {
				t.Errorf("%+q: %v, want a fault at %d", name, err, at)
			}
		}
	}
	for _, name := range faultless() {
		check.WantErr(t, CheckName("object", name), nil, "%+q", name)
	}
}

func TestCheckName_SizeOrEncoding_IsInvalid(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", MaxNameBytes+1), strings.Repeat("é", MaxNameBytes/2+1), "\xff", "a\xc3"} {
		if err := CheckName("object", name); !errors.Is(err, errs.ErrInvalid) || !strings.Contains(err.Error(), "the object") || len(err.Error()) > 100 {
			t.Errorf("%+q: %v", name, err)
		}
	}
}

// Every character is either refused, or visible and in NFC.
func TestCheckName_EveryCharacter_IsVisibleOrRefused(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		err := CheckName("object", "a"+string(r))
		hides := unicode.In(r, unicode.Z, unicode.C, unicode.White_Space, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
			!unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
		check.That(t, !hides || err != nil, "%U is accepted", r)
		check.That(t, err != nil || norm.NFC.IsNormalString("a"+string(r)), "%U is accepted and not in NFC", r)
		if graphic := unicode.IsLetter(r) || unicode.IsNumber(r); graphic && !looksLikeSpace(r) && norm.NFC.IsNormalString("a"+string(r)) != (err == nil) {
			t.Errorf("%U: %v", r, err)
		}
	}
}

// FuzzCheck compares the fast path for plain names with the full check.
func FuzzCheck(f *testing.F) {
	for name := range faulty() {
		f.Add(name)
	}
	for _, name := range faultless() {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fault := ""
		if checkSize("object", name, MaxNameBytes) == nil {
			fault, _ = faultOf(name)
		}
		check.That(t, !isPlain(name) || fault == "" && checkSize("object", name, MaxNameBytes) == nil,
			"%+q is plain, and has %s", name, fault)
		if err := CheckName("object", name); err == nil && (strings.TrimSpace(name) != name || strings.Contains(name, "  ") || !norm.NFC.IsNormalString(name)) {
			t.Errorf("%+q is accepted", name)
		}
	})
}

func TestCheckText_ControlCharacter_IsInvalid(t *testing.T) {
	check.OK(t, CheckText("consent", " form of 1 March,  box 17 "))
	for _, text := range []string{"", "a\nb", "\xff", strings.Repeat("x", MaxText+1)} {
		check.WantErr(t, CheckText("consent", text), errs.ErrInvalid, "%q", text)
	}
}

func TestCheckPolicy_FaultyBuyer_IsNameError(t *testing.T) {
	for _, field := range []string{"buyers", "barred"} {
		p, err := policy.Parse([]byte(`{"kind":"market","max":"1","price":[["1",1]],"` + field + `":["acme "]}`))
		check.Must(t, err)
		var fault *api.NameError
		err = CheckPolicy(p)
		check.That(t, errors.As(err, &fault) && fault.What == "buyer" && fault.Offset == 4, "%s: %v", field, err)
	}
	check.OK(t, CheckPolicy(policy.Policy{}))
}

func TestCheckObjects_SortsOrIsInvalid(t *testing.T) {
	given := []string{"bob", "ann", "é"}
	if got, err := CheckObjects(given); err != nil || !slices.Equal(got, []string{"ann", "bob", "é"}) || given[0] != "bob" {
		t.Errorf("%q, %v; given %q", got, err, given)
	}
	for _, bad := range [][]string{nil, {}, {"ann", ""}, {"ann", "bob", "ann"}} {
		check.WantErr(t, check.Err(CheckObjects(bad)), errs.ErrInvalid, "%q", bad)
	}
}

func TestCheckAsked_SortsOrIsInvalid(t *testing.T) {
	got, err := CheckAsked(nil, true, 2)
	check.That(t, got == nil && err == nil, "all: %q, %v", got, err)
	if got, err := CheckAsked([]string{"bob", "ann"}, false, 2); err != nil || !slices.Equal(got, []string{"ann", "bob"}) {
		t.Errorf("two: %q, %v", got, err)
	}
	for _, bad := range []struct {
		names []string
		all   bool
	}{{nil, false}, {[]string{}, true}, {[]string{"a"}, true}, {[]string{}, false}, {[]string{"a", "b", "c"}, false}} {
		_, err := CheckAsked(bad.names, bad.all, 2)
		check.That(t, errors.Is(err, errs.ErrInvalid), "%q, all %v: %v", bad.names, bad.all, err)
	}
}
