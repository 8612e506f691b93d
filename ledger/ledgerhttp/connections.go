package ledgerhttp

import (
	"cmp"
	"net"
	"time"

	"github.com/sluicedp/sluice/ledger/ledgerhttp/internal/conns"
)

// Connections bound the connections of a [Server]. A zero is the default that is given with each.
//
// A connection counts as unproven until a request on it was admitted by the gate. One too many is
// taken in all the same: the unproven connection that is open for longest is closed for it, then
// the one that is idle for longest. It is refused only where requests are in progress on all of
// them. One in eight is kept for operators, metrics and newcomers.
type Connections struct {
	// Most is how many are open at a time: 12,000. Each is a file descriptor, and the ledger needs
	// some for its files.
	Most int
	// PerAddress is how many of one IP address are: 3,000. In IPv6 an address is a network of 64
	// bits. A negative number does not count by address: behind a reverse proxy all have the same.
	// A Unix socket has no addresses.
	PerAddress int
	Unproven   time.Duration // how long a connection may be unproven: 20 seconds
}

// Bound returns a listener for [Server] whose connections are bounded. TLS goes on top of it.
func (c Connections) Bound(l net.Listener) net.Listener {
	return conns.Bound(l, conns.Limits{
		Most:       cmp.Or(c.Most, 12000),
		PerAddress: max(0, cmp.Or(c.PerAddress, 3000)),
		Unproven:   cmp.Or(c.Unproven, 20*time.Second),
	})
}
