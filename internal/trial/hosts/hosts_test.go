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
		"stopped": api.ErrStopped, "held": &journal.HeldError{}, "no key": keyholder.ErrNoKey, "lost": journal.ErrLost, "journal": api.ErrJournal,
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
		return out, l.Forget(ctx, api.ObjectRequest{Key: c.Key, Object: c.Object})
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
	text := check.Value(json.Marshal(s))(t)
	args := append(wrap, os.Args[0])
	h := &host{setting: s, t: t, cmd: exec.Command(args[0], args[1:]...), waiting: map[int]chan said{}}
	h.cmd.Env = append(os.Environ(), asHost+"="+string(text))
	h.cmd.Stderr = os.Stderr
	h.in = check.Value(h.cmd.StdinPipe())(t)
	out := check.Value(h.cmd.StdoutPipe())(t)
	ready := make(chan said, 1)
	h.waiting[0] = ready
	check.Must(t, h.cmd.Start())
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

// ask asks for something, and returns where the answer comes. A host that dies answers that it is
// gone.
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
	text := check.Value(json.Marshal(c))(h.t)
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
	check.Need(h.t, s.Kind == "", "host %s: %s: %s: %s", h.Name, c.Do, s.Kind, s.Text)
	return s
}

// fails has something done that must not, and returns why not.
func (h *host) fails(c command, kind string) said {
	h.t.Helper()
	s := <-h.ask(c)
	check.Need(h.t, slices.Contains(strings.Fields(s.Kind), kind),
		"host %s: %s: %q, not %q: %s", h.Name, c.Do, s.Kind, kind, s.Text)
	return s
}

