// Package conns bounds the connections of a server, so that connections without a valid token keep
// nobody out who has one.
//
// A connection is unproven until a request on it was admitted. Where one more would be too many,
// the unproven connection that is open for longest is closed in its favour, then the one that is
// idle for longest. So a caller that sends its request as soon as it is connected gets in, however
// many connections wait for nothing. Most of the connections may be proven for others than
// operators and metrics, but not all: the rest is what newcomers come by.
package conns

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits bound connections.
type Limits struct {
	Most       int           // at a time
	PerAddress int           // of one address at a time; 0 does not count by address
	Unproven   time.Duration // until a request must have been admitted
}

// reserved is the part of all connections that only those with priority may have proven: one in
// eight, rounded up.
func (l Limits) reserved() int { return (l.Most + 7) / 8 }

// sendBuffer is what the system keeps of an answer for one connection. Without a bound it keeps
// megabytes, and a reader that is slow but steady seems to have stopped while they are taken.
const sendBuffer = 256 << 10

// A waiting connection is one that only its client keeps open. The kinds are in the order in which
// connections are closed in favour of others.
const (
	unproven = iota // no request was admitted yet
	idle            // between two requests
	idlePriority
	kinds
	active = kinds // a request is in progress: it is never closed for others
)

// group is a set of connections: all of them, or those of one address.
type group struct {
	count   int
	waiting [kinds]list.List // of *Conn, the first waits for longest
}

// next returns the connection to be closed in favour of another one, or nil.
func (g *group) next(last int) *Conn {
	for kind := range last + 1 {
		if first := g.waiting[kind].Front(); first != nil {
			return first.Value.(*Conn)
		}
	}
	return nil
}

// guard counts the connections of one listener.
type guard struct {
	Limits
	after func(time.Duration, func()) (stop func() bool) // time.AfterFunc, but for tests

	mu        sync.Mutex
	all       group
	addresses map[netip.Prefix]*group
	proven    int            // others than those with priority
	of        map[string]int // the same, by principal
}

// Bound returns a listener whose connections are bounded. Its Accept never waits for one of them to
// end. Connections without an IP address are not counted by address.
func Bound(l net.Listener, limits Limits) net.Listener {
	after := func(d time.Duration, f func()) (stop func() bool) { return time.AfterFunc(d, f).Stop }
	return &listener{l, newGuard(limits, after)}
}

func newGuard(l Limits, after func(time.Duration, func()) func() bool) *guard {
	return &guard{Limits: l, after: after, addresses: map[netip.Prefix]*group{}, of: map[string]int{}}
}

type listener struct {
	net.Listener
	guard *guard
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
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

// Conn is a connection that is counted until it is closed.
type Conn struct {
	net.Conn
	guard *guard

	// The rest is guarded by guard.mu.
	groups    []*group        // nil once it is closed
	elements  []*list.Element // its places among the waiting, by group; nil while a request is in progress
	kind      int
	address   netip.Prefix
	principal string
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
func (g *guard) place(inner net.Conn) *Conn {
	if tcp, is := inner.(*net.TCPConn); is {
		_ = tcp.SetWriteBuffer(sendBuffer) // else the system chooses, which is slower to show progress
	}
	g.mu.Lock()
	c := &Conn{Conn: inner, guard: g, groups: []*group{&g.all}}
	var closed []*Conn
	if address, has := addressOf(inner); has && g.PerAddress > 0 {
		c.address = address
		of := g.addresses[address]
		if of == nil {
			of = &group{}
			g.addresses[address] = of
		}
		c.groups = append(c.groups, of)
	}
	for i, most := range slices.Backward([]int{g.Most, g.PerAddress}[:len(c.groups)]) {
		if c.groups[i].count < most {
			continue
		}
		victim := c.groups[i].next(idlePriority)
		if victim == nil {
			g.forget(c.address)
			g.mu.Unlock()
			shut(closed)
			return nil
		}
		g.remove(victim)
		closed = append(closed, victim)
	}
	if c.address.IsValid() {
		g.addresses[c.address] = c.groups[1] // which is forgotten with the last of its connections
	}
	for _, one := range c.groups {
		one.count++
	}
	g.wait(c, unproven)
	c.stop = g.after(g.Unproven, c.expire)
	g.mu.Unlock()
	shut(closed)
	return c
}

// shut closes connections that are not counted any more.
func shut(all []*Conn) {
	for _, c := range all {
		_ = c.Conn.Close()
	}
}

// wait notes that only its client keeps a connection open, or, with active, that this is over.
func (g *guard) wait(c *Conn, kind int) {
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
func (g *guard) remove(c *Conn) {
	if c.groups == nil {
		return
	}
	g.wait(c, active)
	for _, one := range c.groups {
		one.count--
	}
	c.groups = nil
	g.forget(c.address)
	g.disown(c)
	c.stop()
}

// forget drops an address without connections.
func (g *guard) forget(address netip.Prefix) {
	if of := g.addresses[address]; of != nil && of.count == 0 {
		delete(g.addresses, address)
	}
}

// disown takes a connection from its principal.
func (g *guard) disown(c *Conn) {
	if c.principal == "" {
		return
	}
	g.proven--
	if g.of[c.principal]--; g.of[c.principal] == 0 {
		delete(g.of, c.principal)
	}
	c.principal = ""
}

// expire closes a connection that was unproven for too long.
func (c *Conn) expire() {
	c.guard.mu.Lock()
	late := c.groups != nil && c.kind == unproven
	if late {
		c.guard.remove(c)
	}
	c.guard.mu.Unlock()
	if late {
		_ = c.Conn.Close()
	}
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.guard.mu.Lock()
	c.guard.remove(c)
	c.guard.mu.Unlock()
	return c.Conn.Close()
}

// Prove notes that a request of a principal was admitted on the connection of a context. It returns
// false if the principal has as many connections as it may, which is fewer than half of what is
// left of those for all without priority. The connection is unproven then, and must be closed after
// the answer. A context without a bounded connection is fine.
func Prove(ctx context.Context, principal string, priority bool) bool {
	c, is := ctx.Value(key{}).(*Conn)
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
	c.priority = priority
	if !priority {
		if free := g.Most - g.reserved() - g.proven; g.of[principal] >= free {
			if c.kind != unproven {
				g.wait(c, unproven)
				c.stop = g.after(g.Unproven, c.expire)
			}
			return false
		}
		c.principal = principal
		g.proven++
		g.of[principal]++
	}
	c.stop()
	g.wait(c, active)
	return true
}

type key struct{}

// Context is the ConnContext of a server: requests know the connection that they come by.
func Context(ctx context.Context, c net.Conn) context.Context {
	if inner := inside(c); inner != nil {
		return context.WithValue(ctx, key{}, inner)
	}
	return ctx
}

// State is the ConnState of a server.
func State(c net.Conn, state http.ConnState) {
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
func inside(c net.Conn) *Conn {
	if encrypted, is := c.(*tls.Conn); is {
		c = encrypted.NetConn()
	}
	inner, _ := c.(*Conn)
	return inner
}
