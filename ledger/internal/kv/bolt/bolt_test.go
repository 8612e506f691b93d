package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(pace.Scratch(t), "data.db")
	if err := Create(path, putK("v")); err != nil {
		t.Fatal(err)
	}
	return path
}

func putK(value string) func(kv.Writer) error {
	return func(w kv.Writer) error { return w.Put("first", []byte("k"), []byte(value)) }
}

func mustOpen(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestCreateIsWholeOrNothing(t *testing.T) {
	dir := pace.Scratch(t)
	path := filepath.Join(dir, "data.db")
	failure := errors.New("no")
	if err := Create(path, func(kv.Writer) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("Create returned %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a failed Create left %v", left)
	}
	if err := Create(path, putK("first")); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, putK("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create returned %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 || left[0].Name() != "data.db" {
		t.Errorf("Create left %v", left)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestCreateDoesNotOverwriteALateComer(t *testing.T) {
	path := filepath.Join(pace.Scratch(t), "data.db")
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

func TestOpenRefuses(t *testing.T) {
	dir := pace.Scratch(t)
	if _, err := Open(filepath.Join(dir, "none"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open(dir, false); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a directory: %v", err)
	}
	for name, content := range map[string]string{"empty": "", "short": "x", "text": string(make([]byte, 100_000))} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, false); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s file: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != content {
			t.Errorf("%s file was changed by a refused Open", name)
		}
	}
}

// Without the check of its length, a file that was cut off would end the process by a signal.
func TestOpenRefusesACutOffFile(t *testing.T) {
	path := newFile(t)
	s := mustOpen(t, path)
	for i := range 200 {
		if err := s.Update(func(w kv.Writer) error {
			return w.Put("b", []byte{byte(i)}, make([]byte, 3000))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 0; size < 600_000; size += 4096 {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(path, true); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("cut to %d of %d bytes: %v, %v", size, len(whole), s, err)
		}
	}
}

// A file that is cut off while it is open cannot be foreseen, only survived.
func TestCutOffWhileOpenIsAnError(t *testing.T) {
	path := newFile(t)
	s := mustOpen(t, path)
	if err := s.Update(func(w kv.Writer) error { return w.Put("b", []byte("k"), make([]byte, 100_000)) }); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	err := s.View(func(r kv.Reader) error {
		value, err := r.Get("b", []byte("k"))
		sum := 0
		for _, b := range value {
			sum += int(b)
		}
		return errors.Join(err, fmt.Errorf("read %d bytes", len(value)))
	})
	if !errors.Is(err, kv.ErrOverwritten) {
		t.Errorf("reading what is gone: %v", err)
	}
}

// The second one does not wait for ever.
func TestASecondOpenIsRefused(t *testing.T) {
	t.Parallel() // it waits, mostly
	path := newFile(t)
	mustOpen(t, path)
	link := path + "-link"
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{path, link} {
		for _, readOnly := range []bool{false, true} {
			if _, err := Open(other, readOnly); !errors.Is(err, kv.ErrInUse) {
				t.Errorf("%s, read-only %v: %v", other, readOnly, err)
			}
		}
	}
}

func TestReadersShare(t *testing.T) {
	path := newFile(t)
	for range 2 {
		s, err := Open(path, true)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Update(putK("w")); err == nil {
			t.Error("a store open for reading was written to")
		}
	}
}

func TestReplacedFileIsNoticed(t *testing.T) {
	path := newFile(t)
	s := mustOpen(t, path)
	if err := os.Rename(path, path+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(putK("lost")); !errors.Is(err, kv.ErrReplaced) {
		t.Errorf("after a rename: %v", err)
	}
	if err := Create(path, putK("other")); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(putK("lost")); !errors.Is(err, kv.ErrReplaced) {
		t.Errorf("after a replacement: %v", err)
	}
}

// A panic of the caller's own function must not be taken for damage, and must not leave the store
// locked.
func TestPanicOfTheCallerPasses(t *testing.T) {
	s := mustOpen(t, newFile(t))
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.Update(func(kv.Writer) error { panic("mine") })
	}()
	if err := s.Update(putK("after")); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}
