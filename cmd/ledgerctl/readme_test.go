package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A stranger copies the commands of the README into a shell, in their order.
func TestReadmeRunsAsItStands(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Run it by hand\n")
	section, _, ended := strings.Cut(section, "\n## ")
	lines := regexp.MustCompile(`(?m)^    .*\n`).FindAllString(section, -1)
	if !found || !ended || len(lines) < 20 {
		t.Fatalf("%d lines to run", len(lines))
	}
	shell := exec.CommandContext(t.Context(), "sh", "-eux")
	shell.Dir, shell.Stdin = t.TempDir(), strings.NewReader(strings.Join(lines, ""))
	shell.Env = append(os.Environ(), "GORACE="+quickExit, "LEDGER_DB=", "LOG_KEY=")
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "warning") {
		t.Errorf("%s", out)
	}
	for _, name := range []string{"answers.csv", "bought.csv", "receipt.json", "statement.json", "smoker.svg", "rainbow.svg"} {
		if _, err := os.Stat(filepath.Join(shell.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}
