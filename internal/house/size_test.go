package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicedp/sluice/internal/check"
)

const (
	columns  = 120
	tabWidth = 4
)

// count returns how many lines of a text are code, and how many lines are too wide.
func count(text string) (code, wide int) {
	inComment := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if width(line) > columns {
			wide++
		}
		line = strings.TrimSpace(line)
		switch {
		case inComment:
			inComment = !strings.Contains(line, "*/")
		case line == "", strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, "/*"):
			inComment = !strings.Contains(line, "*/")
		default:
			code++
		}
	}
	return code, wide
}

// width returns how many columns a line takes.
func width(line string) int {
	tabs := strings.Count(line, "\t")
	return utf8.RuneCountInString(line) + tabs*(tabWidth-1)
}

// The module stays small enough to know. Lines count that are neither blank nor a comment. A limit
// is raised only by a commit that says why.
func TestSize_OfTheModule_IsWithinItsLimits(t *testing.T) {
	const mostInAPackage = 4_000
	code, tests, wide := 0, 0, 0
	packages := map[string]int{} // lines that are no tests
	for _, f := range goFiles(t) {
		text := check.Value(os.ReadFile(filepath.Join(root(), filepath.FromSlash(f.path))))(t)
		lines, wider := count(string(text))
		if f.isTest {
			tests += lines
			lines, wider = 0, 0
		}
		code += lines
		wide += wider
		if packages[f.pkg] += lines; packages[f.pkg] > mostInAPackage {
			t.Errorf("%s has %d lines; %d are allowed: a layer of its own belongs in a package of its own", f.pkg, packages[f.pkg], mostInAPackage)
		}
	}
	command := 0
	for pkg, lines := range packages {
		if strings.HasPrefix(pkg, "cmd/ledgerctl") {
			command += lines
		}
	}
	for _, c := range []struct {
		what      string
		got, most int
	}{
		{"lines of code", code, 61_840},
		{"lines of code of the command, with its internals", command, 7_615},
		{"lines of tests", tests, 96_815},
		{"directories with Go code", len(packages), 78},
		{"lines of code with more than 120 columns", wide, 0},
	} {
		check.That(t, c.got <= c.most, "%d %s; %d are allowed", c.got, c.what, c.most)
		check.That(t, c.got >= c.most/2, "only %d %s were found", c.got, c.what)
	}
}

func TestCount_CommentsBlanksAndTabs(t *testing.T) {
	text := "package a\n\n// comment\n/* one\n more */\nvar x = 1 // why\n" + strings.Repeat("\t", 30) + "x\n"
	code, wide := count(text)
	check.That(t, code == 3 && wide == 1, "%d lines of code, %d wide; want 3 and 1", code, wide)
}
