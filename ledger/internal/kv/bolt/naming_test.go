package bolt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// withoutLinks returns the functions of a file system without hard links.
func withoutLinks() naming {
	n := system()
	n.link = func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM} }
	return n
}

// skipWithoutRename skips a test on systems without a rename that fails if the target exists.
func skipWithoutRename(t *testing.T) {
	t.Helper()
	if err := ledgerfile.RenameNew(filepath.Join(t.TempDir(), "none"), "none"); errors.Is(err, errors.ErrUnsupported) {
		testenv.Unsupported(t, "this system has no rename that fails if the target exists")
	}
}

func TestNaming_NoHardLinks_RenamesTheFile(t *testing.T) {
	skipWithoutRename(t)
	path := filepath.Join(t.TempDir(), "data.db")
	check.Must(t, withoutLinks().create(path, kindNew, func(temp string) error { return fillNew(temp, putK("v")) }))
	s := mustOpen(t, path)
	s.naming = withoutLinks()
	for name, how := range ways {
		check.Must(t, s.CopyTo(t.Context(), path+"-"+name, how, nil, nil))
		wantRecords(t, mustOpen(t, path+"-"+name), map[string]string{"first/k": "v"})
	}
	wantFiles(t, path, "data.db", "data.db-pages", "data.db-records")
}

// Anything that is created at the path concurrently remains, and no other file.
func TestNaming_NoHardLinksAndPathTaken_KeepsTheOther(t *testing.T) {
	skipWithoutRename(t)
	for name, come := range map[string]func(path string) error{
		"a file":            func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"an empty file":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a dangling link":   func(path string) error { return os.Symlink("nowhere", path) },
		"an empty folder":   func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to another": func(path string) error { return os.Symlink(os.Args[0], path) },
	} {
		path := filepath.Join(t.TempDir(), "data.db")
		check.Must(t, come(path))
		before := check.Value(os.Lstat(path))(t)
		check.Must(t, os.Rename(path, path+"-late"))
		check.WantErr(t, withoutLinks().create(path, kindNew, func(temp string) error {
			return errors.Join(fillNew(temp, putK("v")), os.Rename(path+"-late", path))
		}), fs.ErrExist, "%s", name)
		after, err := os.Lstat(path)
		check.That(t, err == nil && os.SameFile(before, after), "%s was removed, %v", name, err)
		wantFiles(t, path, "data.db")
	}
}

func TestNaming_NoHardLinksAndFailure_LeavesNoFile(t *testing.T) {
	failure := errors.New("no")
	neither, unsynced := withoutLinks(), withoutLinks()
	neither.rename = func(string, string) error { return errors.ErrUnsupported }
	unsynced.syncDir = func(string) error { return failure }
	for _, test := range []struct {
		naming
		want error
	}{{neither, errors.ErrUnsupported}, {unsynced, failure}} {
		path := filepath.Join(t.TempDir(), "data.db")
		err := test.create(path, kindNew, func(temp string) error { return fillNew(temp, putK("v")) })
		if !errors.Is(err, test.want) && !errors.Is(err, errors.ErrUnsupported) { // the second on systems without such a rename
			t.Errorf("got %v, want %v", err, test.want)
		}
		wantFiles(t, path)
	}
}

// leaveUnfinished creates a temporary file as a crash leaves it.
func leaveUnfinished(t *testing.T, path, kind string) (temp string) {
	t.Helper()
	temp = check.Value(createTemp(path, kind))(t)
	check.Must(t, os.WriteFile(temp, []byte("records of a crashed process"), 0o600))
	return temp
}

// skipWithoutLocks skips a test on systems without file locks.
func skipWithoutLocks(t *testing.T) {
	t.Helper()
	if !ledgerfile.CanLock {
		testenv.Unsupported(t, "this system has no locks of files")
	}
}

func TestUnfinishedFiles_OfACrash_AreRemovedByTheNextCall(t *testing.T) {
	skipWithoutLocks(t)
	for name, next := range map[string]func(s *Store, dir string) error{
		"a compaction": func(s *Store, _ string) error { return s.Compact(t.Context(), nil) },
		"a copy":       func(s *Store, dir string) error { return s.CopyTo(t.Context(), filepath.Join(dir, "x"), 0, nil, nil) },
		"a new file":   func(_ *Store, dir string) error { return Create(filepath.Join(dir, "x"), putK("v")) },
	} {
		path := newFile(t)
		dir := filepath.Dir(path)
		s := mustOpen(t, path)
		for _, of := range []string{"data.db", "gone", "a.b.c", ".hidden"} {
			for _, kind := range []string{kindNew, kindCopy, kindCompact} {
				leaveUnfinished(t, filepath.Join(dir, of), kind)
			}
		}
		check.Must(t, os.Link(path, filepath.Join(dir, ".data.db.new-1"+unfinished))) // of a crash before the removal of this name
		check.Must(t, next(s, dir))
		check.Must(t, errors.Join(s.Update(putK("w")), s.Close()))
		wantRecords(t, mustOpen(t, path), map[string]string{"first/k": "w"})
		_ = os.Remove(filepath.Join(dir, "x"))
		wantFiles(t, path, "data.db")
		check.Need(t, !t.Failed(), "%v", name)
	}
}

