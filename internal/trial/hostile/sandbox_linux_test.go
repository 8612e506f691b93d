//go:build linux && (amd64 || arm64)

package hostile

import (
	"runtime"
	"syscall"
	"unsafe"
)

// sandboxed is whether forbidSockets is supported.
const sandboxed = true

// forbidSockets forbids the thread of the calling goroutine to create sockets, as some sandboxes
// do.
func forbidSockets() error {
	runtime.LockOSThread()
	const (
		setNoNewPrivs = 38 // PR_SET_NO_NEW_PRIVS, so that a filter needs no rights
		setSeccomp    = 22 // PR_SET_SECCOMP
		modeFilter    = 2  // SECCOMP_MODE_FILTER
		fail          = 0x00050000 | uint32(syscall.EPERM)
		allow         = 0x7fff0000
	)
	program := []syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS}, // the number of the system call
		{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, Jf: 1, K: syscall.SYS_SOCKET},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: fail},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: allow},
	}
	filter := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, code := syscall.RawSyscall(syscall.SYS_PRCTL, setNoNewPrivs, 1, 0); code != 0 {
		return code
	}
	if _, _, code := syscall.RawSyscall(syscall.SYS_PRCTL, setSeccomp, modeFilter, uintptr(unsafe.Pointer(&filter))); code != 0 {
		return code
	}
	runtime.KeepAlive(program)
	return nil
}
