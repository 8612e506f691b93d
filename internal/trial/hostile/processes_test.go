package hostile

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// newFile makes a ledger in which ann has a chain.
func newFile(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "USD"}))
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	ctx := context.Background()
	check.Must(t, l.DefineQuestion(ctx, "q", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	limit := check.Value(privacy.EpsilonFromNano(9_000_000_000))(t)
	least := check.Value(privacy.EpsilonFromNano(1_000_000_000))(t)
	check.Must(t, check.Err(l.Enroll(ctx, api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann"}, Cap: limit})))
	check.Must(t, check.Err(l.Release(ctx, api.ReleaseRequest{Key: "r", Question: "vote", Object: "ann", Epsilon: least, Truth: sameTruth("yes")})))
	check.Must(t, l.Close())
	return path
}

// A second way to a ledger that another process has open.
type way struct {
	name string
	// lead makes the way, and returns what to open.
	lead func(path string) (string, error)
	// copied: it leads to another file. moved: the first name no longer leads to the first file.
	copied, moved bool
}

func ways() []way {
	beside := func(make func(path, other string) error) func(string) (string, error) {
		return func(path string) (string, error) { return path + ".other", make(path, path+".other") }
	}
	return []way{
		{name: "the same name", lead: func(path string) (string, error) { return path, nil }},
		{name: "a hard link", lead: beside(os.Link)},
		{name: "a symbolic link", lead: beside(os.Symlink)},
		{name: "a renamed file", lead: beside(os.Rename), moved: true},
		{name: "a copied file", lead: beside(copyFile), copied: true},
		{name: "a copy that takes its place", copied: true, moved: true, lead: func(path string) (string, error) {
			if err := os.Rename(path, path+".other"); err != nil {
				return "", err
			}
			return path, copyFile(path+".other", path)
		}},
	}
}

// want returns what a second open comes to.
func (w way) want(first, second string) (kind string) {
	switch {
	case w.copied && runtime.GOOS != "linux":
		return "" // nothing tells of a copy there
	case w.copied && (first == reading || second == reading):
		return "" // who does not draw does no harm
	case first == reading && second == reading:
		return ""
	}
	return "in use"
}

// TestTwoProcesses lets two processes open one ledger, in every order of reading and writing and by
// every way that leads to it. The second is refused, or may do no harm. The first goes on, unless
// its file is not where it was.
func TestTwoProcesses(t *testing.T) {
	for _, w := range ways() {
		for _, modes := range [][2]string{{writing, writing}, {writing, reading}, {reading, writing}, {reading, reading}} {
			t.Run(fmt.Sprintf("%s %s %s", w.name, modes[0], modes[1]), func(t *testing.T) {
				t.Parallel()
				path := newFile(t)
				first := openHost(t, path, modes[0])
				wantKind(t, first.opened, "")
				other := check.Value(w.lead(path))(t)
				second := openHost(t, other, modes[1])
				wantKind(t, second.opened, w.want(modes[0], modes[1]))
				w.wantFirst(t, first, modes[0])
				first.end(t)
				if second.opened.Kind == "" {
					w.wantSecond(t, second, modes[1])
					return
				}
				again := openHost(t, other, modes[1])
				wantKind(t, again.opened, "")
				w.wantSecond(t, again, modes[1])
			})
		}
	}
}

// wantFirst checks what the first can do after the second came.
func (w way) wantFirst(t *testing.T, h *host, mode string) {
	t.Helper()
	wantKind(t, h.ask(t, "read", "-", 0), "")
	switch {
	case mode == reading:
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "read-only")
	case w.moved:
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "replaced")
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "replaced")
	default:
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "")
	}
}

// wantSecond checks what the second can do once it has the ledger.
func (w way) wantSecond(t *testing.T, h *host, mode string) {
	t.Helper()
	want := ""
	if mode == reading {
		want = "read-only"
	}
	wantKind(t, h.ask(t, "draw", "2", 3_000_000_000), want)
	h.end(t)
}

// wantKind checks what a host says of a call. The limit of time is for a machine that is busy: see
// [TestARefusalComesWithinASecond].
func wantKind(t *testing.T, got said, kind string) {
	t.Helper()
	check.That(t, got.Kind == kind, "got %q (%s), want %q", got.Kind, got.Text, kind)
	check.That(t, kind != "in use" || !strings.Contains(got.Text, "yes"),
		"the text of the error, %q, tells too much", got.Text)
	check.That(t, got.Took <= 10*time.Second, "%q came only after %v", got.Kind, got.Took)
}

// TestARefusalComesWithinASecond: the fastest of several, because a busy machine delays some.
func TestARefusalComesWithinASecond(t *testing.T) {
	path := newFile(t)
	check.Must(t, copyFile(path, path+".copy"))
	wantKind(t, openHost(t, path, writing).opened, "")
	for _, one := range []struct{ path, mode string }{{path, writing}, {path, reading}, {path + ".copy", writing}} {
		if runtime.GOOS != "linux" && one.path != path {
			continue
		}
		fastest := time.Hour
		for range 10 {
			second := openHost(t, one.path, one.mode)
			wantKind(t, second.opened, "in use")
			if fastest = min(fastest, second.opened.Took); fastest < time.Second {
				break
			}
		}
		check.That(t, fastest < time.Second,
			"%s of %s is refused after %v at best", one.mode, filepath.Base(one.path), fastest)
		t.Logf("%s of %s is refused after %v", one.mode, filepath.Base(one.path), fastest)
	}
}

