//go:build unix

package hosts

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/privacy"
)

// What the environment tells a process that is to be something else than the tests.
const (
	asHost  = "SLUICE_HOSTS_HOST"  // a setting as JSON
	asRelay = "SLUICE_HOSTS_RELAY" // "from to trip": where to listen, where to lead, how long a round trip takes
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(asHost) != "":
		err = runHost(os.Getenv(asHost), os.Stdin, os.Stdout)
	case os.Getenv(asRelay) != "":
		err = runRelay(os.Getenv(asRelay))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func runRelay(text string) error {
	var from, to string
	var trip time.Duration
	words := strings.Fields(text)
	from, to = words[0], words[1]
	trip, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", from)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	pgtest.Relay(l, to, trip)
	return nil
}

// setting is what a host is told of the world.
type setting struct {
	Dir      string            // of its own: panel.db, keys/, and the certificate
	Name     string            // of the host
	Database string            // the address
	Listen   string            // where it shows its keys
	Peers    map[string]string // the URLs of the others, by name
	Timeout  time.Duration
}

// file is where the ledger of a host is.
func (s setting) file() string { return filepath.Join(s.Dir, "panel.db") }

// command is what a host is to do.
type command struct {
	ID      int
	Do      string // "open", "follow", "take over", "events", "health", "release", "forget", "compact", "verify", "close"
	Key     string
	Object  string
	Epsilon string
	Limit   time.Duration // when to give up; 0 for never
}

// said is what came of it.
type said struct {
	ID    int
	Kind  string // of the error; "" if it went well
	Text  string
	Value string // of a response
	Event uint64
}

// process is a host.
type process struct {
	setting
	options pgjournal.Options

	mu   sync.Mutex
	now  *ledger.Ledger
	wait sync.WaitGroup
	out  *json.Encoder
}

// runHost is the life of a host: it shows its keys, and does what it is told.
func runHost(text string, in io.Reader, out io.Writer) error {
	p := &process{out: json.NewEncoder(out)}
	if err := json.Unmarshal([]byte(text), &p.setting); err != nil {
		return err
	}
	own, err := keyholder.OpenDirectory(filepath.Join(p.Dir, "keys"))
	if err != nil {
		return err
	}
	defer own.Close()
	config, err := p.certificates()
	if err != nil {
		return err
	}
	p.options = pgjournal.Options{Database: p.Database, Host: p.Name, Keys: own, Timeout: p.Timeout}
	for name, url := range p.Peers {
		other, err := keyholder.Dial(name, url, config)
		if err != nil {
			return err
		}
		p.options.Others = append(p.options.Others, other)
	}
	listener, err := tls.Listen("tcp", p.Listen, config)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: keyholder.Handler(own), ReadHeaderTimeout: time.Second}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	p.say(said{Kind: "ready"})
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		p.wait.Go(func() { p.obey(c) })
	}
	p.wait.Wait()
	return nil
}

// certificates reads those of the host.
func (p *process) certificates() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(p.Dir, "host.pem"), filepath.Join(p.Dir, "host.key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, "authority.pem"))
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = errors.New("no authority")
	}
	return keyholder.Mutual(own, pool), err
}

func (p *process) say(s said) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(s) // whom would it tell
}

// kinds are the errors that the tests tell apart.
func kinds() map[string]error {
	return map[string]error{
		"stopped": api.ErrStopped, "held": journal.ErrHeld, "no key": keyholder.ErrNoKey, "lost": journal.ErrLost, "journal": api.ErrJournal,
		"fenced": journal.ErrFenced, "corrupt": api.ErrCorrupt, "rejected": journal.ErrRejected,
	}
}

func (p *process) obey(c command) {
	ctx := context.Background()
	if c.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Limit)
		defer cancel()
	}
	out, err := p.do(ctx, c)
	if out.ID = c.ID; err != nil {
		var all []string
		for kind, is := range kinds() {
			if errors.Is(err, is) {
				all = append(all, kind)
			}
		}
		slices.Sort(all)
		out.Kind, out.Text = strings.Join(append(all, "error"), " "), err.Error()
	}
	p.say(out)
}

func (p *process) do(ctx context.Context, c command) (out said, err error) {
	p.mu.Lock()
	l := p.now
	p.mu.Unlock()
	switch c.Do {
	case "open", "follow":
		return out, p.have(ledgertest.OpenApart(p.file(), ledger.Options{Standby: c.Do == "follow", Journal: pgjournal.For(p.options)}))
	case "take over":
		return out, p.have(l.TakeOver(ctx))
	case "events":
		s, err := l.Stats(ctx)
		return said{Event: s.Events}, err
	case "health":
		h, err := l.Health(ctx)
		return said{Value: h.Host.Leader, Event: h.Host.Lag}, err
	case "release":
		epsilon, err := privacy.ParseEpsilon(c.Epsilon)
		if err != nil {
			return out, err
		}
		r, err := l.Release(ctx, api.ReleaseRequest{Key: c.Key, Question: "vote", Object: c.Object, Epsilon: epsilon, TrueValue: "yes"})
		return said{Value: r.Value, Event: r.Event}, err
	case "forget":
		return out, l.Forget(ctx, c.Key, c.Object)
	case "compact":
		return out, l.Compact(ctx, nil)
	case "verify":
		return out, verify(ctx, l)
	case "close":
		return out, l.Close()
	}
	return out, fmt.Errorf("%q: what is that", c.Do)
}

// have takes a ledger that was opened.
func (p *process) have(l *ledger.Ledger, err error) error {
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now = l
	}
	return err
}

