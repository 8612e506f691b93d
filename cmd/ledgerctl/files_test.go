package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	walk((&app{}).rootCommand())
	return all
}

// eachFlag calls do for all flags of a command, those of all commands among them.
func eachFlag(cmd *cobra.Command, do func(*pflag.Flag)) {
	cmd.LocalFlags().VisitAll(do)
	cmd.InheritedFlags().VisitAll(do)
}

// A flag that is not marked would be overwritten.
func TestFlagsThatNameFilesAreMarked(t *testing.T) {
	marked := 0
	for name, cmd := range commands() {
		eachFlag(cmd, func(f *pflag.Flag) {
			if f.Annotations[fileNote] != nil {
				marked++
			} else if strings.Contains(f.Usage, "FILE") && f.Name != "db" {
				t.Errorf("%s --%s names files and is not marked: %s", name, f.Name, f.Usage)
			}
		})
		if arguments := strings.Contains(strings.SplitN(cmd.Use, " --", 2)[0], "FILE"); arguments != (cmd.Annotations[fileNote] != "") {
			t.Errorf("%s: arguments are files: %v", name, arguments)
		}
	}
	if marked < 100 {
		t.Errorf("%d flags are marked", marked)
	}
}

// use is a way in which a command line names a file.
type use struct {
	by   string
	args func(path string) []string
}

// uses returns the ways in which a command names the files that it reads, and those that it writes.
func uses(cmd *cobra.Command) map[role][]use {
	all := map[role][]use{reads: {{"--db", func(path string) []string { return []string{"--db", path} }}}}
	eachFlag(cmd, func(f *pflag.Flag) {
		if note := f.Annotations[fileNote]; note != nil {
			prefix := map[string]string{string(byName): "", string(behind): "@", string(labeled): "n="}[note[1]]
			all[role(note[0])] = append(all[role(note[0])], use{"--" + f.Name, func(path string) []string { return []string{"--" + f.Name, prefix + path} }})
		}
	})
	if r := role(cmd.Annotations[fileNote]); r != "" {
		all[r] = append(all[r], use{"FILE", func(path string) []string { return []string{path} }})
	}
	return all
}

// No command writes a file that it reads, or two results into one, by whatever names.
func TestNoCommandWritesWhatItReads(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"file", "a/file", "b/x"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": "file", "dangling": "new", "c": "a", "twice": "dangling"} {
		if err := os.Symlink(target, name); err != nil {
			t.Skip(err)
		}
	}
	if err := os.Link("file", "hard"); err != nil {
		t.Skip(err)
	}
	whole, err := filepath.Abs("file")
	if err != nil {
		t.Fatal(err)
	}
	names := [][2]string{
		{"file", "file"}, {"file", "./a/../file"}, {"file", whole}, {"file", "link"}, {"link", "file"}, {"file", "hard"}, {"a/file", "c/file"},
		{"new", "new"}, {"a/new", "c/new"}, {"new", "dangling"}, {"twice", "new"}, {"nowhere/new", "nowhere/./new"},
	}
	tried := 0
	for name, cmd := range commands() {
		uses := uses(cmd)
		for i, out := range uses[writes] {
			for _, in := range append(uses[reads], uses[writes][:i]...) {
				for _, paths := range names {
					tried++
					checkRefused(t, cmd, name, out, in, paths)
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("%d command lines were tried", tried)
	}
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
	if code != int(exitUsage) || stdout != "" || !strings.Contains(stderr, "would overwrite") {
		t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
	}
}

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
		a := &app{files: []namedFile{{"--truth", names[1], reads}}}
		if err := a.checkWritten("--out", names[0]); err != nil {
			t.Error(err)
		}
	}
}

// Standard input and output may be files as well.
func TestStandardStreamsAreFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	order := []string{"--db", filepath.Join(t.TempDir(), "l.db"), "raise", "--question", "vote", "--to", "1", "--truth"}
	var stdout, stderr bytes.Buffer
	if code := run(append(order, "-", "--out", path), file, &stdout, &stderr); code != int(exitUsage) || !strings.Contains(stderr.String(), "would overwrite") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	stderr.Reset()
	if code := run(append(order, path), strings.NewReader(""), file, &stderr); code != int(exitUsage) || !strings.Contains(stderr.String(), "would overwrite") {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
}
