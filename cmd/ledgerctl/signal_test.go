//go:build linux

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

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
)

// start runs ledgerctl as a process of its own.
func start(t *testing.T, args ...string) (cmd *exec.Cmd, stdout *bufio.Scanner, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "ledgerctl", args...)
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(pipe), stderr
}

// stopIt sends a signal and returns the exit code.
func stopIt(t *testing.T, cmd *exec.Cmd, signal os.Signal) int {
	t.Helper()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func TestFollowedLogLetsOthersWrite(t *testing.T) {
	db, people := newVote(t, 2)
	cmd, lines, stderr := start(t, "--db", db, "log", "--follow", "--object", "2", "--json")
	if !lines.Scan() || !strings.Contains(lines.Text(), `"kind":"enrolled"`) {
		t.Fatalf("first line %q, stderr %q", lines.Text(), stderr)
	}
	mustInvoke(t, "--db", db, "raise", "--question", "vote", "--to", "1", "--truth", people)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"kind":"released"`) {
		t.Fatalf("second line %q, stderr %q", lines.Text(), stderr)
	}
	if code := stopIt(t, cmd, os.Interrupt); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestFollowedLogShowsSales(t *testing.T) {
	db, people := newVote(t, 2)
	cmd, lines, stderr := start(t, "--db", db, "log", "--follow", "--since", "7")
	sell := []string{"--db", db, "sell", "--question", "vote", "--epsilon", "1", "--truth", people, "--buyer"}
	var got []string
	for _, buyer := range []string{"acme", "bob"} {
		mustInvoke(t, append(sell, buyer)...)
		for len(got) == 0 || !strings.Contains(got[len(got)-1], "object=2 question=vote epsilon=1 sale="+map[string]string{"acme": "1 buyer=acme", "bob": "2 buyer=bob"}[buyer]) {
			if !lines.Scan() {
				t.Fatalf("the log ended after %q, stderr %q", got, stderr)
			}
			got = append(got, lines.Text())
		}
	}
	if all := strings.Join(got, "\n"); !strings.Contains(all, "method=raise price=50") || !strings.Contains(all, "method=resale price=50") {
		t.Errorf("followed:\n%s", all)
	}
	if code := stopIt(t, cmd, os.Interrupt); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestFollowedLogNoticesAnotherLedger(t *testing.T) {
	db, _ := newVote(t, 2)
	other, _ := newVote(t, 2)
	cmd, lines, stderr := start(t, "--db", db, "log", "--follow")
	if !lines.Scan() {
		t.Fatal(stderr)
	}
	if err := os.Rename(other, db); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the process ends
	}
	var failed *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &failed) || failed.ExitCode() != int(fault.Integrity) {
		t.Errorf("%v, stderr %q", err, stderr)
	}
}

// The true values come through a named pipe whose other end does not answer; then a signal comes.
func TestInterruptedRequestGoesOnWithItsKey(t *testing.T) {
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
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		request := append(command, "--db", db, "--key", "order 7", "--truth")
		cmd, _, stderr := start(t, append(request, fifo)...)
		pipe, err := os.OpenFile(fifo, os.O_WRONLY, 0) // returns when the process has opened the other end
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(pipe, "id,vote\n1,Y\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		code := stopIt(t, cmd, signal)
		if code != 1 || !strings.Contains(stderr.String(), "interrupted") || !strings.Contains(stderr.String(), `--key "order 7"`) {
			t.Errorf("%v: exit code %d, stderr %q", signal, code, stderr)
		}
		if err := pipe.Close(); err != nil {
			t.Fatal(err)
		}
		if out := mustInvoke(t, append(request, people, "--json")...); !strings.Contains(out, want) {
			t.Error(out)
		}
	}
}

// A pipe that nobody reads any more kills a process that writes to it, unless it has something to tell on standard error.
func TestClosedPipeDoesNotHideASale(t *testing.T) {
	db, people := newVote(t, 2)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "ledgerctl", "--db", db, "sell", "--question", "vote", "--epsilon", "1", "--buyer", "acme", "--truth", people, "--key", "k-1")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "GORACE="+quickExit), write, &stderr
	err = cmd.Run()
	if cmd.ProcessState.ExitCode() != int(fault.Unexpected) || !strings.Contains(stderr.String(), "sale 1 is made") || !strings.Contains(stderr.String(), "--key k-1") {
		t.Errorf("%v, stderr %q", err, &stderr)
	}
}
