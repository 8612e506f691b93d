package output

import (
	"bytes"
	"os"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestLinesOf_LongLines_CountAsSeveral(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "\n": 1, "a\n": 1, "a": 1, "aaaa\nb\n": 2, "aaaaa\n": 2, "aaaaaaaa\n": 2, "aaaaaaaaa\n": 3, "εεεε\n": 1, "\n\n": 2,
	} {
		if got := linesOf(text, 4); got != want {
			t.Errorf("%q: %d lines, want %d", text, got, want)
		}
	}
}

// A table of any length is written without a pager if standard output is not a terminal.
func TestShow_File_HasNoPager(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	check.Must(t, err)
	text := bytes.Repeat([]byte("a line\n"), 10_000)
	p := Printer{Stdout: file, Pager: "true"}
	check.Must(t, p.show(text))
	got, err := os.ReadFile(file.Name())
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	check.Must(t, file.Close())
}
