//go:build !unix

package pgtest

import (
	"errors"
	"syscall"
)

// account is whom a server runs as.
type account struct{ Uid, Gid uint32 }

var errNoUnix = errors.New("servers for tests run on Unix only")

func unprivileged() (*account, error)          { return nil, errNoUnix }
func attributes(*account) *syscall.SysProcAttr { return nil }
