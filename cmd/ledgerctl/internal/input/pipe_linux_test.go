package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

// A command that waits for a pipe ends with its context, both before the other end is opened and
// while no data is written to it.
func TestStream_ContextEnds_ReadingEnds(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	check.Must(t, syscall.Mkfifo(fifo, 0o600))
	silent, other := io.Pipe()
	defer other.Close()
	for _, path := range []string{fifo, "-"} {
		s := func() *Files { return &Files{Out: &output.Printer{}, Stdin: silent} }
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer stop()
		if err := s().Stream(ctx, path, func(in io.Reader) error { _, err := io.ReadAll(in); return err }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", path, err)
		}
		if _, err := s().TextOrFile(ctx, "@"+path, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// Stream reads nothing before its caller does, because the writer of two pipes may open both before
// it writes.
func TestStream_TwoPipesOfOneWriter_AreRead(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	check.Must(t, errors.Join(syscall.Mkfifo(first, 0o600), syscall.Mkfifo(second, 0o600)))
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	go func() {
		a, err := os.OpenFile(first, os.O_WRONLY, 0)
		b, failed := os.OpenFile(second, os.O_WRONLY, 0)
		if err == nil && failed == nil {
			_, _ = a.WriteString("\ufeffone")
			_ = a.Close()
			_ = b.Close()
		}
	}()
	s := &Files{Out: &output.Printer{}}
	var text []byte
	err := s.Stream(ctx, first, func(in io.Reader) error {
		return s.Stream(ctx, second, func(io.Reader) (err error) {
			text, err = io.ReadAll(in)
			return err
		})
	})
	check.That(t, err == nil && string(text) == "one", "%q, %v", text, err)
}

// A pipe that is opened a second time, under the same or another name, would have no end.
func TestStream_PipeTwice_IsRefused(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	check.Must(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, link)))
	const stdin, shell = "-", "as a shell names a process substitution"
	for _, names := range [][2]string{{fifo, fifo}, {fifo, link}, {stdin, stdin}, {stdin, shell}, {shell, stdin}} {
		reader, writer, err := os.Pipe()
		check.Must(t, err)
		for i := range names {
			if names[i] == shell {
				names[i] = fmt.Sprintf("/proc/self/fd/%d", reader.Fd())
			}
		}
		s := &Files{Out: &output.Printer{}, Stdin: reader}
		read := func(path string) error {
			return s.Stream(t.Context(), path, func(in io.Reader) error { _, err := io.ReadAll(in); return err })
		}
		_, err = writer.WriteString("text")
		if err = errors.Join(err, writer.Close()); err != nil {
			t.Fatal(err)
		}
		if names[0] == fifo {
			go func() { _ = os.WriteFile(fifo, []byte("text"), 0) }()
		}
		if err := read(names[0]); err != nil {
			t.Fatalf("%q: %v", names, err)
		}
		err = read(names[1])
		if classed := (*output.Error)(nil); !errors.As(err, &classed) || classed.Code != output.ExitMisuse || !strings.Contains(err.Error(), "once only") {
			t.Errorf("%q: %v; want wrong usage", names, err)
		}
		reader.Close()
	}
}

// A regular file can be read any number of times.
func TestStream_FileTwice_IsReadTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	check.Must(t, os.WriteFile(path, []byte("text"), 0o600))
	s := &Files{Out: &output.Printer{}}
	for range 2 {
		if text, err := s.TextOrFile(t.Context(), "@"+path, 100); string(text) != "text" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	}
}
