package ledgerhttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// fake is a connection from an address that notes whether it was closed.
type fake struct {
	net.Conn
	from   net.Addr
	closed int
}

func (f *fake) RemoteAddr() net.Addr { return f.from }
func (f *fake) Close() error         { f.closed++; return nil }

// bench is a guard whose timers run when the test says so.
type bench struct {
	*testing.T
	*connectionLimiter
	timers []func()
	all    []*fake
}

func newBench(t *testing.T, l Limits) *bench {
	b := &bench{T: t}
	b.connectionLimiter = newConnectionLimiter(l, func(_ time.Duration, f func()) func() bool {
		b.timers = append(b.timers, f)
		return func() bool { return false } // each is too late
	})
	return b
}

// come connects from an address, "" is a Unix socket, and returns nil if it is refused.
func (b *bench) come(from string) *boundConn {
	f := &fake{from: &net.UnixAddr{Name: "socket", Net: "unix"}}
	if from != "" {
		f.from = &net.TCPAddr{IP: net.ParseIP(from), Port: 1000 + len(b.all)}
	}
	b.all = append(b.all, f)
	c := b.place(f)
	if c == nil {
		_ = f.Close()
	}
	return c
}

// prove has a request of a principal admitted, and answered.
func (b *bench) prove(c *boundConn, name, role string) bool {
	b.Helper()
	noteState(c, http.StateActive)
	kept := admitConnection(withConnection(context.Background(), c), Holder{Name: name, Role: role})
	if kept {
		noteState(c, http.StateIdle)
	}
	return kept
}

// open returns how many connections are, and checks the counts.
func (b *bench) open() (n int) {
	b.Helper()
	for _, f := range b.all {
		if f.closed == 0 {
			n++
		}
	}
	waiting := 0
	for kind := range waitingStates {
		waiting += b.connectionLimiter.all.waiting[kind].Len()
	}
	check.That(b, b.connectionLimiter.all.count == n && waiting <= n,
		"%d connections are open, %d are counted, %d of them as waiting", n, b.connectionLimiter.all.count, waiting)
	return n
}

func isClosed(c *boundConn) bool { return c.Conn.(*fake).closed > 0 }

// However many connections are open on which no request was admitted, one more gets in: for it the
// one is closed that is open for longest.
func TestBound_UnprovenConnectionsFillAll_NewcomerGetsIn(t *testing.T) {
	b := newBench(t, Limits{Connections: 100, PerAddress: 1000, Unproven: time.Minute})
	first := b.come("192.0.2.1")
	for range 12000 {
		check.Need(t, b.come("192.0.2.1") != nil, "a newcomer is refused")
	}
	n := b.open()
	check.Need(t, n == 100 && isClosed(first), "%d are open", n)
	boss := b.come("192.0.2.1")
	check.Need(t, b.prove(boss, "operator", roleOperator), "an operator is refused")
	for range 200 {
		b.come("192.0.2.1")
	}
	b.open()
	check.That(t, !isClosed(boss), "the connection of an operator is closed for others")
}

// One address has no more than its share, so that it takes none from others; where there are no
// addresses, or they are not counted, only the sum is bounded.
func TestBound_OneAddress_HasItsShareOnly(t *testing.T) {
	b := newBench(t, Limits{Connections: 100, PerAddress: 10, Unproven: time.Minute})
	other := b.come("198.51.100.7")
	for range 500 {
		b.come("192.0.2.1")
	}
	n := b.open()
	check.That(t, n == 11 && !isClosed(other), "%d are open", n)
	for i := range 500 { // one network of IPv6
		b.come(fmt.Sprintf("2001:db8::%x", i+1))
	}
	n = b.open()
	check.That(t, n == 21, "with a network of IPv6 %d are open", n)
	b.come("2001:db8:0:1::1")
	b.come("::ffff:192.0.2.1") // the first address, written otherwise
	n = b.open()
	check.That(t, n == 22, "with another network of IPv6 %d are open", n)
	for range 200 {
		b.come("")
	}
	n = b.open()
	check.That(t, n == 100, "with a Unix socket %d are open", n)
	b = newBench(t, Limits{Connections: 100, PerAddress: -1, Unproven: time.Minute})
	for range 200 {
		b.come("192.0.2.1")
	}
	n = b.open()
	check.That(t, n == 100 && len(b.addresses) == 0, "without a share %d are open", n)
}

