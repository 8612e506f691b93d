package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/rrchain"
)

// What people put on the command line and into files. (FuzzReadCSV is beside the other tests of its reader.)

// FuzzParseSecret holds that a key is what the digits say, or the bytes themselves, and of a possible length.
func FuzzParseSecret(f *testing.F) {
	digits := strings.Repeat("0f", 32)
	for _, text := range []string{"", "\n", "0", digits, digits + "\n", digits + "\r\n", " " + digits, digits + "\n" + digits, strings.ToUpper(digits), strings.Repeat("\x00", 32), strings.Repeat("0", 33), strings.Repeat("a", 1<<16)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		key, ok := parseSecret(text)
		if !bytes.Equal(before, text) {
			t.Fatal("the text has changed")
		}
		if !ok {
			return
		}
		written := strings.TrimRight(string(text), "\r\n")
		if string(key) != string(text) && hex.EncodeToString(key) != strings.ToLower(written) {
			t.Fatalf("%q became %x", text, key)
		}
		if len(key) != rrchain.NoiseKeySize && (len(key) < leastSecret || len(key) > mostSecret) {
			t.Fatalf("%q became a key of %d bytes", text, len(key))
		}
	})
}

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
			if _, code := explain(err); code != exitUsage {
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

// Memory follows the input: a CSV file may have one field without end, or a header without end.
func TestNoInputTakesMuchMoreMemoryThanItHas(t *testing.T) {
	const size, fixed, times = 4 << 20, 2 << 20, 60
	for name, text := range map[string]string{
		"a quote without end":  "id,v\n\"" + strings.Repeat("x", size),
		"a field without end":  "id,v\n" + strings.Repeat("x", size),
		"a row of many fields": "id,v\n" + strings.Repeat(",", size),
		"a header without end": strings.Repeat("id,", size/3),
		"many short rows":      "id,v\n" + strings.Repeat("x\n", size/2),
		"blank lines":          "v\n" + strings.Repeat("\n", size),
		"zeros":                strings.Repeat("\x00", size),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range readCSV("file", strings.NewReader(text), columns{value: "v"}) {
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > fixed+times*uint64(len(text)) {
			t.Errorf("%s: %d bytes take %d", name, len(text), took)
		}
	}
}
