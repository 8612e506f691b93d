package ledgerclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// checkServer returns an error if another user may have placed the socket at path, to which c is
// connected. It accepts a server that runs as root or as this user. It accepts a server that runs
// as a third user if only that user, root and this user could have placed the socket.
func checkServer(c net.Conn, path string) error {
	socket, is := c.(*net.UnixConn)
	if !is {
		return fmt.Errorf("%T is not the connection of a Unix socket", c)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var server *syscall.Ucred
	failed := raw.Control(func(fd uintptr) {
		server, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(failed, err); err != nil {
		return fmt.Errorf("reading the user of the server: %w", err)
	}
	if runsAsTrusted(server.Uid) {
		return nil
	}
	if err := checkOnlyWriters(server.Uid, path); err != nil {
		return fmt.Errorf("the server runs as user %d, and %w: nothing was sent; let the server listen in a "+
			"directory that only its user can write to", server.Uid, err)
	}
	return nil
}

// runsAsTrusted reports whether a user is root or this user.
func runsAsTrusted(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// checkOnlyWriters returns an error if users other than uid, root and this user can write to a
// directory on the way to path. It checks the directories of the path as it is, and those of the
// path after its symbolic links. Only users who can write to one of them can put another socket in
// place of the one at path.
func checkOnlyWriters(uid uint32, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, at := range []string{path, resolved} {
		for dir := filepath.Dir(at); ; dir = filepath.Dir(dir) {
			info, err := os.Stat(dir)
			if err != nil {
				return err
			}
			owner, is := info.Sys().(*syscall.Stat_t)
			// 0o022: writable by the group or by all
			if !is || owner.Uid != uid && !runsAsTrusted(owner.Uid) || info.Mode().Perm()&0o022 != 0 {
				return fmt.Errorf("other users can write to %s", dir)
			}
			if dir == filepath.Dir(dir) { // the root directory
				break
			}
		}
	}
	return nil
}