// Principals have no more connections than are left for others, and one in eight is for operators
// and newcomers only.
func TestProve_TwoPrincipalsTakeAllTheyCan_OthersGetIn(t *testing.T) {
	b := newBench(t, Limits{Connections: 80, PerAddress: -1, Unproven: time.Minute})
	busy := func(principal string) (n int) {
		for range 100 {
			c := b.come("")
			check.Need(t, c != nil, "a newcomer is refused")
			noteState(c, http.StateActive)
			if admitConnection(withConnection(context.Background(), c), Holder{Name: principal, Role: roleDesk}) {
				n++ // and a request goes on for ever
			}
		}
		return n
	}
	for i, want := range []int{35, 18, 9, 4} {
		n := busy(fmt.Sprint(i))
		check.That(t, n == want, "principal %d has %d connections, want %d", i, n, want)
	}
	for range 10 {
		c := b.come("")
		check.Need(t, c != nil && b.prove(c, "operator", roleOperator), "an operator is refused")
	}
	b.open()
}

// Of connections between two requests the one is closed for a newcomer that waits for longest,
// those of operators last; one whose request is in progress never is.
func TestBound_NoUnprovenConnection_IdleOneIsClosed(t *testing.T) {
	b := newBench(t, Limits{Connections: 4, PerAddress: -1, Unproven: time.Minute})
	boss, old, young, active := b.come(""), b.come(""), b.come(""), b.come("")
	b.prove(boss, "operator", roleOperator)
	b.prove(young, "a", roleDesk)
	b.prove(old, "b", roleDesk)
	b.prove(young, "a", roleDesk) // another request: it waits less long now
	noteState(active, http.StateActive)
	admitConnection(withConnection(context.Background(), active), Holder{Name: "c", Role: roleDesk})
	for i, want := range []*boundConn{old, young, boss} {
		c := b.come("")
		check.Need(t, c != nil && isClosed(want), "newcomer %d: another one is closed", i)
		noteState(c, http.StateActive)
		admitConnection(withConnection(context.Background(), c), Holder{Name: "operator", Role: roleOperator})
	}
	c := b.come("")
	check.That(t, c == nil && !isClosed(active) && b.open() == 4, "a request in progress was ended for a newcomer")
	noteState(active, http.StateIdle)
	c = b.come("")
	check.That(t, c != nil && isClosed(active), "a newcomer is refused")
}

// A connection on which no request is admitted in time is closed. A proven connection stays open,
// and is not counted after it was closed, however it was closed.
func TestBound_Unproven_IsClosedInTime(t *testing.T) {
	b := newBench(t, Limits{Connections: 4, PerAddress: 4, Unproven: time.Minute})
	late, proven, gone := b.come("192.0.2.1"), b.come("192.0.2.1"), b.come("192.0.2.1")
	b.prove(proven, "a", roleDesk)
	check.Must(t, gone.Close())
	for _, expire := range b.timers {
		expire()
	}
	if !isClosed(late) || isClosed(proven) || gone.Conn.(*fake).closed != 1 {
		t.Errorf("closed are %v, %v, %v", isClosed(late), isClosed(proven), gone.Conn.(*fake).closed)
	}
	for range 2 {
		_ = late.Close()
		_ = proven.Close()
	}
	check.That(t, b.open() == 0 && len(b.provenBy) == 0 && b.connectionLimiter.proven == 0 && len(b.addresses) == 0,
		"counted are still %v, %d, %v", b.provenBy, b.connectionLimiter.proven, b.addresses)
	check.That(t, admitConnection(withConnection(context.Background(), late), Holder{Name: "a", Role: roleDesk}) &&
		b.connectionLimiter.proven == 0, "a closed connection is counted")
	noteState(late, http.StateIdle)
	b.open()
}
