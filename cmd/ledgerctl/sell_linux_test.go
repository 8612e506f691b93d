package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

// A pipe that nobody reads any more kills a process that writes to it, unless it has something to
// tell on standard error.
func TestSell_StandardOutputClosed_ReportsTheSale(t *testing.T) {
	db, people := newVote(t, 2)
	read, write, err := os.Pipe()
	check.Must(t, err)
	check.Must(t, read.Close())
	defer write.Close()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "ledgerctl", "--db", db, "sell", "--question", "vote", "--epsilon", "1", "--buyer", "acme", "--truth", people, "--key", "k-1")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "GORACE="+quickExit), write, &stderr
	err = cmd.Run()
	if cmd.ProcessState.ExitCode() != int(output.ExitUnexpected) || !strings.Contains(stderr.String(), "sale 1 is made") || !strings.Contains(stderr.String(), "--key k-1") {
		t.Errorf("%v, stderr %q", err, &stderr)
	}
}
