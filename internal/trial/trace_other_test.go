//go:build !(linux && amd64)

package trial

import (
	"os/exec"
	"syscall"
)

// supported returns whether processes can be traced here.
func supported() bool { return false }

// Run returns [ErrUnsupported].
func Run(*exec.Cmd, Watcher) (syscall.WaitStatus, error) {
	var none syscall.WaitStatus
	return none, ErrUnsupported
}
