package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// spillMany writes records to a temporary file, with more than one transaction's worth of bytes.
func spillMany(t *testing.T, s *Temporary) {
	t.Helper()
	check.Must(t, s.Update(func(w kv.Writer) error {
		for i := range 1000 {
			check.Must(t, w.Put("b", recordKey(i), bytes.Repeat([]byte{byte(i)}, 6<<10)))
		}
		return nil
	}))
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check.That(t, err == nil && len(entries) == 0, "%s holds %v, %v", dir, entries, err)
}

// The file does not exist before the first update. Only its owner may read it, and Close removes
// it.
func TestTemporary_FileIsPrivateAndRemoved(t *testing.T) {
	dir := t.TempDir()
	s := NewTemporary(dir)
	check.Must(t, s.View(func(r kv.Reader) error { return r.Scan("b", nil, nil) }))
	wantEmpty(t, dir)
	spillMany(t, s)
	if runtime.GOOS != "windows" {
		wantEmpty(t, dir)
		info := check.Value(s.current.file.Stat())(t)
		check.That(t, info.Mode().Perm() == 0o600, "mode %v", info.Mode())
	}
	s.leftover = filepath.Join(dir, "kept") // as on systems that cannot remove an open file
	check.Must(t, os.WriteFile(s.leftover, nil, 0o600))
	check.Must(t, s.Close())
	check.Must(t, s.Close())
	wantEmpty(t, dir)
	check.WantErr(t, s.Update(putK("late")), errTemporaryClosed, "after Close")
}

// Damage of a spill file is an error that is neither kv.ErrCorrupt nor kv.ErrReplaced.
func TestTemporary_Damaged_IsNotErrCorrupt(t *testing.T) {
	for name, damage := range map[string]func(file *os.File) error{
		"a value": func(file *os.File) error {
			content, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
			at := bytes.LastIndex(content, bytes.Repeat([]byte{9}, 100))
			_, wrote := file.WriteAt([]byte("damage"), int64(at))
			return errors.Join(err, wrote)
		},
		"zeros":   func(file *os.File) error { _, err := file.WriteAt(make([]byte, 1<<20), 0); return err },
		"cut off": func(file *os.File) error { return file.Truncate(16 << 10) },
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS != "linux" {
				t.Skip("the file has no name")
			}
			s := NewTemporary(t.TempDir())
			spillMany(t, s)
			check.Must(t, damage(s.current.file))
			got := s.View(func(r kv.Reader) error {
				for i := range 1000 {
					if value, err := r.Get("b", recordKey(i)); err != nil || len(value) != 6<<10 {
						return errors.Join(err, fmt.Errorf("%d bytes", len(value)))
					}
				}
				return nil
			})
			scanned := s.View(func(r kv.Reader) error {
				return r.Scan("b", nil, func(_, _ []byte) bool { return true })
			})
			for doing, err := range map[string]error{"Get": got, "Scan": scanned} {
				check.That(t, errors.Is(err, errTemporaryDamaged) && !errors.Is(err, kv.ErrCorrupt) &&
					!errors.Is(err, kv.ErrReplaced), "%s: %v", doing, err)
			}
			_ = s.Close()
		})
	}
}

// An error of the caller's function is returned unchanged.
func TestTemporary_CallersError_IsReturnedUnchanged(t *testing.T) {
	s := NewTemporary(t.TempDir())
	spillMany(t, s)
	for _, want := range []error{kv.ErrCorrupt, kv.ErrReplaced, fs.ErrNotExist} {
		check.WantErr(t, s.View(func(kv.Reader) error { return want }), want, "%v becomes", want)
	}
	check.Must(t, s.Close())
}

func TestTemporary_NoDirectory_TheErrorNamesIt(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	err := NewTemporary(gone).Update(putK("v"))
	check.That(t, errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "a spill file in "+gone) &&
		!strings.Contains(err.Error(), "sluice-spill"), "%v", err)
}
