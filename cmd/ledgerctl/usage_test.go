package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"--json bogus": true, "bogus --json": true, "--json=true x": true, "x": false, "show -- --json": false, "": false,
	} {
		if got := wantsJSON(strings.Fields(line)); got != want {
			t.Errorf("wantsJSON(%q) = %v", line, got)
		}
	}
}

// Every command stands in the reference, and every one there exists.
func TestReferenceHasEveryCommand(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z][a-z -]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed[match[1]] = true
	}
	for name, cmd := range commands() {
		if cmd.HasSubCommands() || name == "help" {
			continue // they only say what else is to be typed
		}
		if !listed[name] {
			t.Errorf("commands.md has no %q", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("there is no command %q", name)
	}
}

// Every command has its help, and every section of the text is that of a command, or a part of one.
func TestHelpHasEveryCommand(t *testing.T) {
	all := sections(helpText)
	for name, cmd := range commands() {
		if cmd.Name() == "help" {
			continue
		}
		if cmd.Short == "" || strings.Contains(cmd.Long, "{") && !strings.Contains(cmd.Long, `{"`) {
			t.Errorf("%s: %q, %q", name, cmd.Short, cmd.Long)
		}
		delete(all, cmd.CommandPath())
	}
	for name := range all {
		if strings.Count(helpText, name) < 2 || !strings.HasPrefix(name, "{") {
			t.Errorf("no command has the help of %q", name)
		}
	}
}
