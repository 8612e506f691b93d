package trial

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// ErrUnsupported means that processes cannot be traced on this system.
var ErrUnsupported = errors.New("trace a process: not supported on this system")

// Kind is what a call does to files.
type Kind string

const (
	Write    Kind = "write"    // Data at Offset of Path, also for a pipe
	Sync     Kind = "sync"     // Path, which may be a directory, becomes durable
	Truncate Kind = "truncate" // the length of Path becomes Offset
	Allocate Kind = "allocate" // the length of Path becomes at least Offset
	Create   Kind = "create"   // Path is opened, and created if it does not exist
	Link     Kind = "link"     // Path gets the second name To
	Rename   Kind = "rename"   // Path is renamed to To
	Remove   Kind = "remove"   // the name Path is removed
	Mkdir    Kind = "mkdir"    // the directory Path is created
)

// Call is a system call that changes files.
type Call struct {
	Kind   Kind   // what the call does
	FD     int    // for Write, Sync, Truncate and Allocate
	Path   string // absolute; for a file without a name, the kernel's name, such as "pipe:[17]"
	To     string // the new name, for Rename and Link
	Offset int64  // the offset in the file, for Write
	Data   []byte // the bytes to be written, for Write
	// Content means, for Sync, that only bytes within the previous length of the file need to
	// become durable.
	Content bool
	callers []uintptr
}

// Callers returns the call stack, innermost function first, if the process runs the same program as
// this one.
func (c *Call) Callers() *runtime.Frames { return runtime.CallersFrames(c.callers) }

// Verdict is what the tracer does with a call.
type Verdict int

const (
	Proceed  Verdict = iota // the call is executed
	Kill                    // SIGKILL ends the process before the call; other calls that had begun are executed and reported
	FailIO                  // the call is not executed, and fails with EIO
	FailFull                // the call is not executed, and fails with ENOSPC
)

// Watcher observes the calls of a process. Its methods are never called concurrently.
type Watcher interface {
	// Before is called before a call is executed.
	Before(*Call) Verdict
	// After is called when a call has succeeded. If a write wrote less, Data is what was written.
	After(*Call)
}

// runTraced is the main function of a traced process. Its calls are what the tests check.
func runTraced(dir string) error {
	run := map[string]func(string) error{"": script, "storm": storm, "departure": departure, "stray": stray}
	return run[os.Getenv("SLUICE_SCRIPT")](dir)
}

