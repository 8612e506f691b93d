//go:build linux

package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// What the environment tells a process that is to fill a disk, and not to test.
const (
	fillPath   = "SLUICE_LIMITS_PATH"
	fillWith   = "SLUICE_LIMITS_WALL" // one of walls
	fillMemory = "SLUICE_LIMITS_MEMORY"
)

// walls are what a file cannot grow beyond: a limit of the process, and the end of a file system
// that holds nothing else.
func walls() []string { return []string{"limit", "disk"} }

// room is how many bytes a file can have.
const room = 3 << 20

// runFill fills the disk that holds a ledger, as this test's child process.
func runFill(path string) error {
	memory, err := strconv.ParseInt(os.Getenv(fillMemory), 10, 64)
	if err != nil {
		return err
	}
	return fill(path, os.Getenv(fillWith), memory, os.Stdout)
}

// build puts the wall up, and returns where the ledger is then.
func build(path, wall string) (string, error) {
	if wall == "limit" {
		signal.Ignore(syscall.SIGXFSZ) // it would end the process; ignored, the write fails
		return path, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: room})
	}
	dir := path + ".disk"
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", room)); err != nil {
		return "", err
	}
	inside := filepath.Join(dir, "ledger.db")
	return inside, copyFile(path, inside)
}

// fill enrols people until the disk is full, and tells whom it has enrolled. Then it looks at what
// a full disk leaves possible. In the end the file is where it was.
func fill(path, wall string, memory int64, out io.Writer) error {
	at, err := build(path, wall)
	if err != nil {
		return fmt.Errorf("no wall: %w", err)
	}
	ctx := context.Background()
	l, err := ledger.Open(context.Background(), at, ledger.Options{Memory: memory})
	if err != nil {
		return err
	}
	n := 0
	for ; err == nil; n++ {
		if _, err = enrollSome(ctx, l, n); err == nil {
			fmt.Fprintln(out, "done", n)
		}
		if n > 10_000 {
			return errors.New("the disk does not get full")
		}
	}
	fmt.Fprintln(out, "failed", n-1, err)
	if !isFull(err) || !errors.Is(err, api.ErrStopped) || !strings.Contains(err.Error(), "its outcome shows only when the ledger is opened again") {
		return fmt.Errorf("a full disk is told as: %w", err)
	}
	if _, err := enrollSome(ctx, l, n); !errors.Is(err, api.ErrStopped) {
		return fmt.Errorf("after that, a call comes to %w", err)
	}
	if _, err := l.Object(ctx, object(0, 0)); !errors.Is(err, api.ErrStopped) {
		return fmt.Errorf("after that, a look comes to %w", err)
	}
	if err := l.Close(); err != nil {
		return err
	}
	if err := again(ctx, at, n-1); err != nil {
		return err
	}
	if at == path {
		return nil
	}
	if _, err := os.Stat(at + ".journal"); err == nil {
		if err := os.CopyFS(path+".journal", os.DirFS(at+".journal")); err != nil {
			return err
		}
	}
	return copyFile(at, path)
}

// again opens a ledger on a full disk. All is there to read; copies of it are made whole or not at
// all. For writing it opens if there is room for what its journal holds.
func again(ctx context.Context, at string, done int) error {
	for _, only := range []bool{true, false, true} {
		l, err := ledger.Open(ctx, at, ledger.Options{ReadOnly: only, Now: func() time.Time { return start().AddDate(0, 0, 1) }})
		if err != nil && isFull(err) && !only {
			continue // what the journal holds has no room in the file
		}
		if err != nil {
			return fmt.Errorf("on a full disk, opened again: %w", err)
		}
		if _, err := l.Object(ctx, object(done-1, 0)); err != nil {
			return err
		}
		if found, err := l.Verify(ctx, api.VerifyRequest{}); err != nil || found.Problems > 0 {
			return fmt.Errorf("audit on a full disk: %d problems, %w", found.Problems, err)
		}
		if _, err := l.Backup(ctx, at+".backup", nil); err != nil && !isFull(err) {
			return fmt.Errorf("backup on a full disk: %w", err)
		}
		if err := l.Compact(ctx, nil); err != nil && !isFull(err) && !only {
			return fmt.Errorf("compacted on a full disk: %w", err)
		}
		if _, err := l.Object(ctx, object(done-1, 0)); err != nil {
			return fmt.Errorf("after the copies: %w", err)
		}
		if err := errors.Join(l.Close(), os.Remove(at+".backup")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(at), ".*"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%v were left", left)
	}
	return err
}

// isFull tells whether an error says that there is no room. By its text: bbolt does not wrap all of
// them.
func isFull(err error) bool {
	return strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EFBIG.Error())
}

