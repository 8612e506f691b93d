package ledgerhttp

import (
	"io/fs"
	"syscall"
)

// mark is the identity and state of a file. At least one field changes when the file is replaced
// or written to.
type mark struct {
	device, inode   uint64
	size            int64
	written, change int64 // in ns; a program can set back the modification time, but not the change time
}

// markOf returns the mark of a file. It returns the zero mark and false if the file system provides
// no change time. Without it, a program could change the file and keep its mark.
func markOf(info fs.FileInfo) (mark, bool) {
	is, isStat := info.Sys().(*syscall.Stat_t)
	if !isStat || is.Ctim.Nano() == 0 {
		return mark{}, false
	}
	return mark{uint64(is.Dev), uint64(is.Ino), is.Size, is.Mtim.Nano(), is.Ctim.Nano()}, true
}
