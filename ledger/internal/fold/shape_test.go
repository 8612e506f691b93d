package fold

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// longestEffect is how many lines a function that does what an event says may have between its
// braces.
const longestEffect = 20

// A function that applies an event is short and checks nothing. All checks are in package check.
func TestEffects_AreShortAndCheckNothing(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	effects := 0
	for _, name := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		isEffect := func(d ast.Decl) (f *ast.FuncDecl, is bool) {
			f, is = d.(*ast.FuncDecl)
			return f, is && strings.HasPrefix(f.Name.Name, "apply") && f.Name.Name != "applyKind" && f.Name.Name != "applyNext"
		}
		for _, d := range file.Decls {
			f, is := isEffect(d)
			if !is {
				continue
			}
			effects++
			if n := fset.Position(f.Body.End()).Line - fset.Position(f.Body.Pos()).Line - 1; n > longestEffect {
				t.Errorf("%s: %s has %d lines, more than %d", name, f.Name.Name, n, longestEffect)
			}
			for _, one := range file.Imports {
				if path := strings.Trim(one.Path.Value, `"`); path == "errors" || path == "fmt" || strings.HasSuffix(path, "/errs") {
					t.Errorf("%s has %s, and imports %s: refusals are made in package check", name, f.Name.Name, path)
				}
			}
		}
	}
	if effects < 20 {
		t.Errorf("only %d effects were found", effects)
	}
}
