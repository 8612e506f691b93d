package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

// A copy that is interrupted by Ctrl-C, which ends the context, leaves no file.
func TestBackup_Interrupted_LeavesNoFile(t *testing.T) {
	db, _ := newVote(t, 2)
	before, err := os.ReadFile(db)
	check.Must(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, args := range [][]string{{"backup"}, {"compact"}} {
		dir := t.TempDir()
		a := newApp(strings.NewReader(""), io.Discard, io.Discard)
		root := a.rootCommand()
		root.SetArgs(append(args, "--db", db, filepath.Join(dir, "copy.db")))
		f, code := output.Explain(root.ExecuteContext(ended))
		check.That(t, f.Kind == "interrupted" && code == output.ExitUnexpected, "%q: %+v, code %d", args, f, code)
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%q leaves %v, %v", args, files, err)
		}
	}
	if after, err := os.ReadFile(db); err != nil || !bytes.Equal(before, after) {
		t.Error("the ledger has changed", err)
	}
}
