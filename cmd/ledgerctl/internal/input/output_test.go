package input

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

// A file of results is replaced completely or not at all, and keeps its mode.
func TestOutput_FailedOrSaved_IsUnchangedOrComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	check.Must(t, os.WriteFile(path, []byte("before"), 0o644))
	s := &Files{Out: &output.Printer{}}
	failed := errors.New("the draw failed")
	for _, test := range []struct {
		err  error
		want string
	}{{failed, "before"}, {nil, "after"}} {
		out := &Output{Path: path}
		check.Must(t, s.begin(out))
		err := out.Save(func(w io.Writer) error {
			_, err := io.WriteString(w, "after")
			return errors.Join(err, test.err)
		})
		out.Discard()
		check.That(t, errors.Is(err, test.err), "error %v, want %v", err, test.err)
		if text, err := os.ReadFile(path); err != nil || string(text) != test.want {
			t.Errorf("the file holds %q, %v; want %q", text, err, test.want)
		}
		if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
			t.Errorf("there are %v, %v", all, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// Standard output can be the file of one flag only. The result is then not printed.
func TestOutput_StandardOutput_IsUsedOnce(t *testing.T) {
	var stdout bytes.Buffer
	s := &Files{Out: &output.Printer{Stdout: &stdout}}
	out := &Output{Path: "-"}
	check.Must(t, s.begin(out))
	if err := s.begin(&Output{Path: "-"}); err == nil {
		t.Error("standard output is the file of two flags")
	}
	if err := out.Save(func(w io.Writer) error { _, err := io.WriteString(w, "receipt"); return err }); err != nil || stdout.String() != "receipt" || !s.Out.Taken {
		t.Errorf("%q, %v", &stdout, err)
	}
	out.Discard()
}

// Errors contain the path in the flag, not the name of the temporary file.
func TestOutput_MissingDirectory_ErrorNamesTheDirectory(t *testing.T) {
	s := &Files{Out: &output.Printer{}}
	err := s.begin(&Output{Path: "nodir/x.csv", by: "out"})
	if want := `--out: there is no directory "nodir"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	err = s.begin(&Output{Path: "output.go/x.csv", by: "out"})
	if want := `--out: "output.go/x.csv" cannot be written: `; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), ".x.csv.") {
		t.Errorf("%v, want %s", err, want)
	}
}
