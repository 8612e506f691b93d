package ledgerhttp

import (
	"errors"
	"syscall"
)

// mark is what the system tells of a file, of which something is different once the file is
// replaced or written to.
type mark struct {
	device, inode   uint64
	size            int64
	written, change int64 // in ns; the time of change cannot be set back, as that of writing can
}

// markOf opens a file and returns its mark, and false if there is none that can be relied on. It
// opens it, and does not only ask about the name: whoever may not read it any more must see that,
// and some file systems that lie elsewhere look for news only then. Package os would do the same,
// and take several times as long; this is done for each request.
func markOf(path string) (mark, bool) {
	var file int
	var err error
	for {
		// Without O_NONBLOCK a named pipe would wait.
		file, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return mark{}, false
	}
	var is syscall.Stat_t
	err = syscall.Fstat(file, &is)
	_ = syscall.Close(file)
	regular := is.Mode&syscall.S_IFMT == syscall.S_IFREG
	m := mark{uint64(is.Dev), uint64(is.Ino), is.Size, is.Mtim.Nano(), is.Ctim.Nano()}
	return m, err == nil && regular && is.Ctim.Nano() != 0
}
