package docs_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Pages that are read first are short.
func TestFirstPages_Lines_AreWithinTheirLimits(t *testing.T) {
	for path, most := range map[string]int{
		"README.md": 110, "SECURITY.md": 80, "docs/contributing/ARCHITECTURE.md": 150, "ledger/doc.go": 91,
	} {
		text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(path)))
		must(t, err)
		if n := strings.Count(string(text), "\n"); n < most/3 || n > most {
			t.Errorf("%s has %d lines; it may have %d", path, n, most)
		}
	}
	all, _ := blocks(pages(t)["README.md"])
	if !slices.ContainsFunc(all, block.program) {
		t.Error("README.md has no whole program")
	}
}

// The table of libraries has what the module requires and its examples in TypeScript, and nothing
// else.
func TestArchitecture_Libraries_AreThoseOfTheModule(t *testing.T) {
	required := map[string]bool{}
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	must(t, err)
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		required[match[1]] = true
	}
	var npm struct{ Dependencies, DevDependencies map[string]string }
	text, err := os.ReadFile(filepath.Join(root(t), "examples", "served", "typescript", "package.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &npm))
	for _, all := range []map[string]string{npm.Dependencies, npm.DevDependencies} {
		for name := range all {
			required[name] = true
		}
	}
	_, table, _ := strings.Cut(pages(t)["docs/contributing/ARCHITECTURE.md"], "| dependency | why |")
	for line := range strings.Lines(table) {
		row := strings.Split(line, "|")
		if len(row) != 4 {
			continue
		}
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !required[match[1]] {
				t.Errorf("ARCHITECTURE.md has the library %s, which is not required", match[1])
			}
			if delete(required, match[1]); strings.TrimSpace(row[2]) == "" {
				t.Errorf("ARCHITECTURE.md does not say why there is %s", match[1])
			}
		}
	}
	for name := range required {
		t.Errorf("ARCHITECTURE.md lacks the library %s", name)
	}
}

// The hosted CI runs .ci/run with actions that are pinned to commits, and has no right to write.
func TestWorkflow_RunsTheChecks_WithPinnedActions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), ".github", "workflows", "ci.yml"))
	must(t, err)
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct{ Steps []struct{ Uses, Run string } }
	}
	must(t, yaml.Unmarshal(text, &workflow))
	runs := false
	for _, step := range workflow.Jobs["run"].Steps {
		runs = runs || step.Run == ".ci/run"
		if step.Uses != "" && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(step.Uses) {
			t.Errorf("%s is not pinned to a commit", step.Uses)
		}
	}
	if !runs || len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != "read" {
		t.Errorf("runs .ci/run: %v, permissions: %v", runs, workflow.Permissions)
	}
}

// The page has every error that a host may branch on, every reason and every help, with its remedy.
func TestErrorsPage_EachExportedError_IsListed(t *testing.T) {
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

// The page has a line for each kind of error that --json may print.
func TestErrorsPage_EachKindOfJSON_IsListed(t *testing.T) {
	page := pages(t)["docs/reference/errors.md"]
	found := 0
	for below, kind := range map[string]*regexp.Regexp{
		"cmd/ledgerctl":    regexp.MustCompile(`(?m)\bKind(?::| +=) *"([a-z-]+)"|^\t+\{"([a-z-]+)", ExitMisuse,`),
		"internal/problem": regexp.MustCompile(`(?m)^\t[A-Z]\w+ += "([a-z-]+)()"`),
	} {
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

// The drawing of the architecture has every package that a user may import.
func TestArchitecture_EachPublicPackage_IsListed(t *testing.T) {
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
