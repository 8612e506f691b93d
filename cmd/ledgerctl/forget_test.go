package main

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// What is forgotten is in no byte of the file, nor of a compacted copy. The salts are random and
// stand in the events next to what these say, so they are looked for.
func TestForget_FileAndCopies_HaveNoneOfTheBytes(t *testing.T) {
	db, people := newVote(t, 2)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	mustInvoke(t, "--db", db, "sell", "--buyer", "acme", "--question", "vote", "--epsilon", "1", "--truth", people)
	// The salts in a receipt are made of those in the file. A statement has these.
	salt := func(object string) []byte {
		t.Helper()
		mustInvoke(t, "--db", db, "statement", "make", object, "--out", at(object+".json"))
		statement, err := evidence.ReadStatement(mustRead(t, at(object+".json")))
		check.Must(t, err)
		for _, fact := range statement.Events {
			if fact.Kind() == "sold" {
				return fact.Salt
			}
		}
		t.Fatalf("the statement of %s has no sale", object)
		return nil
	}
	forgotten, kept := salt("1"), salt("2")
	check := func(path string, want bool) {
		t.Helper()
		text := mustRead(t, path)
		if !bytes.Contains(text, kept) {
			t.Errorf("%s: the salt %s of the other object is not there", path, hex.EncodeToString(kept))
		}
		if bytes.Contains(text, forgotten) != want {
			t.Errorf("%s: the forgotten salt: found %v, want %v", path, !want, want)
		}
	}
	check(db, true)
	mustInvoke(t, "--db", db, "forget", "1", "--keep-pages")
	mustInvoke(t, "--db", db, "backup", at("backup.db"))
	mustInvoke(t, "--db", db, "compact", at("compact.db"))
	check(at("compact.db"), false)
	mustInvoke(t, "--db", db, "forget", "1")
	check(db, false)
	mustInvoke(t, "--db", db, "audit", "verify")
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	check.Must(t, err)
	return text
}
