package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The README is read before anything else, and the package documentation by whoever embeds the ledger: both are short.
func TestFirstPagesAreShort(t *testing.T) {
	readme := pages(t)["README.md"]
	if n := strings.Count(readme, "\n"); n > 150 {
		t.Errorf("README.md has %d lines; it may have 150", n)
	}
	if all, _ := blocks(readme); len(all) == 0 || !all[0].program() {
		t.Error("the first block of README.md is no whole program")
	}
	text, err := os.ReadFile(filepath.Join(root(t), "ledger", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 91 {
		t.Errorf("ledger/doc.go has %d lines; its documentation may have 90", n)
	}
}

// Every error that a host may branch on, every reason and every help has its remedy.
func TestReferenceHasEveryError(t *testing.T) {
	page := pages(t)["docs/reference/errors.md"]
	named := errorNames(t)
	if len(named) < 30 {
		t.Fatalf("only %v", named)
	}
	for _, name := range named {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("errors.md has no `%s`", name)
		}
	}
}

// Whatever --json may print as the kind of an error has its line.
func TestReferenceHasEveryKind(t *testing.T) {
	page := pages(t)["docs/reference/errors.md"]
	kind := regexp.MustCompile(`(?m)\bKind(?::| +=) *"([a-z-]+)"|^\t+\{"([a-z-]+)", ExitMisuse,`)
	found := 0
	for _, below := range []string{"cmd/ledgerctl", "ledger/problem"} {
		err := filepath.WalkDir(filepath.Join(root(t), filepath.FromSlash(below)), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range kind.FindAllStringSubmatch(string(text), -1) {
				found++
				if name := match[1] + match[2]; !strings.Contains(page, "`"+name+"`") {
					t.Errorf("errors.md has no `%s`, which %s has", name, path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 50 {
		t.Errorf("only %d kinds were found", found)
	}
}

// errorNames returns the exported errors of package ledger, and the texts of reasons and helps.
func errorNames(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root(t), "ledger"), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "internal" || entry.Name() == "store"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			names = append(names, errorsOf(file)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func errorsOf(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && strings.HasSuffix(spec.Name.Name, "Error") {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				names = append(names, valueNames(spec)...)
			}
		}
	}
	return names
}

// valueNames returns the name of an error variable, or the text of a reason or help.
func valueNames(spec *ast.ValueSpec) []string {
	if strings.HasPrefix(spec.Names[0].Name, "Err") {
		return []string{spec.Names[0].Name}
	}
	kind, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != 1 || (kind.Name != "Reason" && kind.Name != "Help") {
		return nil
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return nil
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return nil
	}
	return []string{text}
}

// Every package that a user may import has its place in the drawing of the house.
func TestArchitectureHasEveryPackage(t *testing.T) {
	page := pages(t)["docs/contributing/ARCHITECTURE.md"]
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "./...")
	list.Dir = root(t)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for dir := range strings.FieldsSeq(string(out)) {
		path, err := filepath.Rel(root(t), dir)
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.ToSlash(path)
		if regexp.MustCompile(`(^|/)internal(/|$)|^(cmd|examples|docs)(/|$)`).MatchString(path) {
			continue
		}
		found++
		if !strings.Contains(page, "`"+path+"`") {
			t.Errorf("ARCHITECTURE.md has no `%s`", path)
		}
	}
	if found < 10 {
		t.Errorf("only %d packages", found)
	}
}
