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
	"github.com/sluicedp/sluice/internal/check"
)

// Pair waits for a certificate from a pipe only until its context ends.
func TestPair_WaitingPipe_EndsWithTheContext(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	check.Must(t, syscall.Mkfifo(fifo, 0o600))
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
