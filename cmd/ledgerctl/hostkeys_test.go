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
