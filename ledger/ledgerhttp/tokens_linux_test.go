package ledgerhttp

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A named pipe, whose other end nobody has opened, is refused: nobody waits for it.
func TestTokensInAPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	if _, err := OpenTokens(fifo, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
