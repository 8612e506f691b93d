package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// commands returns all commands of the program, by their names.
func commands() map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() {
			all[strings.TrimPrefix(cmd.CommandPath(), "ledgerctl ")] = cmd
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newApp(nil, nil, nil).rootCommand())
	return all
}

// eachFlag calls do for all flags of a command, including the global ones.
func eachFlag(cmd *cobra.Command, do func(*pflag.Flag)) {
	cmd.LocalFlags().VisitAll(do)
	cmd.InheritedFlags().VisitAll(do)
}

// The file of a flag that is not marked could be overwritten.
func TestFlags_NamingFiles_AreMarked(t *testing.T) {
	marked := 0
	for name, cmd := range commands() {
		eachFlag(cmd, func(f *pflag.Flag) {
			if f.Annotations[input.FileNote] != nil {
				marked++
			} else if strings.Contains(f.Usage, "FILE") && f.Name != "db" {
				t.Errorf("%s --%s names files and is not marked: %s", name, f.Name, f.Usage)
			}
		})
		if arguments := strings.Contains(strings.SplitN(cmd.Use, " --", 2)[0], "FILE"); arguments != (cmd.Annotations[input.FileNote] != "") {
			t.Errorf("%s: arguments are files: %v", name, arguments)
		}
	}
	check.That(t, marked >= 100, "%d flags are marked", marked)
}

// use is a way in which a command line names a file.
type use struct {
	by   string
	args func(path string) []string
}

// uses returns the ways in which a command names the files that it reads, and those that it writes.
func uses(cmd *cobra.Command) map[input.Role][]use {
	all := map[input.Role][]use{input.Reads: {{"--db", func(path string) []string { return []string{"--db", path} }}}}
	eachFlag(cmd, func(f *pflag.Flag) {
		if note := f.Annotations[input.FileNote]; note != nil {
			prefix := map[string]string{string(input.ByName): "", string(input.AtName): "@", string(input.Labeled): "n="}[note[1]]
			all[input.Role(note[0])] = append(all[input.Role(note[0])], use{"--" + f.Name, func(path string) []string { return []string{"--" + f.Name, prefix + path} }})
		}
	})
	if r := input.Role(cmd.Annotations[input.FileNote]); r != "" {
		all[r] = append(all[r], use{"FILE", func(path string) []string { return []string{path} }})
	}
	return all
}

// No command writes a file that it reads, or two results to one file, under any names.
func TestCommands_OutputIsAnInput_AreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"file", "a/file", "b/x"} {
		check.Must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		check.Must(t, os.WriteFile(name, []byte("precious"), 0o600))
	}
	for name, target := range map[string]string{"link": "file", "dangling": "new", "c": "a", "twice": "dangling"} {
		if err := os.Symlink(target, name); err != nil {
			testenv.Unsupported(t, err.Error())
		}
	}
	if err := os.Link("file", "hard"); err != nil {
		testenv.Unsupported(t, err.Error())
	}
	whole, err := filepath.Abs("file")
	check.Must(t, err)
	names := [][2]string{
		{"file", "file"}, {"file", "./a/../file"}, {"file", whole}, {"file", "link"}, {"link", "file"}, {"file", "hard"}, {"a/file", "c/file"},
		{"new", "new"}, {"a/new", "c/new"}, {"new", "dangling"}, {"twice", "new"}, {"nowhere/new", "nowhere/./new"},
	}
	tried := 0
	for name, cmd := range commands() {
		uses := uses(cmd)
		for i, out := range uses[input.Writes] {
			for _, in := range append(uses[input.Reads], uses[input.Writes][:i]...) {
				for _, paths := range names {
					tried++
					checkRefused(t, cmd, name, out, in, paths)
				}
			}
		}
	}
	check.That(t, tried >= 500, "%d command lines were tried", tried)
	for _, name := range []string{"file", "a/file", "hard"} {
		if text, err := os.ReadFile(name); err != nil || string(text) != "precious" {
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
}

func checkRefused(t *testing.T, cmd *cobra.Command, name string, out, in use, paths [2]string) {
	t.Helper()
	args := append(strings.Fields(name), append(out.args(paths[0]), in.args(paths[1])...)...)
	if cmd.Args != nil && out.by != "FILE" && cmd.Args(cmd, nil) != nil {
		args = append(args, "7")
	}
	code, stdout, stderr := invoke(t, args...)
	if code != int(output.ExitMisuse) || stdout != "" || !strings.Contains(stderr, "would overwrite") && !strings.Contains(stderr, "name one file") {
		t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
	}
}

// Standard input and output may be files as well.
func TestCommands_RedirectedStreams_InputIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.csv")
	check.Must(t, os.WriteFile(path, []byte("precious"), 0o600))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	check.Must(t, err)
	defer file.Close()
	order := []string{"--db", filepath.Join(t.TempDir(), "l.db"), "raise", "--question", "vote", "--to", "1", "--truth"}
	var stdout, stderr bytes.Buffer
	if code := run(append(order, "-", "--out", path), file, &stdout, &stderr); code != int(output.ExitMisuse) || !strings.Contains(stderr.String(), "would overwrite") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	stderr.Reset()
	if code := run(append(order, path), strings.NewReader(""), file, &stderr); code != int(output.ExitMisuse) || !strings.Contains(stderr.String(), "would overwrite") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
}

// An interrupted init leaves neither a ledger nor a signing key.
func TestCreateLedger_Interrupted_LeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := createLedger(ctx, filepath.Join(dir, "l.db"), "USD", filepath.Join(dir, "l.key"))
	check.Is(t, err, context.Canceled)
	left, err := os.ReadDir(dir)
	check.That(t, err == nil && len(left) == 0, "%v, %v", left, err)
}
