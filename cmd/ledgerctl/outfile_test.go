package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSameFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("a/there", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	links := os.Symlink("a", "link") == nil
	whole, err := filepath.Abs("a/new")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		one, other string
		want       bool
	}{
		{"a/new", "a/new", true}, {"a/new", "./a/../a/new", true}, {"a/new", whole, true}, {"a/new", "b/new", false},
		{"a/there", "a/there", true}, {"a/there", "a/new", false}, {"nowhere/new", "nowhere/new", true}, {"", "", false}, {"a/new", "", false},
		{"a/new", "link/new", links}, {"a/there", "link/there", links},
	} {
		if got := sameFile(test.one, test.other); got != test.want {
			t.Errorf("sameFile(%q, %q) = %v", test.one, test.other, got)
		}
	}
}