// verify audits a ledger.
func verify(ctx context.Context, l *ledger.Ledger) error {
	found, err := l.Verify(ctx, api.VerifyRequest{})
	if err == nil && found.Problems > 0 {
		err = fmt.Errorf("%w: %d problems: %v", api.ErrCorrupt, found.Problems, found)
	}
	return err
}

// host is a process that is a host, as the tests see it.
type host struct {
	setting
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	next int

	mu      sync.Mutex
	waiting map[int]chan said
	ended   error
}

// start starts a host, by way of a command if there is one, such as "ip netns exec name".
func start(t testing.TB, s setting, wrap ...string) *host {
	t.Helper()
	text, err := json.Marshal(s)
	must(t, err)
	args := append(wrap, os.Args[0])
	h := &host{setting: s, t: t, cmd: exec.Command(args[0], args[1:]...), waiting: map[int]chan said{}}
	h.cmd.Env = append(os.Environ(), asHost+"="+string(text))
	h.cmd.Stderr = os.Stderr
	h.in, err = h.cmd.StdinPipe()
	must(t, err)
	out, err := h.cmd.StdoutPipe()
	must(t, err)
	ready := make(chan said, 1)
	h.waiting[0] = ready
	must(t, h.cmd.Start())
	t.Cleanup(h.kill)
	go h.listen(json.NewDecoder(out))
	if s := <-ready; s.Kind != "ready" {
		t.Fatalf("host %s: %+v", h.Name, s)
	}
	return h
}

// listen gives what the host says to whoever waits for it.
func (h *host) listen(d *json.Decoder) {
	for {
		var s said
		err := d.Decode(&s)
		h.mu.Lock()
		if err != nil {
			h.ended = err
			for _, to := range h.waiting {
				close(to)
			}
			h.waiting = nil
			h.mu.Unlock()
			return
		}
		to := h.waiting[s.ID]
		delete(h.waiting, s.ID)
		h.mu.Unlock()
		to <- s
	}
}

// gone is what is said of a host that is no more.
const gone = "gone"

// ask asks for something, and returns where the answer comes. A host that dies answers that it is gone.
func (h *host) ask(c command) <-chan said {
	answer := make(chan said, 1)
	inside := make(chan said, 1)
	h.mu.Lock()
	h.next++
	c.ID = h.next
	ended := h.ended != nil
	if !ended {
		h.waiting[c.ID] = inside
	}
	h.mu.Unlock()
	if ended {
		answer <- said{Kind: gone}
		return answer
	}
	text, err := json.Marshal(c)
	must(h.t, err)
	_, _ = h.in.Write(append(text, '\n')) // if it is dead, so much is said
	go func() {
		s, ok := <-inside
		if !ok {
			s = said{ID: c.ID, Kind: gone}
		}
		answer <- s
	}()
	return answer
}

// do has something done that must go well.
func (h *host) do(c command) said {
	h.t.Helper()
	s := <-h.ask(c)
	if s.Kind != "" {
		h.t.Fatalf("host %s: %s: %s: %s", h.Name, c.Do, s.Kind, s.Text)
	}
	return s
}

// fails has something done that must not, and returns why not.
func (h *host) fails(c command, kind string) said {
	h.t.Helper()
	s := <-h.ask(c)
	if !slices.Contains(strings.Fields(s.Kind), kind) {
		h.t.Fatalf("host %s: %s: %q, not %q: %s", h.Name, c.Do, s.Kind, kind, s.Text)
	}
	return s
}

// kill ends a host at once.
func (h *host) kill() {
	_ = h.cmd.Process.Signal(syscall.SIGCONT)
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait() // it was killed
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// release is a command that draws something.
func release(n int, epsilon string) command {
	return command{Do: "release", Key: fmt.Sprint("release ", n, " ", epsilon), Object: fmt.Sprint("person ", n), Epsilon: epsilon}
}

// toldByKey is what somebody was told, by key.
type toldByKey struct {
	mu  sync.Mutex
	all map[command]said
}

func (t *toldByKey) note(c command, s said) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[command]said{}
	}
	t.all[c] = s
}

// check asks a host for everything that was told: it must be told again.
func (t *toldByKey) check(h *host) {
	h.t.Helper()
	for c, s := range t.all {
		if again := h.do(c); again.Value != s.Value || again.Event != s.Event {
			h.t.Errorf("host %s: %v was %q of event %d, and is %q of event %d", h.Name, c, s.Value, s.Event, again.Value, again.Event)
		}
	}
}

// load has several clients ask a host for releases, until it is told to end, or somebody is told that it cannot.
func (t *toldByKey) load(h *host, from int) (end func() (failed []said)) {
	over := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []said
	for client := range 4 {
		all.Go(func() {
			for n := from + client; ; n += 4 {
				select {
				case <-over:
					return
				default:
				}
				c := release(n%hostPeople, fmt.Sprint(1+n/hostPeople))
				s := <-h.ask(c)
				if s.Kind != "" {
					mu.Lock()
					failed = append(failed, s)
					mu.Unlock()
					return
				}
				t.note(c, s)
			}
		})
	}
	return func() []said {
		close(over)
		all.Wait()
		return failed
	}
}

const hostPeople = 40

// newFile makes a ledger with people in it.
func newFile(t testing.TB, path string) (id uuid.UUID) {
	t.Helper()
	must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{}))
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	must(t, err)
	names := make([]string, hostPeople)
	for n := range names {
		names[n] = fmt.Sprint("person ", n)
	}
	enrollAll(t, l, names)
	id, err = uuid.Parse(l.About().ID)
	must(t, errors.Join(err, l.Close()))
	return id
}

// copyFile copies the file of a host that nobody writes to.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, text, 0o600))
}
