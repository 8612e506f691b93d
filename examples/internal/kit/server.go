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

// When a server dies of a request.
const (
	Before = "before it gets %s"
	During = "while %s is under way"
	After  = "when it has carried out %s, and not said so"
)

// Death is one of a server's deaths.
type Death struct {
	Key  string // the idempotency key of the request has this in it
	When string // Before, During or After
}

func (d Death) String() string { return fmt.Sprintf(d.When, d.Key) }

// errDead is why a request has no answer.
var errDead = errors.New("the server is dead")

// Server is a process that serves a ledger, and what stands before it: there, as behind a load
// balancer, nobody sees that it is another process now.
type Server struct {
	File   string // the ledger's
	Addr   string // that others have
	Token  string // of an operator
	LogKey string // by which the ledger's log is verified

	command string
	out     io.Writer // is told of each death
	front   *httptest.Server

	mu      sync.Mutex
	deaths  []Death         // that are to come
	process *exec.Cmd       // nil as long as it is dead
	missed  int             // requests, since it is dead
	heard   chan struct{}   // closed once somebody follows the events
	hear    func()          // closes it
	needed  map[string]bool // keys of requests that a true value was needed for
	eager   error           // a request brought some without
	unheard bool            // nobody does
}

// NewServer creates a ledger in a folder, and serves it. The server dies at the given deaths, in
// their order, and prints each. Three requests after a death it is started again.
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
	s.front = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "ledger"}) },
		Transport: transport{s},
		// the connection breaks, as that to the server did
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	})
	s.Addr = s.front.URL
	return s, nil
}

// Close ends the server as it should be ended. That it did not die as often as it was told is an
// error, and so are true values that no draw needed.
func (s *Server) Close() error {
	defer s.front.Close()
	defer s.front.CloseClientConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.eager
	if s.process != nil {
		err = errors.Join(err, s.process.Process.Signal(os.Interrupt), s.process.Wait())
	}
	s.process = nil
	if len(s.deaths) > 0 {
		err = errors.Join(err, fmt.Errorf("the server was not killed %s: it was not asked that", s.deaths[0]))
	}
	return err
}

// start starts the process, and waits until it serves.
func (s *Server) start() error {
	process := exec.Command(s.command, "serve", "--quiet", "--db", s.File, "--tokens", s.File+".tokens")
	process.Stderr = os.Stderr
	said, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "served at") {
			heard := make(chan struct{})
			s.process, s.missed, s.heard, s.hear = process, 0, heard, sync.OnceFunc(func() { close(heard) })
			return nil
		}
	}
	return errors.Join(errors.New("the server does not start"), process.Wait())
}

// kill kills the process: nothing is closed, written or said.
func (s *Server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.process.Process.Kill()
	_ = s.process.Wait() // it says what was done to it
	s.process = nil
	fmt.Fprintf(s.out, "  The server is killed %s.\n", s.deaths[0])
	s.deaths = s.deaths[1:]
}

// miss counts a request without an answer. At the third, whoever looks after the server starts it
// again.
func (s *Server) miss() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed++; s.process != nil || s.missed < 3 {
		return errDead
	}
	return errors.Join(errDead, s.start())
}

// due returns when the server dies of a request, or "". It waits until somebody follows the events,
// so that they break off.
func (s *Server) due(r *http.Request) string {
	s.mu.Lock()
	alive, heard := s.process != nil && !s.unheard, s.heard
	var next Death
	if len(s.deaths) > 0 {
		next = s.deaths[0]
	}
	s.mu.Unlock()
	if !alive || next.Key == "" || !strings.Contains(r.Header.Get("Idempotency-Key"), next.Key) {
		return ""
	}
	select {
	case <-heard:
		return next.When
	case <-time.After(patience):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unheard = true // Close says that the server was not killed
		return ""
	}
}

// patience is how long somebody may take to follow the events.
const patience = 20 * time.Second

// transport is the way from the front to the process.
type transport struct{ *Server }

// RoundTrip implements [http.RoundTripper].
func (s transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch s.due(r) {
	case Before:
		s.kill()
		return nil, errDead
	case During:
		killed := make(chan struct{})
		time.AfterFunc(rand.N(3*time.Millisecond), func() { s.kill(); close(killed) })
		answer, err := s.pass(r)
		if <-killed; err != nil {
			return nil, errDead
		}
		return nil, errors.Join(errDead, answer.Body.Close())
	case After:
		answer, err := s.pass(r)
		if err == nil && answer.StatusCode == http.StatusOK {
			s.kill()
			return nil, errors.Join(errDead, answer.Body.Close())
		}
		return answer, err
	}
	answer, err := s.pass(r)
	if err != nil {
		return nil, s.miss()
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		s.hear()
		answer.Body = &torn{ReadCloser: answer.Body, rest: strings.NewReader(half)}
	}
	return answer, nil
}

// half is the beginning of an event.
const half = "id: 1\ndata: {\"event\":1,\"time\":\"20"

// torn is a stream of events that breaks off in one of them, as it may when a server dies.
type torn struct {
	io.ReadCloser
	rest io.Reader
}

// Read implements [io.Reader].
func (t *torn) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if n > 0 || err == nil {
		return n, err
	}
	if n, _ := t.rest.Read(p); n > 0 {
		return n, nil
	}
	return 0, io.ErrUnexpectedEOF
}

// pass sends a request to the process. It looks whether true values come only with requests that
// have been refused for want of them.
func (s *Server) pass(r *http.Request) (*http.Response, error) {
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
	if s.eager == nil && bytes.Contains(body, []byte(`"truths"`)) && !s.needed[key] {
		s.eager = fmt.Errorf("true values came with %s before a draw needed them", strings.Trim(key, `"`))
	}
	s.needed[key] = s.needed[key] || err == nil && answer.StatusCode == http.StatusConflict
	return answer, err
}

func (s *Server) send(r *http.Request) (*http.Response, error) {
	way := http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.File+".sock")
	}}
	return way.RoundTrip(r)
}
