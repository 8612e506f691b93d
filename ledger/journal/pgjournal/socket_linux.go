package pgjournal

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unheard is how many milliseconds sent data may stay unacknowledged before the connection fails.
const unheard = 20_000

// controlSocket sets a new socket of a connection so that it fails if the other machine disappears
// without closing it, [unheard] milliseconds after the first data that was not acknowledged. It
// does nothing for a Unix socket.
func controlSocket(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return c.Control(func(fd uintptr) {
		// A kernel without this option takes longer to notice.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unheard)
	})
}
