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
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/privacy"
)

// Variables of the environment that make the test program a host or a relay.
const (
	asHost  = "SLUICE_HOSTS_HOST"  // a setting as JSON
	asRelay = "SLUICE_HOSTS_RELAY" // "from to trip": the address to listen on, the address to connect to, and the time of a round trip
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

// setting is the configuration of a host.
type setting struct {
	Dir      string            // the directory with panel.db, keys/ and the certificate
	Name     string            // of the host
	Database string            // the connection string
	Listen   string            // the address at which it serves its keys
	Peers    map[string]string // the URLs of the other hosts, by name
	Timeout  time.Duration
}

// file returns the path of the ledger of a host.
func (s setting) file() string { return filepath.Join(s.Dir, "panel.db") }

// command is a command to a host.
type command struct {
	ID      int
	Do      string // "open", "follow", "take over", "events", "health", "release", "forget", "compact", "verify", "close"
	Key     string
	Object  string
	Epsilon string
	Limit   time.Duration // the time limit; 0 for none
}

// answer is the result of a command.
type answer struct {
	ID    int
	Kind  string // the kinds of the error; "" if there is none
	Text  string
	Value string // the value of a response
	Event uint64
}

// process is a host, in its own process.
type process struct {
	setting
	options pgjournal.Options

	mu   sync.Mutex
	now  *ledger.Ledger
	wait sync.WaitGroup
	out  *json.Encoder
}

// runHost is the main function of a host: it serves its keys, and executes commands.
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
	p.report(answer{Kind: "ready"})
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		p.wait.Go(func() { p.execute(c) })
	}
	p.wait.Wait()
	return nil
}

// certificates reads the certificates of the host.
func (p *process) certificates() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(p.Dir, "host.pem"), filepath.Join(p.Dir, "host.key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, "authority.pem"))
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = errors.New("read authority.pem: it has no certificate")
	}
	return keyholder.Mutual(own, pool), err
}

func (p *process) report(s answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(s) // there is nowhere to report an error
}

// kinds lists the errors that the tests distinguish.
func kinds() map[string]error {
	return map[string]error{
		"stopped": api.ErrStopped, "held": &journal.HeldError{}, "no key": keyholder.ErrNoKey, "lost": journal.ErrLost, "journal": api.ErrJournal,
		"fenced": journal.ErrFenced, "corrupt": api.ErrCorrupt, "rejected": journal.ErrRejected,
	}
}

func (p *process) execute(c command) {
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
	p.report(out)
}

func (p *process) do(ctx context.Context, c command) (out answer, err error) {
	p.mu.Lock()
	l := p.now
	p.mu.Unlock()
	switch c.Do {
	case "open", "follow":
		return out, p.keep(ledgertest.OpenApart(p.file(), ledger.Options{Standby: c.Do == "follow", Journal: pgjournal.For(p.options)}))
	case "take over":
		return out, p.keep(l.TakeOver(ctx))
	case "events":
		s, err := l.Stats(ctx)
		return answer{Event: s.Events}, err
	case "health":
		h, err := l.Health(ctx)
		return answer{Value: h.Host.Leader, Event: h.Host.Lag}, err
	case "release":
		epsilon, err := privacy.ParseEpsilon(c.Epsilon)
		if err != nil {
			return out, err
		}
		r, err := l.Release(ctx, api.ReleaseRequest{Key: c.Key, Question: "vote", Object: c.Object, Epsilon: epsilon, TrueValue: "yes"})
		return answer{Value: r.Value, Event: r.Event}, err
	case "forget":
		return out, l.Forget(ctx, api.ObjectRequest{Key: c.Key, Object: c.Object})
	case "compact":
		return out, l.Compact(ctx, nil)
	case "verify":
		return out, verify(ctx, l)
	case "close":
		return out, l.Close()
	}
	return out, fmt.Errorf("unknown command %q", c.Do)
}

