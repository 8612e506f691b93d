//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user and group that a server runs as.
type account = syscall.Credential

// unprivileged returns the account for a server, because PostgreSQL refuses to run as root. It
// returns nil if the tests do not run as root: the server then runs as the same user.
func unprivileged() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find an account for PostgreSQL, which does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(postgres.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(postgres.Gid, 10, 32)
	return &account{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// attributes returns the attributes of a process that runs as an account, in its own process group.
func attributes(as *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}
