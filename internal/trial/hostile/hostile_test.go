package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Limits for a child and one file. Because the machine may be busy, a file counts as hanging only
// if it takes too long in each of several tries.
const (
	timeLimit   = 3 * time.Second
	tries       = 5
	killAfter   = 60 * time.Second // then the child is killed
	memoryLimit = 256 << 20
)

// child is a process that opens files.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	died   error
}

func startChild(t *testing.T) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"=yes")
	c.cmd.Stderr = &c.stderr
	in := check.Value(c.cmd.StdinPipe())(t)
	out := check.Value(c.cmd.StdoutPipe())(t)
	c.in, c.out = in, bufio.NewReader(out)
	check.Must(t, c.cmd.Start())
	return c
}

// ask makes the child inspect a file. An error means that the child has died, or was killed because
// it took too long.
func (c *child) ask(one task) (found finding, err error) {
	hung := time.AfterFunc(killAfter, func() { _ = c.cmd.Process.Kill() })
	if err = json.NewEncoder(c.in).Encode(one); err == nil {
		var line []byte
		if line, err = c.out.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &found)
		}
	}
	if !hung.Stop() {
		err = fmt.Errorf("no answer within %v", killAfter)
	}
	if err != nil {
		c.end()
		return found, fmt.Errorf("the process ended: %w: %w\n%.1500s", err, c.died, c.stderr.String())
	}
	return found, nil
}

// askWithRetries asks again if the answer takes too long. If each try does, it returns an error.
func (c *child) askWithRetries(t *testing.T, one task, data []byte) (found finding, took time.Duration, err error) {
	t.Helper()
	for range tries {
		removeLeftovers(t, one.Path)
		check.Must(t, os.WriteFile(one.Path, data, 0o600))
		began := time.Now()
		found, err = c.ask(one)
		if took = time.Since(began); err != nil || took < timeLimit {
			return found, took, err
		}
	}
	return found, took, fmt.Errorf("each try takes longer than %v", timeLimit)
}

// removeLeftovers removes the files beside a file. A damaged ledger that was used may leave its
// journal, and later files would be refused because of it. The file itself stays, because a new one
// would count as a copy.
func removeLeftovers(t *testing.T, path string) {
	t.Helper()
	beside := check.Value(filepath.Glob(path + "?*"))(t)
	for _, leftover := range beside {
		check.Must(t, os.RemoveAll(leftover))
	}
}

func (c *child) end() {
	_ = c.in.Close()
	if c.cmd.ProcessState == nil {
		c.died = c.cmd.Wait()
	}
}

// tally counts the outcomes of the files.
type tally struct{ refused, reported, same, used, usedDamaged int }

// raceDivisor divides the number of files under the race detector, which makes everything about
// eight times slower.
const raceDivisor = 1 + 9*testenv.Race

// A file is damaged in all ways, and another process inspects and uses each one. It must refuse the
// file, report the damage, or find everything unchanged.
func TestOpen_DamagedFile_IsRefusedOrReported(t *testing.T) {
	files := testenv.Tries(max(8, 48/raceDivisor), 240/raceDivisor, 10_000)
	sound, checkpoint := specimen(t)
	wantAllPageKinds(t, sound)
	path := filepath.Join(testenv.TempDir(t), "ledger.db") // a changed file is synced when it is opened
	c := startChild(t)
	defer func() { c.end() }()
	sound = settled(t, path, sound)
	want, err := c.ask(task{Path: path, Checkpoint: checkpoint, Use: true})
	check.Need(t, err == nil && want.Refused == "" && want.Problems <= 0 && want.Failed == "" && want.Used >= 10,
		"the sound file: %+v, %v", want, err)
	var n tally
	memory, slowest := want.Memory, time.Duration(0)
	for i := range files {
		data, what, meta := damage(sound, i)
		one := task{Path: path, Use: true}
		if meta {
			one.Checkpoint = checkpoint
		}
		found, took, err := c.askWithRetries(t, one, data)
		slowest = max(slowest, took)
		if err != nil {
			t.Errorf("file %d: %s: %v; the file is saved as %s", i, what, err, saveFile(t, i, data))
			c.end() // if it has not died
			c = startChild(t)
			continue
		}
		check.That(t, found.Memory <= memoryLimit || memory > memoryLimit,
			"file %d: %s: the process uses %d MiB", i, what, found.Memory>>20)
		memory = max(memory, found.Memory)
		if i%1000 == 999 {
			t.Logf("%d files: %+v", i+1, n)
		}
		n.judge(t, fmt.Sprintf("file %d: %s", i, what), found, want.Content)
	}
	t.Logf("%d files of %d KiB: %+v; %d MiB, %v at most", files, len(sound)>>10, n, memory>>20, slowest)
	// Of 24 files, one is always refused because it is cut off, and a second one in most runs. With
	// fewer files, some outcomes may not occur.
	if files < 24 {
		return
	}
	check.That(t, n.refused >= files/20 && n.reported*20 >= files && n.same*100 >= files && n.usedDamaged*100 >= files,
		"some outcomes occur too seldom: %+v", n)
}