// keep stores a ledger that was opened.
func (p *process) keep(l *ledger.Ledger, err error) error {
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

// host is a host process, as the tests see it.
type host struct {
	setting
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	next int

	mu      sync.Mutex
	waiting map[int]chan answer
	ended   error
}

// start starts a host, with a command that runs it if there is one, such as "ip netns exec name".
func start(t testing.TB, s setting, wrap ...string) *host {
	t.Helper()
	text := check.Value(json.Marshal(s))(t)
	args := append(wrap, os.Args[0])
	h := &host{setting: s, t: t, cmd: exec.Command(args[0], args[1:]...), waiting: map[int]chan answer{}}
	h.cmd.Env = append(os.Environ(), asHost+"="+string(text))
	h.cmd.Stderr = os.Stderr
	h.in = check.Value(h.cmd.StdinPipe())(t)
	out := check.Value(h.cmd.StdoutPipe())(t)
	ready := make(chan answer, 1)
	h.waiting[0] = ready
	check.Must(t, h.cmd.Start())
	t.Cleanup(h.kill)
	go h.listen(json.NewDecoder(out))
	if s := <-ready; s.Kind != "ready" {
		t.Fatalf("host %s: %+v", h.Name, s)
	}
	return h
}

// listen passes the answers of the host to the goroutines that wait for them.
func (h *host) listen(d *json.Decoder) {
	for {
		var s answer
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

// gone is the kind of answer for a host that has ended.
const gone = "gone"

// ask sends a command and returns the channel of its answer. If the host ends, the answer is gone.
func (h *host) ask(c command) <-chan answer {
	result := make(chan answer, 1)
	inside := make(chan answer, 1)
	h.mu.Lock()
	h.next++
	c.ID = h.next
	ended := h.ended != nil
	if !ended {
		h.waiting[c.ID] = inside
	}
	h.mu.Unlock()
	if ended {
		result <- answer{Kind: gone}
		return result
	}
	text := check.Value(json.Marshal(c))(h.t)
	_, _ = h.in.Write(append(text, '\n')) // an error shows in the answer: the host has ended
	go func() {
		s, ok := <-inside
		if !ok {
			s = answer{ID: c.ID, Kind: gone}
		}
		result <- s
	}()
	return result
}

// do sends a command that must succeed.
func (h *host) do(c command) answer {
	h.t.Helper()
	s := <-h.ask(c)
	check.Need(h.t, s.Kind == "", "host %s: %s: %s: %s", h.Name, c.Do, s.Kind, s.Text)
	return s
}

// fails sends a command that must fail with a kind of error, and returns the answer.
func (h *host) fails(c command, kind string) answer {
	h.t.Helper()
	s := <-h.ask(c)
	check.Need(h.t, slices.Contains(strings.Fields(s.Kind), kind),
		"host %s: %s: error of kind %q, want %q: %s", h.Name, c.Do, s.Kind, kind, s.Text)
	return s
}

// kill kills a host.
func (h *host) kill() {
	_ = h.cmd.Process.Signal(syscall.SIGCONT)
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait() // an error is expected: it was killed
}

// release returns a command that draws a response.
func release(n int, epsilon string) command {
	return command{Do: "release", Key: fmt.Sprint("release ", n, " ", epsilon), Object: fmt.Sprint("person ", n), Epsilon: epsilon}
}

// answers are the answers of hosts, by command.
type answers struct {
	mu  sync.Mutex
	all map[command]answer
}

func (a *answers) add(c command, s answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[command]answer{}
	}
	a.all[c] = s
}

// check repeats all commands at a host: the answers must be the same.
func (a *answers) check(h *host) {
	h.t.Helper()
	for c, s := range a.all {
		if again := h.do(c); again.Value != s.Value || again.Event != s.Event {
			h.t.Errorf("host %s: %v answered %q of event %d, and now %q of event %d", h.Name, c, s.Value, s.Event, again.Value, again.Event)
		}
	}
}

// load starts clients that send release commands to a host, until end is called or a command fails.
func (a *answers) load(h *host, from int) (end func() (failed []answer)) {
	over := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []answer
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
				a.add(c, s)
			}
		})
	}
	return func() []answer {
		close(over)
		all.Wait()
		return failed
	}
}

const hostPeople = 40

// newFile creates a ledger with objects.
func newFile(t testing.TB, path string) (id uuid.UUID) {
	t.Helper()
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{}))
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	names := make([]string, hostPeople)
	for n := range names {
		names[n] = fmt.Sprint("person ", n)
	}
	enrollAll(t, l, names)
	id, err := uuid.Parse(l.About().ID)
	check.Must(t, errors.Join(err, l.Close()))
	return id
}

// copyFile copies the file of a host that does not run.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	text := check.Value(os.ReadFile(from))(t)
	check.Must(t, os.WriteFile(to, text, 0o600))
}

func enrollAll(t testing.TB, l *ledger.Ledger, names []string) {
	t.Helper()
	check.Must(t, l.DefineQuestion(t.Context(), "define vote", api.Question{Name: "vote", Values: []string{"yes", "no", "blank"}}))
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: "vote", Objects: names, Cap: check.Eps(t, "900")})))
}

