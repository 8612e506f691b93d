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

	"github.com/sluicedp/sluice/internal/check"
)

const module = "github.com/sluicedp/sluice/"

// goFile is a Go file of the module.
type goFile struct {
	path, pkg string // in the module, with slashes
	isTest    bool
}

// root is the directory of the module.
func root() string { return filepath.Join("..", "..") }

// goFiles returns the Go files of the module. Directories with a go.mod of their own are other
// modules.
func goFiles(t *testing.T) (files []goFile) {
	t.Helper()
	err := filepath.WalkDir(root(), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(at, "go.mod"))
			if name := d.Name(); at != root() && (strings.HasPrefix(name, ".") || name == "testdata" || other == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root(), at)
		if rel = filepath.ToSlash(rel); strings.HasSuffix(rel, ".go") {
			files = append(files, goFile{rel, path.Dir(rel), strings.HasSuffix(rel, "_test.go")})
		}
		return err
	})
	check.Need(t, err == nil && len(files) >= 500, "%v %v", len(files), err)
	return files
}

// parse reads a file.
func (f goFile) parse(t *testing.T, mode parser.Mode) (*ast.File, *token.FileSet) {
	t.Helper()
	set := token.NewFileSet()
	parsed := check.Value(parser.ParseFile(set, filepath.Join(root(), filepath.FromSlash(f.path)), nil, mode|parser.SkipObjectResolution))(t)
	return parsed, set
}

// source is a file that imports a package of the module.
type source struct {
	goFile
	imports string
}

// sources returns all imports of the module by itself.
func sources(t *testing.T) (all []source) {
	t.Helper()
	for _, f := range goFiles(t) {
		parsed, _ := f.parse(t, parser.ImportsOnly)
		for _, spec := range parsed.Imports {
			text := check.Value(strconv.Unquote(spec.Path.Value))(t)
			if to, ours := strings.CutPrefix(text, module); ours {
				all = append(all, source{f, to})
			}
		}
	}
	return all
}

// fault returns what is wrong with an import, and where the imported code belongs, or "" if nothing
// is. Code that is no test imports what its row allows. A test also imports any package in a row
// above its own.
func fault(plan []room, s source) string {
	from, to := rowOf(plan, s.pkg), rowOf(plan, s.imports)
	if from < 0 || to < 0 {
		missing := s.pkg
		if from >= 0 {
			missing = s.imports
		}
		return fmt.Sprintf("%s: package %s is not in the plan of internal/house: say there what it is for, and what it may import", s.path, missing)
	}
	if s.pkg == s.imports || s.isTest && to < from {
		return ""
	}
	for may := range strings.FieldsSeq(plan[from].may) {
		if covers(may, s.imports) {
			return ""
		}
	}
	if to < from {
		return fmt.Sprintf("%s: %s (%s) does not import %s (%s): what needs both belongs in a package that may, or further down; the plan is in internal/house",
			s.path, s.pkg, plan[from].what, s.imports, plan[to].what)
	}
	return fmt.Sprintf("%s: %s (%s) is below %s (%s), and arrows run down: what needs both belongs there or above it, what both need below %s",
		s.path, s.pkg, plan[from].what, s.imports, plan[to].what, s.pkg)
}

func TestImports_FollowThePlan(t *testing.T) {
	found := sources(t)
	check.Need(t, len(found) >= 100, "only %d imports were found", len(found))
	for _, s := range found {
		text := fault(plan(), s)
		check.That(t, text == "", "%v", text)
	}
}

// The rows of the plan allow imports of rows above them only, and each row has a package.
func TestPlan_ArrowsRunDown(t *testing.T) {
	rooms := plan()
	lived := map[int]bool{rowOf(rooms, "internal/house"): true}
	for _, s := range sources(t) {
		lived[rowOf(rooms, s.pkg)], lived[rowOf(rooms, s.imports)] = true, true
	}
	for i, r := range rooms {
		for may := range strings.FieldsSeq(r.may) {
			to := -1 // the last row that it means
			for j := range rooms {
				if covers(may, rooms[j].name) || rooms[j].name == may {
					to = j
				}
			}
			check.That(t, to >= 0 && to < i, "%s may import %s, which is not above it in the plan", r.name, may)
		}
		_, err := os.Stat(filepath.Join(root(), filepath.FromSlash(strings.TrimSuffix(r.name, "/..."))))
		check.That(t, lived[i] || err == nil, "%s is in the plan, and there is no such package", r.name)
	}
}

