package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(testenv.TempDir(t), "data.db")
	check.Must(t, Create(path, putK("v")))
	return path
}

func putK(value string) func(kv.Writer) error {
	return func(w kv.Writer) error { return w.Put("first", []byte("k"), []byte(value)) }
}

func mustOpen(t *testing.T, path string) *Store {
	t.Helper()
	s := check.Value(Open(path, false))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// opened creates a file with one record, and opens it.
func opened(t *testing.T) (path string, s *Store) {
	t.Helper()
	path = newFile(t)
	return path, mustOpen(t, path)
}

// Create leaves either the whole file or no file.
func TestCreate_FailsOrExists_LeavesNoOtherFile(t *testing.T) {
	dir := testenv.TempDir(t)
	path := filepath.Join(dir, "data.db")
	failure := errors.New("no")
	check.WantErr(t, Create(path, func(kv.Writer) error { return failure }), failure, "Create")
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a failed Create left %v", left)
	}
	check.Must(t, Create(path, putK("first")))
	check.WantErr(t, Create(path, putK("second")), fs.ErrExist, "a second Create")
	if left, _ := os.ReadDir(dir); len(left) != 1 || left[0].Name() != "data.db" {
		t.Errorf("Create left %v", left)
	}
	info, err := os.Stat(path)
	check.That(t, err == nil && info.Mode().Perm() == 0o600, "mode %v, %v", info.Mode(), err)
}

func TestCreate_FileAppearsConcurrently_IsNotOverwritten(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "data.db")
	err := Create(path, func(w kv.Writer) error {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			return err
		}
		return putK("v")(w)
	})
	if content, _ := os.ReadFile(path); !errors.Is(err, fs.ErrExist) || string(content) != "mine" {
		t.Errorf("Create returned %v and the file holds %q", err, content)
	}
}

func TestOpen_NoLedgerFile_IsRefusedUnchanged(t *testing.T) {
	dir := testenv.TempDir(t)
	check.WantErr(t, check.Err(Open(filepath.Join(dir, "none"), false)), fs.ErrNotExist, "no file")
	check.WantErr(t, check.Err(Open(dir, false)), kv.ErrCorrupt, "a directory")
	for name, content := range map[string]string{"empty": "", "short": "x", "text": string(make([]byte, 100_000))} {
		path := filepath.Join(dir, name)
		check.Must(t, os.WriteFile(path, []byte(content), 0o600))
		check.WantErr(t, check.Err(Open(path, false)), kv.ErrCorrupt, "%s file", name)
		after, _ := os.ReadFile(path)
		check.That(t, string(after) == content, "%s file was changed by a refused Open", name)
	}
}

// Without the check of its length, reading a truncated file would end the process by a signal.
func TestOpen_TruncatedFile_IsCorrupt(t *testing.T) {
	path, s := opened(t)
	for i := range 200 {
		check.Must(t, s.Update(func(w kv.Writer) error {
			return w.Put("b", []byte{byte(i)}, make([]byte, 3000))
		}))
	}
	check.Must(t, s.Close())
	whole := check.Value(os.ReadFile(path))(t)
	for size := 0; size < 600_000; size += 4096 {
		check.Must(t, os.WriteFile(path, whole[:size], 0o600))
		s, err := Open(path, true)
		check.That(t, errors.Is(err, kv.ErrCorrupt), "cut to %d of %d bytes: %v, %v", size, len(whole), s, err)
	}
}

// If a file is truncated while it is open, reads return an error, and the process does not end.
func TestView_FileTruncatedWhileOpen_IsOverwritten(t *testing.T) {
	path, s := opened(t)
	check.Must(t, s.Update(func(w kv.Writer) error { return w.Put("b", []byte("k"), make([]byte, 100_000)) }))
	check.Must(t, os.Truncate(path, 4096))
	check.WantErr(t, s.View(func(r kv.Reader) error {
		value, err := r.Get("b", []byte("k"))
		sum := 0
		for _, b := range value {
			sum += int(b)
		}
		return errors.Join(err, fmt.Errorf("read %d bytes", len(value)))
	}), kv.ErrOverwritten, "reading missing pages")
}

// A second Open returns kv.ErrInUse after a short wait.
func TestOpen_FileIsOpen_IsInUse(t *testing.T) {
	t.Parallel() // most of its time is waiting
	path := newFile(t)
	mustOpen(t, path)
	link := path + "-link"
	check.Must(t, os.Link(path, link))
	for _, other := range []string{path, link} {
		for _, readOnly := range []bool{false, true} {
			check.WantErr(t, check.Err(Open(other, readOnly)), kv.ErrInUse, "%s, read-only %v", other, readOnly)
		}
	}
}

func TestOpen_ReadOnlyTwice_BothRead(t *testing.T) {
	path := newFile(t)
	for range 2 {
		s := check.Value(Open(path, true))(t)
		defer s.Close()
		check.That(t, s.Update(putK("w")) != nil, "a store that is open for reading was written to")
	}
}

func TestUpdate_FileRenamedOrReplaced_IsReplaced(t *testing.T) {
	path, s := opened(t)
	check.Must(t, os.Rename(path, path+"-moved"))
	check.WantErr(t, s.Update(putK("lost")), kv.ErrReplaced, "after a rename")
	check.Must(t, Create(path, putK("other")))
	check.WantErr(t, s.Update(putK("lost")), kv.ErrReplaced, "after a replacement")
}

// A panic of the caller's function is passed on, is not reported as damage, and leaves the store
// unlocked.
func TestUpdate_CallerPanics_PassesThePanic(t *testing.T) {
	s := mustOpen(t, newFile(t))
	func() {
		defer func() {
			check.That(t, recover() == "mine", "the panic was not passed on")
		}()
		_ = s.Update(func(kv.Writer) error { panic("mine") })
	}()
	check.WantErr(t, s.Update(putK("after")), nil, "after a panic")
}