// newKeyDirectory returns an empty directory of keys.
func newKeyDirectory(t testing.TB) keyholder.Holder {
	t.Helper()
	d := check.Value(keyholder.OpenDirectory(filepath.Join(testenv.TempDir(t), "keys")))(t)
	t.Cleanup(func() { check.Must(t, d.Close()) })
	return d
}

// freeAddress returns an address on which no process listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// hostPair is two hosts of one ledger, each with its own directory. Host a has it open. There may
// be a third host.
type hostPair struct {
	a, b, c *host
}

func newHostPair(t *testing.T, s *pgtest.Server, database string) *hostPair {
	t.Helper()
	return newHosts(t, s.Address(database), "a", "b")
}

// newHosts starts hosts with these names and one database.
func newHosts(t *testing.T, database string, names ...string) *hostPair {
	t.Helper()
	authority := pgtest.NewAuthority(t)
	dir := testenv.TempDir(t)
	at := map[string]string{}
	for _, name := range names {
		at[name] = freeAddress(t)
	}
	settings := map[string]setting{}
	for name := range at {
		one := setting{Dir: filepath.Join(dir, name), Name: name, Database: database, Listen: at[name], Peers: map[string]string{}, Timeout: 20 * time.Second}
		for other, where := range at {
			if other != name {
				one.Peers[other] = "https://" + where
			}
		}
		check.Must(t, os.Mkdir(one.Dir, 0o700))
		authority.Files(one.Dir, name)
		settings[name] = one
	}
	newFile(t, settings["a"].file())
	p := &hostPair{a: start(t, settings["a"]), b: start(t, settings["b"])}
	p.a.do(command{Do: "open"})
	copyFile(t, settings["a"].file(), settings["b"].file()) // the file names its journal now
	if c, is := settings["c"]; is {
		p.c = start(t, c)
		copyFile(t, settings["a"].file(), c.file())
	}
	return p
}

// follows makes a host follow another one, and waits until it has all events.
func follows(t testing.TB, h, leader *host) {
	t.Helper()
	h.do(command{Do: "follow"})
	have := leader.do(command{Do: "events"}).Event
	await(t, h.Name+" has all events", func() bool { return h.do(command{Do: "events"}).Event >= have })
}

// follow makes b follow a, and waits until it has all events.
func (p *hostPair) follow(t testing.TB) {
	t.Helper()
	follows(t, p.b, p.a)
}

// Of three hosts, the leader is killed and returns as a standby with its own file, although the
// others have forgotten an object and trimmed the journal since. Forget completes when it has
// returned.
func TestLeader_KilledOfThree_ComesBackAsStandby(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range testenv.Tries(1, 3, 30) {
		p := newHosts(t, s.Address("journals"), "a", "b", "c")
		follows(t, p.b, p.a)
		follows(t, p.c, p.a)
		var all answers
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		p.a.kill()
		end()
		p.b.do(command{Do: "take over"})
		forget := command{Do: "forget", Key: "forget", Object: "person 39", Limit: 3 * time.Second} // c has all events within two
		p.b.do(release(1, "700"))
		if held := p.b.fails(forget, "held"); !strings.Contains(held.Text, "host a had the journal") {
			t.Errorf("the error should name host a, which Forget waits for: %s", held.Text)
		}
		p.a = start(t, p.a.setting)
		follows(t, p.a, p.b)
		forget.Limit = 0
		p.b.do(forget)
		for c := range all.all {
			if c.Object == "person 39" {
				delete(all.all, c)
			}
		}
		p.a.do(command{Do: "take over"})
		all.check(p.a)
		for _, h := range []*host{p.a, p.c} {
			h.do(command{Do: "verify"})
		}
		for _, h := range []*host{p.a, p.b, p.c} {
			h.kill()
		}
	}
}

// Both hosts report which one leads. The old leader, which commits nothing, stops when its health
// is requested, and returns as a standby.
func TestHealth_TakenOverFrom_StopsWithoutACommit(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	p := newHostPair(t, s, "journals")
	p.follow(t)
	for _, h := range []*host{p.a, p.b} {
		if now := h.do(command{Do: "health"}); now.Value != "a" || now.Event != 0 {
			t.Errorf("host %s: %+v", h.Name, now)
		}
	}
	p.b.do(command{Do: "take over"})
	p.a.do(command{Do: "events"}) // it has not noticed the takeover yet
	fenced := p.a.fails(command{Do: "health"}, "fenced")
	check.That(t, strings.Contains(fenced.Text, "host b") && strings.Contains(fenced.Kind, "stopped"), "%+v", fenced)
	p.a.fails(command{Do: "events"}, "stopped")
	p.a.do(command{Do: "close"})
	follows(t, p.a, p.b)
	now := p.a.do(command{Do: "health"})
	check.That(t, now.Value == "b", "as a standby: %+v", now)
}

