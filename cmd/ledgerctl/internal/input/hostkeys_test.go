package input

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestParseSecret_DigitsOrBytes_AreAccepted(t *testing.T) {
	raw := []byte("0123456789 abcdef\x00\xff 0123456789\r\n")
	for text, want := range map[string][]byte{
		string(raw):                             raw,
		strings.Repeat("0aF1", 16):              bytes.Repeat([]byte{0x0a, 0xf1}, 16),
		strings.Repeat("0aF1", 16) + "\r\n":     bytes.Repeat([]byte{0x0a, 0xf1}, 16),
		strings.Repeat("ab", 16):                bytes.Repeat([]byte{0xab}, 16),
		strings.Repeat("ab", 1024) + "\n":       bytes.Repeat([]byte{0xab}, 1024),
		strings.Repeat("ab", 15):                nil,
		strings.Repeat("ab", 1025):              nil,
		strings.Repeat("ab", 16) + "a":          nil,
		" " + strings.Repeat("ab", 32):          nil,
		strings.Repeat("ab", 32) + "\n\n" + "0": nil,
		string(raw) + "\n":                      nil,
		string(raw[1:]):                         nil,
		"":                                      nil,
		"\n":                                    nil,
	} {
		key, ok := parseSecret([]byte(text))
		check.That(t, ok == (want != nil) && (!ok || bytes.Equal(key, want)), "%q: key %x, %v; want %x", text, key, ok, want)
	}
}

// FuzzParseSecret checks that a key is the value of the digits, or the bytes themselves, and has an
// allowed length.
func FuzzParseSecret(f *testing.F) {
	digits := strings.Repeat("0f", 32)
	for _, text := range []string{"", "\n", "0", digits, digits + "\n", digits + "\r\n", " " + digits, digits + "\n" + digits, strings.ToUpper(digits), strings.Repeat("\x00", 32), strings.Repeat("0", 33), strings.Repeat("a", 1<<16)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		key, ok := parseSecret(text)
		check.Need(t, bytes.Equal(before, text), "the text has changed")
		if !ok {
			return
		}
		written := strings.TrimRight(string(text), "\r\n")
		check.Need(t, string(key) == string(text) || hex.EncodeToString(key) == strings.ToLower(written), "%q became %x", text, key)
		if len(key) != noiseKeySize && (len(key) < leastSecret || len(key) > mostSecret) {
			t.Fatalf("%q became a key of %d bytes", text, len(key))
		}
	})
}
