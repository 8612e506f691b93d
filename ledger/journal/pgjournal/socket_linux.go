package pgjournal

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unheard is how many milliseconds sent data may stay unacknowledged before the connection fails.
const unheard = 20_000

// controlSocket makes a connection fail if the other machine disappears without closing it. It
// fails when sent data was not acknowledged for [unheard] milliseconds. controlSocket does nothing
// for a Unix socket.
func controlSocket(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return c.Control(func(fd uintptr) {
		// A kernel without this option takes longer to notice.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unheard)
	})
}