// The connections of a database are cut at any message of a commit while several clients write. No
// answer is lost or given twice, and the ledger continues.
func TestHost_ConnectionsBreakAtCommits_LedgerGoesOn(t *testing.T) {
	s := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, s)
	s.Database(t, "journals")
	p := newHosts(t, proxy.Address("journals"), "a", "b")
	p.follow(t)
	var all answers
	for n := range testenv.Tries(6, 20, 200) {
		var left atomic.Int32
		left.Store(int32(1 + n%5))
		broke := make(chan struct{})
		proxy.SetRule(func(m pgtest.Message) pgtest.Action {
			if m.SQL != "" && !strings.Contains(m.SQL, "UPDATE") && left.Load() > 0 {
				return pgtest.Pass
			}
			switch left.Add(-1) {
			case 0:
				close(broke)
				return []pgtest.Action{pgtest.Cut, pgtest.After, pgtest.Half}[n%3]
			}
			return pgtest.Pass
		})
		end := all.load(p.a, (1+5*n)*hostPeople)
		<-broke
		proxy.SetRule(nil)
		for _, failed := range end() {
			check.Need(t, !strings.Contains(failed.Kind, "stopped") && !strings.Contains(failed.Kind, "uncertain"),
				"the ledger has stopped: %+v", failed)
		}
		all.add(release(n, "899"), p.a.do(release(n, "899")))
	}
	all.check(p.a)
	p.b.do(command{Do: "take over"})
	all.check(p.b)
	p.b.do(command{Do: "verify"})
}

// A host is suspended while it serves, and its standby takes over. When it is resumed it appends
// nothing and returns the error. No answer of either host is lost or given twice.
func TestTakeOver_LeaderSuspendedAndResumed_LosesNothing(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range testenv.Tries(1, 4, 30) {
		p := newHostPair(t, s, "journals")
		p.follow(t)
		var all answers
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		check.Must(t, p.a.cmd.Process.Signal(syscall.SIGSTOP))
		began := time.Now()
		p.b.do(command{Do: "take over"})
		t.Logf("taken over after %v; %d answers before that", time.Since(began), len(all.all))
		endB := all.load(p.b, 10*hostPeople)
		time.Sleep(50 * time.Millisecond)
		check.Must(t, p.a.cmd.Process.Signal(syscall.SIGCONT))
		woken := p.a.fails(release(0, "899"), "stopped")
		end()
		check.That(t, strings.Contains(woken.Text, "host b"),
			"the error should name host b, which has taken over: %s", woken.Text)
		failed := endB()
		check.That(t, len(failed) <= 0, "calls of the new leader failed: %+v", failed)
		all.check(p.b)
		p.b.do(command{Do: "verify"})
		p.a.kill()
		p.b.kill()
	}
}

// A standby takes over under load. No answer is lost or given twice. The median of twenty takeovers
// is at most three seconds. The hosts take over from each other, and the old leader then follows.
func TestTakeOver_UnderLoad_LosesNothingAndIsFast(t *testing.T) {
	s := pgtest.Start(t)
	s.Standby(t, "one")
	s.SetSynchronous(t, "one")
	s.Database(t, "journals")
	p := newHostPair(t, s, "journals")
	p.follow(t)
	var all answers
	var took []time.Duration
	for n := range testenv.Tries(3, 20, 100) {
		end := all.load(p.a, n*5*hostPeople)
		time.Sleep(time.Duration(100+rand.IntN(100)) * time.Millisecond)
		began := time.Now()
		p.b.do(command{Do: "take over"})
		took = append(took, time.Since(began))
		end()
		p.a.fails(release(0, "899"), "stopped")
		p.a.do(command{Do: "close"})
		p.a, p.b = p.b, p.a
		p.follow(t)
		if n%5 == 2 {
			all.check(p.a)
		}
	}
	all.check(p.a)
	p.a.do(command{Do: "verify"})
	p.b.do(command{Do: "verify"})
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("%d answers; takeovers took a median of %v (of %d), at most %v", len(all.all), median, len(took), took[len(took)-1])
	check.That(t, len(took) < 20 || median <= 3*time.Second, "the median takeover takes %v, want at most 3 s", median)
}

