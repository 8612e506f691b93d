package trial

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported returns whether processes can be traced here. Some sandboxes forbid it.
func supported() bool {
	cmd := exec.Command("/proc/self/exe") // killed before it does anything
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if cmd.Start() != nil {
		return false
	}
	err := begin(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return err == nil
}

// noCall is a system call number that the kernel does not execute.
const noCall = ^uint64(0)

// Run starts a command and returns the status with which it ended. No status is an error.
func Run(cmd *exec.Cmd, w Watcher) (syscall.WaitStatus, error) {
	runtime.LockOSThread() // a process is traced by one thread
	defer runtime.UnlockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	t := &tracer{pid: cmd.Process.Pid, watcher: w, threads: map[int]*thread{}}
	status, err := t.run()
	if err != nil {
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait() // waits for the copying of its output; the status is already known
	return status, err
}

type tracer struct {
	pid     int
	watcher Watcher
	mem     *os.File // the memory of the process
	threads map[int]*thread
	dying   bool // the process is killed as soon as the calls that have begun have returned
}

// thread is a thread that may be inside a system call.
type thread struct {
	call *Call         // the call that the thread is in, or nil
	fail syscall.Errno // the error that the call is to return
}

func (t *tracer) run() (status syscall.WaitStatus, err error) {
	if err := begin(t.pid); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	defer func() {
		if err != nil {
			t.end()
		}
	}()
	if err := syscall.PtraceCont(t.pid, 0); err != nil {
		return 0, err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.pid))
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	t.mem = mem
	for {
		tid, err := syscall.Wait4(-1, &status, syscall.WALL|syscall.WNOTHREAD, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return status, err
		case status.Exited() || status.Signaled():
			if delete(t.threads, tid); tid == t.pid {
				return status, nil
			}
			continue
		}
		signal, err := t.stopped(tid, status)
		switch {
		case err != nil && gone(tid):
			continue // so nothing of the thread could be read
		case err != nil:
		case t.threads[tid].call != nil: // stop again when it returns
			err = syscall.PtraceSyscall(tid, int(signal))
		case t.dying: // the thread stays stopped
		default:
			err = syscall.PtraceCont(tid, int(signal))
		}
		if err == nil && t.dying && !t.calling() {
			err = syscall.Kill(t.pid, syscall.SIGKILL)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) { // it was killed concurrently
			return status, err
		}
	}
}

// gone returns whether a thread that had stopped no longer exists, because another thread ended the
// process.
func gone(tid int) bool {
	var regs syscall.PtraceRegs
	return errors.Is(syscall.PtraceGetRegs(tid, &regs), syscall.ESRCH)
}

// end kills the process and waits for all of its threads.
func (t *tracer) end() {
	if syscall.Kill(t.pid, syscall.SIGKILL) != nil {
		return
	}
	for {
		var status syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &status, syscall.WALL|syscall.WNOTHREAD, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) || tid == t.pid && (status.Exited() || status.Signaled()) {
			return
		}
	}
}

// calling returns whether a thread is inside a call that changes files. If the process were killed
// then, the test could not know whether the call was executed.
func (t *tracer) calling() bool {
	for _, th := range t.threads {
		if th.call != nil {
			return true
		}
	}
	return false
}

// begin waits for the initial stop of a process, and makes it stop at the calls of interest.
func begin(pid int) error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WALL, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("trace a new process: it did not stop: %w", err)
	}
	options := syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL
	if err := syscall.PtraceSetOptions(pid, options); err != nil {
		return err
	}
	return stopOnlyAt(pid, slices.Concat(followed, unfollowed))
}

// stopped handles a thread that has stopped, and returns the signal to pass on to it.
func (t *tracer) stopped(tid int, status syscall.WaitStatus) (syscall.Signal, error) {
	th := t.threads[tid]
	if th == nil {
		th = &thread{}
		t.threads[tid] = th
		if status.StopSignal() == syscall.SIGSTOP {
			return 0, nil // the first stop of a new thread
		}
	}
	var regs syscall.PtraceRegs
	switch status.StopSignal() {
	case syscall.SIGTRAP | 0x80: // a call returns
		if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
			return 0, err
		}
		return 0, t.leave(tid, th, &regs)
	case syscall.SIGTRAP:
		if status.TrapCause() != unix.PTRACE_EVENT_SECCOMP || t.dying {
			return 0, nil // a new thread, or a process that is about to be killed
		}
		if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
			return 0, err
		}
		return 0, t.enter(tid, th, &regs)
	case syscall.SIGSTOP:
		return 0, nil
	}
	return status.StopSignal(), nil
}

func (t *tracer) enter(tid int, th *thread, regs *syscall.PtraceRegs) error {
	call, err := t.decode(regs)
	if err != nil || call == nil {
		return err
	}
	call.callers = t.callers(regs)
	verdict := t.watcher.Before(call)
	if verdict == Kill {
		t.dying = true
		return nil
	}
	th.call = call
	switch verdict {
	case FailIO:
		th.fail = syscall.EIO
	case FailFull:
		th.fail = syscall.ENOSPC
	default:
		return nil
	}
	regs.Orig_rax = noCall
	return syscall.PtraceSetRegs(tid, regs)
}

func (t *tracer) leave(tid int, th *thread, regs *syscall.PtraceRegs) error {
	call, fail := th.call, th.fail
	th.call, th.fail = nil, 0
	if fail != 0 {
		regs.Rax = uint64(-int64(fail))
		return syscall.PtraceSetRegs(tid, regs)
	}
	result := int64(regs.Rax)
	if call == nil || result < 0 {
		return nil
	}
	if call.Kind == Write {
		call.Data = call.Data[:result]
	}
	t.watcher.After(call)
	return nil
}