// script makes each kind of call once, the writes from several threads.
func script(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, "a"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	faults := make(chan error, 8)
	for i := range 8 {
		wg.Go(func() {
			_, err := file.WriteAt([]byte(strings.Repeat(fmt.Sprint(i), 100*(i+1))), int64(i)*1000)
			faults <- err
		})
	}
	wg.Wait()
	for range 8 {
		if err := <-faults; err != nil {
			return err
		}
	}
	steps := []func() error{
		func() error { _, err := file.Seek(8000, 0); return err },
		func() error { _, err := file.WriteString("tail"); return err },
		file.Sync,
		func() error { return file.Truncate(8002) },
		func() error { return os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")) },
		func() error { return os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "c")) },
		func() error { return os.Remove(filepath.Join(dir, "c")) },
		func() error { _, err := fmt.Println("done"); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// storm renames files in several threads until an error.
func storm(dir string) error {
	faults := make(chan error)
	for i := range 8 {
		go func() {
			name := filepath.Join(dir, fmt.Sprint(i))
			err := os.WriteFile(name, nil, 0o600)
			for err == nil {
				err = os.Rename(name, name+"+")
				name += "+"
				if len(name) > len(dir)+100 {
					err = os.Rename(name, filepath.Join(dir, fmt.Sprint(i)))
					name = filepath.Join(dir, fmt.Sprint(i))
				}
			}
			faults <- err
		}()
	}
	return <-faults
}

// departure exits during a storm.
func departure(dir string) error {
	go func() {
		time.Sleep(time.Millisecond)
		os.Exit(4)
	}()
	return storm(dir)
}

// stray makes a call that is not followed, during a storm.
func stray(dir string) error {
	go func() { _ = os.Truncate(dir, 0) }()
	return storm(dir)
}

// seen records the calls, and returns a verdict for one of them. It ignores calls outside a
// directory and standard output, because a program that measures coverage writes other files.
type seen struct {
	dir           string
	before, after []Call
	at            int // the number of the call that gets the verdict, from 1
	verdict       Verdict
}

func (s *seen) sees(c *Call) bool {
	return strings.HasPrefix(c.Path, s.dir) || c.Kind == Write && c.FD == 1
}

func (s *seen) Before(c *Call) Verdict {
	if !s.sees(c) {
		return Proceed
	}
	s.before = append(s.before, *c)
	if len(s.before) == s.at {
		return s.verdict
	}
	return Proceed
}

func (s *seen) After(c *Call) {
	if s.sees(c) {
		s.after = append(s.after, *c)
	}
}

// traced runs the script under the tracer.
func traced(t *testing.T, dir string, s *seen) (syscall.WaitStatus, string) {
	t.Helper()
	s.dir = dir
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SLUICE_TRACED="+dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	status := check.Value(Run(cmd, s))(t)
	return status, out.String()
}

// The tracer reports exactly the calls that the script makes, with their data and stacks.
func TestRun_Script_ReportsEveryCall(t *testing.T) {
	Need(t)
	dir := t.TempDir()
	s := &seen{}
	status, out := traced(t, dir, s)
	check.Need(t, status.Exited() && status.ExitStatus() == 0 && out == "done\n", "%v, %q", status, out)
	check.That(t, len(s.before) == len(s.after), "%d calls began, %d succeeded", len(s.before), len(s.after))
	// The threads write in any order.
	writes := s.after[1:9]
	slices.SortFunc(writes, func(a, b Call) int { return int(a.Offset - b.Offset) })
	a := filepath.Join(dir, "a")
	want := []string{"create " + a + "  0 0"}
	for i := range 8 {
		want = append(want, fmt.Sprintf("write %s  %d %d", a, i*1000, 100*(i+1)))
		check.That(t, string(writes[i].Data) == strings.Repeat(fmt.Sprint(i), 100*(i+1)),
			"write %d has other bytes", i)
	}
	want = append(want, "write "+a+"  8000 4", "sync "+a+"  0 0", "truncate "+a+"  8002 0",
		"link "+a+" "+filepath.Join(dir, "b")+" 0 0", "rename "+filepath.Join(dir, "b")+" "+filepath.Join(dir, "c")+" 0 0",
		"remove "+filepath.Join(dir, "c")+"  0 0")
	var got []string
	for _, c := range s.after {
		if c.FD != 1 {
			got = append(got, fmt.Sprintf("%s %s %s %d %d", c.Kind, c.Path, c.To, c.Offset, len(c.Data)))
		}
	}
	check.That(t, slices.Equal(got, want), "got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	for _, c := range s.after {
		check.That(t, c.FD == 1 || calledFrom(&c, "script"), "the stack of the %s of %s does not lead to the script", c.Kind, c.Path)
	}
	last := s.after[len(s.after)-1]
	check.That(t, last.FD == 1 && string(last.Data) == "done\n", "the last call is %+v", last)
}

// calledFrom returns whether a function of this package is on the stack of a call.
func calledFrom(c *Call, function string) bool {
	for frames := c.Callers(); ; {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "github.com/sluicedp/sluice/internal/trial."+function) {
			return true
		}
		if !more {
			return false
		}
	}
}

// Each call of the script is killed or fails once. The calls before it have been executed, and it
// has not.
func TestRun_KillsOrFailsACall_ItIsNotExecuted(t *testing.T) {
	Need(t)
	const calls = 16
	for at := 1; at <= calls; at++ {
		for verdict, text := range map[Verdict]string{Kill: "", FailIO: "input/output error", FailFull: "no space left on device"} {
			s := &seen{at: at, verdict: verdict}
			status, out := traced(t, t.TempDir(), s)
			if verdict == Kill {
				if !status.Signaled() || status.Signal() != syscall.SIGKILL || len(s.before) != at || len(s.after) >= at {
					t.Errorf("killed at call %d: %v after %d calls, %d of them executed", at, status, len(s.before), len(s.after))
				}
				continue
			}
			check.That(t, status.Exited() && status.ExitStatus() == 3 && strings.Contains(out, text),
				"call %d fails, and the process ends with %v, %q", at, status, out)
			if at == calls {
				continue // the output of "done", whose failure the process reports
			}
			if failed := s.before[at-1]; slices.ContainsFunc(s.after, func(c Call) bool {
				return c.Kind == failed.Kind && c.Path == failed.Path && c.Offset == failed.Offset && c.FD == failed.FD
			}) {
				t.Errorf("call %d, %s, was executed and should have failed", at, failed.Kind)
			}
		}
	}
}

// If the process is killed while other threads are inside calls, the tracer reports each of these
// calls that was executed.
func TestRun_KilledWithThreadsInCalls_ReportsExecutedCalls(t *testing.T) {
	Need(t)
	t.Setenv("SLUICE_SCRIPT", "storm")
	for round := range 20 {
		dir := t.TempDir()
		s := &seen{dir: dir, at: 100 + round, verdict: Kill}
		status, out := traced(t, dir, s)
		check.Need(t, status.Signal() == syscall.SIGKILL, "status %x: %s", status, out)
		names := map[string]bool{}
		for _, c := range s.after {
			switch c.Kind {
			case Create:
				names[filepath.Base(c.Path)] = true
			case Rename:
				delete(names, filepath.Base(c.Path))
				names[filepath.Base(c.To)] = true
			}
		}
		entries := check.Value(os.ReadDir(dir))(t)
		for _, e := range entries {
			check.That(t, names[e.Name()], "round %d: no reported call created %q", round, e.Name())
			delete(names, e.Name())
		}
		check.That(t, len(names) <= 0, "round %d: no reported call removed %v", round, names)
	}
}

// The process may end by itself while the tracer handles its threads.
func TestRun_ProcessExitsDuringCalls_ReturnsItsStatus(t *testing.T) {
	Need(t)
	t.Setenv("SLUICE_SCRIPT", "departure")
	for round := range 100 {
		status, out := traced(t, t.TempDir(), &seen{})
		check.Need(t, status.ExitStatus() == 4, "round %d: status %x: %s", round, status, out)
	}
}

// Run returns an error if a process with many threads makes a call that the tracer does not follow.
func TestRun_CallThatIsNotFollowed_ReturnsError(t *testing.T) {
	Need(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SLUICE_SCRIPT=stray", "SLUICE_TRACED="+t.TempDir())
	_, err := Run(cmd, &seen{})
	check.That(t, err != nil && strings.Contains(err.Error(), "is not followed"), "%v", err)
}

func TestRun_MissingProgram_ReturnsError(t *testing.T) {
	_, err := Run(exec.Command(filepath.Join(t.TempDir(), "nothing")), &seen{})
	check.That(t, err != nil, "Run of a missing program returns no error")
}

// Need ends a test on a machine where processes cannot be traced.
func Need(t testing.TB) {
	t.Helper()
	if !supported() {
		testenv.Unsupported(t, "tracing of processes needs Linux on x86-64 and ptrace")
	}
}
