//go:build unix && !linux

package journalfile

import (
	"io/fs"
	"os"
	"syscall"
)

func stampPath(path string) (stamp, error) {
	info, err := os.Stat(path)
	return stampOf(info, err, false)
}

func lstampPath(path string, how withTime) (stamp, error) {
	info, err := os.Lstat(path)
	return stampOf(info, err, how)
}

func stampFile(f *os.File, how withTime) (stamp, error) {
	info, err := f.Stat()
	return stampOf(info, err, how)
}

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