// settled writes a ledger to a path and changes it there. Otherwise it would count as a copy, and
// be audited before its first use.
func settled(t *testing.T, path string, data []byte) (file []byte) {
	t.Helper()
	check.Must(t, os.WriteFile(path, data, 0o600))
	l := check.Value(open(path, false))(t)
	_, err := l.Release(t.Context(), api.ReleaseRequest{Key: "settled", Question: vote, Object: people(300, 400)[99], Epsilon: tenths(13), Truth: truths})
	check.Must(t, errors.Join(err, l.Close()))
	file, err = os.ReadFile(path)
	check.Must(t, err)
	check.Must(t, os.WriteFile(path, file, 0o600))
	return file
}

// saveFile saves a file for debugging. Each run damages a different ledger.
func saveFile(t *testing.T, i int, data []byte) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("sluice-hostile-%d-%d.db", os.Getpid(), i))
	check.Must(t, os.WriteFile(path, data, 0o600))
	return path
}

func (n *tally) judge(t *testing.T, what string, found finding, want string) {
	t.Helper()
	switch {
	case found.Failed != "":
		t.Errorf("%s: %s", what, found.Failed)
	case found.Refused != "":
		n.refused++
	case found.Problems > 0:
		n.reported++
	case found.Content != want:
		t.Errorf("%s: no damage is reported, but the content differs", what)
	default:
		n.same++
	}
	if found.Used > 0 {
		n.used++
		if found.Problems > 0 {
			n.usedDamaged++
		}
	}
}

// wantAllPageKinds fails unless the file has pages of all kinds.
func wantAllPageKinds(t *testing.T, sound []byte) {
	t.Helper()
	kinds := map[uint16]int{}
	d := &damager{data: sound, pageSize: os.Getpagesize()}
	for id := 2; id < d.pages(); id++ {
		kinds[uint16(d.page(id)[8])]++
	}
	check.That(t, kinds[branchKind] >= 5 && kinds[leafKind] >= 100 && kinds[freeKind] >= 1,
		"pages of each kind: %v", kinds)
}

// start is later than the creation of any file of the tests.
func start() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

// offer returns a policy that sells up to ε = 2, and one that releases 0.1 an hour from the start.
func offer(t testing.TB) (sale, calendar policy.Policy) {
	t.Helper()
	sale = check.Value(policy.Market{Max: tenths(20), Prices: []policy.Price{{Epsilon: tenths(5), Amount: 35}, {Epsilon: tenths(20), Amount: 140}}}.Policy())(t)
	calendar = check.Value(policy.Linear(tenths(1), tenths(20), start(), start().Add(19*time.Hour), tenths(1)))(t)
	return sale, calendar
}

