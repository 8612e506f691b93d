package ledgerfile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// SocketError is returned if no socket can be created because the path is in use.
type SocketError struct {
	Path  string // of the socket
	InUse bool   // by another server, perhaps only for a moment; false if the path is a file that is no socket
	Why   string // reason, for people
}

// Error implements error.
func (e *SocketError) Error() string {
	if e.InUse {
		return fmt.Sprintf("the socket %q is in use", e.Path)
	}
	return fmt.Sprintf("%q exists already, and is not a socket", e.Path)
}

// ListenUnix listens on a Unix socket that only its owner may connect to. To ensure this from the
// beginning, it creates the socket in a directory that no other user can enter, and then moves it
// to its path.
//
// A socket that a dead server has left at path is replaced. Anything else at path is a
// [SocketError], including a symbolic link, which is neither followed nor replaced. If two servers
// start with the same path concurrently, one of them gets it. Closing the listener removes the
// socket.
func ListenUnix(path string) (_ net.Listener, err error) {
	unlock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := abandoned(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "s")
	defer func() { err = Renamed(err, path, made) }()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%w (a Unix socket's path has at most about 100 bytes)", err)
	}
	l.SetUnlinkOnClose(false) // it would remove the name in dir; unixListener removes path
	info, err := os.Lstat(made)
	if err = errors.Join(err, os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &unixListener{UnixListener: l, path: path, info: info}, nil
}

// abandoned returns nil if path does not exist, or is the socket of a server that has died: such a
// socket refuses connections. It returns a [*SocketError] if a server listens, or if path is not a
// socket. To find out, it connects to the socket.
func abandoned(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return &SocketError{Path: path, Why: "the existing file is not a socket"}
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		_ = c.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	}
	// Any other error of Dial does not show that the server has died.
	return &SocketError{path, true, "another server listens on this socket"}
}

// lockWait is how long a server waits for the lock of its socket's directory. Another server holds
// the lock for some milliseconds, while it checks whether a server uses the path, and takes the
// path.
const lockWait = 10 * time.Second

// lockSocket locks the directory of the socket at path, so that no other server takes or releases a
// path in it concurrently. It waits for the lock for [lockWait], and then returns a [*SocketError].
// The caller must call unlock. Nothing is written. If directories cannot be locked on this system,
// nothing is locked.
func lockSocket(path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	const why = "another process has locked the directory of the socket, as every server does while it starts: try " +
		"again, or listen in a directory that only this user can read"
	err = Lock(dir, true, lockWait, &SocketError{path, true, why})
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { _ = dir.Close() }, nil // closing also unlocks it
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
	info fs.FileInfo // of the socket
	once sync.Once
}

// Close implements [net.Listener]. The first call also removes the socket.
func (l *unixListener) Close() error {
	l.once.Do(l.remove)
	return l.UnixListener.Close()
}

// remove removes the socket at the listener's path, but not another one that has replaced it.
func (l *unixListener) remove() {
	unlock, err := lockSocket(l.path)
	if err != nil {
		return // the socket remains, and the next server replaces it
	}
	defer unlock()
	if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.info) {
		_ = os.Remove(l.path) // if this fails, the next server replaces the socket
	}
}
