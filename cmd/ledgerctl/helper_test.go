package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// votes returns a CSV file with the votes of n people.
func votes(n int) string {
	var text strings.Builder
	text.WriteString("id,vote\n")
	for id := 1; id <= n; id += 2 {
		fmt.Fprintf(&text, "%d,Y\n%d,N\n", id, id+1)
	}
	return text.String()
}

// invoke runs a command line in this process.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// mustInvoke runs a command line that must succeed without output on stderr.
func mustInvoke(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := invoke(t, args...)
	check.Need(t, code == 0 && stderr == "", "ledgerctl %q: exit code %d, stderr %q", args, code, stderr)
	return stdout
}

// newVote creates a ledger with the question "vote" and n people who sell up to ε=2.
func newVote(t *testing.T, n int) (db, people string) {
	t.Helper()
	return newLedger(t, n, `{"kind":"market","max":"2","price":[["2",100]]}`)
}

// newLedger creates a ledger with the question "vote" and n people under a policy.
func newLedger(t *testing.T, n int, policy string) (db, people string) {
	t.Helper()
	dir := testenv.TempDir(t)
	db, people = filepath.Join(dir, "l.db"), filepath.Join(dir, "people.csv")
	check.Must(t, os.WriteFile(people, []byte(votes(n)), 0o600))
	mustInvoke(t, "--db", db, "init")
	mustInvoke(t, "--db", db, "question", "add", "vote", "--values", "Y,N")
	mustInvoke(t, "--db", db, "enroll", "--question", "vote", "--objects", people, "--policy", policy, "--cap", "1000")
	return db, people
}