// signer returns a new signing key.
func signer(t testing.TB) (key note.Signer, verifier string) {
	t.Helper()
	private, verifier, err := note.GenerateKey(nil, "limits.example")
	check.Must(t, err)
	key, err = note.NewSigner(private)
	check.Must(t, err)
	return key, verifier
}

// market creates a ledger with the question "vote", in which some objects are for sale.
func market(t testing.TB, objects ...string) (l *ledger.Ledger, path string) {
	t.Helper()
	key, verifier := signer(t)
	path = filepath.Join(testenv.TempDir(t), "ledger.db")
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "USD", LogKey: verifier}))
	l = check.Value(ledger.Open(t.Context(), path, ledger.Options{Signer: key, Now: func() time.Time { return start().Add(time.Hour) }, ClockAhead: start().AddDate(1, 0, 0)}))(t)
	t.Cleanup(func() { _ = l.Close() })
	check.Must(t, l.DefineQuestion(t.Context(), "vote", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	sale, _ := offer(t)
	if len(objects) > 0 {
		check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "enroll", Question: "vote", Objects: objects, Policy: sale, Cap: noCap()})))
	}
	return l, path
}

// wantClean audits the ledger and fails if there is a problem.
func wantClean(t testing.TB, l *ledger.Ledger) {
	t.Helper()
	found, err := l.Verify(context.Background(), api.VerifyRequest{Report: func(p api.Finding) { t.Errorf("audit: %+v", p) }})
	check.That(t, err == nil && found.Problems == 0, "audit: %d problems, %v", found.Problems, err)
}

func events(t testing.TB, l *ledger.Ledger) uint64 {
	t.Helper()
	s := check.Value(l.Stats(context.Background()))(t)
	return s.Events
}

// noCap is the largest cap: it limits nothing.
func noCap() privacy.Epsilon { return privacy.MaxEpsilon() }

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// sameTruth returns a source with one value for all objects.
func sameTruth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{value}, len(objects)), nil
	}
}

// The specimen is a ledger with everything in it. It is large enough for branch pages.

const (
	origin  = "sluice-hostile"
	vote    = "vote"
	home    = "home"
	party   = "party"
	members = 400
)

// opening is later than the creation of any file of the tests.
func opening() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

func tenths(n int) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(n) * 100_000_000)
	if err != nil {
		panic(err) // a constant of the tests
	}
	return e
}

// people returns the names with numbers in a range.
func people(from, to int) (names []string) {
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("person %05d", i))
	}
	return names
}

func valuesOf(question string) []string {
	switch question {
	case home:
		return []string{"north", "south", "east", "west", "abroad"}
	case party:
		return []string{"A", "B", "C", "D"}
	}
	return []string{"yes", "no"}
}

// truths returns the true values.
func truths(_ context.Context, question string, objects []string) (values []string, err error) {
	for _, name := range objects {
		values = append(values, valuesOf(question)[int(name[len(name)-1])%len(valuesOf(question))])
	}
	return values, nil
}

// keys returns the keys that sign and verify the log. They are constants, so that each process has
// them.
func keys() (note.Signer, note.Verifiers, string, error) {
	secret, public, err := note.GenerateKey(bytes.NewReader(make([]byte, 64)), origin)
	if err != nil {
		return nil, nil, "", err
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		return nil, nil, "", err
	}
	verifier, err := note.NewVerifier(public)
	return signer, note.VerifierList(verifier), public, err
}

func open(path string, readOnly bool) (*ledger.Ledger, error) {
	signer, _, _, err := keys()
	if err != nil {
		return nil, err
	}
	return ledger.Open(context.Background(), path, ledger.Options{ReadOnly: readOnly, Signer: signer, Now: opening, ClockAhead: opening()})
}

// questions returns a question with each encoding.
func questions(t testing.TB) []api.Question {
	t.Helper()
	design := check.Value(finite.SubsetSelection(4, 2))(t)
	family := check.Value(design.Family(tenths(5), tenths(10)))(t)
	return []api.Question{
		{Name: vote, Values: valuesOf(vote)},
		{Name: home, Values: valuesOf(home), Encoding: "unary"},
		{Name: party, Values: valuesOf(party), Mechanism: &api.Mechanism{Family: family}},
	}
}

