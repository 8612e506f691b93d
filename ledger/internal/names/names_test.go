package names

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

func TestCheck(t *testing.T) {
	for _, name := range []string{"a", " ", "René", "Rene\u0301", "ac\u200bme", strings.Repeat("x", MaxBytes), strings.Repeat("é", MaxBytes/2), "\ufffd", "\U0010ffff"} {
		if err := Check("object", name); err != nil {
			t.Errorf("%+q: %v", name, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", MaxBytes+1), strings.Repeat("é", MaxBytes/2+1), "a\x00", "\n", "\x7f", "\u0085", "\xff", "a\xc3"} {
		if err := Check("object", name); !errors.Is(err, errs.ErrInvalid) || !strings.Contains(err.Error(), "the object") {
			t.Errorf("%+q: %v", name, err)
		}
	}
}

// Each fault is found at the byte where it stands; nothing in front of it or behind hides it.
func TestFault(t *testing.T) {
	faulty := map[string]int{"Rene\u0301": 3, "\u212bngstrom": 0, "ac\u200bme": 2, "ac\u200dme": 2, "acme\u200c": 4, "\ufeffacme": 0, "acme\u202e": 4, "ac\ufe0fme": 2, "acme\ufffd": 4}
	for name, at := range faulty {
		for _, with := range []struct {
			name string
			at   int
		}{{name, at}, {"b " + name, at + 2}, {name + " b", at}} {
			if fault, got := Fault(with.name); fault == "" || got != with.at {
				t.Errorf("%+q: %q at %d, want one at %d", with.name, fault, got, with.at)
			}
		}
	}
	for _, name := range []string{"René", "Ångström", "日本語", "नमस्ते", "😀", "\u0645\u06cc\u200c\u062e", "\u0d9a\u0dca\u200d\u0dbb"} {
		if fault, at := Fault(name); fault != "" {
			t.Errorf("%+q: %s at %d", name, fault, at)
		}
	}
}

func TestCheckObjects(t *testing.T) {
	given := []string{"bob", "ann", "é"}
	if got, err := CheckObjects(given); err != nil || !slices.Equal(got, []string{"ann", "bob", "é"}) || given[0] != "bob" {
		t.Errorf("%q, %v; given %q", got, err, given)
	}
	for _, bad := range [][]string{nil, {}, {"ann", ""}, {"ann", "bob", "ann"}} {
		if _, err := CheckObjects(bad); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestCheckAsked(t *testing.T) {
	if got, err := CheckAsked(nil, true, 2); got != nil || err != nil {
		t.Errorf("all: %q, %v", got, err)
	}
	if got, err := CheckAsked([]string{"bob", "ann"}, false, 2); err != nil || !slices.Equal(got, []string{"ann", "bob"}) {
		t.Errorf("two: %q, %v", got, err)
	}
	for _, bad := range []struct {
		names []string
		all   bool
	}{{nil, false}, {[]string{}, true}, {[]string{"a"}, true}, {[]string{}, false}, {[]string{"a", "b", "c"}, false}} {
		if _, err := CheckAsked(bad.names, bad.all, 2); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("%q, all %v: %v", bad.names, bad.all, err)
		}
	}
}
