// Package docs_test runs what the documentation shows.
//
// A page is Markdown with fenced blocks. The language of a block decides what is done with it:
//
//	sh    commands. All of a page run in one shell, in their order, in an empty folder
//	go    a whole program, compiled and run, or a literal piece of a Go file of the module
//	text  directly after one of them: its output; … matches any text, alone on a line any lines
//	json  JSON; an object with a "kind" is a policy
//
// A comment in the line before a block changes that: with "<!-- in a clone -->" the block runs
// in the top folder of the repository, with "<!-- not run: REASON -->" it does not run.
package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/policy"
)

// maxNotRun is the number of blocks that may be left unrun. Each states its reason.
const maxNotRun = 8

// block is a fenced block of a page.
type block struct {
	line int    // of its fence
	lang string // what the fence says
	mark string // the comment before it
	text string
	out  string // what it prints, if the page says so
}

func (b block) notRun() bool  { return strings.HasPrefix(b.mark, "not run: ") }
func (b block) inClone() bool { return b.mark == "in a clone" }
func (b block) program() bool { return b.lang == "go" && strings.Contains(b.text, "\npackage main\n") }

// root is the top folder of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// pages returns the text of every page, by its path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(path string) {
		text, err := os.ReadFile(filepath.Join(root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(text)
	}
	for _, path := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "examples/README.md"} {
		add(path)
	}
	err := fs.WalkDir(os.DirFS(root(t)), "docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			add(path)
		}
		return err
	})
	if err != nil || len(found) < 15 {
		t.Fatalf("%d pages: %v", len(found), err)
	}
	return found
}

var (
	comment  = regexp.MustCompile(`^<!-- (.*) -->$`)
	indented = regexp.MustCompile(`^(    |\t)`)
)

// blocks returns the blocks of a page, and the faults in their format.
func blocks(page string) (found []block, faults []string) {
	var open *block
	before := "" // the last line that is not empty
	for i, line := range strings.Split(page, "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &block{line: i + 1, lang: line[3:], text: "\n"}
			if mark := comment.FindStringSubmatch(before); mark != nil {
				open.mark = mark[1]
			}
			open.out = before
		case open != nil && line == "```":
			found = closed(found, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case indented.MatchString(line) && strings.TrimSpace(before) != "" && !continues(before):
			faults = append(faults, fmt.Sprintf("line %d: a block that is indented: fence it, and say what it is", i+1))
		}
		if strings.TrimSpace(line) != "" {
			before = line
		}
	}
	if open != nil {
		faults = append(faults, fmt.Sprintf("line %d: a block without an end", open.line))
	}
	return found, faults
}

// continues reports whether an indented line after this one continues a list.
func continues(line string) bool {
	return strings.HasPrefix(strings.TrimLeft(line, " "), "- ") || indented.MatchString(line) || regexp.MustCompile(`^\d+\. `).MatchString(line)
}

// closed adds a block; a text block directly after commands or a program is their output.
func closed(found []block, b block) []block {
	directly := b.out == "```" && len(found) > 0
	b.out = ""
	if last := len(found) - 1; directly && b.lang == "text" && (found[last].lang == "sh" || found[last].program()) {
		found[last].out = b.text
		return found
	}
	return append(found, b)
}

func TestPages_EachBlock_HasAKnownLanguageAndMark(t *testing.T) {
	notRun := 0
	for path, page := range pages(t) {
		all, faults := blocks(page)
		for _, fault := range faults {
			t.Errorf("%s: %s", path, fault)
		}
		for _, b := range all {
			if !slices.Contains([]string{"sh", "go", "text", "json", "mermaid"}, b.lang) {
				t.Errorf("%s: line %d: a block of language %q", path, b.line, b.lang)
			}
			if b.notRun() {
				notRun++
			} else if b.mark != "" && !b.inClone() && b.lang == "sh" {
				t.Errorf("%s: line %d: unknown mark %q", path, b.line, b.mark)
			}
		}
	}
	if notRun > maxNotRun {
		t.Errorf("%d blocks are not run; %d may be", notRun, maxNotRun)
	}
}