// The disk of the leader is destroyed at any instant: while it answers, forgets, or trims the
// journal. Its standby continues with every answer.
func TestTakeOver_LeaderDiskDestroyed_LosesNothing(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range testenv.Tries(3, 12, 200) {
		p := newHostPair(t, s, "journals")
		p.follow(t)
		var all answers
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		forgotten := p.a.ask(command{Do: "forget", Key: "forget", Object: "person 39"}) // trims the journal as soon as b has a base
		time.Sleep(time.Duration(rand.IntN(1800)) * time.Millisecond)
		p.a.kill()
		check.Must(t, os.RemoveAll(p.a.Dir))
		end()
		outcome := <-forgotten
		p.b.do(command{Do: "take over"})
		for c := range all.all {
			if c.Object == "person 39" {
				delete(all.all, c) // forgotten, or perhaps forgotten
			}
		}
		all.check(p.b)
		p.b.do(command{Do: "verify"})
		rows := s.Exec(t, "journals", "SELECT begin_events, erased_events FROM sluice.heads ORDER BY claimed DESC LIMIT 1")
		t.Logf("%d answers; the result of Forget was %q; the journal begins after event %s", len(all.all), outcome.Kind, rows[0])
		p.b.kill()
	}
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	pgtest.Until(t, what, func() error {
		if !is() {
			return fmt.Errorf("the condition is not met")
		}
		return nil
	})
}

// found returns the files in directories that contain a text.
func found(t testing.TB, b string, dirs ...string) (files []string) {
	t.Helper()
	for _, dir := range dirs {
		check.Must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil // it was removed
			}
			text, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(text), b) {
				files = append(files, path)
			}
			return nil
		}))
	}
	return files
}

// Forget waits until a standby has a base that has forgotten the object as well, and otherwise
// returns how far the journal is destroyed. When it returns, no key of earlier journal entries is
// left on either host. Neither the database nor its standby ever holds a name in clear.
func TestForget_NoOtherBase_WaitsForStandby(t *testing.T) {
	s := pgtest.Start(t)
	standby := s.Standby(t, "one")
	s.SetSynchronous(t, "one")
	s.Database(t, "journals")
	p := newHostPair(t, s, "journals")
	const name = "person 7"
	p.a.do(release(7, "1"))
	p.a.do(release(8, "1"))
	s.Exec(t, "journals", "CREATE TABLE clear (name text); INSERT INTO clear VALUES ('control of the search')")
	held := p.a.fails(command{Do: "forget", Key: "forget", Object: name, Limit: 300 * time.Millisecond}, "held")
	for _, words := range []string{"0 other hosts have a base", "up to event"} {
		check.That(t, strings.Contains(held.Text, words), "the error should contain %q: %s", words, held.Text)
	}
	keys := p.keyBytes(t)
	check.Need(t, len(keys) != 0, "the hosts have no keys")
	forgotten := p.a.ask(command{Do: "forget", Key: "forget", Object: name})
	p.a.do(release(9, "1")) // other calls continue concurrently
	select {
	case s := <-forgotten:
		t.Fatalf("Forget has not waited for the standby: %+v", s)
	default:
	}
	p.follow(t)
	if s := <-forgotten; s.Kind != "" {
		t.Fatalf("forget: %+v", s)
	}
	s.WaitStreaming(t, "one")
	s.Exec(t, "postgres", "CHECKPOINT")
	s.WaitStreaming(t, "one") // a standby writes only up to a checkpoint that it knows
	standby.Exec(t, "postgres", "CHECKPOINT")
	for _, dir := range []string{s.Data, standby.Data} {
		for _, part := range []string{"base", "pg_wal"} {
			check.Need(t, len(found(t, "control of the search", filepath.Join(dir, part))) != 0,
				"the search does not find a text in clear in %s of %s", part, dir)
		}
	}
	files := found(t, "person ", s.Data, standby.Data)
	check.That(t, len(files) <= 0, "names are in clear in %v", files)
	for file, key := range keys {
		if files := found(t, key, s.Data, standby.Data, p.a.Dir, p.b.Dir); len(files) > 0 {
			t.Errorf("the key of %s is still in %v", file, files)
		}
	}
	// Later entries have another key, and are readable.
	p.a.kill()
	check.Must(t, os.RemoveAll(p.a.Dir))
	p.b.do(command{Do: "take over"})
	p.b.do(release(9, "1"))
	p.b.do(command{Do: "verify"})
}

