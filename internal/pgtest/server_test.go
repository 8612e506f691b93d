package pgtest

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The servers do what the tests of other packages rely on: replication, backup, crash, failover.
func TestServer_ReplicatesBacksUpAndFailsOver(t *testing.T) {
	s := Start(t)
	a := s.Standby(t, "a")
	b := s.Standby(t, "b")
	s.SetSynchronous(t, "ANY 1 (a, b)")
	s.Exec(t, "postgres", "CREATE TABLE found (n int); INSERT INTO found VALUES (1)")
	s.WaitStreaming(t, "a", "b")
	if _, err := a.Try("postgres", "INSERT INTO found VALUES (2)"); err == nil {
		t.Error("a standby accepts a write")
	}
	backup := s.Backup(t)
	s.Exec(t, "postgres", "INSERT INTO found VALUES (3)")
	s.WaitStreaming(t, "b")
	s.Crash()
	b.Promote(t)
	if found := b.Exec(t, "postgres", "SELECT n FROM found ORDER BY n"); strings.Join(found, " ") != "1 3" {
		t.Errorf("the standby has %v", found)
	}
	b.Stop(t)
	b.Begin(t)
	backup.Begin(t)
	if found := backup.Exec(t, "postgres", "SELECT n FROM found"); strings.Join(found, " ") != "1" {
		t.Errorf("the backup has %v", found)
	}
}

func TestProxy_EachAction_TakesEffect(t *testing.T) {
	s := Start(t)
	p := NewProxy(t, s)
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), p.Address("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := func(c *pgx.Conn, n int) (got int, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = c.QueryRow(ctx, "SELECT $1::int", n).Scan(&got)
		return got, err
	}
	for what, c := range map[string]struct {
		fromServer bool
		kind       byte
		action     Action
		answered   bool // the request
		next       bool // the request after it
	}{
		"pass":           {false, 'B', Pass, true, true},
		"cut":            {false, 'B', Cut, false, false},
		"half":           {true, 'D', Half, false, false},
		"after":          {true, 'Z', After, true, false},
		"repeated ask":   {false, 'S', Again, true, false},
		"repeated reply": {true, 'Z', Again, true, false},
		"twice a sync":   {false, 'S', Twice, true, true},
	} {
		conn := connect()
		if _, err := ask(conn, 0); err != nil { // the statement is prepared
			t.Fatal(err)
		}
		done := false
		p.SetRule(func(m Message) Action {
			if done || m.FromServer != c.fromServer || m.Kind != c.kind {
				return Pass
			}
			done = true
			return c.action
		})
		first, err := ask(conn, 1)
		if (err == nil && first == 1) != c.answered {
			t.Errorf("%s: %d %v", what, first, err)
		}
		next, err := ask(conn, 2)
		if (err == nil && next == 2) != c.next {
			t.Errorf("%s: then %d %v", what, next, err)
		}
		p.SetRule(nil)
		_ = conn.Close(t.Context())
	}
	conn := connect()
	p.CutAll()
	if _, err := ask(conn, 1); err == nil {
		t.Error("CutAll left the connection open")
	}
}

// The relay delivers all bytes, each direction late by half of the round trip.
func TestRelay_DelaysEveryByte(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	server, relay := listen(), listen()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go copyDelayed(c, c, 0)
		}
	}()
	const trip = 20 * time.Millisecond
	go Relay(relay, server.Addr().String(), trip)
	c, err := net.Dial("tcp", relay.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	b := make([]byte, 5)
	_, err = c.Write([]byte("hello"))
	n, got := c.Read(b)
	if err := errors.Join(err, got); err != nil || string(b[:n]) != "hello" || time.Since(began) < trip {
		t.Errorf("%q after %v: %v", b[:n], time.Since(began), err)
	}
}