// kill ends a host at once.
func (h *host) kill() {
	_ = h.cmd.Process.Signal(syscall.SIGCONT)
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait() // it was killed
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

// load has several clients ask a host for releases, until it is told to end, or somebody is told
// that it cannot.
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

// copyFile copies the file of a host that nobody writes to.
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

// directoryOfKeys is an empty directory of keys.
func directoryOfKeys(t testing.TB) keyholder.Holder {
	t.Helper()
	d := check.Value(keyholder.OpenDirectory(filepath.Join(testenv.TempDir(t), "keys")))(t)
	t.Cleanup(func() { check.Must(t, d.Close()) })
	return d
}

// free returns an address where nobody listens.
func free(t testing.TB) string {
	t.Helper()
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// hostPair are two hosts of one ledger, each with a directory of its own. The first has it open.
// There may be a third.
type hostPair struct {
	a, b, c *host
}

func newHostPair(t *testing.T, s *pgtest.Server, database string) *hostPair {
	t.Helper()
	return newHosts(t, s.Address(database), "a", "b")
}

// newHosts starts hosts that are named so, whose database has an address.
func newHosts(t *testing.T, database string, names ...string) *hostPair {
	t.Helper()
	authority := pgtest.NewAuthority(t)
	dir := testenv.TempDir(t)
	at := map[string]string{}
	for _, name := range names {
		at[name] = free(t)
	}
	settings := map[string]setting{}
	for name := range at {
		x := setting{Dir: filepath.Join(dir, name), Name: name, Database: database, Listen: at[name], Peers: map[string]string{}, Timeout: 20 * time.Second}
		for other, where := range at {
			if other != name {
				x.Peers[other] = "https://" + where
			}
		}
		check.Must(t, os.Mkdir(x.Dir, 0o700))
		authority.Files(x.Dir, name)
		settings[name] = x
	}
	newFile(t, settings["a"].file())
	p := &hostPair{a: start(t, settings["a"]), b: start(t, settings["b"])}
	p.a.do(command{Do: "open"})
	copyFile(t, settings["a"].file(), settings["b"].file()) // which names its journal now
	if c, is := settings["c"]; is {
		p.c = start(t, c)
		copyFile(t, settings["a"].file(), c.file())
	}
	return p
}

// follows has a host follow another one, until it has all there is.
func follows(t testing.TB, h, leader *host) {
	t.Helper()
	h.do(command{Do: "follow"})
	have := leader.do(command{Do: "events"}).Event
	await(t, h.Name+" has all", func() bool { return h.do(command{Do: "events"}).Event >= have })
}

// follow has b follow a, until it has all there is.
func (p *hostPair) follow(t testing.TB) {
	t.Helper()
	follows(t, p.b, p.a)
}

// With three hosts, the one that has the ledger is killed and comes back as a standby with its own
// file, whatever the others forget and trim before. What it lacks is destroyed when it has it.
func TestLeader_KilledOfThree_ComesBackAsStandby(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range testenv.Tries(1, 3, 30) {
		p := newHosts(t, s.Address("journals"), "a", "b", "c")
		follows(t, p.b, p.a)
		follows(t, p.c, p.a)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		p.a.kill()
		end()
		p.b.do(command{Do: "take over"})
		forget := command{Do: "forget", Key: "forget", Object: "person 39", Limit: 3 * time.Second} // c has all within two
		p.b.do(release(1, "700"))
		if held := p.b.fails(forget, "held"); !strings.Contains(held.Text, "host a had the journal") {
			t.Errorf("it does not say that it waits for a: %s", held.Text)
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

// Both hosts say which one has the ledger. The one that was taken over from, and commits nothing,
// stops when it is asked for its health, and comes back as a standby.
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
	p.a.do(command{Do: "events"}) // it does not know yet
	fenced := p.a.fails(command{Do: "health"}, "fenced")
	check.That(t, strings.Contains(fenced.Text, "host b") && strings.Contains(fenced.Kind, "stopped"), "%+v", fenced)
	p.a.fails(command{Do: "events"}, "stopped")
	p.a.do(command{Do: "close"})
	follows(t, p.a, p.b)
	now := p.a.do(command{Do: "health"})
	check.That(t, now.Value == "b", "as a standby: %+v", now)
}

// A database's connections are cut at any message of a commit while several clients write: nothing
// that was told is lost or told twice, and the ledger goes on.
func TestHost_ConnectionsBreakAtCommits_LedgerGoesOn(t *testing.T) {
	s := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, s)
	s.Database(t, "journals")
	p := newHosts(t, proxy.Address("journals"), "a", "b")
	p.follow(t)
	var all toldByKey
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
		all.note(release(n, "899"), p.a.do(release(n, "899")))
	}
	all.check(p.a)
	p.b.do(command{Do: "take over"})
	all.check(p.b)
	p.b.do(command{Do: "verify"})
}

// A host is stopped in the midst of its work, and its standby takes over. When it is woken it
// appends nothing, says so, and nothing that either told is lost, or told twice.
func TestAHostIsStoppedTakenOverFromAndWoken(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range testenv.Tries(1, 4, 30) {
		p := newHostPair(t, s, "journals")
		p.follow(t)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		check.Must(t, p.a.cmd.Process.Signal(syscall.SIGSTOP))
		began := time.Now()
		p.b.do(command{Do: "take over"})
		t.Logf("taken over after %v; %d calls were told by then", time.Since(began), len(all.all))
		endB := all.load(p.b, 10*hostPeople)
		time.Sleep(50 * time.Millisecond)
		check.Must(t, p.a.cmd.Process.Signal(syscall.SIGCONT))
		woken := p.a.fails(release(0, "899"), "stopped")
		end()
		check.That(t, strings.Contains(woken.Text, "host b"),
			"it does not say by whom it was taken over from: %s", woken.Text)
		failed := endB()
		check.That(t, len(failed) <= 0, "who has taken over: %+v", failed)
		all.check(p.b)
		p.b.do(command{Do: "verify"})
		p.a.kill()
		p.b.kill()
	}
}

// A standby takes over under load: nothing that was told is lost or told twice, and it takes at
// most three seconds, as the median of twenty. Each takes over from the other, and whoever was
// taken over from follows then.
func TestTakeoversUnderLoad(t *testing.T) {
	s := pgtest.Start(t)
	s.Standby(t, "one")
	s.SetSynchronous(t, "one")
	s.Database(t, "journals")
	p := newHostPair(t, s, "journals")
	p.follow(t)
	var all toldByKey
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
	t.Logf("%d calls told; taken over after %v, as the median of %d, at most %v", len(all.all), median, len(took), took[len(took)-1])
	check.That(t, len(took) < 20 || median <= 3*time.Second, "a takeover takes %v", median)
}

// The disk of the host that leads is destroyed at any instant: while it answers, while it forgets,
// while it has the journal trimmed. Its standby goes on with everything that was told.
func TestTheDiskOfAHostIsDestroyed(t *testing.T) {
	t.Parallel() // it waits, mostly
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range testenv.Tries(3, 12, 200) {
		p := newHostPair(t, s, "journals")
		p.follow(t)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		forgotten := p.a.ask(command{Do: "forget", Key: "forget", Object: "person 39"}) // has the journal trimmed, as soon as b has a base
		time.Sleep(time.Duration(rand.IntN(1800)) * time.Millisecond)
		p.a.kill()
		check.Must(t, os.RemoveAll(p.a.Dir))
		end()
		outcome := <-forgotten
		p.b.do(command{Do: "take over"})
		for c := range all.all {
			if c.Object == "person 39" {
				delete(all.all, c) // who is forgotten, or may be
			}
		}
		all.check(p.b)
		p.b.do(command{Do: "verify"})
		rows := s.Exec(t, "journals", "SELECT begin_events, erased_events FROM sluice.heads ORDER BY claimed DESC LIMIT 1")
		t.Logf("%d calls told; forgetting was %q; the journal begins behind event %s", len(all.all), outcome.Kind, rows[0])
		p.b.kill()
	}
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	pgtest.Until(t, what, func() error {
		if !is() {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// found returns the files below directories that have bytes.
func found(t testing.TB, b string, dirs ...string) (files []string) {
	t.Helper()
	for _, dir := range dirs {
		check.Must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil // it is gone
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

// Forget waits until a standby has a base that has forgotten as well, and says how far the journal
// is destroyed. When it returns, no key of what was journaled before is left on either host; and
// neither the database nor its standby ever held a name in clear.
func TestForgetWaitsForAnotherBase(t *testing.T) {
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
		check.That(t, strings.Contains(held.Text, words), "it does not say %q: %s", words, held.Text)
	}
	keys := p.keys(t)
	check.Need(t, len(keys) != 0, "there are no keys")
	forgotten := p.a.ask(command{Do: "forget", Key: "forget", Object: name})
	p.a.do(release(9, "1")) // work goes on meanwhile
	select {
	case s := <-forgotten:
		t.Fatalf("it has not waited: %+v", s)
	default:
	}
	p.follow(t)
	if s := <-forgotten; s.Kind != "" {
		t.Fatalf("forget: %+v", s)
	}
	s.WaitStreaming(t, "one")
	s.Exec(t, "postgres", "CHECKPOINT")
	s.WaitStreaming(t, "one") // a standby writes only up to a checkpoint that it knows of
	standby.Exec(t, "postgres", "CHECKPOINT")
	for _, dir := range []string{s.Data, standby.Data} {
		for _, part := range []string{"base", "pg_wal"} {
			check.Need(t, len(found(t, "control of the search", filepath.Join(dir, part))) != 0,
				"what is in clear is not found in %s of %s", part, dir)
		}
	}
	files := found(t, "person ", s.Data, standby.Data)
	check.That(t, len(files) <= 0, "names lie in clear in %v", files)
	for file, key := range keys {
		if files := found(t, key, s.Data, standby.Data, p.a.Dir, p.b.Dir); len(files) > 0 {
			t.Errorf("the key that was in %s is left in %v", file, files)
		}
	}
	// What came after it has a key, and is there.
	p.a.kill()
	check.Must(t, os.RemoveAll(p.a.Dir))
	p.b.do(command{Do: "take over"})
	p.b.do(release(9, "1"))
	p.b.do(command{Do: "verify"})
}

// A file has what its database has lost. It is refused, until somebody has the journal made anew
// behind it: then nothing that was told is lost.
func TestAFileThatIsAheadOfItsDatabase(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	path := filepath.Join(testenv.TempDir(t), "panel.db")
	newFile(t, path)
	o := pgjournal.Options{
		Database: s.Address("journals"), Host: "a", Keys: directoryOfKeys(t), Others: []keyholder.Holder{directoryOfKeys(t)},
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
	check.Must(t, l.Close()) // all is in the file
	s.Stop(t)
	backup.Begin(t)
	o.Database = backup.Address("journals")
	if _, err := open(false); !errors.Is(err, api.ErrJournal) && !errors.Is(err, journal.ErrLost) {
		t.Errorf("a database that has less: %v", err)
	}
	l, err := open(true)
	check.Must(t, err)
	all = append(all, call(4))
	check.Must(t, l.Close())
	l, err = open(false)
	check.Must(t, err)
	for n, was := range all {
		again := call(n)
		check.That(t, again == was, "%v was told, and now %v", was, again)
	}
	check.Must(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{Report: func(p api.Finding) { t.Errorf("found %+v", p) }})))
	check.Must(t, l.Close())
}

// keys returns the bytes of all keys of both hosts, by file.
func (p *hostPair) keys(t testing.TB) map[string]string {
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

// A host hangs, as when its machine swaps: it answers no call, and its connections stay. Of three
// hosts another one takes over within two seconds, and writes; the one that hung appends nothing
// when it goes on.
func TestTakeOver_LeaderOfThreeHangs_TakesTwoSecondsAtMost(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	var took []time.Duration
	for n := range testenv.Tries(2, 5, 30) {
		p := newHosts(t, s.Address("journals"), "a", "b", "c")
		follows(t, p.b, p.a)
		follows(t, p.c, p.a)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(50+rand.IntN(1500)) * time.Millisecond)
		check.Must(t, p.a.cmd.Process.Signal(syscall.SIGSTOP))
		began := time.Now()
		p.b.do(command{Do: "take over"})
		took = append(took, time.Since(began))
		c := release(n, "898")
		all.note(c, p.b.do(c))
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
	if fastest := took[0]; fastest > 2*time.Second { // of several: the machine may do something else
		t.Errorf("a takeover takes %v at least", fastest)
	}
}

// pair are two hosts with a journal in PostgreSQL, which take over from each other while the
// clients go on. Who has the journal serves all calls, and the other follows; what the first cannot
// end because it was taken over from, the clients ask of the other.
type pair struct {
	*trial
	t       testing.TB
	server  *pgtest.Server
	options ledger.Options
	files   [2]string
	keys    [2]keyholder.Holder
	standby *ledger.Ledger                          // of the other host; nil if that one does not follow
	alone   bool                                    // nobody follows: who takes over opens a file
	wrap    func(journal.Follower) journal.Follower // a fault of the journal; nil for none
	linger  int64                                   // how many calls the old host still gets when the new one is ready
	most    int                                     // how often one takes over; 0 for no limit
	before  func()                                  // happens before a host takes over; nil for nothing

	mu      sync.Mutex
	changed chan struct{} // closed when another host serves
	now     *ledger.Ledger
	host    int // which of them that is
	began   atomic.Int64
	taken   int // how often one has taken over
	failure error
}

// newPair makes two hosts whose files are copies of one another, of which the first serves.
func newPair(t testing.TB, s *pgtest.Server, seed uint64, calls int, mix []weight, plan func(*pair)) *pair {
	t.Helper()
	x, path, options := planTrial(t, seed, calls, mix)
	p := &pair{trial: x, t: t, server: s, options: options, changed: make(chan struct{})}
	for i := range p.files {
		p.files[i] = filepath.Join(filepath.Dir(path), fmt.Sprint("host ", i, ".db"))
		p.keys[i] = directoryOfKeys(t)
	}
	if plan != nil {
		plan(p)
	}
	check.Must(t, os.Rename(path, p.files[0]))
	var err error
	p.now, err = p.open(0, false)
	check.Must(t, err)
	text, err := os.ReadFile(p.files[0]) // which names its journal, and nobody writes to it
	check.Must(t, err)
	check.Must(t, os.WriteFile(p.files[1], text, 0o600))
	check.Must(t, p.follow())
	x.real, x.ask, x.tidy = p.now, p.ask, p.compactAny
	x.define(t)
	t.Cleanup(func() {
		check.Must(t, p.now.Close())
		if p.standby != nil {
			_ = p.standby.Close() // it may have stopped
		}
	})
	return p
}

// open opens the ledger on a host, which claims the journal, or follows it.
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

// access are the options of a host.
func (p *pair) access(host int) pgjournal.Options {
	return pgjournal.Options{
		Database: p.server.Address("journals"), Host: fmt.Sprint("host ", host), Keys: p.keys[host], Others: []keyholder.Holder{p.keys[1-host]},
	}
}

// follow has the host that does not serve follow the one that does.
func (p *pair) follow() (err error) {
	if !p.alone {
		p.standby, err = p.open(1-p.host, true)
	}
	return err
}

// other returns the ledger of the other host, which has the journal now.
func (p *pair) other() (*ledger.Ledger, error) {
	if p.alone {
		return p.open(1-p.host, false)
	}
	return p.standby.TakeOver(context.Background())
}

// compactAny compacts the file of who serves. It may be taken over from meanwhile.
func (p *pair) compactAny(ctx context.Context) error {
	l, _, _ := p.serving()
	if err := l.Compact(ctx, nil); !errors.Is(err, api.ErrStopped) && !errors.Is(err, api.ErrClosed) {
		return err
	}
	return nil
}

// serving returns who serves, and what is closed when that is another one.
func (p *pair) serving() (*ledger.Ledger, chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.changed, p.failure
}

// takeOver has the other host take over, under load.
func (p *pair) takeOver() {
	if p.before != nil {
		p.before()
	}
	next := 1 - p.host
	l, err := p.other()
	if err != nil {
		p.fault("host %d does not take over: %w", next, err)
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
			p.fault("host %d does not follow: %w", 1-next, err)
		}
	}
}

// run lets the clients do their work, and has a host take over each so many calls.
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

// ask has a call made of who serves, and if that one was taken over from meanwhile, again of the
// next.
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

// Two hosts take over from each other every few hundred calls, while twelve clients go on: and
// there is an order in which one host and one client would have been told the same.
func TestHistoriesAreLinearizableAcrossTwoHosts(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	length := testenv.Tries(1000, 2000, 20_000)
	for seed := range testenv.Tries(1, 3, 50) {
		p := newPair(t, s, uint64(seed+1), length, everything(), nil) // with a checkpoint behind every commit, and then the others
		p.run(t.Context(), 200)
		err := p.check(t.Context())
		check.Need(t, err == nil, "seed %d, %d calls: %v", seed, length, err)
		check.That(t, p.taken >= length/200-2, "the hosts took over %d times only", p.taken)
		t.Logf("%d calls, %d takeovers", len(p.told), p.taken)
	}
}

// deaf is a journal that takes it for success when somebody else has claimed it.
type deaf struct{ journal.Follower }

func (d deaf) Append(ctx context.Context, g journal.Group) error {
	err := d.Follower.Append(ctx, g)
	if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrOrder) {
		err = nil
	}
	return err
}

// unknowing is a holder of keys that forgets how far somebody was told.
type unknowing struct{ keyholder.Holder }

func (unknowing) Mark(context.Context, string, keyholder.Mark) error { return nil }

// loses has the database lose the last groups, as one that fails over to a standby that lagged.
func (p *pair) loses(groups int) {
	id := uuid.UUID(mustID(p.t, p.real))
	// The head is locked first: what somebody appends meanwhile is seen, or comes too late.
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

// A harness that finds nothing may be blind. Hosts that do not hear that they were taken over from,
// and a database that loses what was told while nobody knows how far that was, are found.
func TestFaultyTakeoversAreCaught(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for name, plan := range map[string]func(*pair){
		"nobody hears of a takeover": func(p *pair) {
			p.wrap, p.linger = func(j journal.Follower) journal.Follower { return deaf{j} }, 60
		},
		"the database loses what was told": func(p *pair) {
			for i := range p.keys {
				p.keys[i] = unknowing{directoryOfKeys(p.t)}
			}
			p.alone, p.before = true, func() { p.loses(5) } // a standby would notice
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			for seed := uint64(0); seed < faultSeeds && err == nil; seed++ {
				p := newPair(t, s, 3*seed, 3000, releases(), plan) // without checkpoints behind every commit, which would notice
				p.clock.set(int64(len(p.terms) * lifetime))
				p.most = 1 // the second would notice that its file is ahead, or another history
				p.run(t.Context(), 200)
				err = p.check(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), byOrder) && !strings.Contains(err.Error(), byKey) {
				t.Fatalf("the fault is not found: %v", err)
			}
			t.Logf("%.1000s", err)
		})
	}
}