// TestOneOfManyCopiesIsOpen lets processes open copies of one ledger at once: one gets it. Another
// does when that one is killed.
func TestOneOfManyCopiesIsOpen(t *testing.T) {
	needClaims(t)
	path := newFile(t)
	const processes = 6
	for range 3 {
		var hosts []*host
		for n := range processes {
			other := fmt.Sprint(path, ".", n)
			check.Must(t, copyFile(path, other))
			hosts = append(hosts, startHost(t, other, writing))
		}
		var has *host
		for _, h := range hosts {
			switch h.wait(t); {
			case h.opened.Kind == "" && has == nil:
				has = h
			case h.opened.Kind == "":
				t.Error("two processes have copies of one ledger open for writing")
			default:
				wantKind(t, h.opened, "in use")
			}
		}
		check.Need(t, has != nil, "nobody has it")
		check.Must(t, has.cmd.Process.Kill())
		_ = has.cmd.Wait() // it says that it was killed
		next := openHost(t, path, writing)
		wantKind(t, next.opened, "")
		next.end(t)
	}
}

// TestACopyMadeByTheHostCountsToo: a backup may be read while the host goes on, and not be written
// to. So may the file that a hard link still leads to after the host has compacted the ledger.
func TestACopyMadeByTheHostCountsToo(t *testing.T) {
	needClaims(t)
	path := newFile(t)
	check.Must(t, os.Link(path, path+".link"))
	h := openHost(t, path, writing)
	wantKind(t, h.ask(t, "copy", path+".backup", 0), "")
	wantKind(t, h.ask(t, "compact", "-", 0), "")
	for _, other := range []string{".backup", ".link"} {
		second := openHost(t, path+other, writing)
		wantKind(t, second.opened, "in use")
		if want := fmt.Sprint("process ", h.cmd.Process.Pid); !strings.Contains(second.opened.Text, want) {
			t.Errorf("%q does not name %s", second.opened.Text, want)
		}
		reader := openHost(t, path+other, reading)
		wantKind(t, reader.opened, "")
		reader.end(t)
	}
	wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "")
}

// TestTwoCopiesInOneProcess: the claim is of the ledger, not of the process. It ends when the
// ledger is closed, and is not left behind by an open that fails.
func TestTwoCopiesInOneProcess(t *testing.T) {
	needClaims(t)
	path := newFile(t)
	check.Must(t, copyFile(path, path+".copy"))
	_, err := ledger.Open(t.Context(), path, ledger.Options{TruthKey: []byte("short")})
	check.Need(t, err != nil, "opened with a bad key")
	first := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	wantKind(t, sayOf("", errOf(ledger.Open(t.Context(), path+".copy", ledger.Options{})), time.Now()), "in use")
	reader := check.Value(ledger.Open(t.Context(), path+".copy", ledger.Options{ReadOnly: true}))(t)
	check.Must(t, reader.Close())
	check.Must(t, first.Close())
	second := check.Value(ledger.Open(t.Context(), path+".copy", ledger.Options{}))(t)
	check.Must(t, second.Close())
	for range 200 { // it is gone when Close returns, not some time later
		l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
		check.Must(t, l.Close())
	}
}

// TestChildrenDoNotKeepALedger: a program that a host starts has neither its lock nor its claim.
func TestChildrenDoNotKeepALedger(t *testing.T) {
	path, elsewhere := newFile(t), newFile(t)
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	child := openHost(t, elsewhere, writing)
	check.Must(t, l.Close())
	l = check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	check.Must(t, l.Close())
	child.end(t)
}

// TestWithoutSocketsALedgerOpens: a sandbox that forbids sockets takes the claim away, and nothing
// else.
func TestWithoutSocketsALedgerOpens(t *testing.T) {
	needSandbox(t)
	path := newFile(t)
	check.Must(t, copyFile(path, path+".copy"))
	first, second := openHost(t, path, noSockets), openHost(t, path+".copy", noSockets)
	wantKind(t, first.opened, "")
	wantKind(t, second.opened, "") // this is what the sandbox costs
	wantKind(t, first.ask(t, "draw", "1", 2_000_000_000), "")
	wantKind(t, openHost(t, path, noSockets).opened, "in use")
}

// TestAnotherProgramMayTakeTheName: then the ledger does not open, and the error names that
// program.
func TestAnotherProgramMayTakeTheName(t *testing.T) {
	needClaims(t)
	path := newFile(t)
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{ReadOnly: true}))(t)
	name := "@sluice-ledger-" + l.About().ID
	check.Must(t, l.Close())
	socket := check.Value(net.Listen("unix", name))(t)
	defer socket.Close()
	h := openHost(t, path, writing)
	wantKind(t, h.opened, "in use")
	if want := fmt.Sprint("process ", os.Getpid()); !strings.Contains(h.opened.Text, want) {
		t.Errorf("%q does not name %s", h.opened.Text, want)
	}
	wantKind(t, openHost(t, path, reading).opened, "")
}

// TestALedgerThatIsClosedMeanwhileOpens: who waits for a ledger gets it, by whatever copy.
func TestALedgerThatIsClosedMeanwhileOpens(t *testing.T) {
	path := newFile(t)
	check.Must(t, copyFile(path, path+".copy"))
	var wg sync.WaitGroup
	for _, at := range []string{path, path + ".copy"} {
		wg.Go(func() {
			for opened := 0; opened < 20; {
				l, err := ledger.Open(t.Context(), at, ledger.Options{})
				if err != nil {
					if sayOf("", err, time.Now()).Kind != "in use" {
						t.Error(err)
						return
					}
					continue
				}
				opened++
				if err := l.Close(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func errOf(_ *ledger.Ledger, err error) error { return err }

func needClaims(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Unsupported(t, "no abstract sockets, which tell of copies, on "+runtime.GOOS)
	}
}

func needSandbox(t *testing.T) {
	t.Helper()
	if !sandboxed {
		testenv.Unsupported(t, "no filters of system calls on "+runtime.GOOS+" and "+runtime.GOARCH)
	}
}
