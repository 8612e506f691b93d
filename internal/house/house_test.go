package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluicedp/sluice/"

// source is an import as it stands in a file.
type source struct {
	pkg, file, imports string
	test               bool
}

// sources returns all imports of the module by itself. Folders with a go.mod of their own are other modules.
func sources(t *testing.T, root string) (all []source) {
	t.Helper()
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(at, "go.mod"))
			if name := d.Name(); at != root && (strings.HasPrefix(name, ".") || name == "testdata" || other == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(at, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		for _, spec := range file.Imports {
			text, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if to, ours := strings.CutPrefix(text, module); ours {
				all = append(all, source{path.Dir(rel), rel, to, strings.HasSuffix(rel, "_test.go")})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fault says what is wrong with an import, and where the thing belongs; "" if nothing is. What is not a test imports what its
// row allows; a test also anything that stands above its own row.
func fault(plan []room, s source) string {
	from, to := rowOf(plan, s.pkg), rowOf(plan, s.imports)
	if from < 0 || to < 0 {
		missing := s.pkg
		if from >= 0 {
			missing = s.imports
		}
		return fmt.Sprintf("%s: package %s is not in the plan of internal/house: say there what it is for, and what it may import", s.file, missing)
	}
	if s.pkg == s.imports || s.test && to < from {
		return ""
	}
	for may := range strings.FieldsSeq(plan[from].may) {
		if covers(may, s.imports) {
			return ""
		}
	}
	if to < from {
		return fmt.Sprintf("%s: %s (%s) does not import %s (%s): what needs both belongs in a package that may, or further down; the plan is in internal/house",
			s.file, s.pkg, plan[from].what, s.imports, plan[to].what)
	}
	return fmt.Sprintf("%s: %s (%s) stands below %s (%s), and arrows run down: what needs both belongs there or above it, what both need below %s",
		s.file, s.pkg, plan[from].what, s.imports, plan[to].what, s.pkg)
}

func TestImportsFollowThePlan(t *testing.T) {
	found := sources(t, filepath.Join("..", ".."))
	if len(found) < 100 {
		t.Fatalf("only %d imports were found", len(found))
	}
	for _, s := range found {
		if text := fault(plan(), s); text != "" {
			t.Error(text)
		}
	}
}

// The plan itself runs down, and has no room that nobody lives in.
func TestThePlanRunsDown(t *testing.T) {
	rooms := plan()
	lived := map[int]bool{rowOf(rooms, "internal/house"): true}
	for _, s := range sources(t, filepath.Join("..", "..")) {
		lived[rowOf(rooms, s.pkg)], lived[rowOf(rooms, s.imports)] = true, true
	}
	for i, r := range rooms {
		for may := range strings.FieldsSeq(r.may) {
			to := -1 // the last row that it stands for
			for j := range rooms {
				if covers(may, rooms[j].name) || rooms[j].name == may {
					to = j
				}
			}
			if to < 0 || to >= i {
				t.Errorf("%s may import %s, which is not above it in the plan", r.name, may)
			}
		}
		if folder := filepath.Join("..", "..", filepath.FromSlash(strings.TrimSuffix(r.name, "/..."))); !lived[i] {
			if _, err := os.Stat(folder); err != nil {
				t.Errorf("%s is in the plan, and there is no such package", r.name)
			}
		}
	}
}

// Functions do one thing. Tables may be as long as what they list.
func TestFunctionsAreShort(t *testing.T) {
	const most = 60
	lists := map[string]bool{"table": true} // the rows of the benchmarks
	var all []int
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
			if all = append(all, n); n > most && !lists[f.Name.Name] {
				t.Errorf("%s: %s has %d lines; it may have %d", file, f.Name.Name, n, most)
			}
		}
	}
	slices.Sort(all)
	if median := all[len(all)/2]; median > 10 {
		t.Errorf("half of the functions have more than %d lines", median)
	}
}

// goFiles are the files of the module. Directories with a go.mod of their own are other modules.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, other := os.Stat(filepath.Join(path, "go.mod")); d.IsDir() && path != root && other == nil {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	return files
}

// A package that people learn has few names.
func TestPublicNamesAreFew(t *testing.T) {
	for pkg, most := range map[string]int{"ledger": 125, "mechanism": 30, "rrchain": 30} {
		if names := exported(t, filepath.Join("..", "..", pkg)); len(names) > most || len(names) == 0 {
			t.Errorf("%s exports %d names, %d are allowed: %v", pkg, len(names), most, names)
		}
	}
}

// exported returns the names that a package exports, but for those of methods and fields.
func exported(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	for _, at := range files {
		if strings.HasSuffix(at, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(spec.Name)
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							add(id)
						}
					}
				}
			}
		}
	}
	return names
}

// What the plan forbids is found, and told in words that say where the thing belongs.
func TestAWrongImportIsTold(t *testing.T) {
	for _, c := range []struct {
		source
		want string
	}{
		{source{"privacy", "privacy/text.go", "ledger", false}, "privacy (ε and δ as exact decimals) stands below ledger (what a host calls)"},
		{source{"policy", "policy/market.go", "rrchain", false}, "policy (ceilings over time, and prices) stands below rrchain"},
		{source{"rrchain", "rrchain/draw.go", "policy", false}, "rrchain (chains of randomized responses) does not import policy"},
		{source{"policy", "policy/market_test.go", "ledger", true}, "stands below"},
		{source{"somewhere", "somewhere/new.go", "privacy", false}, "package somewhere is not in the plan"},
		{source{"ledger", "ledger/new.go", "elsewhere", false}, "package elsewhere is not in the plan"},
		{source{"examples/new", "examples/new/main.go", "internal/lp", false}, "examples/new (programs that show how) does not import"},
	} {
		if got := fault(plan(), c.source); !strings.Contains(got, c.want) || !strings.HasPrefix(got, c.file) {
			t.Errorf("%s imports %s: %q, wanted %q", c.file, c.imports, got, c.want)
		}
	}
	if got := fault(plan(), source{"rrchain", "rrchain/draw_test.go", "internal/pace", true}); got != "" {
		t.Errorf("a test: %s", got)
	}
}