// Functions do one thing. Tables may be as long as what they list.
func TestFunctions_AreShort(t *testing.T) {
	const most = 60
	lists := map[string]bool{"table": true} // the rows of the benchmarks
	var all []int
	for _, file := range goFiles(t) {
		if file.isTest {
			continue
		}
		parsed, set := file.parse(t, 0)
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
			if all = append(all, n); n > most && !lists[f.Name.Name] {
				t.Errorf("%s: %s has %d lines; it may have %d", file.path, f.Name.Name, n, most)
			}
		}
	}
	slices.Sort(all)
	median := all[len(all)/2]
	check.That(t, median <= 10, "half of the functions have more than %d lines", median)
}

// isPublic reports whether users of the library import a package.
func isPublic(pkg string) bool {
	for part := range strings.SplitSeq(pkg, "/") {
		if slices.Contains([]string{"internal", "cmd", "examples", "docs"}, part) {
			return false
		}
	}
	return true
}

// What users have to learn has few names. A limit is raised only by a commit that says why.
func TestPublicNames_AreWithinTheirLimits(t *testing.T) {
	const mostInAll = 300
	most := map[string]int{
		"ledger": 7, "ledger/api": 118, "mechanism": 6, "mechanism/graph": 14, "rrchain": 12,
		"ledger/ledgertest": 25, "ledger/journal/journaltest": 25, // the kits for tests do not count among all
	}
	names := map[string][]string{}
	for _, f := range goFiles(t) {
		if !f.isTest && isPublic(f.pkg) {
			parsed, _ := f.parse(t, 0)
			names[f.pkg] = append(names[f.pkg], exported(parsed)...)
		}
	}
	sum := 0
	for pkg, in := range names {
		limit, limited := most[pkg]
		check.That(t, !limited || len(in) <= limit, "%s exports %d names, %d are allowed: %v", pkg, len(in), limit, in)
		if !strings.HasSuffix(pkg, "test") {
			sum += len(in)
		}
	}
	check.That(t, sum <= mostInAll && sum >= mostInAll/2,
		"the packages that users import export %d names, %d are allowed", sum, mostInAll)
}

// exported returns the names that a file exports, without those of methods and fields.
func exported(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		var found []*ast.Ident
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				found = append(found, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					found = append(found, spec.Name)
				case *ast.ValueSpec:
					found = append(found, spec.Names...)
				}
			}
		}
		for _, id := range found {
			if id.IsExported() {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

// An import that the plan forbids is found, and the error says where the code belongs.
func TestImportCheck_WrongImport_IsReported(t *testing.T) {
	for _, c := range []struct{ path, imports, want string }{
		{"privacy/text.go", "ledger", "privacy (ε and δ as exact decimals) is below ledger (what a host calls)"},
		{"policy/market.go", "rrchain", "policy (ceilings over time, and prices) is below rrchain"},
		{"rrchain/draw.go", "policy", "rrchain (chains of randomized responses) does not import policy"},
		{"policy/market_test.go", "ledger", "is below"},
		{"somewhere/new.go", "privacy", "package somewhere is not in the plan"},
		{"ledger/new.go", "elsewhere", "package elsewhere is not in the plan"},
		{"examples/new/main.go", "internal/lp", "examples/new (programs that show how) does not import"},
		{"rrchain/draw_test.go", "internal/testenv", ""},
	} {
		got := fault(plan(), source{goFile{c.path, path.Dir(c.path), strings.HasSuffix(c.path, "_test.go")}, c.imports})
		if !strings.Contains(got, c.want) || c.want == "" && got != "" || c.want != "" && !strings.HasPrefix(got, c.path) {
			t.Errorf("%s imports %s: %q, wanted %q", c.path, c.imports, got, c.want)
		}
	}
}
