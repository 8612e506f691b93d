package engine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Claim shows the machine that a ledger is open for writing, whichever file it is in. The lock of a file says nothing
// about its copies, and two copies that draw would tell two independent responses about the same people. It is an
// abstract Unix socket with the id of the ledger in its name, at which nobody ever answers. There is one socket of a
// name in a network namespace, and the kernel takes it away with the process.
type Claim struct{ socket *net.UnixListener }

// claimWait is how long a claim waits for another to end: the socket of a process that was just killed may outlive
// its lock on the file, and a child process has copies of all sockets until it begins to run its program.
const (
	claimWait = 250 * time.Millisecond
	claimPoll = 5 * time.Millisecond
)

// ClaimLedger claims a ledger until it is released. It returns [ErrInUse] if it is claimed. Where such sockets are not
// to be had, nothing is claimed.
func ClaimLedger(id [16]byte) (*Claim, error) {
	name := "@sluice-ledger-" + uuid.UUID(id).String()
	deadline := time.Now().Add(claimWait)
	for {
		socket, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
		switch {
		case err == nil:
			return &Claim{socket}, nil
		case forbidden(err):
			return &Claim{}, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("claim the ledger: %w", err)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%w: another copy of this ledger is open for writing%s", kv.ErrInUse, holder(name))
		}
		time.Sleep(claimPoll)
	}
}

// forbidden tells that a process may not have such sockets, or that the system has none.
func forbidden(err error) bool {
	for _, code := range []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.ENOSYS, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// holder tells which process has a claim, as the end of a sentence; nothing if the kernel does not say. It does not
// rest on what that process does.
func holder(name string) string {
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		return ""
	}
	defer socket.Close()
	raw, err := socket.SyscallConn()
	if err != nil {
		return ""
	}
	process := 0 // or it is in a namespace of processes that this one does not see
	if err := raw.Control(func(fd uintptr) {
		if peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			process = int(peer.Pid)
		}
	}); err != nil || process == 0 {
		return ""
	}
	if process == os.Getpid() {
		return ", in this process"
	}
	return fmt.Sprintf(", in process %d", process)
}

// Release gives the claim up.
func (c *Claim) Release() error {
	if c == nil || c.socket == nil {
		return nil
	}
	return c.socket.Close()
}
