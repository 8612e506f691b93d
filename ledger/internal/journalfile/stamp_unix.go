//go:build unix && !linux

package journalfile

import (
	"io/fs"
	"os"
	"syscall"
)

// stampPath returns the stamp of a path, after symbolic links, without a time.
func stampPath(path string) (stamp, error) {
	info, err := os.Stat(path)
	return stampOf(info, err, false)
}

// lstampPath returns the stamp of a path. If that is a symbolic link, it is the stamp of the link
// itself.
func lstampPath(path string, how withTime) (stamp, error) {
	info, err := os.Lstat(path)
	return stampOf(info, err, how)
}

// stampFile returns the stamp of an open file.
func stampFile(f *os.File, how withTime) (stamp, error) {
	info, err := f.Stat()
	return stampOf(info, err, how)
}

// stampOf returns the stamp of a file from the results of a call of stat.
func stampOf(info fs.FileInfo, err error, how withTime) (stamp, error) {
	if err != nil {
		return stamp{}, err
	}
	s := stamp{size: info.Size()}
	if how {
		s.modified = info.ModTime().UnixNano()
	}
	if sys, known := info.Sys().(*syscall.Stat_t); known {
		s.id, s.links = [2]uint64{uint64(sys.Dev), uint64(sys.Ino)}, uint64(sys.Nlink)
	}
	return s, nil
}