// specimen returns the file of the ledger, and a checkpoint of its log.
func specimen(t testing.TB) (file, checkpoint []byte) {
	t.Helper()
	path, ctx := filepath.Join(t.TempDir(), "ledger.db"), t.Context()
	_, _, public, err := keys()
	check.Must(t, err)
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "EUR", LogKey: public}))
	l := check.Value(open(path, false))(t)
	terms, err := policy.Market{Max: tenths(20), Prices: []policy.Price{{Epsilon: tenths(20), Amount: 200}}}.Policy()
	check.Must(t, err)
	for i, q := range questions(t) {
		check.Must(t, l.DefineQuestion(ctx, fmt.Sprint("define ", i), q))
		check.Must(t, check.Err(l.Enroll(ctx, api.EnrollRequest{Key: fmt.Sprint("enroll ", i), Question: q.Name, Objects: people(0, members), Policy: terms, Cap: tenths(90)})))
		trade(ctx, t, l, i, q.Name)
	}
	withdrawAndForget(ctx, t, l)
	check.Must(t, l.Compact(ctx, nil))
	// These writes leave free pages in the file.
	for i := range 12 {
		check.Must(t, check.Err(l.Release(ctx, api.ReleaseRequest{Key: fmt.Sprint("late ", i), Question: vote, Object: people(300, 400)[7*i], Epsilon: tenths(13), Truth: truths})))
	}
	checkpoint, err = l.Checkpoint(ctx)
	check.Must(t, errors.Join(err, l.Close()))
	file, err = os.ReadFile(path)
	check.Must(t, err)
	return file, checkpoint
}

// trade sells, reserves and answers.
func trade(ctx context.Context, t testing.TB, l *ledger.Ledger, i int, question string) {
	t.Helper()
	key := func(what string) string { return fmt.Sprintf("%s of %s", what, question) }
	order := func(buyer string, epsilon, from, to int) api.Order {
		return api.Order{Buyer: buyer, Question: question, Epsilon: tenths(epsilon), Objects: people(from, to)}
	}
	for n, o := range []api.Order{order("acme", 5, 0, 250), order("zeta", 10, 100, 400), order("acme", 5, 200, 300)} {
		check.Must(t, check.Err(l.Sell(ctx, api.SellRequest{Key: key(fmt.Sprint("sale ", n)), Order: o, Truth: truths})))
	}
	kept := check.Value(l.Reserve(ctx, api.ReserveRequest{Key: key("kept"), Order: order("hooli", 10, 10, 20), For: time.Hour}))(t)
	check.Must(t, check.Err(l.Capture(ctx, api.CaptureRequest{Key: key("commit"), Reservation: kept.Number, Truth: truths})))
	given := check.Value(l.Reserve(ctx, api.ReserveRequest{Key: key("given up"), Order: order("hooli", 10, 20, 30), For: time.Hour}))(t)
	check.Must(t, l.Cancel(ctx, key("cancel"), given.Number))
	_, err := l.Reserve(ctx, api.ReserveRequest{Key: key("held"), Order: order("hooli", 10, 30, 60), For: time.Hour})
	check.Must(t, err)
	for n := range 3 {
		_, err = l.Answer(ctx, api.AnswerRequest{Key: key(fmt.Sprint("answer ", n)), Question: question, Query: "majority:" + valuesOf(question)[0], Epsilon: tenths(2 + i + n), Objects: people(0, 30), AcceptLoss: true, Truth: truths})
		check.Must(t, err)
	}
	check.Must(t, check.Err(l.Raise(ctx, api.RaiseRequest{Key: key("raise"), Question: question, Epsilon: tenths(10), Objects: people(0, 80), Truth: truths})))
}

