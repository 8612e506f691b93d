package ledgerfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// at returns the path in an [fs.PathError] or [os.LinkError].
func at(err error) string {
	var one *fs.PathError
	var two *os.LinkError
	switch {
	case errors.As(err, &one):
		return one.Path
	case errors.As(err, &two):
		return two.Old + " " + two.New
	}
	return ""
}

func TestRenamed_TemporaryName_BecomesThePath(t *testing.T) {
	const temp, path = "/dir/.x.ABC", "/dir/x"
	opened := &fs.PathError{Op: "open", Path: temp, Err: syscall.ENOSPC}
	for _, c := range []struct {
		err      error
		temps    []string
		want, at string
	}{
		{opened, nil, "open /dir/x: no space left on device", path},
		{fmt.Errorf("copy: %w", opened), []string{temp}, "copy: open /dir/x: no space left on device", path},
		{&fs.PathError{Op: "openat", Path: ".x.ABC", Err: syscall.EACCES}, []string{temp, ".x.ABC"}, "openat /dir/x: permission denied", path},
		{&os.LinkError{Op: "rename", Old: temp, New: path, Err: syscall.EIO}, []string{temp}, "rename /dir/x: input/output error", path + " " + path},
		{&os.LinkError{Op: "renameat", Old: ".x.ABC", New: "x", Err: syscall.EIO}, []string{temp, ".x.ABC"}, "renameat /dir/x: input/output error", path + " " + path},
		{fmt.Errorf("%w; nor a rename: rename %s %s: no", &os.LinkError{Op: "link", Old: temp, New: path, Err: syscall.EIO}, temp, path), []string{temp},
			"link /dir/x: input/output error; nor a rename: rename /dir/x: no", path + " " + path},
		{&fs.PathError{Op: "open", Path: "/other", Err: syscall.ENOENT}, []string{temp}, "open /other: no such file or directory", "/other"},
		{&fs.PathError{Op: "open", Path: temp + "/copy.db", Err: syscall.ENOENT}, []string{temp + "/copy.db", temp}, "open /dir/x: no such file or directory", path},
	} {
		err := Renamed(c.err, path, c.temps...)
		if err.Error() != c.want || at(err) != c.at {
			t.Errorf("%v is %q, at %q; want %q, at %q", c.err, err, at(err), c.want, c.at)
		}
		var number syscall.Errno
		if !errors.As(c.err, &number) || !errors.Is(err, number) {
			t.Errorf("%v is no %v any more", err, number)
		}
	}
	if err := Renamed(nil, path, temp); err != nil {
		t.Error(err)
	}
}

// wantPath checks that an error names the requested path, and no temporary file.
func wantPath(t *testing.T, err error, path, doing string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), doing+" "+path) || strings.Contains(err.Error(), "/.") || strings.Contains(err.Error(), " .") {
		t.Errorf("%v; want the path %s after %q, and no temporary name", err, path, doing)
	}
	if named := at(err); named != path && named != path+" "+path {
		t.Errorf("%v has the path %q, want %q", err, named, path)
	}
}

func TestFile_AnyStepFails_ErrorNamesPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	path := filepath.Join(dir, "file")
	begin := func() *File {
		f, err := Create(path, Options{})
		must(t, err)
		return f
	}

	f := begin()
	must(t, f.new.Close()) // nothing can be written any more
	_, err = f.Write([]byte("x"))
	wantPath(t, err, path, "write")
	wantPath(t, f.Commit(), path, "chmod")

	f = begin()
	must(t, os.Remove(filepath.Join(dir, f.temp))) // the rename has nothing to rename
	wantPath(t, f.Commit(), path, "renameat")

	long := filepath.Join(dir, strings.Repeat("n", 250)) // the temporary name is longer than a name may be
	_, err = Create(long, Options{})
	wantPath(t, err, long, "openat")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
