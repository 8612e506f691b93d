package input

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// A certificate from a pipe is not waited for any longer than the command goes on.
func TestPairFromAPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Files{Out: &output.Printer{}, Stdin: strings.NewReader("")}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if _, err := Pair(ctx, s, fifo, fifo); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := Pair(t.Context(), s, "-", "-"); err == nil || !strings.Contains(err.Error(), "standard input") {
		t.Error(err)
	}
}
