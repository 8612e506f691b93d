package ledger_test

import (
	"os"
	"strings"
	"testing"
)

// The README shows code that compiles: it is the code of the example, letter for letter.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(readme), "```go\n")
	code, _, closed := strings.Cut(code, "```")
	if !found || !closed || !strings.Contains(string(example), code) {
		t.Errorf("the README's code is not in example_test.go:\n%s", code)
	}
}
