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

// newFile creates a ledger in which ann has a chain.
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

// way is a second way to a ledger that another process has open.
type way struct {
	name string
	// create makes the way, and returns the path to open.
	create func(path string) (string, error)
	// isCopy: the path leads to another file. isMoved: the first path no longer leads to the first
	// file.
	isCopy, isMoved bool
}

func ways() []way {
	beside := func(make func(path, other string) error) func(string) (string, error) {
		return func(path string) (string, error) { return path + ".other", make(path, path+".other") }
	}
	return []way{
		{name: "the same name", create: func(path string) (string, error) { return path, nil }},
		{name: "a hard link", create: beside(os.Link)},
		{name: "a symbolic link", create: beside(os.Symlink)},
		{name: "a renamed file", create: beside(os.Rename), isMoved: true},
		{name: "a copied file", create: beside(copyFile), isCopy: true},
		{name: "a copy that takes its place", isCopy: true, isMoved: true, create: func(path string) (string, error) {
			if err := os.Rename(path, path+".other"); err != nil {
				return "", err
			}
			return path, copyFile(path+".other", path)
		}},
	}
}

// want returns the result of a second open.
func (w way) want(first, second string) (kind string) {
	switch {
	case w.isCopy && runtime.GOOS != "linux":
		return "" // copies are not detected there
	case w.isCopy && (first == reading || second == reading):
		return "" // a process that does not draw does no harm
	case first == reading && second == reading:
		return ""
	}
	return "in use"
}

