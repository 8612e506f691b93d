package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// size is how large the code is that is no test. Lines are counted that are neither blank nor a comment.
type size struct {
	lines   int
	wide    int            // lines of more than 120 columns, comments too
	folders map[string]int // lines by directory
	dirs    map[string]bool
}

const (
	columns  = 120
	tabWidth = 4
)

// sizeOf measures files, which are paths of Go code.
func sizeOf(t *testing.T, files []string) size {
	t.Helper()
	s := size{folders: map[string]int{}, dirs: map[string]bool{}}
	for _, file := range files {
		s.dirs[filepath.Dir(file)] = true
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines, wide := count(string(text))
		s.lines += lines
		s.wide += wide
		s.folders[filepath.Dir(file)] += lines
	}
	return s
}

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

// The module stays small enough to know. A limit is raised only by a commit that says why.
func TestSize_OfTheModule_IsWithinItsLimits(t *testing.T) {
	const (
		mostLines       = 62_750
		mostInAPackage  = 4_000
		mostDirectories = 80
		mostWideLines   = 0
	)
	s := sizeOf(t, goFiles(t))
	if s.lines > mostLines {
		t.Errorf("%d lines of code; %d are allowed", s.lines, mostLines)
	}
	if len(s.dirs) > mostDirectories {
		t.Errorf("%d directories with Go code; %d are allowed", len(s.dirs), mostDirectories)
	}
	if s.wide > mostWideLines {
		t.Errorf("%d lines have more than %d columns; %d are allowed", s.wide, columns, mostWideLines)
	}
	for dir, n := range s.folders {
		if n > mostInAPackage {
			t.Errorf("%s has %d lines; %d are allowed: a layer of its own belongs in a package of its own", dir, n, mostInAPackage)
		}
	}
	if s.lines < mostLines/2 || len(s.dirs) < mostDirectories/2 {
		t.Errorf("only %d lines in %d directories were found", s.lines, len(s.dirs))
	}
}

func TestCount_CommentsBlanksAndTabs(t *testing.T) {
	text := "package a\n\n// comment\n/* one\n more */\nvar x = 1 // why\n" + strings.Repeat("\t", 30) + "x\n"
	if code, wide := count(text); code != 3 || wide != 1 {
		t.Errorf("%d lines of code, %d wide; want 3 and 1", code, wide)
	}
}
