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

// sendBuffer is what the system keeps of an answer for one connection. Without a bound it keeps
// megabytes, and a reader that is slow but steady seems to have stopped while they are taken.
const sendBuffer = 256 << 10

// A waiting connection is one that only its client keeps open. The kinds are in the order in which
// connections are closed in favour of others.
const (
	unproven = iota // no request was admitted yet
	idle            // between two requests
	idlePriority
	waitingKinds
	active = waitingKinds // a request is in progress: it is never closed for others
)

// group is a set of connections: all of them, or those of one address.
type group struct {
	count   int
	waiting [waitingKinds]queue.List // of *boundConn, the first waits for longest
}

// next returns the connection to be closed in favour of another one, or nil.
func (g *group) next() *boundConn {
	for kind := range waitingKinds {
		if first := g.waiting[kind].Front(); first != nil {
			return first.Value.(*boundConn)
		}
	}
	return nil
}

// guard counts the connections of one listener.
type guard struct {
	most       int                                            // connections
	perAddress int                                            // of them; negative for no such bound
	unproven   time.Duration                                  // how long one may be
	after      func(time.Duration, func()) (stop func() bool) // time.AfterFunc, but for tests

	mu        sync.Mutex
	all       group
	addresses map[netip.Prefix]*group
	proven    int               // others than those with priority
	of        map[principal]int // the same, by principal
}

// Listener returns a listener for [Handler.Server] whose connections are bounded by [Limits]. Its
// Accept never waits for one of them to end. TLS goes on top of it.
//
// A connection counts as unproven until a request on it was admitted by the gate. One too many is
// accepted all the same: the unproven connection that is open for longest is closed for it, then
// the one that is idle for longest. It is refused only where requests are in progress on all of
// them. One in eight is kept for operators, metrics and newcomers.
func (h *Handler) Listener(l net.Listener) net.Listener {
	return &boundListener{l, newGuard(h.limits, func(d time.Duration, f func()) (stop func() bool) {
		return time.AfterFunc(d, f).Stop
	})}
}

func newGuard(l Limits, after func(time.Duration, func()) func() bool) *guard {
	return &guard{
		most: l.Connections, perAddress: l.PerAddress, unproven: l.Unproven,
		after: after, addresses: map[netip.Prefix]*group{}, of: map[principal]int{},
	}
}

// reserved is the part of all connections that only those with priority may have proven: one in
// eight, rounded up.
func (g *guard) reserved() int { return (g.most + 7) / 8 }

type boundListener struct {
	net.Listener
	guard *guard
}

// Accept implements [net.Listener].
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if placed := l.guard.place(c); placed != nil {
			return placed, nil
		}
		_ = c.Close()
	}
}

// boundConn is a connection that is counted until it is closed.
type boundConn struct {
	net.Conn
	guard *guard

	// The rest is guarded by guard.mu.
	groups    []*group         // nil once it is closed
	elements  []*queue.Element // its places among the waiting, by group; nil while a request is in progress
	kind      int
	address   netip.Prefix
	principal principal // zero if it does not count by any
	priority  bool
	stop      func() bool // the timer of a connection that is unproven
}

// addressOf returns what connections are counted by, or false: an IPv4 address, or a network of
// IPv6 with 64 bits, which one client may have all of.
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

