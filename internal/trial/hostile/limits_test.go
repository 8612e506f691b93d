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

// Variables of the environment that make the test program fill a disk.
const (
	fillPath   = "SLUICE_LIMITS_PATH"
	fillWith   = "SLUICE_LIMITS_WALL" // one of limits
	fillMemory = "SLUICE_LIMITS_MEMORY"
)

// limits are the limits of the size of a file: of the process, or of a file system of its own.
func limits() []string { return []string{"limit", "disk"} }

// capacity is the maximum size of the file, in bytes.
const capacity = 3 << 20

// runFill fills the disk of a ledger, as a child process.
func runFill(path string) error {
	memory, err := strconv.ParseInt(os.Getenv(fillMemory), 10, 64)
	if err != nil {
		return err
	}
	return fill(path, os.Getenv(fillWith), memory, os.Stdout)
}

// setLimit sets up a limit, and returns the path of the ledger under it.
func setLimit(path, limit string) (string, error) {
	if limit == "limit" {
		signal.Ignore(syscall.SIGXFSZ) // by default it ends the process; ignored, the write fails
		return path, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: capacity, Max: capacity})
	}
	dir := path + ".disk"
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", capacity)); err != nil {
		return "", err
	}
	inside := filepath.Join(dir, "ledger.db")
	return inside, copyFile(path, inside)
}

// fill enrolls objects until the disk is full, and prints which requests succeeded. Then it checks
// what is possible on a full disk. Finally the file is at its original path.
func fill(path, limit string, memory int64, out io.Writer) error {
	at, err := setLimit(path, limit)
	if err != nil {
		return fmt.Errorf("set up a limit of the file size: %w", err)
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
			return errors.New("the disk is not full after 10,000 requests")
		}
	}
	fmt.Fprintln(out, "failed", n-1, err)
	if !isFull(err) || !errors.Is(err, api.ErrStopped) || !strings.Contains(err.Error(), "its outcome shows only when the ledger is opened again") {
		return fmt.Errorf("enroll on a full disk: the error should wrap ErrStopped and name the cause: %w", err)
	}
	if _, err := enrollSome(ctx, l, n); !errors.Is(err, api.ErrStopped) {
		return fmt.Errorf("enroll after the ledger stopped: got the error %w", err)
	}
	if _, err := l.Object(ctx, object(0, 0)); !errors.Is(err, api.ErrStopped) {
		return fmt.Errorf("read after the ledger stopped: got the error %w", err)
	}
	if err := l.Close(); err != nil {
		return err
	}
	if err := reopenFull(ctx, at, n-1); err != nil {
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

// reopenFull opens a ledger on a full disk. Everything can be read. Copies are complete or absent.
// For writing, the ledger opens if the file has capacity for what the journal holds.
func reopenFull(ctx context.Context, at string, done int) error {
	for _, only := range []bool{true, false, true} {
		l, err := ledger.Open(ctx, at, ledger.Options{ReadOnly: only, Now: func() time.Time { return start().AddDate(0, 0, 1) }})
		if err != nil && isFull(err) && !only {
			continue // the file has no capacity for what the journal holds
		}
		if err != nil {
			return fmt.Errorf("open again on a full disk: %w", err)
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
			return fmt.Errorf("compact on a full disk: %w", err)
		}
		if _, err := l.Object(ctx, object(done-1, 0)); err != nil {
			return fmt.Errorf("read after the copies: %w", err)
		}
		if err := errors.Join(l.Close(), os.Remove(at+".backup")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(at), ".*"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("copies left the files %v", left)
	}
	return err
}

// isFull returns whether an error reports a full disk. It compares the text, because bbolt does not
// wrap all errors.
func isFull(err error) bool {
	return strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EFBIG.Error())
}

// object returns a long name.
func object(n, i int) string { return fmt.Sprintf("%0250d", n*1000+i) }

// enrollSome enrolls the n-th fifty objects.
func enrollSome(ctx context.Context, l *ledger.Ledger, n int) (api.EnrollResult, error) {
	var names []string
	for i := range 50 {
		names = append(names, object(n, i))
	}
	return l.Enroll(ctx, api.EnrollRequest{Key: fmt.Sprint("some ", n), Question: "vote", Objects: names, Cap: noCap()})
}

// A ledger grows until its disk is full, under both limits: when the journal grows, or during a
// checkpoint. The call that fails returns that, and the ledger stops. No reported result is lost.
// On the full disk everything can be read. When there is capacity again, the same key completes the
// failed request.
func TestLedger_DiskFull_StopsAndLosesNothing(t *testing.T) {
	turn := rand.IntN(2)
	for i, limit := range limits() {
		for k, memory := range []int{0, 64 << 10} {
			if !testenv.Deep() && (i+k)%2 != turn { // each limit with one of them
				continue
			}
			t.Run(fmt.Sprintf("%s, memory %d", limit, memory), func(t *testing.T) { testFullDisk(t, limit, memory) })
		}
	}
}

func testFullDisk(t *testing.T, limit string, memory int) {
	l, path := market(t)
	check.Must(t, l.Close())
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fillPath+"="+path, fillWith+"="+limit, fillMemory+"="+strconv.Itoa(memory))
	if limit == "disk" { // in its own namespace, where mounting needs no privileges
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if limit == "disk" && (len(out) == 0 && err != nil && !errors.As(err, new(*exec.ExitError)) || strings.Contains(faults.String(), "set up a limit of the file size: operation not permitted")) {
		testenv.Unsupported(t, fmt.Sprintf("cannot mount a small disk in a user namespace: %v, %s", err, faults.String()))
	}
	check.Need(t, err == nil, "%v: %s\n%s", err, faults.String(), out)
	wantRecovered(t, path, string(out))
}

// wantRecovered opens a file that has capacity again. It repeats the requests that succeeded and
// the one that failed.
func wantRecovered(t *testing.T, path, output string) {
	t.Helper()
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{Now: func() time.Time { return start().AddDate(0, 0, 1) }}))(t)
	defer l.Close()
	wantClean(t, l)
	before, done := events(t, l), 0
	for lines := bufio.NewScanner(strings.NewReader(output)); lines.Scan(); {
		var what string
		var n int
		check.Must(t, check.Err(fmt.Sscan(lines.Text(), &what, &n)))
		first := check.Value(enrollSome(t.Context(), l, n))(t)
		if what == "done" {
			if done++; events(t, l) != before {
				t.Errorf("request %d was reported as done, and repeating it writes events", n)
			}
			continue
		}
		t.Logf("after %d requests: %s", done, lines.Text())
		again, err := enrollSome(t.Context(), l, n)
		check.That(t, err == nil && reflect.DeepEqual(first, again) && first.Enrolled == 50,
			"the failed request returns %+v, and repeated %+v, %v", first, again, err)
	}
	check.That(t, done != 0, "no request succeeded before the disk was full")
	wantClean(t, l)
}