// Only files with the names of this package are removed, and only if no process has them open.
func TestUnfinishedFiles_OtherNameOrOpen_AreKept(t *testing.T) {
	path := newFile(t)
	dir := filepath.Dir(path)
	s := mustOpen(t, path)
	names := []string{".data.db.copy-1", ".data.db.copy-1.unfinished", "data.db.copy-1" + unfinished, ".data.db.other-1" + unfinished,
		".data.db.copy-x" + unfinished, ".data.db.copy-" + unfinished, ".data.db.copy" + unfinished, ".copy-1" + unfinished, "..copy-1" + unfinished,
		".data.db.copy-1" + unfinished + "2", unfinished}
	for _, name := range names {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600))
	}
	check.Must(t, os.Mkdir(filepath.Join(dir, ".data.db.copy-2"+unfinished), 0o700))
	check.Must(t, os.Symlink("data.db", filepath.Join(dir, ".data.db.copy-3"+unfinished)))
	names = append(names, ".data.db.copy-2"+unfinished, ".data.db.copy-3"+unfinished)
	open := check.Value(os.Open(leaveUnfinished(t, path, kindCopy)))(t)
	defer open.Close()
	check.Must(t, ledgerfile.Lock(open, false, 0, kv.ErrInUse))
	names = append(names, filepath.Base(open.Name()))
	check.Must(t, s.Compact(t.Context(), nil))
	for _, name := range names {
		check.OK(t, check.Err(os.Lstat(filepath.Join(dir, name))))
	}
}

// A file that is being created in the same directory is not removed, even while it is not open.
func TestUnfinishedFiles_BeingCreated_AreKept(t *testing.T) {
	path, s := opened(t)
	to := filepath.Join(filepath.Dir(path), "copy")
	check.Must(t, s.CopyTo(t.Context(), to, 0, nil, func(temp string) error {
		check.Must(t, Create(to+"-2", putK("v")))
		check.Must(t, s.CopyTo(t.Context(), to+"-3", 0, nil, nil))
		check.Must(t, s.Compact(t.Context(), nil))
		_, err := os.Stat(temp)
		return err
	}))
	wantFiles(t, path, "copy", "copy-2", "copy-3", "data.db")
}

// If a script has locked the directory, files are created, and old temporary files remain.
func TestCreate_DirectoryLocked_Works(t *testing.T) {
	path := newFile(t)
	dir := check.Value(os.Open(filepath.Dir(path)))(t)
	defer dir.Close()
	skipWithoutLocks(t)
	check.Must(t, ledgerfile.Lock(dir, true, 0, kv.ErrInUse))
	temp := leaveUnfinished(t, path, kindCopy)
	check.Must(t, Create(path+"-2", putK("v")))
	_, err := os.Stat(temp)
	check.That(t, err == nil && strings.HasSuffix(temp, unfinished), "%v", err)
}

// wantNamed checks that an error contains path and no temporary name.
func wantNamed(t *testing.T, err error, path string) {
	t.Helper()
	check.That(t, err != nil && strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), unfinished),
		"%v; want %s, and no temporary name", err, path)
	at := new(fs.PathError)
	check.That(t, !errors.As(err, &at) || at.Path == path, "%v has the path %s", err, at.Path)
}

func TestStore_FileUnderATemporaryNameFails_TheErrorNamesThePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data.db")
	broken := naming{
		link:    func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EIO} },
		rename:  func(from, to string) error { return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EIO} },
		syncDir: ledgerfile.SyncDir,
	}
	err := broken.create(path, kindNew, func(temp string) error { return fillNew(temp, putK("v")) })
	wantNamed(t, err, path)
	want := "link " + path + ": "
	check.That(t, err != nil && strings.Contains(err.Error(), want), "%v; want %q", err, want)

	check.Must(t, Create(path, putK("v")))
	s := mustOpen(t, path)
	copied := filepath.Join(dir, "copy.db")
	for name, inspect := range map[string]func(temp string) error{
		"a copy that cannot be read": func(temp string) error { return errors.Join(os.Remove(temp), check.Err(os.ReadFile(temp))) },
		"a copy that is damaged": func(temp string) error {
			return errors.Join(os.Truncate(temp, 100), check.Err(Open(temp, true)))
		},
	} {
		t.Run(name, func(t *testing.T) { wantNamed(t, s.CopyTo(t.Context(), copied, kv.Pages, nil, inspect), copied) })
	}
	long := filepath.Join(dir, strings.Repeat("n", 250)) // the temporary name is longer than a name may be
	wantNamed(t, s.CopyTo(t.Context(), long, kv.Pages, nil, nil), long)
	wantNamed(t, Create(long, putK("v")), long)

	// Compact renames the open file. Later errors contain its final name.
	check.Must(t, s.Compact(t.Context(), nil))
	check.Must(t, s.current.file.Close())
	wantNamed(t, s.Update(putK("w")), path)
}
