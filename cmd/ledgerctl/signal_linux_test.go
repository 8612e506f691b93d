package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// start starts ledgerctl in its own process.
func start(t *testing.T, args ...string) (cmd *exec.Cmd, stdout *bufio.Scanner, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "ledgerctl", args...)
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	pipe, err := cmd.StdoutPipe()
	check.Must(t, err)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	check.Must(t, cmd.Start())
	return cmd, bufio.NewScanner(pipe), stderr
}

// stopIt sends a signal and returns the exit code.
func stopIt(t *testing.T, cmd *exec.Cmd, signal os.Signal) int {
	t.Helper()
	check.Must(t, cmd.Process.Signal(signal))
	err := cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// A request that waits for true values from a named pipe is interrupted by a signal. Repeated with
// its key, it continues.
func TestRequest_Interrupted_ContinuesWithItsKey(t *testing.T) {
	raise := []string{"raise", "--question", "vote", "--to", "1"}
	sell := []string{"sell", "--question", "vote", "--epsilon", "1", "--buyer", "acme"}
	interrupt(t, raise, `"drawn":2`)
	interrupt(t, sell, `"draws":2`)
}

func interrupt(t *testing.T, command []string, want string) {
	t.Helper()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		db, people := newVote(t, 2)
		fifo := filepath.Join(t.TempDir(), "fifo")
		check.Must(t, syscall.Mkfifo(fifo, 0o600))
		request := append(command, "--db", db, "--key", "order 7", "--truth")
		cmd, _, stderr := start(t, append(request, fifo)...)
		pipe, err := os.OpenFile(fifo, os.O_WRONLY, 0) // returns when the process has opened the other end
		check.Must(t, err)
		if _, err := io.WriteString(pipe, "id,vote\n1,Y\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		code := stopIt(t, cmd, signal)
		if code != 1 || !strings.Contains(stderr.String(), "interrupted") || !strings.Contains(stderr.String(), `--key "order 7"`) {
			t.Errorf("%v: exit code %d, stderr %q", signal, code, stderr)
		}
		check.Must(t, pipe.Close())
		if out := mustInvoke(t, append(request, people, "--json")...); !strings.Contains(out, want) {
			t.Error(out)
		}
	}
}

// interrupting is a standard input that never returns data. A read sends a signal to this process.
type interrupting struct {
	t      *testing.T
	signal syscall.Signal
}

func (r interrupting) Read([]byte) (int, error) {
	if err := syscall.Kill(os.Getpid(), r.signal); err != nil {
		r.t.Error(err)
	}
	<-r.t.Context().Done()
	return 0, io.EOF
}

// One signal ends a command that waits for its input.
func TestCommands_InterruptedRead_End(t *testing.T) {
	db, people := newVote(t, 2)
	for _, command := range [][]string{
		{"enroll", "--question", "vote", "--objects", "-"},
		{"enroll", "--question", "vote", "--objects", people, "--policy", "@-"},
		{"raise", "--question", "vote", "--to", "1", "--truth", "-"},
		{"question", "add", "x", "--values", "A,B", "--mechanism", "-"},
		{"receipt", "verify", "-"},
		{"audit", "verify", "--checkpoint", "-"},
		{"stats", "--trust", "-", "--trust-key", "@-"},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			var stdout, stderr bytes.Buffer
			if code := run(append(command, "--db", db), interrupting{t, signal}, &stdout, &stderr); code != 1 || !strings.HasPrefix(stderr.String(), "ledgerctl: interrupted") {
				t.Errorf("%q, %v: exit code %d, stderr %q", command, signal, code, &stderr)
			}
		}
	}
}
