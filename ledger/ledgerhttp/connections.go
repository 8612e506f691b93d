package ledgerhttp

import (
	queue "container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// sendBuffer is the size in bytes of the operating system's send buffer for one connection.
// Without this bound the system buffers megabytes. A slow but steady reader would then seem to
// have stopped while it drains them.
const sendBuffer = 256 << 10

// These are the states of a connection. In all but active the connection is waiting: only its
// client keeps it open. When the server needs a slot, it closes a waiting connection, in the order
// of these constants.
const (
	unproven      = iota          // no request has been admitted, or the last one was refused by admitConnection
	idle                          // between two requests
	idlePriority                  // between two requests of an operator or of metrics
	waitingStates                 // the number of the states above
	active        = waitingStates // a request is in progress; never closed to make a slot free
)

// group is a set of connections: all connections, or those of one address.
type group struct {
	count   int
	waiting [waitingStates]queue.List // by state, of *boundConn; the front has waited longest
}

// next returns the connection to close when a slot is needed, or nil if no connection is waiting.
// It takes the first state in which any connection waits, and of this state the connection that has
// waited longest.
func (g *group) next() *boundConn {
	for state := range waitingStates {
		if first := g.waiting[state].Front(); first != nil {
			return first.Value.(*boundConn)
		}
	}
	return nil
}

// connectionLimiter counts and bounds the connections of one listener.
type connectionLimiter struct {
	total      int                                            // the limit for all connections
	perAddress int                                            // the limit for one address; negative: no such limit
	unproven   time.Duration                                  // how long a connection may be unproven
	after      func(time.Duration, func()) (stop func() bool) // time.AfterFunc, replaced in tests

	mu        sync.Mutex
	all       group
	addresses map[netip.Prefix]*group // by addressOf; each has at least one connection
	proven    int                     // connections that count for a principal: proven, without priority
	provenBy  map[principal]int       // the same, by principal
}

// Listener returns a listener for [Handler.Server] that bounds its connections by [Limits]. Its
// Accept never waits for a connection to end. A TLS listener wraps this one.
//
// A connection is unproven until the gate ([Options.Gate]) has admitted a request on it. When a new
// connection exceeds a limit, the listener closes another one for it. That is the unproven
// connection that has been open longest or, without an unproven one, the connection that has been
// idle longest. Idle connections of operators and metrics are closed last. The listener refuses the
// new connection only if requests are in progress on all others. One connection in eight is
// reserved for operators, metrics and new clients.
func (h *Handler) Listener(l net.Listener) net.Listener {
	return &boundListener{l, newConnectionLimiter(h.limits, func(d time.Duration, f func()) (stop func() bool) {
		return time.AfterFunc(d, f).Stop
	})}
}

// newConnectionLimiter returns a limiter without connections. after is [time.AfterFunc] or a test's
// replacement of it.
func newConnectionLimiter(l Limits, after func(time.Duration, func()) func() bool) *connectionLimiter {
	return &connectionLimiter{
		total: l.Connections, perAddress: l.PerAddress, unproven: l.Unproven,
		after: after, addresses: map[netip.Prefix]*group{}, provenBy: map[principal]int{},
	}
}

// reserved returns how many connections are not available to proven callers without priority: one
// in eight of all, rounded up.
func (l *connectionLimiter) reserved() int { return (l.total + 7) / 8 }

// boundListener accepts connections that limiter has placed. See [Handler.Listener].
type boundListener struct {
	net.Listener
	limiter *connectionLimiter
}

// Accept implements [net.Listener]. It closes a connection that has no place within the limits, and
// waits for the next one.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if placed := l.limiter.place(c); placed != nil {
			return placed, nil
		}
		_ = c.Close()
	}
}

// boundConn is a connection that counts against the limits until it is closed.
type boundConn struct {
	net.Conn
	limiter *connectionLimiter

	// limiter.mu guards the fields below.
	groups []*group // all connections, and those of its address if they are limited; nil once it is closed
	// its entries in the waiting lists, one for each group; nil while a request is in progress
	elements  []*queue.Element
	state     int
	address   netip.Prefix // zero if the connections of its address are not limited
	principal principal    // zero if the connection counts for no principal
	priority  bool         // its last request was of an operator or of metrics
	stop      func() bool  // stops the timer of an unproven connection; does nothing after that
}