// A file has events that its database has lost. It is refused until Restore creates the journal
// again after the file. Then no response is lost.
func TestOpen_FileAheadOfDatabase_IsRefusedUntilRestored(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	path := filepath.Join(testenv.TempDir(t), "panel.db")
	newFile(t, path)
	o := pgjournal.Options{
		Database: s.Address("journals"), Host: "a", Keys: newKeyDirectory(t), Others: []keyholder.Holder{newKeyDirectory(t)},
	}
	open := func(restore bool) (*ledger.Ledger, error) {
		o.Restore = restore
		return ledger.Open(t.Context(), path, ledger.Options{Journal: pgjournal.For(o)})
	}
	l := check.Value(open(false))(t)
	var all []api.Response
	call := func(n int) api.Response {
		response := check.Value(l.Release(t.Context(), api.ReleaseRequest{
			Key: fmt.Sprint("call ", n), Question: "vote", Object: fmt.Sprint("person ", n), Epsilon: check.Eps(t, "1"),
			Truth: func(_ context.Context, _ string, objects []string) ([]string, error) {
				return slices.Repeat([]string{"yes"}, len(objects)), nil
			},
		}))(t)
		return response
	}
	all = append(all, call(0), call(1))
	backup := s.Backup(t)
	all = append(all, call(2), call(3))
	check.Must(t, l.Close()) // all events are in the file
	s.Stop(t)
	backup.Begin(t)
	o.Database = backup.Address("journals")
	if _, err := open(false); !errors.Is(err, api.ErrJournal) && !errors.Is(err, journal.ErrLost) {
		t.Errorf("open with a database that has lost events: %v", err)
	}
	l, err := open(true)
	check.Must(t, err)
	all = append(all, call(4))
	check.Must(t, l.Close())
	l, err = open(false)
	check.Must(t, err)
	for n, was := range all {
		again := call(n)
		check.That(t, again == was, "the response was %v, and is now %v", was, again)
	}
	check.Must(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{Report: func(p api.Finding) { t.Errorf("found %+v", p) }})))
	check.Must(t, l.Close())
}

// keyBytes returns the bytes of all keys of both hosts, by file.
func (p *hostPair) keyBytes(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, h := range []*host{p.a, p.b} {
		files := check.Value(filepath.Glob(filepath.Join(h.Dir, "keys", "*", "*.key")))(t)
		for _, file := range files {
			text := check.Value(os.ReadFile(file))(t)
			all[file] = string(text[len(text)-36 : len(text)-4])
		}
	}
	return all
}

// A host hangs, as when its machine swaps: it answers no call, and its connections stay open. Of
// three hosts, another one takes over within two seconds, and writes. The hanging host appends
// nothing when it continues.
func TestTakeOver_LeaderOfThreeHangs_TakesTwoSecondsAtMost(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	var took []time.Duration
	for n := range testenv.Tries(2, 5, 30) {
		p := newHosts(t, s.Address("journals"), "a", "b", "c")
		follows(t, p.b, p.a)
		follows(t, p.c, p.a)
		var all answers
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(50+rand.IntN(1500)) * time.Millisecond)
		check.Must(t, p.a.cmd.Process.Signal(syscall.SIGSTOP))
		began := time.Now()
		p.b.do(command{Do: "take over"})
		took = append(took, time.Since(began))
		c := release(n, "898")
		all.add(c, p.b.do(c))
		check.Must(t, p.a.cmd.Process.Signal(syscall.SIGCONT))
		p.a.fails(release(0, "899"), "stopped")
		end()
		all.check(p.b)
		for _, h := range []*host{p.a, p.b, p.c} {
			h.kill()
		}
	}
	slices.Sort(took)
	t.Logf("taken over after %v", took)
	if fastest := took[0]; fastest > 2*time.Second { // the fastest, because the machine may be busy
		t.Errorf("the fastest takeover takes %v, want at most 2 s", fastest)
	}
}