// place counts a new connection. It returns nil if there is no place for it.
func (g *guard) place(inner net.Conn) *boundConn {
	if tcp, is := inner.(*net.TCPConn); is {
		_ = tcp.SetWriteBuffer(sendBuffer) // else the system chooses, which is slower to show progress
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &boundConn{Conn: inner, guard: g, groups: []*group{&g.all}}
	if address, has := addressOf(inner); has && g.perAddress > 0 {
		c.address = address
		of := g.addresses[address]
		if of == nil {
			of = &group{}
		}
		c.groups = append(c.groups, of)
	}
	for i, most := range slices.Backward([]int{g.most, g.perAddress}[:len(c.groups)]) {
		if c.groups[i].count < most {
			continue
		}
		victim := c.groups[i].next()
		if victim == nil {
			return nil
		}
		g.drop(victim)
	}
	if c.address.IsValid() {
		g.addresses[c.address] = c.groups[1] // it is forgotten with the last of its connections
	}
	for _, one := range c.groups {
		one.count++
	}
	g.wait(c, unproven)
	c.stop = g.after(g.unproven, c.expire)
	return c
}

// drop closes a connection that is counted.
func (g *guard) drop(c *boundConn) {
	g.remove(c)
	_ = c.Conn.Close()
}

// wait notes that only its client keeps a connection open, or, with active, that this is over.
func (g *guard) wait(c *boundConn, kind int) {
	for i, element := range c.elements {
		c.groups[i].waiting[c.kind].Remove(element)
	}
	c.elements, c.kind = nil, kind
	if kind == active {
		return
	}
	for _, one := range c.groups {
		c.elements = append(c.elements, one.waiting[kind].PushBack(c))
	}
}

// remove takes a connection out of all counts, once.
func (g *guard) remove(c *boundConn) {
	if c.groups == nil {
		return
	}
	g.wait(c, active)
	for _, one := range c.groups {
		one.count--
	}
	c.groups = nil
	if of := g.addresses[c.address]; of != nil && of.count == 0 {
		delete(g.addresses, c.address)
	}
	g.disown(c)
	c.stop()
}

// disown takes a connection from its principal.
func (g *guard) disown(c *boundConn) {
	if (c.principal == principal{}) {
		return
	}
	g.proven--
	if g.of[c.principal]--; g.of[c.principal] == 0 {
		delete(g.of, c.principal)
	}
	c.principal = principal{}
}

// expire closes a connection that was unproven for too long.
func (c *boundConn) expire() {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	if c.groups != nil && c.kind == unproven {
		c.guard.drop(c)
	}
}

// Close implements [net.Conn].
func (c *boundConn) Close() error {
	c.guard.mu.Lock()
	c.guard.remove(c)
	c.guard.mu.Unlock()
	return c.Conn.Close()
}

// prove notes that a request of a principal was admitted on the connection of a context. It returns
// false if the principal has as many connections as it may, which is fewer than half of what is
// left of those for all without priority. The connection is unproven then, and must be closed after
// the answer. A context without a bounded connection is fine.
func prove(ctx context.Context, by Holder) bool {
	c, is := ctx.Value(connectionKey{}).(*boundConn)
	if !is {
		return true
	}
	g := c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.groups == nil {
		return true // it was closed: what is answered goes nowhere
	}
	g.disown(c)
	c.priority = sideOf(by.Role) != ofOthers
	if !c.priority {
		if free := g.most - g.reserved() - g.proven; g.of[by.principal()] >= free {
			if c.kind != unproven {
				g.wait(c, unproven)
				c.stop = g.after(g.unproven, c.expire)
			}
			return false
		}
		c.principal = by.principal()
		g.proven++
		g.of[c.principal]++
	}
	c.stop()
	g.wait(c, active)
	return true
}

type connectionKey struct{}

// withConnection is the ConnContext of a server: requests know the connection that they come by.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if inner := inside(c); inner != nil {
		return context.WithValue(ctx, connectionKey{}, inner)
	}
	return ctx
}

// noteState is the ConnState of a server.
func noteState(c net.Conn, state http.ConnState) {
	inner := inside(c)
	if inner == nil || state != http.StateIdle && state != http.StateActive {
		return
	}
	inner.guard.mu.Lock()
	defer inner.guard.mu.Unlock()
	switch {
	case inner.groups == nil || inner.kind == unproven:
	case state == http.StateActive:
		inner.guard.wait(inner, active)
	case inner.priority:
		inner.guard.wait(inner, idlePriority)
	default:
		inner.guard.wait(inner, idle)
	}
}

// inside returns the bounded connection below one, which may be encrypted, or nil.
func inside(c net.Conn) *boundConn {
	if encrypted, is := c.(*tls.Conn); is {
		c = encrypted.NetConn()
	}
	inner, _ := c.(*boundConn)
	return inner
}
