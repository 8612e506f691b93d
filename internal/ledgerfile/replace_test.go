package ledgerfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func wantText(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v; want %q", path, text, err, want)
	}
}

func TestWrite_SymbolicLink_ReplacesItsTarget(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.MkdirAll("real/sub", 0o700))
	for name, target := range map[string]string{"link": "real/file", "dir": "real/sub", "twice": "link", "dangling": "dir/../new"} {
		if err := os.Symlink(target, name); err != nil {
			t.Skip("there are no symbolic links: ", err)
		}
	}
	must(t, os.WriteFile("real/file", []byte("before"), 0o640))
	must(t, os.Chmod("real/file", 0o640))
	for path, file := range map[string]string{"twice": "real/file", "dangling": "real/new", "real/sub/../file": "real/file", "dir/x": "real/sub/x"} {
		must(t, Write(path, []byte(path), Options{}))
		wantText(t, file, path)
		if path != "twice" && path != "dangling" {
			continue
		}
		if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is a link no more: %v, %v", path, info, err)
		}
	}
	for file, want := range map[string]fs.FileMode{"real/file": 0o640, "real/new": 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", file, info.Mode(), err, want)
		}
	}
	if entries, err := os.ReadDir("real"); err != nil || len(entries) != 3 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

// A file with several hard links is refused, because the other names would keep the old content.
func TestCreate_IrreplaceableFiles_AreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("file", []byte("before"), 0o600))
	must(t, os.Link("file", "hard"))
	must(t, os.Mkdir("dir", 0o700))
	must(t, os.Symlink("loop", "loop"))
	for path, want := range map[string]string{"file": "2 hard links", "dir": "not a regular file", "loop": "too many", "": "file does not exist", "none/x": "no such file"} {
		if err := Write(path, nil, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	wantText(t, "hard", "before")
}

func TestCommit_FileChangedSinceCreate_IsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	stop := errors.New("a ledger since")
	calls := 0
	f, err := Create("file", Options{Check: func(path string) error {
		if calls++; calls > 1 {
			return stop
		}
		return nil
	}})
	must(t, err)
	wantErr(t, f.Commit(), stop, "error")
	// Create has resolved the directory and the name. A symbolic link that is created later is not
	// followed.
	must(t, os.WriteFile("other", []byte("precious"), 0o600))
	f, err = Create("file", Options{})
	must(t, err)
	must(t, os.Symlink("other", "file"))
	if err := f.Commit(); err == nil {
		t.Error("a link was replaced")
	}
	wantText(t, "other", "precious")
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 2 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

func TestWrite_OptionNew_KeepsAnExistingFile(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, Write("key", []byte("first"), Options{New: true}))
	wantErr(t, Write("key", []byte("second"), Options{New: true}), fs.ErrExist, "error")
	f, err := Create("late", Options{New: true})
	must(t, err)
	must(t, os.WriteFile("late", []byte("theirs"), 0o600))
	wantErr(t, f.Commit(), fs.ErrExist, "error")
	wantText(t, "key", "first")
	wantText(t, "late", "theirs")
}

// If the new file can be neither linked nor renamed, no empty file remains, which would make the
// next attempt fail. The test removes the temporary file, so that both fail.
func TestCommit_NewWithoutLinkOrRename_LeavesNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	unsupported := func(string, string) error { return fmt.Errorf("%w: renameat2", errors.ErrUnsupported) }
	for name, rename := range map[string]func(string, string) error{"renames": RenameNew, "reserves": unsupported} {
		f, err := Create(name, Options{New: true})
		must(t, err)
		f.renameNew = rename
		must(t, os.Remove(f.temp))
		err = f.Commit()
		wantErr(t, err, fs.ErrNotExist, "%s: error", name)
		if strings.Contains(err.Error(), f.temp) {
			t.Errorf("%s: %v names the temporary file", name, err)
		}
		if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
			t.Errorf("%s: there are %v, %v", name, entries, err)
		}
	}
}

// On a system without hard links, Commit renames the file or reserves its name. Both keep a file
// that was created since.
func TestFile_NewWithoutLinks_KeepsAnExistingFile(t *testing.T) {
	t.Chdir(t.TempDir())
	ways := map[string]func(f *File) error{
		"renames":  func(f *File) error { return f.renameNew(f.temp, f.base()) },
		"reserves": (*File).reserve,
	}
	if errors.Is(RenameNew("none", "new"), errors.ErrUnsupported) {
		delete(ways, "renames")
	}
	for name, give := range ways {
		f, err := Create(name, Options{New: true})
		must(t, err)
		must(t, failed(f.Write([]byte("new"))))
		must(t, give(f))
		wantText(t, name, "new")
		f.Discard()

		f, err = Create("late "+name, Options{New: true})
		must(t, err)
		must(t, os.WriteFile("late "+name, []byte("theirs"), 0o600))
		wantErr(t, give(f), fs.ErrExist, "%s: error", name)
		wantText(t, "late "+name, "theirs")
		f.Discard()
	}
}

func TestResolve_RelativePaths_BecomeAbsolute(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(dir)
	for _, path := range []string{"x", "./x", dir + "/x"} {
		if got, err := Resolve(path); err != nil || got != filepath.Join(dir, "x") {
			t.Errorf("%q is %q, %v", path, got, err)
		}
	}
}
