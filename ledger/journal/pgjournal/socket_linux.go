package pgjournal

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unheard is how many milliseconds a server may leave what was sent unacknowledged before the
// connection counts as broken.
const unheard = 20_000

// controlSocket has a connection break when the other machine is gone without a word.
func controlSocket(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return c.Control(func(fd uintptr) {
		// a kernel without it takes longer
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unheard)
	})
}
