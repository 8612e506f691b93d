//go:build !unix

package pgtest

import (
	"errors"
	"syscall"
)

// account is the user and group that a server runs as.
type account struct{ Uid, Gid uint32 }

var errNoUnix = errors.New("start PostgreSQL for tests: supported only on Unix")

func unprivileged() (*account, error)          { return nil, errNoUnix }
func attributes(*account) *syscall.SysProcAttr { return nil }