// Two processes open one ledger, in every combination of reading and writing and by every way. The
// second is refused, or can do no harm. The first continues, unless its file was moved.
func TestOpen_SecondProcess_IsRefusedOrHarmless(t *testing.T) {
	for _, w := range ways() {
		for _, modes := range [][2]string{{writing, writing}, {writing, reading}, {reading, writing}, {reading, reading}} {
			t.Run(fmt.Sprintf("%s %s %s", w.name, modes[0], modes[1]), func(t *testing.T) {
				t.Parallel()
				path := newFile(t)
				first := openHost(t, path, modes[0])
				wantKind(t, first.opened, "")
				other := check.Value(w.create(path))(t)
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

// wantFirst checks what the first process can do after the second one has tried to open the ledger.
func (w way) wantFirst(t *testing.T, h *host, mode string) {
	t.Helper()
	wantKind(t, h.ask(t, "read", "-", 0), "")
	switch {
	case mode == reading:
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "read-only")
	case w.isMoved:
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "replaced")
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "replaced")
	default:
		wantKind(t, h.ask(t, "draw", "1", 2_000_000_000), "")
	}
}

// wantSecond checks what the second process can do once it has the ledger.
func (w way) wantSecond(t *testing.T, h *host, mode string) {
	t.Helper()
	want := ""
	if mode == reading {
		want = "read-only"
	}
	wantKind(t, h.ask(t, "draw", "2", 3_000_000_000), want)
	h.end(t)
}

// wantKind checks the result of an open or a call. Its time limit is for a busy machine; see
// [TestOpen_LedgerInUse_IsRefusedWithinASecond].
func wantKind(t *testing.T, got result, kind string) {
	t.Helper()
	check.That(t, got.Kind == kind, "got %q (%s), want %q", got.Kind, got.Text, kind)
	check.That(t, kind != "in use" || !strings.Contains(got.Text, "yes"),
		"the error %q contains a true value", got.Text)
	check.That(t, got.Took <= 10*time.Second, "%q took %v, want at most 10 s", got.Kind, got.Took)
}

// The fastest of ten tries counts, because a busy machine delays some.
func TestOpen_LedgerInUse_IsRefusedWithinASecond(t *testing.T) {
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

// Several processes open copies of one ledger at the same time: one gets it. After it is killed,
// another one does.
func TestOpen_ManyCopies_OneProcessGetsTheLedger(t *testing.T) {
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
		var owner *host
		for _, h := range hosts {
			switch h.wait(t); {
			case h.opened.Kind == "" && owner == nil:
				owner = h
			case h.opened.Kind == "":
				t.Error("two processes have copies of one ledger open for writing")
			default:
				wantKind(t, h.opened, "in use")
			}
		}
		check.Need(t, owner != nil, "no process has the ledger open")
		check.Must(t, owner.cmd.Process.Kill())
		_ = owner.cmd.Wait() // an error is expected: the process was killed
		next := openHost(t, path, writing)
		wantKind(t, next.opened, "")
		next.end(t)
	}
}

// While the host has a ledger open, its backup can be read but not opened for writing. The same
// holds for the file that a hard link still leads to after the host has compacted the ledger.
func TestOpen_BackupOfOpenLedger_OnlyForReading(t *testing.T) {
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

// The claim belongs to the ledger, not to the process. It ends when the ledger is closed. An open
// that fails leaves no claim.
func TestOpen_CopyInSameProcess_IsRefused(t *testing.T) {
	needClaims(t)
	path := newFile(t)
	check.Must(t, copyFile(path, path+".copy"))
	_, err := ledger.Open(t.Context(), path, ledger.Options{TruthKey: []byte("short")})
	check.Need(t, err != nil, "Open with a short truth key returns no error")
	first := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	wantKind(t, resultOf("", errOf(ledger.Open(t.Context(), path+".copy", ledger.Options{})), time.Now()), "in use")
	reader := check.Value(ledger.Open(t.Context(), path+".copy", ledger.Options{ReadOnly: true}))(t)
	check.Must(t, reader.Close())
	check.Must(t, first.Close())
	second := check.Value(ledger.Open(t.Context(), path+".copy", ledger.Options{}))(t)
	check.Must(t, second.Close())
	for range 200 { // the claim ends before Close returns
		l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
		check.Must(t, l.Close())
	}
}

// A program that a host starts inherits neither its lock nor its claim.
func TestClose_ChildProcessRuns_ReleasesTheLedger(t *testing.T) {
	path, elsewhere := newFile(t), newFile(t)
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	child := openHost(t, elsewhere, writing)
	check.Must(t, l.Close())
	l = check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	check.Must(t, l.Close())
	child.end(t)
}

// A sandbox that forbids sockets prevents the claim, and nothing else.
func TestOpen_SocketsForbidden_StillLocksTheFile(t *testing.T) {
	needSandbox(t)
	path := newFile(t)
	check.Must(t, copyFile(path, path+".copy"))
	first, second := openHost(t, path, noSockets), openHost(t, path+".copy", noSockets)
	wantKind(t, first.opened, "")
	wantKind(t, second.opened, "") // without sockets, copies are not detected
	wantKind(t, first.ask(t, "draw", "1", 2_000_000_000), "")
	wantKind(t, openHost(t, path, noSockets).opened, "in use")
}

// If another program has the socket name, the ledger does not open, and the error names that
// process.
func TestOpen_SocketNameTaken_ErrorNamesTheProcess(t *testing.T) {
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

// A process that retries to open a ledger, or a copy, gets it when it is closed.
func TestOpen_Retried_SucceedsOnceClosed(t *testing.T) {
	path := newFile(t)
	check.Must(t, copyFile(path, path+".copy"))
	var wg sync.WaitGroup
	for _, at := range []string{path, path + ".copy"} {
		wg.Go(func() {
			for opened := 0; opened < 20; {
				l, err := ledger.Open(t.Context(), at, ledger.Options{})
				if err != nil {
					if resultOf("", err, time.Now()).Kind != "in use" {
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
		testenv.Unsupported(t, "copies are detected by abstract sockets, which do not exist on "+runtime.GOOS)
	}
}

func needSandbox(t *testing.T) {
	t.Helper()
	if !sandboxed {
		testenv.Unsupported(t, "no seccomp filters on "+runtime.GOOS+" and "+runtime.GOARCH)
	}
}
