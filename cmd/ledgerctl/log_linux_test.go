package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

func TestLogFollow_File_OtherProcessesCanWrite(t *testing.T) {
	t.Parallel() // it waits, mostly
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

func TestLogFollow_Sales_AreShown(t *testing.T) {
	t.Parallel() // it waits, mostly
	db, people := newVote(t, 2)
	cmd, lines, stderr := start(t, "--db", db, "log", "--follow", "--since", "7")
	sell := []string{"--db", db, "sell", "--question", "vote", "--epsilon", "1", "--truth", people, "--buyer"}
	var got []string
	for i, buyer := range []string{"acme", "bob"} {
		mustInvoke(t, append(sell, buyer)...)
		last := fmt.Sprintf(" sale=%d buyer=%s ", i+1, buyer)
		for found := false; !found; found = strings.Contains(got[len(got)-1], "object=2 ") && strings.Contains(got[len(got)-1], last) {
			check.Need(t, lines.Scan(), "the log ended after %q, stderr %q", got, stderr)
			if got = append(got, lines.Text()); len(got) > 50 {
				t.Fatalf("the sale to %s is not in %q", buyer, got)
			}
		}
	}
	if all := strings.Join(got, "\n"); !strings.Contains(all, " method=raise ") || !strings.Contains(all, " method=resale ") || !strings.Contains(all, `price="0.50 USD"`) {
		t.Errorf("followed:\n%s", all)
	}
	if code := stopIt(t, cmd, os.Interrupt); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestLogFollow_FileReplaced_EndsInAnIntegrityError(t *testing.T) {
	t.Parallel() // it waits, mostly
	db, _ := newVote(t, 2)
	other, _ := newVote(t, 2)
	cmd, lines, stderr := start(t, "--db", db, "log", "--follow")
	if !lines.Scan() {
		t.Fatal(stderr)
	}
	check.Must(t, os.Rename(other, db))
	for lines.Scan() { // until the process ends
	}
	var failed *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &failed) || failed.ExitCode() != int(output.ExitIntegrity) {
		t.Errorf("%v, stderr %q", err, stderr)
	}
}
