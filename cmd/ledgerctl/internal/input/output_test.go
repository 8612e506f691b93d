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

// A file of results is there whole or not at all, and keeps its mode.
func TestOutput_FailedOrSaved_IsWholeOrUnchanged(t *testing.T) {
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

// Standard output can be one file, which stands there in place of the result.
func TestOutput_StandardOutput_IsOneFileOnly(t *testing.T) {
	var stdout bytes.Buffer
	s := &Files{Out: &output.Printer{Stdout: &stdout}}
	out := &Output{Path: "-"}
	check.Must(t, s.begin(out))
	if err := s.begin(&Output{Path: "-"}); err == nil {
		t.Error("it is two files")
	}
	if err := out.Save(func(w io.Writer) error { _, err := io.WriteString(w, "receipt"); return err }); err != nil || stdout.String() != "receipt" || !s.Out.Taken {
		t.Errorf("%q, %v", &stdout, err)
	}
	out.Discard()
}

// Nobody is told of the temporary file, whose name was never given.
func TestOutput_NoDirectory_ErrorNamesIt(t *testing.T) {
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
