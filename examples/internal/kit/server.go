package kit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// When a server is killed, relative to a request.
const (
	Before = "before it gets %s"
	During = "while %s is in progress"
	After  = "after it has done %s, before it responds"
)

// Death is a point at which a server is killed.
type Death struct {
	Key  string // is contained in the idempotency key of the request
	When string // Before, During or After
}

// String describes the death, such as "before it gets order-1".
func (d Death) String() string { return fmt.Sprintf(d.When, d.Key) }

// errDead is the error of requests to a dead server.
var errDead = errors.New("the server is dead")

// Server is a process that serves a ledger, and a proxy before it. Like a load balancer, the proxy
// hides restarts of the process.
type Server struct {
	File   string // of the ledger
	Addr   string // of the proxy
	Token  string // of an operator
	LogKey string // verifies the ledger's log

	command string
	out     io.Writer // of a line for each death
	proxy   *httptest.Server

	mu           sync.Mutex
	deaths       []Death         // still to come
	process      *exec.Cmd       // nil while the server is dead
	missed       int             // number of requests since the server died
	followed     chan struct{}   // closed when a client follows the events
	markFollowed func()          // closes followed
	needed       map[string]bool // keys of requests that needed a true value
	unneeded     error           // the first request with true values that were not needed
	notFollowed  bool            // no client followed the events in time
}

// NewServer creates a ledger in a directory, and serves it. The server is killed at the given
// deaths, in their order, and prints each. It is restarted three requests after a death.
func NewServer(ctx context.Context, dir string, out io.Writer, deaths ...Death) (*Server, error) {
	s := &Server{File: filepath.Join(dir, "ledger.db"), command: filepath.Join(dir, "ledgerctl.exe"), out: out,
		deaths: deaths, needed: map[string]bool{}}
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", s.command,
		"github.com/sluicedp/sluice/cmd/ledgerctl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	var made struct {
		LogKey string `json:"log_key"`
		Token  string `json:"token"`
	}
	for _, args := range [][]string{{"init"}, {"token", "add", "host", "--role", "operator"}} {
		text, err := exec.CommandContext(ctx, s.command, append(args, "--json", "--db", s.File)...).Output()
		if err == nil {
			err = json.Unmarshal(text, &made)
		}
		if err != nil {
			return nil, fmt.Errorf("ledgerctl %s: %w", args[0], err)
		}
	}
	s.Token, s.LogKey = made.Token, made.LogKey
	if err := s.start(); err != nil {
		return nil, err
	}
	s.proxy = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "ledger"}) },
		Transport: transport{s},
		// closes the connection, as the server did
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	})
	s.Addr = s.proxy.URL
	return s, nil
}

// Close ends the server by an interrupt. It returns an error if a death did not happen, or if a
// request had true values that no draw needed.
func (s *Server) Close() error {
	defer s.proxy.Close()
	defer s.proxy.CloseClientConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.unneeded
	if s.process != nil {
		err = errors.Join(err, s.process.Process.Signal(os.Interrupt), s.process.Wait())
	}
	s.process = nil
	if len(s.deaths) > 0 {
		err = errors.Join(err, fmt.Errorf("the server was not killed %s: it did not get this request", s.deaths[0]))
	}
	return err
}

// start starts the process, and waits until it serves.
func (s *Server) start() error {
	process := exec.Command(s.command, "serve", "--quiet", "--db", s.File, "--tokens", s.File+".tokens")
	process.Stderr = os.Stderr
	printed, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "served at") {
			s.process, s.missed, s.followed = process, 0, make(chan struct{})
			s.markFollowed = sync.OnceFunc(func() { close(s.followed) })
			return nil
		}
	}
	return errors.Join(errors.New("the server does not start"), process.Wait())
}

// kill kills the process, which cannot close or write anything.
func (s *Server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.process.Process.Kill()
	_ = s.process.Wait() // returns the signal as an error
	s.process = nil
	fmt.Fprintf(s.out, "  The server is killed %s.\n", s.deaths[0])
	s.deaths = s.deaths[1:]
}

// countMissed counts a request to a dead server. The third restarts the server.
func (s *Server) countMissed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed++; s.process != nil || s.missed < 3 {
		return errDead
	}
	return errors.Join(errDead, s.start())
}

// deathAt returns when the server is killed relative to a request, or "". It waits until a client
// follows the events, so that the stream breaks.
func (s *Server) deathAt(r *http.Request) string {
	s.mu.Lock()
	alive, followed := s.process != nil && !s.notFollowed, s.followed
	var next Death
	if len(s.deaths) > 0 {
		next = s.deaths[0]
	}
	s.mu.Unlock()
	if !alive || next.Key == "" || !strings.Contains(r.Header.Get("Idempotency-Key"), next.Key) {
		return ""
	}
	select {
	case <-followed:
		return next.When
	case <-time.After(followTimeout):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notFollowed = true // Close returns that the server was not killed
		return ""
	}
}

// followTimeout is the time within which a client must follow the events.
const followTimeout = 20 * time.Second

// transport sends requests from the proxy to the process. It kills the process at the next death.
type transport struct{ *Server }

// RoundTrip implements [http.RoundTripper].
func (s transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch s.deathAt(r) {
	case Before:
		s.kill()
		return nil, errDead
	case During: // within three milliseconds: the request may be done or not
		killed := make(chan struct{})
		time.AfterFunc(rand.N(3*time.Millisecond), func() { s.kill(); close(killed) })
		answer, err := s.forward(r)
		if <-killed; err != nil {
			return nil, errDead
		}
		return nil, errors.Join(errDead, answer.Body.Close())
	case After:
		answer, err := s.forward(r)
		if err == nil && answer.StatusCode == http.StatusOK {
			s.kill()
			return nil, errors.Join(errDead, answer.Body.Close())
		}
		return answer, err
	}
	answer, err := s.forward(r)
	if err != nil {
		return nil, s.countMissed()
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		s.markFollowed()
		answer.Body = &truncatedStream{ReadCloser: answer.Body, rest: strings.NewReader(partialEvent)}
	}
	return answer, nil
}

// partialEvent is the beginning of an event.
const partialEvent = "id: 1\ndata: {\"event\":1,\"time\":\"20"

// truncatedStream is a stream of events. When it ends, because the server dies, it yields the
// beginning of another event and then an error: a client must not take that for an event.
type truncatedStream struct {
	io.ReadCloser
	rest io.Reader // the beginning of an event
}

// Read implements [io.Reader].
func (t *truncatedStream) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if n > 0 || err == nil {
		return n, err
	}
	if n, _ := t.rest.Read(p); n > 0 {
		return n, nil
	}
	return 0, io.ErrUnexpectedEOF
}

// forward sends a request to the process. It checks that a request has true values only after it
// was refused because it needed them.
func (s *Server) forward(r *http.Request) (*http.Response, error) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return s.send(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer, err := s.send(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unneeded == nil && bytes.Contains(body, []byte(`"truths"`)) && !s.needed[key] {
		s.unneeded = fmt.Errorf("true values came with %s before a draw needed them", strings.Trim(key, `"`))
	}
	s.needed[key] = s.needed[key] || err == nil && answer.StatusCode == http.StatusConflict
	return answer, err
}

// send sends a request to the socket of the process, on a new connection.
func (s *Server) send(r *http.Request) (*http.Response, error) {
	socket := http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.File+".sock")
	}}
	return socket.RoundTrip(r)
}