// withdrawAndForget withdraws some objects, and forgets half of them.
func withdrawAndForget(ctx context.Context, t testing.TB, l *ledger.Ledger) {
	t.Helper()
	for i, name := range people(80, 90) {
		check.Must(t, l.Withdraw(ctx, api.ObjectRequest{Key: "leave " + name, Object: name}))
		check.Must(t, check.Err(l.Statement(ctx, api.ObjectRequest{Key: "state " + name, Object: name})))
		if i%2 == 0 {
			check.Must(t, l.Forget(ctx, api.ObjectRequest{Key: "forget " + name, Object: name}))
		}
	}
}

// Variables of the environment that make the test program a host.
const (
	hostPath = "SLUICE_PROCESSES_PATH"
	hostMode = "SLUICE_PROCESSES_MODE" // "read"; "write"; or "no sockets": write, and create no socket
)

const (
	reading   = "read"
	writing   = "write"
	noSockets = "no sockets"
)

// result is what a host reports of an open or a call.
type result struct {
	Kind  string // "" if there was no error
	Text  string // the text of the error
	Value string // the value of the response
	Took  time.Duration
}

// typedErrors lists the errors that a host distinguishes.
func typedErrors() map[string]error {
	return map[string]error{"in use": api.ErrInUse, "replaced": api.ErrReplaced, "read-only": api.ErrReadOnly, "stopped": api.ErrStopped}
}

func resultOf(value string, err error, since time.Time) result {
	out := result{Value: value, Took: time.Since(since)}
	if err != nil {
		out.Kind, out.Text = "another error", err.Error()
		for kind, target := range typedErrors() {
			if errors.Is(err, target) {
				out.Kind = kind
			}
		}
	}
	return out
}

// serveHost opens a ledger and reports the result. Then it makes a call for each line of its input,
// and reports the result: "draw KEY NANOS" raises ann's chain, "read" reads it, "copy PATH" makes a
// backup, "compact" compacts the file.
func serveHost(path, mode string, in io.Reader, out io.Writer) error {
	if mode == noSockets {
		if err := forbidSockets(); err != nil {
			return err
		}
	}
	replies := json.NewEncoder(out)
	since := time.Now()
	l, err := ledger.Open(context.Background(), path, ledger.Options{ReadOnly: mode == reading})
	if writeErr := replies.Encode(resultOf("", err, since)); err != nil || writeErr != nil {
		return writeErr
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		since := time.Now()
		value, err := call(l, lines.Text())
		if err := replies.Encode(resultOf(value, err, since)); err != nil {
			return err
		}
	}
	return l.Close()
}

func call(l *ledger.Ledger, line string) (value string, err error) {
	ctx := context.Background()
	var what, key string
	var nanos int64
	if _, err := fmt.Sscan(line, &what, &key, &nanos); err != nil {
		return "", err
	}
	switch what {
	case "copy":
		_, err = l.Backup(ctx, key, nil)
		return "", err
	case "compact":
		return "", l.Compact(ctx, nil)
	case "read":
		o, err := l.Object(ctx, "ann")
		if err != nil {
			return "", err
		}
		return o.Chains[0].Response, nil
	}
	epsilon, err := privacy.EpsilonFromNano(nanos)
	if err != nil {
		return "", err
	}
	r, err := l.Release(ctx, api.ReleaseRequest{Key: key, Question: "vote", Object: "ann", Epsilon: epsilon, TrueValue: "yes"})
	return r.Value, err
}

// host is a process that has a ledger open, or failed to open it.
type host struct {
	opened result
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
}

// startHost starts a process that opens a ledger, and does not wait for it.
func startHost(t testing.TB, path, mode string) *host {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), hostPath+"="+path, hostMode+"="+mode)
	cmd.Stderr = os.Stderr
	in := check.Value(cmd.StdinPipe())(t)
	out := check.Value(cmd.StdoutPipe())(t)
	check.Must(t, cmd.Start())
	h := &host{cmd: cmd, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() { _, _ = h.in.Close(), h.cmd.Wait() })
	return h
}

