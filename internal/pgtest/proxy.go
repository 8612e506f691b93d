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

// Message is one of PostgreSQL's protocol, on its way through a [Proxy].
type Message struct {
	Connection int    // counts from 1
	FromServer bool   // else from the host
	Kind       byte   // its first byte; 0 for what begins a connection
	SQL        string // of a 'P', Parse, and of a 'B', Bind: the statement
	Bytes      []byte // all of it
}

// Action is what becomes of a message.
type Action int

// The actions.
const (
	Pass  Action = iota
	Drop         // it is left out
	Cut          // the connection is cut before it
	After        // it passes, and the connection is cut
	Half         // half of its bytes pass, and the connection is cut
	Twice        // it passes two times
	// it passes, and then everything of this direction since the last Sync or ReadyForQuery, itself
	// included, another time
	Again
	Stuck  // nothing comes through any more in this direction, and nothing is cut
	Freeze // nothing comes through any more in either direction, and nothing is cut
)

// Proxy stands between hosts and a server, and does to messages what it is told.
type Proxy struct {
	dir      string
	dial     func() (net.Conn, error)
	listener net.Listener

	mu          sync.Mutex
	rule        func(Message) Action
	connections int
	open        map[*line]bool
	running     sync.WaitGroup
}

// NewProxy starts a proxy on a Unix socket of its own. It ends with the test.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	p := &Proxy{dial: func() (net.Conn, error) { return net.Dial("unix", s.Socket()) }, open: map[*line]bool{}}
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

// Address is that of a database, through the proxy.
func (p *Proxy) Address(database string) string {
	return "host=" + p.dir + " port=5432 user=postgres sslmode=disable dbname=" + database
}

// To has connections that are made from now on lead to another server.
func (p *Proxy) To(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dial = func() (net.Conn, error) { return net.Dial("unix", s.Socket()) }
}

// Rule has each message judged from now on; nil lets all pass. It is called by several goroutines.
func (p *Proxy) Rule(rule func(Message) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// CutAll cuts all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.open))
	p.mu.Unlock()
	for _, l := range open {
		l.cut()
	}
}

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
		l := &line{proxy: p, host: host, server: server, statements: map[string]string{}, over: make(chan struct{})}
		p.mu.Lock()
		p.connections++
		l.number = p.connections
		p.open[l] = true
		p.mu.Unlock()
		p.running.Go(func() { l.pump(host, server, false) })
		p.running.Go(func() { l.pump(server, host, true) })
	}
}

// line is a connection through the proxy.
type line struct {
	proxy        *Proxy
	number       int
	host, server net.Conn

	mu         sync.Mutex
	statements map[string]string // by name
	frozen     bool
	once       sync.Once
	over       chan struct{}
}

// end tells whether a message is the last one of a question, or of an answer.
func (m Message) end() bool { return m.FromServer && m.Kind == 'Z' || !m.FromServer && m.Kind == 'S' }

func (l *line) cut() {
	l.once.Do(func() {
		close(l.over)
		_, _ = l.host.Close(), l.server.Close()
		l.proxy.mu.Lock()
		defer l.proxy.mu.Unlock()
		delete(l.proxy.open, l)
	})
}

// pump carries messages from one end to the other. If the host has closed its end, answers are
// discarded, and the connection ends only after the server was sent everything that the host had
// sent: a network delivers that, too.
func (l *line) pump(from, to net.Conn, fromServer bool) {
	err := l.carryAll(from, to, fromServer)
	if fromServer && errors.Is(err, errReceiverGone) {
		_, _ = io.Copy(io.Discard, from) // ends when the other direction cuts the connection
	}
	l.cut()
}

// errReceiverGone is the error of carryAll if the receiving end of the connection is closed.
var errReceiverGone = errors.New("the receiver of the message is gone")

// carryAll carries messages in one direction until the connection ends or a rule ends it.
func (l *line) carryAll(from, to net.Conn, fromServer bool) error {
	first := !fromServer
	var since []byte
	for {
		m, err := read(from, first)
		if err != nil {
			return err
		}
		m.Connection, m.FromServer, first = l.number, fromServer, false
		l.note(&m)
		since = append(since, m.Bytes...)
		if err := l.carry(m, since, to); err != nil {
			return err
		}
		if m.end() || m.Kind == 0 {
			since = since[:0]
		}
	}
}

// note keeps the texts of statements.
func (l *line) note(m *Message) {
	if m.FromServer {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m.Kind {
	case 'P':
		parts := bytes.SplitN(m.Bytes[5:], []byte{0}, 3)
		m.SQL = string(parts[1])
		l.statements[string(parts[0])] = m.SQL
	case 'B':
		m.SQL = l.statements[string(bytes.SplitN(m.Bytes[5:], []byte{0}, 3)[1])]
	}
}

// errCut is the error of carry if a rule ends the connection.
var errCut = errors.New("the rule cuts the connection")

// carry does with a message what the rule says. It returns an error if the connection ends with it.
func (l *line) carry(m Message, since []byte, to net.Conn) error {
	l.proxy.mu.Lock()
	rule := l.proxy.rule
	l.proxy.mu.Unlock()
	what := Pass
	if rule != nil {
		what = rule(m)
	}
	l.mu.Lock()
	l.frozen = l.frozen || what == Freeze
	frozen := l.frozen
	l.mu.Unlock()
	send := func(b []byte) error {
		if _, err := to.Write(b); err != nil {
			return fmt.Errorf("%w: %w", errReceiverGone, err)
		}
		return nil
	}
	switch {
	case what == Stuck || frozen:
		<-l.over
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

// read reads a message.
func read(from io.Reader, first bool) (m Message, err error) {
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
		return m, errors.New("no message of PostgreSQL")
	}
	m.Bytes = append(head, make([]byte, length)...)
	_, err = io.ReadFull(from, m.Bytes[len(head):])
	return m, err
}

// Relay brings bytes from whoever connects to an address, of TCP or the path of a socket, and back,
// each half of a round trip later. It ends with the process of the caller, or when the listener is
// closed.
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
			go late(host, server, trip/2)
			late(server, host, trip/2)
		}()
	}
}

// late brings what is read to another end, each piece a time after it came.
func late(from, to net.Conn, delay time.Duration) {
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
