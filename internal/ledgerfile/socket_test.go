package ledgerfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// Only the owner may use a socket. A socket in use is not replaced, one of a dead server is.
func TestListenUnix_InUseOrAbandoned_OnlyAbandonedIsReplaced(t *testing.T) {
	dir, err := os.MkdirTemp("", "l") // a socket's path is short
	check.Must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	l, err := ListenUnix(path)
	check.Must(t, err)
	info, err := os.Stat(path)
	check.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v", info.Mode())
	}
	if _, err := ListenUnix(path); err == nil {
		t.Error("a socket that is in use is taken")
	}
	// A killed process leaves the socket in this state: the file exists, and no process listens.
	check.Must(t, l.(*unixListener).UnixListener.Close())
	if _, err := ListenUnix(filepath.Join(dir, "no", "s")); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), ".s") {
		t.Errorf("in a missing directory: %v", err)
	}
	again, err := ListenUnix(path)
	check.Must(t, err)
	check.Must(t, again.Close())
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestListenUnix_PathTooLong_ErrorNamesPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 80), "s")
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	path = filepath.Join(filepath.Dir(path), strings.Repeat("s", 30))
	if _, err := ListenUnix(path); err == nil || !strings.Contains(err.Error(), "listen unix "+path) || strings.Contains(err.Error(), "/.s") {
		t.Errorf("%v; want %s, and no temporary name", err, path)
	}
}

// Several servers start concurrently at a path with the socket of a dead server. One of them gets
// the path, and the others do not replace it.
func TestListenUnix_ConcurrentServers_OneListens(t *testing.T) {
	dir, err := os.MkdirTemp("", "l") // a socket's path is short
	check.Must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	for range 20 {
		dead, err := ListenUnix(path)
		check.Must(t, err)
		check.Must(t, dead.(*unixListener).UnixListener.Close())
		begin, found := make(chan struct{}), make(chan net.Listener, 8)
		var starting sync.WaitGroup
		for range cap(found) {
			starting.Go(func() {
				<-begin
				l, err := ListenUnix(path)
				if err != nil {
					if taken := (*SocketError)(nil); !errors.As(err, &taken) || !taken.InUse {
						t.Error(err)
					}
					return
				}
				found <- l
			})
		}
		close(begin)
		starting.Wait()
		close(found)
		var all []net.Listener
		for l := range found {
			all = append(all, l)
		}
		if len(all) != 1 {
			t.Fatalf("%d servers listen", len(all))
		}
		c, err := net.Dial("unix", path)
		check.Must(t, err)
		check.Must(t, errors.Join(c.Close(), all[0].Close()))
	}
}

// A server that accepts no connection at the moment is not dead.
func TestListenUnix_FullAcceptQueue_IsInUse(t *testing.T) {
	dir, err := os.MkdirTemp("", "l")
	check.Must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check.Must(t, err)
	defer func() { _ = syscall.Close(fd) }()
	check.Must(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)))
	for err == nil {
		var c net.Conn
		if c, err = net.Dial("unix", path); err == nil {
			defer func() { _ = c.Close() }()
		}
	}
	l, err := ListenUnix(path)
	if taken := (*SocketError)(nil); !errors.As(err, &taken) || !taken.InUse {
		t.Errorf("%v, %v; want that it is in use", l, err)
	}
}

// Closing a listener does not remove a socket that has replaced its own.
func TestUnixListener_Close_KeepsAReplacedSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "l")
	check.Must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	first, err := ListenUnix(path)
	check.Must(t, err)
	check.Must(t, os.Remove(path))
	second, err := ListenUnix(path)
	check.Must(t, err)
	check.Must(t, first.Close())
	c, err := net.Dial("unix", path)
	check.Must(t, err)
	check.Must(t, errors.Join(c.Close(), second.Close()))
}
