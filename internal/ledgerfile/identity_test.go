package ledgerfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/testenv"
)

// Writes and renames keep the identity of a file and of a directory. A copy has another identity.
func TestIdentity_WrittenOrRenamed_StaysTheSame(t *testing.T) {
	for _, dir := range []string{t.TempDir(), testenv.TempDir(t)} {
		path := filepath.Join(dir, "ledger.db")
		must(t, os.WriteFile(path, []byte("one"), 0o600))
		first := identityOf(t, path)
		if first == "" || identityOf(t, path) != first {
			t.Fatalf("the identity is %q", first)
		}
		must(t, os.WriteFile(path, []byte("two, longer"), 0o600))
		must(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
		moved := filepath.Join(dir, "moved.db")
		must(t, os.Rename(path, moved))
		if now := identityOf(t, moved); now != first {
			t.Errorf("after a write and a rename, the identity is %q, before %q", now, first)
		}
		must(t, os.WriteFile(path, []byte("two, longer"), 0o600))
		if identityOf(t, path) == first {
			t.Error("a copy has the same identity")
		}
		if of := identityOf(t, dir); of == "" || of != identityOf(t, dir) || of == first {
			t.Errorf("the identity of the directory is %q", of)
		}
		if _, err := Identity(filepath.Join(dir, "none")); !os.IsNotExist(err) {
			t.Errorf("the identity of a missing file: %v", err)
		}
	}
}

func identityOf(t *testing.T, path string) string {
	t.Helper()
	id, err := Identity(path)
	must(t, err)
	return id
}
