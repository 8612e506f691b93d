package ledgerhttp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// servedOn runs a server of a handler on a bounded listener of the loopback address.
func servedOn(t *testing.T, o Options) (address string) {
	t.Helper()
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := serving(t, o)
	s := f.Server()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(f.Listener(l)) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

// ask sends the header of a request by a connection, and returns the status of the answer.
func askBy(t *testing.T, conn net.Conn, in *bufio.Reader, role string) (int, error) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "GET /v1/head HTTP/1.1\r\nHost: test\r\nTest-Role: %s\r\n\r\n", role); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// Connections without a request exclude no client, and admitted connections serve more requests.
func TestServer_IdleConnectionsFillAll_AnotherIsAnswered(t *testing.T) {
	address := servedOn(t, Options{Limits: Limits{Connections: 16, PerAddress: -1, Unproven: time.Hour}})
	dial := func() (net.Conn, *bufio.Reader) {
		conn := check.Value(net.Dial("tcp", address))(t)
		t.Cleanup(func() { _ = conn.Close() })
		return conn, bufio.NewReader(conn)
	}
	boss, in := dial()
	for range 2 {
		status, err := askBy(t, boss, in, "operator")
		check.Need(t, status == http.StatusOK, "status %d, %v", status, err)
		for range 100 {
			dial()
		}
	}
	status, err := askBy(t, boss, in, "operator")
	check.That(t, status == http.StatusOK, "the connection of an operator: status %d, %v", status, err)
	again, in := dial()
	status, err = askBy(t, again, in, "metrics")
	check.That(t, status == http.StatusOK, "another connection: status %d, %v", status, err)
	// Without a token a connection serves one request.
	unknown, in := dial()
	status, err = askBy(t, unknown, in, "")
	check.That(t, status == http.StatusUnauthorized, "without a token: status %d, %v", status, err)
	rest, err := io.ReadAll(in)
	check.That(t, err == nil && len(rest) == 0, "then comes %q, %v", rest, err)
}

// A connection on which no request is admitted ends, whether something is sent on it or not.
func TestServer_UnprovenConnection_EndsSoon(t *testing.T) {
	address := servedOn(t, Options{Limits: Limits{Unproven: 20 * time.Millisecond}})
	conn := check.Value(net.Dial("tcp", address))(t)
	defer func() { _ = conn.Close() }()
	rest, err := io.ReadAll(conn)
	check.That(t, len(rest) == 0, "%q, %v", rest, err)
}
