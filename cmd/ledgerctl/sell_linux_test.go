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

// Writing to a closed pipe normally kills a process. After a sale, the command instead reports the
// sale on standard error.
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
	if cmd.ProcessState.ExitCode() != int(output.ExitUnexpected) || !strings.Contains(stderr.String(), "sale 1 is done") || !strings.Contains(stderr.String(), "--key k-1") {
		t.Errorf("%v, stderr %q", err, &stderr)
	}
}
