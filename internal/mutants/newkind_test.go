package mutants

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// notedTest is the file with the test of the new kind. It is added to this package.
const notedTest = "internal/mutants/noted_test.go"

// noted returns the files that change when a kind of event is added, with their new content, and
// the test of that kind.
func noted(t *testing.T) map[string]string {
	t.Helper()
	parts := check.Value(txtar.ParseFile(filepath.Join("testdata", "noted.txtar")))(t)
	files := map[string]string{}
	for _, part := range parts.Files {
		file, after, _ := strings.Cut(part.Name, ": ")
		if _, read := files[file]; !read {
			content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			check.Need(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
			files[file] = string(content)
		}
		if after == "" {
			files[file] += string(part.Data)
			continue
		}
		begin, end, found := strings.Cut(files[file], after)
		check.Need(t, found && !strings.Contains(end, after), "%s does not have %q once", file, after)
		rest, end, _ := strings.Cut(end, "\n")
		files[file] = begin + after + rest + "\n" + string(part.Data) + end
	}
	return files
}

// A kind of event, and a request that records it, need changes in at most six files, tests
// excluded.
func TestMutants_NewKindOfEvent_ChangesFewFiles(t *testing.T) {
	files := noted(t)
	check.That(t, len(files) <= 6+1 && files[notedTest] != "", "adding a kind of event changes %d files, the test included", len(files))
}

// The new kind works everywhere: in the log, in JSON, in statements, in an audit, and when its
// object is forgotten.
func TestNewKindOfEvent_IsComplete(t *testing.T) {
	if testenv.Short() {
		t.Skip("slow: it compiles a program, in which the race detector finds nothing")
	}
	files := map[string]string{}
	for file, content := range noted(t) {
		files[filepath.Join(root, filepath.FromSlash(file))] = content
	}
	overlay := check.Value(overlaid(t.TempDir(), files))(t)
	out, err := run(t, overlay, "internal/mutants", "TestNoted", "300s")
	check.That(t, err == nil && !strings.Contains(out, "no tests to run"), "%v\n%s", err, last(out, 3000))
}
