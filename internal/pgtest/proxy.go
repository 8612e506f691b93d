package pgtest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Message is a message of PostgreSQL's protocol that passes through a [Proxy].
type Message struct {
	Connection int    // the number of the connection, from 1
	FromServer bool   // false: the message is from the host
	Kind       byte   // the type byte; 0 for the first message of a connection
	SQL        string // the statement of a Parse ('P') or Bind ('B') message
	Bytes      []byte // the whole message
}

// Action is what the proxy does with a message.
type Action int

// The actions.
const (
	Pass  Action = iota
	Drop         // the message is not forwarded
	Cut          // the connection is closed before the message
	After        // the message is forwarded, then the connection is closed
	Half         // half of the bytes are forwarded, then the connection is closed
	Twice        // the message is forwarded twice
	// The message is forwarded. Then everything in its direction since the last Sync or
	// ReadyForQuery, including the message, is forwarded a second time.
	Again
	Stuck  // from here on nothing is forwarded in this direction; the connection stays open
	Freeze // from here on nothing is forwarded in either direction; the connection stays open
)

// Proxy is a proxy between hosts and a server. A rule decides what it does with each message.
type Proxy struct {
	dir      string
	dial     func() (net.Conn, error)
	listener net.Listener

	mu          sync.Mutex
	rule        func(Message) Action
	connections int
	open        map[*connection]bool
	running     sync.WaitGroup
}

// NewProxy starts a proxy for s on a Unix socket in a directory of its own. It ends with the test.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	p := &Proxy{dial: func() (net.Conn, error) { return net.Dial("unix", s.Socket()) }, open: map[*connection]bool{}}
	var err error
	if p.dir, err = os.MkdirTemp("", "sluice-proxy-"); err == nil {
		p.listener, err = net.Listen("unix", filepath.Join(p.dir, ".s.PGSQL.5432"))
	}
	if err != nil {
		t.Fatal(err)
	}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.CutAll()
		p.running.Wait()
		_ = os.RemoveAll(p.dir)
	})
	return p
}

// Address returns the connection string of a database through the proxy.
func (p *Proxy) Address(database string) string {
	return "host=" + p.dir + " port=5432 user=postgres sslmode=disable dbname=" + database
}

// RedirectTo makes connections from now on lead to s.
func (p *Proxy) RedirectTo(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dial = func() (net.Conn, error) { return net.Dial("unix", s.Socket()) }
}

// SetRule sets the rule for messages from now on; nil forwards every message. Several goroutines
// call the rule concurrently.
func (p *Proxy) SetRule(rule func(Message) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// CutAll closes all connections that are open now. Later connections are accepted.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.open))
	p.mu.Unlock()
	for _, c := range open {
		c.cut()
	}
}

// accept accepts connections until the listener is closed, connects each to the server, and starts
// to forward messages in both directions.
func (p *Proxy) accept() {
	for {
		host, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		dial := p.dial
		p.mu.Unlock()
		server, err := dial()
		if err != nil {
			_ = host.Close()
			continue
		}
		c := &connection{proxy: p, host: host, server: server, prepared: map[string]string{}, done: make(chan struct{})}
		p.mu.Lock()
		p.connections++
		c.number = p.connections
		p.open[c] = true
		p.mu.Unlock()
		p.running.Go(func() { c.forward(host, server, false) })
		p.running.Go(func() { c.forward(server, host, true) })
	}
}

// connection is a connection through the proxy.
type connection struct {
	proxy        *Proxy
	number       int
	host, server net.Conn

	mu       sync.Mutex
	prepared map[string]string // SQL of prepared statements, by name
	frozen   bool              // the rule has returned Freeze
	once     sync.Once         // of cut
	done     chan struct{}     // closed by cut
}

// isLast returns whether the message is the last of a request (Sync) or of an answer
// (ReadyForQuery).
func (m Message) isLast() bool { return m.Kind == map[bool]byte{true: 'Z', false: 'S'}[m.FromServer] }

// cut closes both ends of the connection. Only the first call has an effect.
func (c *connection) cut() {
	c.once.Do(func() {
		close(c.done)
		_, _ = c.host.Close(), c.server.Close()
		c.proxy.mu.Lock()
		defer c.proxy.mu.Unlock()
		delete(c.proxy.open, c)
	})
}

// forward forwards messages in one direction, then closes the connection. If the host has closed
// its end, answers are discarded until the server has received everything that the host sent,
// because a network delivers that, too.
func (c *connection) forward(from, to net.Conn, fromServer bool) {
	err := c.forwardAll(from, to, fromServer)
	if fromServer && errors.Is(err, errReceiverGone) {
		_, _ = io.Copy(io.Discard, from) // ends when the other direction cuts the connection
	}
	c.cut()
}