// pair is two hosts with a journal in PostgreSQL that take over from each other while clients make
// calls. The host with the journal serves all calls, and the other follows. Calls that the old
// leader cannot finish are made again at the new one.
type pair struct {
	*trial
	t       testing.TB
	server  *pgtest.Server
	options ledger.Options
	files   [2]string
	keys    [2]keyholder.Holder
	standby *ledger.Ledger                          // the ledger of the other host; nil if it does not follow
	alone   bool                                    // no host follows: the new leader opens its file
	wrap    func(journal.Follower) journal.Follower // adds a fault to the journal; nil for none
	linger  int64                                   // the number of calls that the old host still gets when the new one is ready
	most    int                                     // the largest number of takeovers; 0 for no limit
	before  func()                                  // called before each takeover; nil for nothing

	mu      sync.Mutex
	changed chan struct{} // closed when another host serves
	now     *ledger.Ledger
	host    int // the number of the host that serves
	began   atomic.Int64
	taken   int // the number of takeovers
	failure error
}

// newPair creates two hosts whose files are copies of each other. The first serves.
func newPair(t testing.TB, s *pgtest.Server, seed uint64, calls int, mix []weight, plan func(*pair)) *pair {
	t.Helper()
	tr, path, options := planTrial(t, seed, calls, mix)
	p := &pair{trial: tr, t: t, server: s, options: options, changed: make(chan struct{})}
	for i := range p.files {
		p.files[i] = filepath.Join(filepath.Dir(path), fmt.Sprint("host ", i, ".db"))
		p.keys[i] = newKeyDirectory(t)
	}
	if plan != nil {
		plan(p)
	}
	check.Must(t, os.Rename(path, p.files[0]))
	var err error
	p.now, err = p.open(0, false)
	check.Must(t, err)
	text, err := os.ReadFile(p.files[0]) // the file names its journal, and is not written now
	check.Must(t, err)
	check.Must(t, os.WriteFile(p.files[1], text, 0o600))
	check.Must(t, p.follow())
	tr.real, tr.ask, tr.compactFile = p.now, p.ask, p.compactAny
	tr.define(t)
	t.Cleanup(func() {
		check.Must(t, p.now.Close())
		if p.standby != nil {
			_ = p.standby.Close() // it may have stopped
		}
	})
	return p
}

// open opens the ledger on a host, as the leader or as a standby.
func (p *pair) open(host int, standby bool) (*ledger.Ledger, error) {
	o := p.options
	o.Standby = standby
	find := pgjournal.For(p.access(host))
	o.Journal = func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := find(ctx, w)
		if err == nil && p.wrap != nil {
			j = p.wrap(j.(journal.Follower))
		}
		return j, err
	}
	return ledgertest.OpenApart(p.files[host], o)
}

// access returns the options of a host's journal.
func (p *pair) access(host int) pgjournal.Options {
	return pgjournal.Options{
		Database: p.server.Address("journals"), Host: fmt.Sprint("host ", host), Keys: p.keys[host], Others: []keyholder.Holder{p.keys[1-host]},
	}
}

// follow makes the host that does not serve follow the other one.
func (p *pair) follow() (err error) {
	if !p.alone {
		p.standby, err = p.open(1-p.host, true)
	}
	return err
}

// other makes the other host the leader, and returns its ledger.
func (p *pair) other() (*ledger.Ledger, error) {
	if p.alone {
		return p.open(1-p.host, false)
	}
	return p.standby.TakeOver(context.Background())
}

// compactAny compacts the file of the host that serves. Another host may take over during this.
func (p *pair) compactAny(ctx context.Context) error {
	l, _, _ := p.serving()
	if err := l.Compact(ctx, nil); !errors.Is(err, api.ErrStopped) && !errors.Is(err, api.ErrClosed) {
		return err
	}
	return nil
}

// serving returns the ledger that serves, and a channel that is closed when another one does.
func (p *pair) serving() (*ledger.Ledger, chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.changed, p.failure
}

// takeOver makes the other host take over, under load.
func (p *pair) takeOver() {
	if p.before != nil {
		p.before()
	}
	next := 1 - p.host
	l, err := p.other()
	if err != nil {
		p.fault("take over with host %d: %w", next, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failure = err
		close(p.changed)
		return
	}
	for until := p.began.Load() + p.linger; p.began.Load() < until && p.next.Load() < int64(p.calls); {
		time.Sleep(time.Millisecond)
	}
	p.mu.Lock()
	old := p.now
	p.now, p.host = l, next
	p.real = l
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.taken++
	_ = old.Close() // it may have stopped
	if p.standby = nil; p.wrap == nil && p.before == nil {
		if err := p.follow(); err != nil {
			p.fault("follow with host %d: %w", 1-next, err)
		}
	}
}

// run runs the clients, with a takeover after each so many calls.
func (p *pair) run(ctx context.Context, every int64) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for at := every; (p.most == 0 || p.taken < p.most) && p.failure == nil; at += every {
			for p.began.Load() < at {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
				}
			}
			p.takeOver()
		}
	}()
	p.trial.run(ctx)
	close(over)
	<-ended
}

