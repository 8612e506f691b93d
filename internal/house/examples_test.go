package house

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluicedp/sluice/internal/check"
)

// An example is read from top to bottom: it is one short program with a test, and is named in
// README.md and in .ci/run.
func TestExamples_AreShort(t *testing.T) {
	const most = 150 // lines of Go in an example, but for its tests
	all := os.DirFS(filepath.Join(root(), "examples"))
	folders, err := fs.ReadDir(all, ".")
	check.Must(t, err)
	readme, ci := read(t, all, "README.md"), read(t, os.DirFS(root()), ".ci/run")
	programs := 0
	for _, folder := range folders {
		if !folder.IsDir() || folder.Name() == "internal" {
			continue
		}
		name := folder.Name()
		programs++
		if lines, tests := measure(t, check.Value(fs.Sub(all, name))(t)); lines > most || lines == 0 || tests == 0 {
			t.Errorf("%s: %d lines, of at most %d, and %d files of tests", name, lines, most, tests)
		}
		for file, text := range map[string]string{"examples/README.md": readme, ".ci/run": ci} {
			if !strings.Contains(text, "go run ./examples/"+name) {
				t.Errorf("%s does not run examples/%s", file, name)
			}
		}
	}
	if programs < 5 {
		t.Errorf("%d examples", programs)
	}
}

// measure returns how many lines of Go an example has, in all folders and but for tests, and how
// many files of tests.
func measure(t *testing.T, example fs.FS) (lines, tests int) {
	t.Helper()
	err := fs.WalkDir(example, ".", func(at string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil || path.Ext(at) != ".go":
			return err
		case strings.HasSuffix(at, "_test.go"):
			tests++
		default:
			lines += strings.Count(read(t, example, at), "\n")
		}
		return nil
	})
	check.Must(t, err)
	return lines, tests
}

// All folders of an example count, and its tests do not.
func TestMeasure_AllFolders_WithoutTests(t *testing.T) {
	lines, tests := measure(t, fstest.MapFS{
		"main.go": {Data: []byte("package main\n\nfunc main() {}\n")}, "data/data.go": {Data: []byte("package data\n")},
		"main_test.go": {Data: []byte("package main\n")}, "data/table.csv": {Data: []byte("1\n2\n")},
	})
	if lines != 4 || tests != 1 {
		t.Errorf("%d lines, %d files of tests", lines, tests)
	}
}

func read(t *testing.T, from fs.FS, name string) string {
	t.Helper()
	text, err := fs.ReadFile(from, name)
	check.Must(t, err)
	return string(text)
}
