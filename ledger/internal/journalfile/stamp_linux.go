package journalfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// stampPath returns the stamp of a path, after symbolic links, without a time.
func stampPath(path string) (stamp, error) { return stampAt("stat", unix.AT_FDCWD, path, 0, false) }

// lstampPath returns the stamp of a path. If that is a symbolic link, it is the stamp of the link
// itself.
func lstampPath(path string, how withTime) (stamp, error) {
	return stampAt("lstat", unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, how)
}

// stampFile returns the stamp of an open file.
func stampFile(f *os.File, how withTime) (stamp, error) {
	s, err := stampAt("fstat", int(f.Fd()), "", unix.AT_EMPTY_PATH, how)
	if err != nil {
		return s, &fs.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return s, nil
}

// stampAt calls statx for a path relative to the directory dir, an open file. op is the name of the
// call in errors. It asks for only the fields it needs, because reading the time has a cost
// ([withTime]).
func stampAt(op string, dir int, path string, flags int, how withTime) (stamp, error) {
	want := unix.STATX_INO | unix.STATX_NLINK | unix.STATX_SIZE
	if how {
		want |= unix.STATX_MTIME
	}
	var st unix.Statx_t
	err := unix.Statx(dir, path, flags, want, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statx(dir, path, flags, want, &st)
	}
	if err != nil {
		return stamp{}, &fs.PathError{Op: op, Path: path, Err: err}
	}
	id := [2]uint64{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
	s := stamp{id: id, links: uint64(st.Nlink), size: int64(st.Size)}
	if how {
		s.modified = st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec)
	}
	return s, nil
}
