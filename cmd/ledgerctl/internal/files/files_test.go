package files

import (
	"os"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

func TestFilesApartAreWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("a/there", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][2]string{{"a/new", "b/new"}, {"a/there", "a/new"}, {"a/there", "b/there"}, {"a/new", ""}, {"no/new", "nor/new"}} {
		a := &Files{Out: &output.Printer{}, named: []Named{{By: "--truth", Path: names[1], Role: Reads}}}
		if err := a.checkNamed("--out", names[0]); err != nil {
			t.Error(err)
		}
	}
}
