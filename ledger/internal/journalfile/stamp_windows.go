package journalfile

import (
	"errors"
	"os"
	"syscall"
)

// stampPath returns the stamp of a path, after symbolic links, without a time.
func stampPath(path string) (s stamp, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	s, err = stampFile(f, false)
	return s, errors.Join(err, f.Close())
}

// lstampPath is stampPath: it follows a symbolic link, too.
func lstampPath(path string, _ withTime) (stamp, error) { return stampPath(path) }

// stampFile returns the stamp of an open file. It omits the time, because Windows may update the
// time of an open file only when it is closed.
func stampFile(f *os.File, _ withTime) (s stamp, err error) {
	var d syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &d); err != nil {
		return s, os.NewSyscallError("GetFileInformationByHandle", err)
	}
	s.id = [2]uint64{uint64(d.VolumeSerialNumber), uint64(d.FileIndexHigh)<<32 | uint64(d.FileIndexLow)}
	s.links, s.size = uint64(d.NumberOfLinks), int64(d.FileSizeHigh)<<32|int64(d.FileSizeLow)
	return s, nil
}
