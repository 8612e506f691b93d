//go:build unix

package ledgerfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A service can still read its file after root has replaced the content.
func TestWrite_FileOfAnotherUser_KeepsItsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give a file another owner")
	}
	path := filepath.Join(t.TempDir(), "tokens")
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Chown(path, 4711, 4712))
	must(t, Write(path, []byte("new"), Options{}))
	info, err := os.Stat(path)
	must(t, err)
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 4711 || s.Gid != 4712 || info.Size() != 3 {
		t.Errorf("owner %d:%d, %d bytes", s.Uid, s.Gid, info.Size())
	}
}
