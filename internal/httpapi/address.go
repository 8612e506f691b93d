package httpapi

import (
	"fmt"
	"net"
	"strings"

	"github.com/sluicedp/sluice/ledger/api"
)

// SocketPath returns the path in an address of the form unix:PATH. isSocket is false, and path is
// "", for an address of another form. Servers and clients share SocketPath, so that an address
// means the same to both.
//
// It returns [api.ErrInvalid] for a path that is empty, has a zero byte or begins with @. Package
// net takes a name that begins with @ for an abstract socket. Abstract sockets have no owner, so
// any local user can bind one.
func SocketPath(address string) (path string, isSocket bool, err error) {
	path, isSocket = strings.CutPrefix(address, "unix:")
	switch {
	case !isSocket:
		return "", false, nil
	case path == "":
		return "", true, fmt.Errorf("%w: the address unix: has no path; an example is unix:panel.db.sock",
			api.ErrInvalid)
	case path[0] == '@':
		return "", true, fmt.Errorf("%w: the address %s: abstract sockets are not supported, because any local user "+
			"can bind one; write unix:./%s for a file of that name", api.ErrInvalid, address, path)
	case strings.ContainsRune(path, 0):
		return "", true, fmt.Errorf("%w: the address unix:… has a zero byte in its path", api.ErrInvalid)
	}
	return path, true, nil
}

// IsLoopback reports whether host is localhost or a loopback address, to which requests may go
// without TLS.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
