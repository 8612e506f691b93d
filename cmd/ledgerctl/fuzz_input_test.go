package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
)

// What people put on the command line and into files.

// FuzzParseProbability holds that what is accepted is a decimal number from 0 to 1, and what package strconv makes of it.
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

// FuzzReadFamily holds that a family is read as it is written.
func FuzzReadFamily(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"levels":[]}`, `{"levels":[{"rows":[["1"]]}]}`, `{"levels":[[["1/2","1/2"],["1/2","1/2"]]]}`,
		`{"levels":[{"rows":[["3/4","1/4"],["1/4","3/4"]]}],"channels":[]}`, `{"levels":[1],"channels":[2]}`, `{"channels":null}`, `{"levels":[],"more":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		family, err := readFamily(text)
		if err != nil {
			return
		}
		once, err := json.Marshal(family)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		second, err := readFamily(once)
		if err != nil {
			t.Fatalf("%s is written as %s: %v", text, once, err)
		}
		if again, err := json.Marshal(second); err != nil || !bytes.Equal(again, once) {
			t.Fatalf("%s is written as %s, and then as %s, %v", text, once, again, err)
		}
	})
}

// FuzzReadValues holds that the values of a file are its lines.
func FuzzReadValues(f *testing.F) {
	for _, text := range []string{"", "\n", "yes\nno\n", "yes\r\nno\r\n", "\ufeffyes\nno", "a\n\nb", " a\n", "a\r\rb\n", "\xff\n", "a\u2028b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "values")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		values, err := readValues([]string{"@" + path})
		if err != nil {
			if _, code := fault.Explain(err); code != fault.Misuse {
				t.Fatalf("exit code %d: %v", code, err)
			}
			return
		}
		for _, v := range values {
			if strings.TrimSpace(v) != v || strings.Contains(v, "\n") {
				t.Fatalf("%q has the value %q", text, v)
			}
		}
		got := strings.NewReplacer("\r", "", "\n", "", "\ufeff", "").Replace(strings.Join(values, ""))
		if want := strings.NewReplacer("\r", "", "\n", "", "\ufeff", "").Replace(text); got != want {
			t.Fatalf("%q has the values %q", text, values)
		}
	})
}