// addressOf returns the key by which connections are counted. That is an IPv4 address, or the /64
// network of an IPv6 address, because one client can own all addresses of a /64. It returns false
// for a connection without an IP address.
func addressOf(c net.Conn) (netip.Prefix, bool) {
	tcp, is := c.RemoteAddr().(*net.TCPAddr)
	if !is {
		return netip.Prefix{}, false
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	return prefix, err == nil
}

// place counts a new connection, as unproven, and returns it. If the limit of its address or of all
// connections is reached, place first closes a waiting connection of the same address or of all. If
// none of these is waiting, it returns nil, and the caller closes inner.
func (l *connectionLimiter) place(inner net.Conn) *boundConn {
	if tcp, is := inner.(*net.TCPConn); is {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &boundConn{Conn: inner, limiter: l, groups: []*group{&l.all}}
	if address, has := addressOf(inner); has && l.perAddress > 0 {
		c.address = address
		of := l.addresses[address]
		if of == nil {
			of = &group{}
		}
		c.groups = append(c.groups, of)
	}
	// The limit of the address is first: a connection closed for it makes a slot of the total free,
	// too.
	for i, most := range slices.Backward([]int{l.total, l.perAddress}[:len(c.groups)]) {
		if c.groups[i].count < most {
			continue
		}
		victim := c.groups[i].next()
		if victim == nil {
			return nil
		}
		l.drop(victim)
	}
	if c.address.IsValid() {
		l.addresses[c.address] = c.groups[1] // only now, because drop may have deleted the entry
	}
	for _, one := range c.groups {
		one.count++
	}
	l.setState(c, unproven)
	c.stop = l.after(l.unproven, c.expire)
	return c
}

// drop closes a counted connection and removes it from the counts. The caller holds l.mu.
func (l *connectionLimiter) drop(c *boundConn) {
	l.remove(c)
	_ = c.Conn.Close()
}

// setState moves a connection from its state to another one, or to the end of the same state. In
// any state but active, the connection is in the waiting lists of its groups. The caller holds
// l.mu.
func (l *connectionLimiter) setState(c *boundConn, state int) {
	for i, element := range c.elements {
		c.groups[i].waiting[c.state].Remove(element)
	}
	c.elements, c.state = nil, state
	if state == active {
		return
	}
	for _, one := range c.groups {
		c.elements = append(c.elements, one.waiting[state].PushBack(c))
	}
}

// remove takes a connection out of all counts and waiting lists. It does nothing if that was done
// before. The caller holds l.mu.
func (l *connectionLimiter) remove(c *boundConn) {
	if c.groups == nil {
		return
	}
	l.setState(c, active) // an active connection is in no waiting list
	for _, one := range c.groups {
		one.count--
	}
	c.groups = nil
	if of := l.addresses[c.address]; of != nil && of.count == 0 {
		delete(l.addresses, c.address)
	}
	l.uncountPrincipal(c)
	c.stop()
}

// uncountPrincipal stops counting a connection for its principal. It does nothing if the connection
// counts for none. The caller holds l.mu.
func (l *connectionLimiter) uncountPrincipal(c *boundConn) {
	if (c.principal == principal{}) {
		return
	}
	l.proven--
	if l.provenBy[c.principal]--; l.provenBy[c.principal] == 0 {
		delete(l.provenBy, c.principal)
	}
	c.principal = principal{}
}

// expire closes a connection that is still unproven when its timer fires.
func (c *boundConn) expire() {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.groups != nil && c.state == unproven {
		c.limiter.drop(c)
	}
}

// Close implements [net.Conn].
func (c *boundConn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// admitConnection records that the gate has admitted a request of a caller on the connection of
// ctx. The connection is then active and, for a caller without priority, counts for its principal.
//
// It returns false if the principal already has as many proven connections as are still free for
// callers without priority. So one principal holds at most half of them. The connection is then
// unproven, and must be closed after the answer. Operators and metrics have priority, and no such
// limit. admitConnection returns true, and records nothing, if ctx has no bounded connection.
func admitConnection(ctx context.Context, by Holder) bool {
	c, is := ctx.Value(connectionKey{}).(*boundConn)
	if !is {
		return true
	}
	limiter := c.limiter
	limiter.mu.Lock()
	defer limiter.mu.Unlock()
	if c.groups == nil {
		return true // the connection is closed, so the answer reaches no client
	}
	limiter.uncountPrincipal(c) // the previous request may have had another token
	c.priority = sideOf(by.Role) != ofOthers
	if !c.priority {
		if free := limiter.total - limiter.reserved() - limiter.proven; limiter.provenBy[by.principal()] >= free {
			if c.state != unproven {
				limiter.setState(c, unproven)
				c.stop = limiter.after(limiter.unproven, c.expire)
			}
			return false
		}
		c.principal = by.principal()
		limiter.proven++
		limiter.provenBy[c.principal]++
	}
	c.stop()
	limiter.setState(c, active)
	return true
}

// connectionKey is the key of the [*boundConn] in the context of a request.
type connectionKey struct{}

// withConnection is the [http.Server.ConnContext] of a server. It gives each request its
// connection.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if inner := innerConn(c); inner != nil {
		return context.WithValue(ctx, connectionKey{}, inner)
	}
	return ctx
}

// noteState is the [http.Server.ConnState] of a server. It records when a proven connection
// becomes idle or active. It does not change an unproven connection: only admitConnection does.
func noteState(c net.Conn, state http.ConnState) {
	inner := innerConn(c)
	if inner == nil || state != http.StateIdle && state != http.StateActive {
		return
	}
	inner.limiter.mu.Lock()
	defer inner.limiter.mu.Unlock()
	switch {
	case inner.groups == nil || inner.state == unproven: // closed, or unproven
	case state == http.StateActive:
		inner.limiter.setState(inner, active)
	case inner.priority:
		inner.limiter.setState(inner, idlePriority)
	default:
		inner.limiter.setState(inner, idle)
	}
}

// innerConn returns the bounded connection inside c, which may be a TLS connection, or nil.
func innerConn(c net.Conn) *boundConn {
	if encrypted, is := c.(*tls.Conn); is {
		c = encrypted.NetConn()
	}
	inner, _ := c.(*boundConn)
	return inner
}