// object is a long name.
func object(n, i int) string { return fmt.Sprintf("%0250d", n*1000+i) }

// enrollSome enrols the n-th fifty people.
func enrollSome(ctx context.Context, l *ledger.Ledger, n int) (api.EnrollResult, error) {
	var names []string
	for i := range 50 {
		names = append(names, object(n, i))
	}
	return l.Enroll(ctx, api.EnrollRequest{Key: fmt.Sprint("some ", n), Question: "vote", Objects: names, Cap: boundless()})
}

// TestAFullDisk lets a ledger grow until its disk is full, behind both walls: when the journal
// grows, or in the midst of a checkpoint. The call that meets the end is told so, and the ledger
// stops. Nothing is lost that was told before; on the full disk all can be read; and when there is
// room again the same key does what failed.
func TestAFullDisk(t *testing.T) {
	turn := rand.IntN(2)
	for i, wall := range walls() {
		for k, memory := range []int{0, 64 << 10} {
			if !testenv.Deep() && (i+k)%2 != turn { // each wall with one of them
				continue
			}
			t.Run(fmt.Sprintf("%s, memory %d", wall, memory), func(t *testing.T) { fillBehind(t, wall, memory) })
		}
	}
}

func fillBehind(t *testing.T, wall string, memory int) {
	l, path := market(t)
	check.Must(t, l.Close())
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fillPath+"="+path, fillWith+"="+wall, fillMemory+"="+strconv.Itoa(memory))
	if wall == "disk" { // in a namespace of its own, where mounting needs no rights
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if wall == "disk" && (len(out) == 0 && err != nil && !errors.As(err, new(*exec.ExitError)) || strings.Contains(faults.String(), "no wall: operation not permitted")) {
		testenv.Unsupported(t, fmt.Sprintf("no namespace of users, and so no disk of our own: %v, %s", err, faults.String()))
	}
	check.Need(t, err == nil, "%v: %s\n%s", err, faults.String(), out)
	wantRegained(t, path, string(out))
}

// wantRegained opens a file for which there is room again, and repeats what was told of it and what
// failed.
func wantRegained(t *testing.T, path, told string) {
	t.Helper()
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{Now: func() time.Time { return start().AddDate(0, 0, 1) }}))(t)
	defer l.Close()
	wantClean(t, l)
	before, done := events(t, l), 0
	for lines := bufio.NewScanner(strings.NewReader(told)); lines.Scan(); {
		var what string
		var n int
		check.Must(t, check.Err(fmt.Sscan(lines.Text(), &what, &n)))
		first := check.Value(enrollSome(t.Context(), l, n))(t)
		if what == "done" {
			if done++; events(t, l) != before {
				t.Errorf("request %d was told as done, and is done now", n)
			}
			continue
		}
		t.Logf("after %d requests: %s", done, lines.Text())
		again, err := enrollSome(t.Context(), l, n)
		check.That(t, err == nil && reflect.DeepEqual(first, again) && first.Enrolled == 50,
			"the request that failed comes to %+v, and then to %+v, %v", first, again, err)
	}
	check.That(t, done != 0, "the disk was full from the beginning")
	wantClean(t, l)
}
