package trial

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopOnlyAt makes a process stop only at these system calls, because stopping at every call makes
// it many times as slow. The process has just begun and is stopped. It installs the filter itself,
// so that its program does not have to.
func stopOnlyAt(pid int, calls []uint32) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	program := filter(calls)
	at := regs.Rsp - 4096 // below its stack, in unused memory
	prog := binary.LittleEndian.AppendUint64(nil, uint64(len(program)/8))
	prog = binary.LittleEndian.AppendUint64(prog, at+16) // a struct sock_fprog, followed by the program
	if _, err := syscall.PtracePokeData(pid, uintptr(at), append(prog, program...)); err != nil {
		return err
	}
	if err := callIn(pid, regs, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	return callIn(pid, regs, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, at)
}

// filter returns a seccomp program that stops the process at these calls and allows all others.
func filter(calls []uint32) []byte {
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS} // the number of the system call
	program := []unix.SockFilter{load}
	for i, call := range calls {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(calls) - i), K: call})
	}
	program = append(program, unix.SockFilter{K: unix.SECCOMP_RET_ALLOW, Code: unix.BPF_RET}, unix.SockFilter{K: unix.SECCOMP_RET_TRACE, Code: unix.BPF_RET})
	var text bytes.Buffer
	_ = binary.Write(&text, binary.LittleEndian, program)
	return text.Bytes()
}

// callIn makes a stopped process execute a system call, and restores its registers and code.
func callIn(pid int, before syscall.PtraceRegs, call, a, b, c uint64) error {
	instruction := []byte{0x0f, 0x05} // syscall
	code := make([]byte, len(instruction))
	if _, err := syscall.PtracePeekText(pid, uintptr(before.Rip), code); err != nil {
		return err
	}
	regs := before
	regs.Rax, regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8 = call, a, b, c, 0, 0
	if _, err := syscall.PtracePokeText(pid, uintptr(before.Rip), instruction); err != nil {
		return err
	}
	if err := syscall.PtraceSetRegs(pid, &regs); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if err := syscall.PtraceSingleStep(pid); err != nil {
		return err
	}
	if _, err := syscall.Wait4(pid, &status, syscall.WALL, nil); err != nil || status.StopSignal() != syscall.SIGTRAP {
		return fmt.Errorf("the process did not stop again: %v, %w", status, err)
	}
	if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	if regs.Rax != 0 {
		return fmt.Errorf("system call %d: %w", call, syscall.Errno(-regs.Rax))
	}
	if _, err := syscall.PtracePokeText(pid, uintptr(before.Rip), code); err != nil {
		return err
	}
	return syscall.PtraceSetRegs(pid, &before)
}
