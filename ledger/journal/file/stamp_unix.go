//go:build unix && !linux

package file

import (
	"io/fs"
	"os"
	"syscall"
)

func stampPath(path string) (stamp, error) { return stampOf(os.Stat(path)) }

func lstampPath(path string) (stamp, error) { return stampOf(os.Lstat(path)) }

func stampFile(f *os.File) (stamp, error) { return stampOf(f.Stat()) }

func stampOf(info fs.FileInfo, err error) (stamp, error) {
	if err != nil {
		return stamp{}, err
	}
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, known := info.Sys().(*syscall.Stat_t); known {
		s.id, s.links = [2]uint64{uint64(sys.Dev), uint64(sys.Ino)}, uint64(sys.Nlink)
	}
	return s, nil
}
