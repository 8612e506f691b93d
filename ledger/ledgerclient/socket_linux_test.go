package ledgerclient

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
)

// stranger is a user that no file of a test belongs to.
const stranger = 54321

// asStranger calls do on a thread whose user is another one, which takes root.
func asStranger(t *testing.T, do func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if _, _, code := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), stranger, ^uintptr(0)); code != 0 {
			done <- code
			return
		}
		done <- do()
	}()
	check.Must(t, <-done)
}

// TestDial_AnotherUsersServer: nothing, and so no token, is sent to a server that another user may
// have put where the client looks for one. A user who alone can write to the directories of the
// path is trusted.
func TestDial_AnotherUsersServer(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Unsupported(t, "only root can listen as another user")
	}
	root, err := os.MkdirTemp("/run", "sluice") // /tmp is writable by all
	check.Must(t, err)
	defer func() { _ = os.RemoveAll(root) }()
	check.Must(t, os.Chmod(root, 0o755))
	for name, c := range map[string]struct {
		owner int
		mode  os.FileMode
		sent  bool
	}{
		"in a directory of its own":              {stranger, 0o755, true},
		"in a directory that all can write to":   {0, 0o777, false},
		"in a directory like /tmp":               {0, 0o777 | os.ModeSticky, false},
		"in its own that its group can write to": {stranger, 0o775, false},
		"in a directory of a third user":         {stranger + 1, 0o777, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := check.Value(os.MkdirTemp(root, "d"))(t)
			check.Must(t, os.Chmod(dir, c.mode))
			check.Must(t, os.Chown(dir, c.owner, -1))
			path := filepath.Join(dir, "s")
			var trap net.Listener
			asStranger(t, func() (err error) { trap, err = net.Listen("unix", path); return err })
			defer func() { _ = trap.Close() }()
			got := make(chan int, 1)
			go func() {
				conn, err := trap.Accept()
				if err != nil {
					got <- 0
					return
				}
				n, _ := io.ReadAtLeast(conn, make([]byte, 1<<10), 1)
				got <- n
				_ = conn.Close()
			}()
			_, err = Dial(t.Context(), "unix:"+path, Options{Token: "secret"})
			if n := <-got; (n > 0) != c.sent || errors.Is(err, api.ErrInvalid) == c.sent {
				t.Errorf("%d bytes were sent: %v", n, err)
			}
		})
	}
}

// TestDial_OwnServer: a server of the same user may listen anywhere.
func TestDial_OwnServer(t *testing.T) {
	dir, err := os.MkdirTemp("", "c") // a socket's path is short
	check.Must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	check.Must(t, os.Chmod(dir, 0o777))
	socket := check.Value(net.Listen("unix", filepath.Join(dir, "s")))(t)
	defer func() { _ = socket.Close() }()
	check.Must(t, checkServerAt(socket.Addr().String()))
}

func checkServerAt(path string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	return errors.Join(checkServer(c, path), c.Close())
}