// errReceiverGone is the error of forwardAll if the receiving end of the connection is closed.
var errReceiverGone = errors.New("the receiver of the message is gone")

// forwardAll forwards messages in one direction until reading or writing fails, or a rule closes
// the connection. It never returns nil. errReceiverGone means that writing failed.
func (c *connection) forwardAll(from, to net.Conn, fromServer bool) error {
	first := !fromServer // only the first message of the host has another format
	var since []byte     // the bytes since the last Sync or ReadyForQuery, for Again
	for {
		m, err := readMessage(from, first)
		if err != nil {
			return err
		}
		m.Connection, m.FromServer, first = c.number, fromServer, false
		c.noteSQL(&m)
		since = append(since, m.Bytes...)
		if err := c.apply(m, since, to); err != nil {
			return err
		}
		if m.isLast() || m.Kind == 0 {
			since = since[:0]
		}
	}
}

// noteSQL sets m.SQL if the message is a Parse ('P'), which has the text of a statement and its
// name, or a Bind ('B'), which has only the name. It stores the text of a Parse for later Binds.
func (c *connection) noteSQL(m *Message) {
	if m.FromServer {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Kind {
	case 'P':
		parts := bytes.SplitN(m.Bytes[5:], []byte{0}, 3)
		m.SQL = string(parts[1])
		c.prepared[string(parts[0])] = m.SQL
	case 'B':
		m.SQL = c.prepared[string(bytes.SplitN(m.Bytes[5:], []byte{0}, 3)[1])]
	}
}

// errCut is the error of apply if the rule closes the connection.
var errCut = errors.New("the rule of the proxy closes the connection")

// apply does with a message what the rule returns. since has the bytes in this direction since the
// last Sync or ReadyForQuery, with the message. An error means that the connection ends: errCut if
// the rule ends it, and errReceiverGone if writing fails.
func (c *connection) apply(m Message, since []byte, to net.Conn) error {
	c.proxy.mu.Lock()
	rule := c.proxy.rule
	c.proxy.mu.Unlock()
	what := Pass
	if rule != nil {
		what = rule(m)
	}
	c.mu.Lock()
	c.frozen = c.frozen || what == Freeze
	frozen := c.frozen
	c.mu.Unlock()
	send := func(b []byte) error {
		if _, err := to.Write(b); err != nil {
			return fmt.Errorf("%w: %w", errReceiverGone, err)
		}
		return nil
	}
	switch {
	case what == Stuck || frozen:
		<-c.done
		return errCut
	case what == Drop:
		return nil
	case what == Cut:
		return errCut
	case what == Half:
		return cmp.Or(send(m.Bytes[:len(m.Bytes)/2]), errCut)
	case what == Twice:
		return cmp.Or(send(m.Bytes), send(m.Bytes))
	case what == Again:
		return cmp.Or(send(m.Bytes), send(since))
	case what == After:
		return cmp.Or(send(m.Bytes), errCut)
	}
	return send(m.Bytes)
}

// readMessage reads one message of PostgreSQL's protocol: a type byte, a length of 4 bytes that
// counts itself, and the contents. first means that the message is the first one of a connection,
// which has no type byte.
func readMessage(from io.Reader, first bool) (m Message, err error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return m, err
	}
	if !first {
		m.Kind = head[0]
	}
	length := int(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	if length < 0 || length > 1<<30 {
		return m, fmt.Errorf("read a message of PostgreSQL: impossible length %d", length)
	}
	m.Bytes = append(head, make([]byte, length)...)
	_, err = io.ReadFull(from, m.Bytes[len(head):])
	return m, err
}

// Relay accepts connections and forwards bytes to an address and back, each direction delayed by
// half of trip. The address is host:port, or the absolute path of a socket. Relay returns when the
// listener is closed.
func Relay(l net.Listener, to string, trip time.Duration) {
	network := "tcp"
	if strings.HasPrefix(to, "/") {
		network = "unix"
	}
	for {
		host, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			server, err := net.Dial(network, to)
			if err != nil {
				_ = host.Close()
				return
			}
			go copyDelayed(host, server, trip/2)
			copyDelayed(server, host, trip/2)
		}()
	}
}

// copyDelayed copies bytes until reading ends, then closes to. Each chunk is written a delay after
// it was read. If writing fails, it closes from, so that reading ends.
func copyDelayed(from, to net.Conn, delay time.Duration) {
	type piece struct {
		at    time.Time
		bytes []byte
	}
	pieces := make(chan piece, 1<<16)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 1<<16)
			n, err := from.Read(b)
			if n > 0 {
				pieces <- piece{time.Now().Add(delay), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.bytes); err != nil {
			_ = from.Close()
		}
	}
	_ = to.Close()
}
