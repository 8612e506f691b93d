//go:build !linux

package ledgerclient

import "net"

// checkServer checks nothing on systems other than Linux.
func checkServer(net.Conn, string) error { return nil }