// ask makes a call at the host that serves, and again at the next one if another host took over.
func (p *pair) ask(ctx context.Context, call func(server) error) error {
	p.began.Add(1)
	for {
		l, changed, failed := p.serving()
		err := call(l)
		if failed != nil || !errors.Is(err, api.ErrStopped) && !errors.Is(err, api.ErrClosed) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Two hosts take over from each other every few hundred calls, while twelve clients make calls.
// There must be an order in which one host and one client would have returned the same.
func TestHistories_TakeoversBetweenTwoHosts_AreLinearizable(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	length := testenv.Tries(1000, 2000, 20_000)
	for seed := range testenv.Tries(1, 3, 50) {
		p := newPair(t, s, uint64(seed+1), length, everything(), nil) // seeds with a checkpoint after every commit come first
		p.run(t.Context(), 200)
		err := p.check(t.Context())
		check.Need(t, err == nil, "seed %d, %d calls: %v", seed, length, err)
		check.That(t, p.taken >= length/200-2, "only %d takeovers", p.taken)
		t.Logf("%d calls, %d takeovers", len(p.records), p.taken)
	}
}

// unfencedJournal is a journal that reports success although another host has claimed it.
type unfencedJournal struct{ journal.Follower }

func (d unfencedJournal) Append(ctx context.Context, g journal.Group) error {
	err := d.Follower.Append(ctx, g)
	if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrOrder) {
		err = nil
	}
	return err
}

// forgetfulKeys is a holder of keys that does not store marks.
type forgetfulKeys struct{ keyholder.Holder }

func (forgetfulKeys) Mark(context.Context, string, keyholder.Mark) error { return nil }

// loseGroups deletes the last groups in the database, as a failover to a standby that lags does.
func (p *pair) loseGroups(groups int) {
	id := uuid.UUID(mustID(p.t, p.real))
	// The head is locked first, so that a concurrent append is either deleted or comes too late.
	p.server.Exec(p.t, "journals", fmt.Sprintf(`BEGIN; SELECT 1 FROM sluice.heads WHERE ledger = '%[1]s' FOR UPDATE;
		WITH last AS (SELECT events, root FROM sluice.frames WHERE ledger = '%[1]s' AND frame = 0 ORDER BY events DESC LIMIT %[2]d),
			first AS (SELECT * FROM last ORDER BY events LIMIT 1),
			head AS (UPDATE sluice.heads h SET events = first.events, root = first.root FROM first WHERE ledger = '%[1]s'),
			segments AS (DELETE FROM sluice.segments s USING first WHERE s.ledger = '%[1]s' AND s.events >= first.events)
		DELETE FROM sluice.frames f USING last WHERE f.ledger = '%[1]s' AND f.events = last.events; COMMIT`, id, groups))
}

func mustID(t testing.TB, l *ledger.Ledger) uuid.UUID {
	t.Helper()
	return check.Value(uuid.Parse(l.About().ID))(t)
}

// The check finds these faults: a host does not notice a takeover; a database loses reported
// results, and no host knows how many there were.
func TestHistory_FaultyTakeovers_AreFound(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for name, plan := range map[string]func(*pair){
		"a host does not notice a takeover": func(p *pair) {
			p.wrap, p.linger = func(j journal.Follower) journal.Follower { return unfencedJournal{j} }, 60
		},
		"the database loses reported results": func(p *pair) {
			for i := range p.keys {
				p.keys[i] = forgetfulKeys{newKeyDirectory(p.t)}
			}
			p.alone, p.before = true, func() { p.loseGroups(5) } // a standby would notice
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			for seed := uint64(0); seed < faultSeeds && err == nil; seed++ {
				p := newPair(t, s, 3*seed, 3000, releases(), plan) // without checkpoints after every commit, which would notice the fault
				p.clock.set(int64(len(p.terms) * lifetime))
				p.most = 1 // a second takeover would notice that its file is ahead, or has another history
				p.run(t.Context(), 200)
				err = p.check(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), byOrder) && !strings.Contains(err.Error(), byKey) {
				t.Fatalf("want an error about the order or the key, got %v", err)
			}
			t.Logf("%.1000s", err)
		})
	}
}
