package engine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Claim marks a ledger as open for writing on this machine, in whichever file it is. The lock of a
// file does not cover its copies, and two copies that draw would release two independent responses
// of the same objects. A claim is a listening abstract Unix socket whose name has the id of the
// ledger. A network namespace has one socket of a name, and the kernel removes it with the process.
//
// Every local user can bind that name, so only the claims of users who could open the ledger as
// well count: see [trusts].
type Claim struct{ socket *net.UnixListener }

// claimWait is how long ClaimLedger waits for another claim to end: the socket of a process that
// was just killed may outlive its lock on the file, and a child process has copies of all sockets
// until it executes its program.
const (
	claimWait = 250 * time.Millisecond
	claimPoll = 5 * time.Millisecond

	// polls in a row that find no claim that counts: a claim is bound for an instant before it
	// listens
	mostStrangers = 10
)

// ClaimLedger claims the ledger in the file at path until the claim is released. It returns
// [kv.ErrInUse] if a process of this user, of root or of the file's owner has claimed it. Where
// such sockets are not available, or another user has the name, it claims nothing, and copies that
// are open at the same time are not noticed. It logs the latter.
func ClaimLedger(id [16]byte, path string, log *callback.Log) (*Claim, error) {
	name := "@sluice-ledger-" + uuid.UUID(id).String()
	deadline := time.Now().Add(claimWait)
	for strangers := 0; ; time.Sleep(claimPoll) {
		socket, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
		switch {
		case err == nil:
			go acceptAll(socket)
			return &Claim{socket}, nil
		case forbidden(err):
			return &Claim{}, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("claim the ledger: %w", err)
		}
		holder, err := holderOf(name)
		late := time.Now().After(deadline)
		switch {
		case err == nil && trusts(holder.Uid, path):
			if strangers = 0; late {
				return nil, fmt.Errorf("%w: another copy of this ledger is open for writing%s", kv.ErrInUse,
					inProcess(int(holder.Pid)))
			}
		case late && strangers >= mostStrangers:
			logForeign(log, holder, err)
			return &Claim{}, nil
		default:
			strangers++
		}
	}
}

// acceptAll closes each connection to a claim, so that its queue never fills and [holderOf] always
// gets an answer.
func acceptAll(socket *net.UnixListener) {
	for {
		c, err := socket.Accept()
		switch {
		case err == nil:
			_ = c.Close()
		case errors.Is(err, net.ErrClosed):
			return
		default: // such as too many open files
			time.Sleep(claimPoll)
		}
	}
}

// logForeign logs that a process that does not count has the name of a claim, or that no process
// accepts connections there.
func logForeign(log *callback.Log, holder *syscall.Ucred, err error) {
	const then = "the name by which open copies of this ledger are noticed is taken by another user: they are not " +
		"noticed now"
	if err != nil {
		log.Now(func(log *zerolog.Logger) { log.Warn().AnErr("cause", err).Msg(then) })
		return
	}
	log.Now(func(log *zerolog.Logger) { log.Warn().Uint32("uid", holder.Uid).Int32("process", holder.Pid).Msg(then) })
}

// trusts reports whether a claim of a user counts for the file at path: the user of this process,
// root, or the owner of the file. Others cannot be told from a user who only wants to keep the
// ledger from being opened.
func trusts(uid uint32, path string) bool {
	if uid == 0 || uid == uint32(os.Geteuid()) {
		return true
	}
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	file, is := info.Sys().(*syscall.Stat_t)
	return is && file.Uid == uid
}

// forbidden reports whether a process may not have such sockets, or the system has none.
func forbidden(err error) bool {
	return isAny(err, syscall.EACCES, syscall.EPERM, syscall.ENOSYS, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT)
}

// holderOf returns the credentials of the process that listens at an abstract socket, as the kernel
// has them. Every claim listens and accepts, so that an error means that no claim is there.
func holderOf(name string) (*syscall.Ucred, error) {
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *syscall.Ucred
	failed := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	return peer, errors.Join(failed, err)
}

// inProcess names a process, as the end of a sentence; it is empty for 0, a process in a namespace
// that this one does not see.
func inProcess(pid int) string {
	switch pid {
	case 0:
		return ""
	case os.Getpid():
		return ", in this process"
	}
	return fmt.Sprintf(", in process %d", pid)
}

// Release gives the claim up.
func (c *Claim) Release() error {
	if c == nil || c.socket == nil {
		return nil
	}
	return c.socket.Close()
}
