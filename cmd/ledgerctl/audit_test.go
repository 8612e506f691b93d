package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// An audit of a damaged file prints all problems, and ends with an error.
func TestAuditVerify_DamagedFile_ListsProblems(t *testing.T) {
	db, people := newVote(t, 200)
	mustInvoke(t, "--db", db, "sell", "--buyer", "acme", "--question", "vote", "--epsilon", "1", "--truth", people)
	whole, err := os.ReadFile(db)
	check.Must(t, err)
	listed := 0
	for page := 2; page*4096 < len(whole); page += testenv.Tries(5, 1, 1) {
		damaged := bytes.Clone(whole)
		for i := range 16 {
			damaged[page*4096+64+i*251] ^= byte(i + 1)
		}
		check.Must(t, os.WriteFile(db, damaged, 0o600))
		code, stdout, stderr := invoke(t, "--db", db, "audit", "verify", "--json")
		if code == int(output.ExitDone) || stdout == "" {
			continue // an unused page, or one without which the ledger cannot be opened
		}
		listed++
		var found struct {
			OK       bool
			Problems []struct{ Kind, Text string }
		}
		check.Must(t, json.Unmarshal([]byte(stdout), &found))
		if code != int(output.ExitIntegrity) || found.OK || len(found.Problems) == 0 || found.Problems[0].Kind == "" || found.Problems[0].Text == "" {
			t.Errorf("page %d damaged: exit code %d, %s", page, code, stdout)
		}
		if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, `"kind":"problems"`) {
			t.Errorf("page %d damaged: stderr %q", page, stderr)
		}
		_, table, _ := invoke(t, "--db", db, "audit", "verify")
		_, lines, _ := strings.Cut(table, "\nPROBLEM ")
		if rows := regexp.MustCompile(`(?m)^\w`).FindAllString(lines, -1); len(rows) != len(found.Problems) { // each begins with its kind
			t.Errorf("page %d damaged: %d problems in\n%s", page, len(found.Problems), table)
		}
	}
	check.That(t, listed != 0, "no damage was listed")
}
