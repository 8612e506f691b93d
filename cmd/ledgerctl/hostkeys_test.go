package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger"
)

func TestParseSecret(t *testing.T) {
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
		if ok != (want != nil) || ok && !bytes.Equal(key, want) {
			t.Errorf("%q: key %x, %v; want %x", text, key, ok, want)
		}
	}
}

// A ledger that the command gave its keys is one with these keys for every other host.
func TestKeysAreTheBytesOfTheirFiles(t *testing.T) {
	db, people := newVote(t, 2)
	truth, noise := bytes.Repeat([]byte{0xab}, 32), bytes.Repeat([]byte{7, 0x0a}, 16)
	files := filepath.Dir(db)
	for name, text := range map[string]string{"truth": strings.Repeat("ab", 32) + "\n", "noise": string(noise)} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustInvoke(t, "--db", db, "--truth-key", filepath.Join(files, "truth"), "--noise-key", "n="+filepath.Join(files, "noise"),
		"raise", "--question", "vote", "--to", "1", "--truth", people)
	open := func(truth, noise []byte) error {
		l, err := ledger.Open(db, ledger.Options{TruthKey: truth, NoiseKey: ledger.NoiseKeys{
			Current: "n", Key: func(string) ([]byte, error) { return noise, nil },
		}})
		if err != nil {
			return err
		}
		return l.Close()
	}
	if err := open(truth, noise); err != nil {
		t.Errorf("with the keys: %v", err)
	}
	if err := open(noise, noise); !errors.Is(err, ledger.ErrTruthKey) {
		t.Errorf("with another truth key: %v", err)
	}
	if err := open(truth, truth); !errors.Is(err, ledger.ErrNoiseKey) {
		t.Errorf("with another noise key: %v", err)
	}
}
