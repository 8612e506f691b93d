package input

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

func TestCheckNamed_DifferentFiles_AreAllowed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a", "b"} {
		check.Must(t, os.Mkdir(dir, 0o700))
	}
	check.Must(t, os.WriteFile("a/there", nil, 0o600))
	for _, names := range [][2]string{{"a/new", "b/new"}, {"a/there", "a/new"}, {"a/there", "b/there"}, {"a/new", ""}, {"no/new", "nor/new"}} {
		a := &Files{Out: &output.Printer{}, named: []Named{{By: "--truth", Path: names[1], Role: Reads}}}
		check.OK(t, a.checkNamed("--out", names[0]))
	}
}

// Some editors begin a text file with a byte order mark, which is not part of the text.
func TestText_ByteOrderMark_IsSkipped(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "\ufeff": "", "\ufeffa": "a", "\ufeff\ufeffa": "\ufeffa", "a\ufeff": "a\ufeff", "\xef\xbb": "\xef\xbb", "\xef\xbbab": "\xef\xbbab",
	} {
		for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := io.ReadAll(Text(in)); string(got) != want || err != nil {
				t.Errorf("%+q is read as %+q, %v; want %+q", text, got, err, want)
			}
		}
		path := filepath.Join(t.TempDir(), "f")
		check.Must(t, os.WriteFile(path, []byte(text), 0o600))
		s := &Files{Out: &output.Printer{}}
		if got, err := s.TextOrFile(t.Context(), "@"+path, 100); string(got) != want || err != nil {
			t.Errorf("%+q in a file is read as %+q, %v; want %+q", text, got, err, want)
		}
		if got, err := s.Bytes(t.Context(), path, 100); string(got) != text || err != nil {
			t.Errorf("the bytes of %+q are %+q, %v", text, got, err)
		}
	}
}
