package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestCommands_BrokenOutput_Fail(t *testing.T) {
	db, _ := newVote(t, 2)
	for _, args := range [][]string{{"stats"}, {"stats", "--json"}, {"log"}, {"log", "--json"}, {"audit", "verify"}, {"audit", "checkpoint"}, {"sales"}, {"sales", "--json"}, {"buyers"}, {"reservations"}, {"responses", "--question", "vote"}, {"version"}, {"mechanism", "family", "subset", "--values", "a,b,c", "--epsilon", "1"}, {"answer", "--question", "vote", "--query", "winner", "--epsilon", "1", "--quote"}} {
		var stderr bytes.Buffer
		code := run(append([]string{"--db", db}, args...), strings.NewReader(""), brokenWriter{}, &stderr)
		if code != int(output.ExitUnexpected) || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, &stderr)
		}
	}
	if code := run([]string{"bogus"}, strings.NewReader(""), io.Discard, brokenWriter{}); code != int(output.ExitMisuse) {
		t.Errorf("stderr broken: exit code %d", code)
	}
}

// Commands on a damaged or truncated file succeed or end with an integrity error. None panics.
func TestCommands_DamagedFile_EndInAnIntegrityError(t *testing.T) {
	db, people := newVote(t, 200)
	mustInvoke(t, "--db", db, "raise", "--question", "vote", "--to", "1", "--truth", people)
	mustInvoke(t, "--db", db, "sell", "--buyer", "bob", "--question", "vote", "--epsilon", "1")
	for _, buyer := range []string{"eve", "fay"} { // the reservations 2 and 3
		mustInvoke(t, "--db", db, "reserve", "--buyer", buyer, "--question", "vote", "--epsilon", "1", "--expires", "2100-01-01T00:00:00Z")
	}
	commands := [][]string{
		{"sales"}, {"buyers"}, {"reservations"}, {"responses", "--question", "vote"}, {"responses", "--buyer", "bob"}, {"budget", "--question", "vote"},
		{"reserve", "--buyer", "acme", "--question", "vote", "--epsilon", "1", "--expires", "2100-01-01T00:00:00Z"}, {"capture", "2", "--truth", people}, {"cancel", "3"},
		{"question", "list"}, {"estimate", "--question", "vote"}, {"show", "7"}, {"log"}, {"stats"},
		{"budget", "--question", "vote"}, {"quote", "--buyer", "acme", "--question", "vote", "--epsilon", "1"}, {"sell", "--buyer", "acme", "--question", "vote", "--epsilon", "1"},
		{"advance"}, {"epoch", "7", "--question", "vote"}, {"withdraw", "7"}, {"audit", "verify"}, {"audit", "checkpoint"},
		{"statement", "make", "7", "--out", filepath.Join(t.TempDir(), "s.json")}, {"receipt", "make", "1", "--out", filepath.Join(t.TempDir(), "r.json")},
		{"answer", "--question", "vote", "--query", "winner", "--epsilon", "1", "--quote"}, {"raise", "--question", "vote", "--to", "0.5"}, {"answer", "--question", "vote", "--query", "winner", "--epsilon", "1", "--accept-loss", "--truth", people},
	}
	whole, err := os.ReadFile(db)
	check.Must(t, err)
	for _, size := range []int{0, 1, 100, 4096, 8192, 1 << 16} {
		check.Must(t, os.WriteFile(db, whole[:size], 0o600))
		for _, args := range commands {
			if code, _, stderr := invoke(t, append([]string{"--db", db}, args...)...); code != int(output.ExitIntegrity) {
				t.Errorf("%d bytes left, %q: exit code %d, stderr %q", size, args, code, stderr)
			}
		}
	}
	for page := 2; page*4096 < len(whole); page += testenv.Tries(23, 3, 3) {
		damaged := bytes.Clone(whole)
		for i := range 64 {
			damaged[page*4096+i*61] ^= byte(i + 1)
		}
		check.Must(t, os.WriteFile(db, damaged, 0o600))
		for _, args := range commands {
			if code, _, stderr := invoke(t, append([]string{"--db", db}, args...)...); code != int(output.ExitDone) && code != int(output.ExitIntegrity) {
				t.Errorf("page %d damaged, %q: exit code %d, stderr %q", page, args, code, stderr)
			}
		}
	}
}

// A ledger that got its keys from files of the command opens with the same bytes in package ledger.
func TestHostKeys_KeyFiles_OpenTheLedgerElsewhere(t *testing.T) {
	db, people := newVote(t, 2)
	truth, noise := bytes.Repeat([]byte{0xab}, 32), bytes.Repeat([]byte{7, 0x0a}, 16)
	files := filepath.Dir(db)
	for name, text := range map[string]string{"truth": strings.Repeat("ab", 32) + "\n", "noise": string(noise)} {
		check.Must(t, os.WriteFile(filepath.Join(files, name), []byte(text), 0o600))
	}
	mustInvoke(t, "--db", db, "--truth-key", filepath.Join(files, "truth"), "--noise-key", "n="+filepath.Join(files, "noise"),
		"raise", "--question", "vote", "--to", "1", "--truth", people)
	open := func(truth, noise []byte) error {
		l, err := ledger.Open(t.Context(), db, ledger.Options{TruthKey: truth, NoiseKey: api.NoiseKeys{
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
	if err := open(noise, noise); !errors.Is(err, api.ErrTruthKey) {
		t.Errorf("with another truth key: %v", err)
	}
	if err := open(truth, truth); !errors.Is(err, api.ErrNoiseKey) {
		t.Errorf("with another noise key: %v", err)
	}
}
