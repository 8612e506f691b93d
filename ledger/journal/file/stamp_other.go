//go:build !unix && !windows

package file

import (
	"io/fs"
	"os"
)

func stampPath(path string) (stamp, error) { return stampOf(os.Stat(path)) }

func lstampPath(path string, _ withTime) (stamp, error) { return stampOf(os.Lstat(path)) }

func stampFile(f *os.File, _ withTime) (stamp, error) { return stampOf(f.Stat()) }

// stampOf has the size only.
func stampOf(info fs.FileInfo, err error) (stamp, error) {
	if err != nil {
		return stamp{}, err
	}
	return stamp{size: info.Size()}, nil
}
