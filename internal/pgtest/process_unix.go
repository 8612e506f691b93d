//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is whom a server runs as.
type account = syscall.Credential

// unprivileged returns whom a server runs as, because it refuses root; nil for who runs the tests.
func unprivileged() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("a server does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(postgres.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(postgres.Gid, 10, 32)
	return &account{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// attributes are those of a process that runs as an account, in a process group of its own.
func attributes(as *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}
