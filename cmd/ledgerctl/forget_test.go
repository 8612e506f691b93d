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

// After forget, no byte of the file or of a compacted copy has the forgotten data. The test
// searches for the salts, which are random and next to the content of the events.
func TestForget_FileAndCopies_LackTheForgottenBytes(t *testing.T) {
	db, people := newVote(t, 2)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	mustInvoke(t, "--db", db, "sell", "--buyer", "acme", "--question", "vote", "--epsilon", "1", "--truth", people)
	// A statement has the salts of the file. The salts in a receipt are derived from them.
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