func (h *host) wait(t testing.TB) *host {
	t.Helper()
	check.Must(t, h.out.Decode(&h.opened))
	return h
}

// openHost starts a process that opens a ledger, and waits for the result.
func openHost(t testing.TB, path, mode string) *host {
	t.Helper()
	return startHost(t, path, mode).wait(t)
}

// ask makes the host make a call.
func (h *host) ask(t testing.TB, what, key string, nanos int64) (out result) {
	t.Helper()
	check.Must(t, check.Err(fmt.Fprintln(h.in, what, key, nanos)))
	check.Must(t, h.out.Decode(&out))
	return out
}

// end makes the host close its ledger.
func (h *host) end(t testing.TB) {
	t.Helper()
	check.Must(t, h.in.Close())
	check.Must(t, h.cmd.Wait())
}

// childEnv is a variable of the environment that makes the test program a child.
const childEnv = "SLUICE_HOSTILE_CHILD"

// task is a request to a child.
type task struct {
	Path       string
	Checkpoint []byte // the checkpoint to verify against, or nil
	Use        bool   // use the file afterwards, damaged or not
}

// finding is the answer of a child.
type finding struct {
	Refused  string // the error of Open
	Problems uint64 // the number of problems that Verify reports
	Failed   string // errors that must not occur
	Content  string // a hash of everything that can be read, if no problem was reported
	Used     int    // the number of calls that succeeded afterwards
	Memory   uint64 // the memory that the process has obtained from the system
}

// serve answers the tasks of its input, one per line.
func serve() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var one task
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return err
		}
		found := inspect(context.Background(), one)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		found.Memory = m.Sys
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}

// isDamageError returns whether an error is one of those for a damaged file.
func isDamageError(err error) bool {
	return errors.Is(err, api.ErrCorrupt) || errors.Is(err, api.ErrJournal) || errors.Is(err, api.ErrVersion)
}

// inspect opens a file for reading, verifies it, reads all of it, and uses it.
func inspect(ctx context.Context, one task) (found finding) {
	fail := func(what string, err error) { found.Failed += fmt.Sprintf("%s: %v\n", what, err) }
	l, err := open(one.Path, true)
	switch {
	case isDamageError(err):
		found.Refused = err.Error()
	case err != nil:
		fail("Open", err)
	default:
		found.Problems, err = verify(ctx, l, one.Checkpoint)
		if err != nil {
			fail("Verify", err)
		}
		content, err := readAll(ctx, l)
		found.Content = content
		if err != nil && found.Problems == 0 {
			fail("reading a file without problems", err)
		}
		if err := l.Close(); err != nil && !isDamageError(err) {
			fail("Close", err)
		}
	}
	if one.Use && found.Failed == "" {
		if found.Used, err = use(ctx, one.Path); err != nil {
			fail("using the file", err)
		} else if found.Content != "" && found.Problems == 0 && found.Used > 0 {
			if err := verifyFile(ctx, one.Path); err != nil {
				fail("auditing a file without problems after using it", err)
			}
		}
	}
	return found
}

func verify(ctx context.Context, l *ledger.Ledger, checkpoint []byte) (problems uint64, err error) {
	r := api.VerifyRequest{}
	if checkpoint != nil {
		r.Checkpoints = [][]byte{checkpoint}
		if _, r.Verifiers, _, err = keys(); err != nil {
			return 0, err
		}
	}
	done, err := l.Verify(ctx, r)
	return done.Problems, err
}

func verifyFile(ctx context.Context, path string) error {
	l, err := open(path, true)
	if err != nil {
		return err
	}
	defer l.Close()
	problems, err := verify(ctx, l, nil)
	if problems > 0 {
		err = errors.Join(err, fmt.Errorf("%d problems", problems))
	}
	return err
}

// recorder records what calls return.
type recorder struct {
	out   *json.Encoder
	fault error
}

func (r *recorder) record(what any, err error) {
	if err == nil {
		err = r.out.Encode(what)
	}
	if errors.Is(err, api.ErrNoResponses) {
		err = r.out.Encode(err.Error())
	}
	r.fault = errors.Join(r.fault, err)
}

