package files

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// A command that waits for a pipe ends with its context: whether nobody has opened the other end, or nobody writes there.
func TestReadingEndsWithTheContext(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	silent, other := io.Pipe()
	defer other.Close()
	s := &Files{Out: &output.Printer{}, Stdin: silent}
	for _, path := range []string{fifo, "-"} {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer stop()
		if err := s.Stream(ctx, path, func(in io.Reader) error { _, err := io.ReadAll(in); return err }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", path, err)
		}
		if _, err := s.TextOrFile(ctx, "@"+path, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
