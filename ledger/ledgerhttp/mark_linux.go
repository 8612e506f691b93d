package ledgerhttp

import (
	"io/fs"
	"syscall"
)

// mark is what the system reports of a file, of which something is different once the file is
// replaced or written to.
type mark struct {
	device, inode   uint64
	size            int64
	written, change int64 // in ns; the time of change cannot be set back, as that of writing can
}

// markOf returns the mark of a file, and false if there is none that can be relied on.
func markOf(info fs.FileInfo) (mark, bool) {
	is, isStat := info.Sys().(*syscall.Stat_t)
	if !isStat || is.Ctim.Nano() == 0 {
		return mark{}, false
	}
	return mark{uint64(is.Dev), uint64(is.Ino), is.Size, is.Mtim.Nano(), is.Ctim.Nano()}, true
}
