package ledgerfile

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// database returns the beginning of a bbolt file. If damaged is set, the first of its two pages is
// damaged.
func database(damaged bool) string {
	b := make([]byte, 16<<10)
	if !damaged {
		binary.NativeEndian.PutUint32(b[16:], 0xED0CDAED)
	}
	binary.NativeEndian.PutUint32(b[4096+16:], 0xED0CDAED)
	return string(b)
}

func TestRecognize_Content_DeterminesTheKind(t *testing.T) {
	random := "\x00\x01\xfe\xff" + strings.Repeat("k", 28)
	for content, want := range map[string]Kind{
		database(false): Ledger, database(true): Ledger,
		"PRIVATE+KEY+sluice-1+2+x\n": SigningKey, "\ufeff PRIVATE+KEY+x": SigningKey,
		random: SecretKey, strings.Repeat("0a", 32) + "\n": SecretKey,
		"-----BEGIN EC PRIVATE KEY-----\n": SecretKey,
		"{\n \"tokens\": []}":              Tokens, `{"tokens":null}`: Tokens,
		"sluice_abc": Token, LockText: TokensLock, "sluice journal 1": Journal, "sluice mark 1": Keys,
		"": Unknown, "id,v\na,yes\n": Unknown, strings.Repeat("text", 8): Unknown, strings.Repeat("0a", 8): Unknown,
		`{"sale":1}`: Unknown, `["tokens"]`: Unknown, "sluice-1a2b3c4d\n5\n": Unknown,
	} {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, []byte(content), 0o600))
		if got, err := Recognize(path); err != nil || got != want {
			t.Errorf("%.40q is %q, %v; want %q", content, got, err, want)
		}
	}
}

func TestCheckOutput_FilesOfALedger_AreNotReplaced(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(at("p.db"), []byte(database(false)), 0o600))
	must(t, os.WriteFile(at("text"), []byte("text"), 0o600))
	must(t, os.WriteFile(at("tokens"), []byte(`{"tokens":[]}`), 0o600))
	must(t, os.Mkdir(at("moved"), 0o700))
	must(t, os.WriteFile(at("moved/00000001.segment"), []byte("sluice journal 1"), 0o600))
	for _, test := range []struct {
		path, own string
		as, want  Kind
	}{
		{path: "p.db", want: Ledger},
		{path: "p.db.key", want: SigningKey},
		{path: "p.db.tokens", want: Tokens},
		{path: "p.db.tokens.lock", want: TokensLock},
		{path: "tokens", want: Tokens},
		{path: "tokens.lock", want: TokensLock},
		{path: "p.db.journal", want: Journal},
		{path: "p.db.journal/a/b", want: Journal}, // a directory on the way is created
		{path: "p.db.journal.gone", want: Journal},
		{path: "p.db.sock", want: Socket},
		{path: "moved/x", want: Journal},
		{path: "new.db.key", own: "new.db", want: SigningKey},
		{path: "new.db.key", own: "new.db", as: SigningKey},
		{path: "p.db.key", own: "new.db", as: SigningKey, want: SigningKey},
		{path: "p.db.sock", own: "p.db", as: Socket},
		{path: "p.db.sock", own: "q.db", as: Socket, want: Socket},
		{path: "p.db.tokens", own: "q.db", as: Tokens},
		{path: "tokens", as: Tokens},
		{path: "p.db", as: Tokens, want: Ledger},
		{path: "text"}, {path: "text.key"}, {path: "new"}, {path: "none.db.journal"}, {path: "p.db.csv"},
	} {
		err := CheckOutput(at(test.path), test.as, at(test.own))
		var occupied *OccupiedError
		if errors.As(err, &occupied) != (test.want != Unknown) || err != nil && (occupied == nil || occupied.Kind != test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestNewLedger_OccupiedPaths_AreRefused(t *testing.T) {
	dir := t.TempDir()
	own, link := filepath.Join(dir, "p.db"), filepath.Join(dir, "link")
	must(t, os.WriteFile(own, []byte(database(false)), 0o600))
	must(t, os.Symlink("p.db", link))
	must(t, os.Mkdir(filepath.Join(dir, "q.db.journal"), 0o700))
	for _, path := range []string{"", own, link, own + ".journal", own + ".key"} {
		if _, err := NewLedger(path, own); !errors.As(err, new(*OccupiedError)) {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{own, filepath.Join(dir, "q.db")} {
		wantErr(t, failed(NewLedger(path, "")), fs.ErrExist, "%q", path)
	}
}
