package engine

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// stranger is the id of a user who owns no file of this test, unless a case says so.
const stranger = 54321

// newID returns an id and the abstract name of its claim.
func newID(t *testing.T) (id [16]byte, name string) {
	t.Helper()
	if _, err := rand.Read(id[:]); err != nil {
		t.Fatal(err)
	}
	return id, "@sluice-ledger-" + uuid.UUID(id).String()
}

// listenAs listens at an abstract socket as another user. It needs root.
func listenAs(t *testing.T, uid int, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Unsupported(t, "only root can listen as another user")
	}
	done := make(chan error)
	var socket net.Listener
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, which has the other user, ends with the goroutine
		if _, _, code := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); code != 0 {
			done <- code
			return
		}
		var err error
		socket, err = net.Listen("unix", name)
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
}

// bindOnly binds an abstract name without listening there.
func bindOnly(t *testing.T, name string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// Any local user can bind the name of a claim, but must not be able to keep the ledger from being
// opened. Only a process of a user who could open the ledger counts as one that has it open.
func TestClaimLedger_NameTaken(t *testing.T) {
	for name, c := range map[string]struct {
		take  func(t *testing.T, name string)
		owner int // of the file
		inUse bool
	}{
		"by this user": {func(t *testing.T, name string) {
			l, err := net.Listen("unix", name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, os.Geteuid(), true},
		"by another user":               {func(t *testing.T, name string) { listenAs(t, stranger, name) }, os.Geteuid(), false},
		"by the owner of the file":      {func(t *testing.T, name string) { listenAs(t, stranger, name) }, stranger, true},
		"by a process that only binds":  {bindOnly, os.Geteuid(), false},
		"by another user, third's file": {func(t *testing.T, name string) { listenAs(t, stranger, name) }, stranger + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "l.db")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			id, at := newID(t)
			c.take(t, at)
			if err := os.Chown(path, c.owner, -1); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			var to callback.Log
			to.Use(zerolog.New(&log))
			claim, err := ClaimLedger(id, path, &to)
			if c.inUse {
				if !errors.Is(err, kv.ErrInUse) || !strings.HasSuffix(err.Error(), ", in this process") || log.Len() > 0 {
					t.Errorf("%v; want ErrInUse with the process; log %s", err, log.Bytes())
				}
				return
			}
			if err != nil || claim == nil || !strings.Contains(log.String(), "open copies are not detected") {
				t.Errorf("%v; want no error, and a warning; log %s", err, log.Bytes())
			}
			if err := claim.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A claim accepts connections. Otherwise they would fill the queue of its socket, and the holder of
// the claim could not be determined.
func TestClaim_ManyConnections_StillCounts(t *testing.T) {
	id, name := newID(t)
	claim, err := ClaimLedger(id, t.TempDir(), &callback.Log{})
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Release()
	raw, err := claim.socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 1) }); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for range 20 { // many more than the queue now takes
		c, err := net.Dial("unix", name)
		for ; errors.Is(err, syscall.EAGAIN) && time.Now().Before(deadline); c, err = net.Dial("unix", name) { // full until the next is accepted
			runtime.Gosched()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if _, err := ClaimLedger(id, t.TempDir(), &callback.Log{}); !errors.Is(err, kv.ErrInUse) {
		t.Errorf("%v; want ErrInUse", err)
	}
}