// built is the folder with the command, once there is one.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// tools makes a folder with the command, built once.
func tools(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		testenv.Unsupported(t, err.Error())
	}
	if built != "" {
		return built
	}
	dir, err := os.MkdirTemp("", "sluice-test-")
	if err != nil {
		t.Fatal(err)
	}
	built = dir
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "ledgerctl"), "./cmd/ledgerctl")
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// environment has the command in its path, and none of the variables that name a ledger.
func environment(bin string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LEDGER_") || strings.HasPrefix(v, "LOG_KEY=") })
	return append(env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// border separates the output of two blocks.
const border = "--- the next block ---"

// The commands of a page run in a shell, in their order. In the quick form it is the README, and
// every fifth of the other pages.
func TestPages_ShellCommands_PrintWhatThePageShows(t *testing.T) {
	bin, pages := tools(t), pages(t)
	step := testenv.Tries(5, 1, 1)
	next := rand.IntN(step)
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		all, _ := blocks(pages[path])
		all = slices.DeleteFunc(all, func(b block) bool { return b.lang != "sh" || b.notRun() })
		if len(all) == 0 {
			continue
		}
		if next++; path == "README.md" || next%step == 0 {
			t.Run(path, func(t *testing.T) {
				if path == "examples/README.md" && (testenv.Short() || !testenv.Deep()) {
					t.Skip("the examples take a minute: they run with SLUICE_DEEP=1, and each in tests of its own")
				}
				t.Parallel()
				runCommands(t, bin, all)
			})
		}
	}
}

func runCommands(t *testing.T, bin string, all []block) {
	var script strings.Builder
	for _, b := range all {
		if b.inClone() {
			fmt.Fprintf(&script, "(cd %q\n%s)", root(t), b.text)
		} else {
			script.WriteString(b.text)
		}
		fmt.Fprintf(&script, "\necho %q\n", border)
	}
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "page.sh")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-eux", file)
	shell.Dir, shell.Env = dir, environment(bin)
	var out, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &stderr
	if err := shell.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stderr.String(), out.String())
	}
	if strings.Contains(stderr.String(), "warning") {
		t.Errorf("%s", stderr.String())
	}
	for i, printed := range strings.Split(strings.TrimSuffix(out.String(), border+"\n"), border+"\n") {
		if !prints(all[i].out, printed) {
			t.Errorf("line %d: the page says that this prints%s\nbut it prints\n%s", all[i].line, all[i].out, printed)
		}
	}
}

// prints reports whether the output is what the page shows, which may be nothing.
func prints(says, printed string) bool {
	if says == "" {
		return true
	}
	var pattern strings.Builder
	for _, line := range words(says) {
		if line == "…" {
			pattern.WriteString(`(.*\n)*`)
		} else {
			pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
		}
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(strings.Join(words(printed), "\n") + "\n")
}

// words returns the lines of a text without the space that only aligns it.
func words(text string) []string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return lines
}

func TestPrints_TextWithGaps_MatchesOutput(t *testing.T) {
	for _, test := range []struct {
		says, printed string
		want          bool
	}{
		{"", "anything\n", true},
		{"\na b\n", "a b\n", true},
		{"\na b\n", "a c\n", false},
		{"\na b\n", "a b\nmore\n", false},
		{"\na …\n", "a c d\n", true},
		{"\n…\nz\n", "a\nb\nz\n", true},
		{"\n  a\n", "a  \n\n", true},
		{"\n1 (USD)\n", "1 (USD)\n", true},
	} {
		if prints(test.says, test.printed) != test.want {
			t.Errorf("%q, %q: not %v", test.says, test.printed, test.want)
		}
	}
}

// Whole programs compile and run. A piece of a program is in a file that is compiled.
func TestPages_GoPrograms_CompileAndRun(t *testing.T) {
	programs := 0
	for path, page := range pages(t) {
		all, _ := blocks(page)
		for _, b := range all {
			switch {
			case b.program():
				programs++
				t.Run(fmt.Sprintf("%s line %d", path, b.line), func(t *testing.T) { runProgram(t, b) })
			case b.lang == "go" && !inSource(t, b.text[1:]):
				t.Errorf("%s: line %d: this is in no Go file:\n%s", path, b.line, b.text)
			}
		}
	}
	if programs == 0 {
		t.Error("no program")
	}
}

func runProgram(t *testing.T, b block) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(b.text[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, source)
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program)
	run.Dir = t.TempDir()
	out, err := run.CombinedOutput()
	if err != nil || !prints(b.out, string(out)) {
		t.Errorf("%v: it prints\n%s", err, out)
	}
}

// inSource reports whether a Go file of the repository has this piece.
func inSource(t *testing.T, piece string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(root(t), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		found = found || bytes.Contains(text, []byte(piece))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPages_JSON_IsValid(t *testing.T) {
	for path, page := range pages(t) {
		all, _ := blocks(page)
		for _, b := range all {
			if b.lang != "json" {
				continue
			}
			for decoder := json.NewDecoder(strings.NewReader(b.text)); decoder.More(); {
				if err := checkJSON(decoder); err != nil {
					t.Errorf("%s: line %d: %v", path, b.line, err)
					break
				}
			}
		}
	}
}

// checkJSON reads the next value; if it is a policy, its package has to accept it.
func checkJSON(decoder *json.Decoder) error {
	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	var object struct{ Kind string }
	if json.Unmarshal(value, &object) != nil || object.Kind == "" {
		return nil
	}
	var p policy.Policy
	return json.Unmarshal(value, &p)
}