func recordAll[T any](r *recorder, all iter.Seq2[T, error]) (items []T) {
	for item, err := range all {
		r.record(item, err)
		if err != nil {
			break
		}
		items = append(items, item)
	}
	return items
}

// readAll makes every call that reads, and returns a hash of the results. It continues after an
// error.
func readAll(ctx context.Context, l *ledger.Ledger) (content string, err error) {
	sum := sha256.New()
	r := &recorder{out: json.NewEncoder(sum)}
	r.record(l.About(), nil)
	stats, err := l.Stats(ctx)
	stats.Bytes = 0 // the unused end of a file may be cut off
	r.record(stats, err)
	r.record(l.Head(ctx, 0))
	r.record(api.Collect(l.Buyers(ctx)))
	var defined []api.Question
	defined, err = api.Collect(l.Questions(ctx))
	r.record(defined, err)
	for _, q := range defined {
		levels, err := api.Collect(l.Levels(ctx, q.Name))
		r.record(levels, err)
		r.record(l.Estimate(ctx, api.EstimateRequest{Question: q.Name}))
		recordAll(r, l.Responses(ctx, q.Name, privacy.Epsilon{}))
		for _, level := range levels {
			r.record(l.Estimate(ctx, api.EstimateRequest{Question: q.Name, Epsilon: level.Epsilon}))
			recordAll(r, l.Responses(ctx, q.Name, level.Epsilon))
		}
	}
	for _, name := range people(0, members) {
		r.record(l.Object(ctx, name))
	}
	for _, sale := range recordAll(r, l.Sales(ctx, "")) {
		recordAll(r, l.Deliveries(ctx, sale.Number))
	}
	recordAll(r, l.Reservations(ctx, ""))
	for e, err := range l.Events(ctx, 1) {
		if err != nil {
			r.record(nil, err)
			break
		}
		r.record(e, nil)
	}
	return hex.EncodeToString(sum.Sum(nil)), r.fault
}

// use opens a file for writing and makes calls of several kinds. On a damaged file they may fail
// with any error, but must not end the process. It returns how many succeeded.
func use(ctx context.Context, path string) (done int, err error) {
	l, err := open(path, false)
	if err != nil {
		if isDamageError(err) {
			err = nil
		}
		return 0, err
	}
	count := func(_ any, err error) {
		if err == nil {
			done++
		}
	}
	for i, name := range people(0, members) {
		if i%37 == 3 {
			count(l.Release(ctx, api.ReleaseRequest{Key: fmt.Sprint("use ", i), Question: vote, Object: name, Epsilon: tenths(15), Truth: truths}))
		}
	}
	all := api.Order{Buyer: "late", Question: home, Epsilon: tenths(12), All: true}
	count(l.Quote(ctx, all))
	count(l.Sell(ctx, api.SellRequest{Key: "use it all", Order: all, Partial: true, Truth: truths}))
	count(nil, l.Forget(ctx, api.ObjectRequest{Key: "use and forget", Object: people(81, 82)[0]}))
	count(l.Enroll(ctx, api.EnrollRequest{Key: "use new", Question: vote, Objects: people(members, members+20), Cap: tenths(90)}))
	_ = l.Close() // returns again what is wrong
	return done, nil
}

// TestMain also runs the child processes that the environment selects.
func TestMain(m *testing.M) {
	var err error
	if path := os.Getenv(hostPath); path != "" {
		err = serveHost(path, os.Getenv(hostMode), os.Stdin, os.Stdout)
	} else if path := os.Getenv(fillPath); path != "" {
		err = runFill(path)
	} else if os.Getenv(childEnv) != "" {
		err = serve()
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// zeros returns n zero bytes as a text. The system allocates memory for them only when they are
// written.
func zeros(n int) string {
	return textOf(make([]byte, n))
}

// textOf returns bytes as a text, without a copy. The bytes must not change any more.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
