package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// On all pages of the repository, every link to a page has a file, and its heading exists.
func TestPages_EachLink_HasATarget(t *testing.T) {
	for path, page := range everyPage(t) {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
			if target := match[1]; !strings.Contains(target, "://") {
				checkLink(t, path, target)
			}
		}
	}
}

// Each document is listed in the index.
func TestIndex_HasEachDocument(t *testing.T) {
	all := pages(t)
	for path := range all {
		name, below := strings.CutPrefix(path, "docs/")
		if below && name != "README.md" && !strings.Contains(all["docs/README.md"], "]("+name+")") {
			t.Errorf("docs/README.md does not list %s", path)
		}
	}
}

// everyPage returns the text of every Markdown file, by its path in the repository. Packages that
// npm fetches for an example are left out.
func everyPage(t *testing.T) map[string]string {
	t.Helper()
	files := os.DirFS(root(t))
	found := map[string]string{}
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := fs.ReadFile(files, path)
		found[path] = string(text)
		return err
	})
	if err != nil || found["testdata/README.md"] == "" {
		t.Fatalf("%d pages: %v", len(found), err)
	}
	return found
}

func checkLink(t *testing.T, from, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	path := filepath.Join(root(t), from)
	if file != "" {
		path = filepath.Join(filepath.Dir(path), file)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s: %s: %v", from, target, err)
		return
	}
	if anchor == "" {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil || !slices.Contains(anchors(string(text)), anchor) {
		t.Errorf("%s: %s: no such heading (%v)", from, target, err)
	}
}

// anchors returns the names of a page's headings in links.
func anchors(page string) (found []string) {
	for line := range strings.Lines(fenced.ReplaceAllString(page, "")) {
		if match := heading.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			found = append(found, anchorOf(match[1]))
		}
	}
	return found
}

func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}