// decode returns the call that a thread is about to make, or nil if it changes no file.
func (t *tracer) decode(r *syscall.PtraceRegs) (*Call, error) {
	switch r.Orig_rax {
	case unix.SYS_WRITE:
		return t.write(int(r.Rdi), r.Rsi, r.Rdx, -1)
	case unix.SYS_PWRITE64:
		return t.write(int(r.Rdi), r.Rsi, r.Rdx, int64(r.R10))
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		c, err := t.onFile(Sync, r.Rdi, 0)
		c.Content = r.Orig_rax == unix.SYS_FDATASYNC
		return c, err
	case unix.SYS_FTRUNCATE:
		return t.onFile(Truncate, r.Rdi, int64(r.Rsi))
	case unix.SYS_FALLOCATE:
		return t.onFile(Allocate, r.Rdi, int64(r.Rdx)+int64(r.R10))
	case unix.SYS_OPENAT:
		if r.Rdx&syscall.O_CREAT == 0 {
			return nil, nil
		}
		return t.named(Create, r.Rdi, r.Rsi, 0, 0)
	case unix.SYS_LINKAT:
		return t.named(Link, r.Rdi, r.Rsi, r.Rdx, r.R10)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return t.named(Rename, r.Rdi, r.Rsi, r.Rdx, r.R10)
	case unix.SYS_MKDIRAT:
		return t.named(Mkdir, r.Rdi, r.Rsi, 0, 0)
	case unix.SYS_UNLINKAT:
		return t.named(Remove, r.Rdi, r.Rsi, 0, 0)
	case unix.SYS_OPEN:
		if r.Rsi&syscall.O_CREAT == 0 {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("trace system call %d: it changes files, and is not followed; add it to decode", r.Orig_rax)
}

// Calls by which a process may change files. decode knows those in followed. A process that makes a
// call in unfollowed cannot be traced.
var (
	followed = []uint32{
		unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_OPENAT,
		unix.SYS_LINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT,
	}
	unfollowed = []uint32{
		unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_CREAT, unix.SYS_OPEN, unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_UNLINK,
		unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_TRUNCATE, unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_COPY_FILE_RANGE, unix.SYS_MSYNC,
		unix.SYS_SYNC_FILE_RANGE,
	}
)

func (t *tracer) write(fd int, address, length uint64, offset int64) (*Call, error) {
	c, err := t.onFile(Write, uint64(fd), offset)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		c.Offset = t.position(fd)
	}
	c.Data, err = t.memory(address, length)
	return c, err
}

func (t *tracer) onFile(kind Kind, fd uint64, offset int64) (*Call, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, int32(fd)))
	return &Call{Kind: kind, FD: int(int32(fd)), Path: path, Offset: offset}, err
}

// position returns the offset at which a descriptor writes next.
func (t *tracer) position(fd int) (offset int64) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.pid, fd))
	if err == nil {
		_, _ = fmt.Sscanf(string(info), "pos: %d", &offset)
	}
	return offset
}

func (t *tracer) named(kind Kind, at, name, toAt, to uint64) (*Call, error) {
	c := &Call{Kind: kind}
	var err error
	if c.Path, err = t.path(at, name); err == nil && to != 0 {
		c.To, err = t.path(toAt, to)
	}
	return c, err
}

// path returns the absolute path of a name that a call gives relative to an open directory.
func (t *tracer) path(at, address uint64) (string, error) {
	var name []byte
	for {
		// Read up to the end of a page: the next page may not be mapped.
		part, err := t.memory(address+uint64(len(name)), pageSize-(address+uint64(len(name)))%pageSize)
		if err != nil {
			return "", err
		}
		text, _, ended := bytes.Cut(part, []byte{0})
		if name = append(name, text...); ended {
			return t.absolute(at, string(name))
		}
	}
}

const pageSize = 4096

func (t *tracer) absolute(at uint64, name string) (string, error) {
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	of := fmt.Sprintf("/proc/%d/cwd", t.pid)
	if int32(at) != atWorkingDir {
		of = fmt.Sprintf("/proc/%d/fd/%d", t.pid, int32(at))
	}
	dir, err := os.Readlink(of)
	return filepath.Join(dir, name), err
}

// atWorkingDir is AT_FDCWD, the working directory of the process.
const atWorkingDir = -100

// callers follows the frame pointers of a Go program as far as they are valid.
func (t *tracer) callers(r *syscall.PtraceRegs) (all []uintptr) {
	const deep, wide, frame = 64, 1 << 20, 16
	part, from := make([]byte, pageSize), uint64(0) // most of the stack is read at once
	read := 0
	for at := r.Rbp; len(all) < deep; {
		if at < from || at-from > uint64(read) || at-from+frame > uint64(read) {
			from = at
			if read, _ = t.mem.ReadAt(part, int64(from)); read < frame {
				break
			}
		}
		next := binary.LittleEndian.Uint64(part[at-from:])
		all = append(all, uintptr(binary.LittleEndian.Uint64(part[at-from+8:])))
		if next <= at || next-at > wide {
			break
		}
		at = next
	}
	return all
}

// memory reads the memory of the process.
func (t *tracer) memory(address, length uint64) ([]byte, error) {
	data := make([]byte, length)
	_, err := t.mem.ReadAt(data, int64(address))
	return data, err
}
