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

// Claim marks a ledger as open for writing on this machine, whichever copy of its file is open. The
// lock of a file does not cover copies of the file. Two copies that both draw would release two
// independent responses of the same object.
//
// A claim is a listening abstract Unix socket whose name contains the id of the ledger. A name
// exists once in a network namespace, and the kernel removes the socket when the process ends.
//
// Every local user can bind that name. Therefore only claims of users who could open the ledger
// count: see [trusts].
type Claim struct{ socket *net.UnixListener }

// claimWait is how long ClaimLedger waits for another claim to end. The socket of a process that
// was just killed may outlive its lock on the file. A child process holds copies of all sockets
// until it executes its program.
const (
	claimWait = 250 * time.Millisecond
	claimPoll = 5 * time.Millisecond

	// mostStrangers is the number of consecutive polls without a trusted claim after which
	// ClaimLedger gives up. One poll is not enough, because a claim is bound for an instant before
	// it listens.
	mostStrangers = 10
)

// ClaimLedger claims the ledger in the file at path until the claim is released. If another claim
// exists, it waits for about [claimWait]. It returns [kv.ErrInUse] if a process of this user, of
// root or of the file's owner still has claimed the ledger then.
//
// If the system has no such sockets, or if another user has bound the name, ClaimLedger returns an
// empty claim. Then copies that are open at the same time are not detected. The second case is
// logged.
func ClaimLedger(id [16]byte, path string, log *callback.Log) (*Claim, error) {
	name := "@sluice-ledger-" + uuid.UUID(id).String()
	deadline := time.Now().Add(claimWait)
	// strangers counts the polls since the last one that found a trusted claim.
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
		// The name is bound already: find out by which process.
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

// acceptAll accepts and closes each connection to a claim. So the connection queue never fills, and
// [holderOf] always gets an answer.
func acceptAll(socket *net.UnixListener) {
	for {
		c, err := socket.Accept()
		switch {
		case err == nil:
			_ = c.Close()
		case errors.Is(err, net.ErrClosed):
			return
		default: // for example, too many open files
			time.Sleep(claimPoll)
		}
	}
}

// logForeign logs that an untrusted process has bound the name of a claim. If err is not nil, no
// process accepts connections at that name, and err is logged as the cause.
func logForeign(log *callback.Log, holder *syscall.Ucred, err error) {
	const then = "another user has bound the claim name of this ledger: open copies are not detected"
	if err != nil {
		log.Now(func(log *zerolog.Logger) { log.Warn().AnErr("cause", err).Msg(then) })
		return
	}
	log.Now(func(log *zerolog.Logger) { log.Warn().Uint32("uid", holder.Uid).Int32("process", holder.Pid).Msg(then) })
}

// trusts reports whether a claim of a user counts for the file at path. It counts if the user is
// the user of this process, root, or the owner of the file. Another user may have bound the name
// only to keep the ledger from being opened.
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

// forbidden reports whether err means that the process may not create such sockets, or that the
// system does not support them.
func forbidden(err error) bool {
	return isAny(err, syscall.EACCES, syscall.EPERM, syscall.ENOSYS, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT)
}

// holderOf returns the user and process ids of the process that listens at an abstract socket, as
// the kernel reports them. Every claim listens and accepts, so an error means that no claim is
// there.
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

// inProcess returns the end of an error text, such as ", in process 7". It returns "" for pid 0,
// which the kernel reports for a process in a namespace that this process cannot see.
func inProcess(pid int) string {
	switch pid {
	case 0:
		return ""
	case os.Getpid():
		return ", in this process"
	}
	return fmt.Sprintf(", in process %d", pid)
}

// Release ends the claim. It does nothing for a nil or empty claim.
func (c *Claim) Release() error {
	if c == nil || c.socket == nil {
		return nil
	}
	return c.socket.Close()
}
