package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// name is a name of Go in the text of a page: `Options.Signer`, `Fuzz…`, `rrchain.Range`, or that
// of a test or a subtest, `TestAnyLedger_Conforms/Name_GoodOrBad_IsAcceptedOrRefused`.
var name = regexp.MustCompile("`((?:[a-z]+\\.)?[A-Z]\\w*(?:[./][A-Z]\\w*)?…?)`")

// Every Go name on a page exists: tests of guarantees, methods, options, errors.
func TestPages_NamesOfGo_AreDeclared(t *testing.T) {
	names := declared(t)
	for _, a := range alerts(t) {
		names[a.Alert] = true // a name for Prometheus, and written like one of Go
	}
	names["TestSubject_Condition_Result"] = true // how tests are named
	checked := 0
	for path, page := range pages(t) {
		for _, match := range name.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
			parts := strings.FieldsFunc(match[1], func(r rune) bool { return r == '.' || r == '/' })
			if !token.IsExported(parts[0]) && !names["package "+parts[0]] || match[1] == strings.ToUpper(match[1]) {
				continue // of another module's package, or a variable of the environment
			}
			checked++
			for _, part := range parts {
				if token.IsExported(part) && !isKnown(names, part) {
					t.Errorf("%s: there is no %s in the code", path, match[1])
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d names", checked)
	}
}

// isKnown reports whether this name, or one that begins with it, exists.
func isKnown(names map[string]bool, part string) bool {
	beginning, cut := strings.CutSuffix(part, "…")
	if !cut {
		return names[part]
	}
	for known := range names {
		if strings.HasPrefix(known, beginning) {
			return true
		}
	}
	return false
}

// declared returns the names that files of the repository declare, tests too, and those of its
// packages.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root(t), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			addNames(names, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// addNames adds what a file declares: its package, functions, methods, types, fields, variables and
// constants.
func addNames(names map[string]bool, file *ast.File) {
	names["package "+file.Name.Name] = true
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			names[node.Name.Name] = true
			return false
		case *ast.TypeSpec:
			names[node.Name.Name] = true
		case *ast.Field:
			for _, field := range node.Names {
				names[field.Name] = true
			}
		case *ast.ValueSpec:
			for _, value := range node.Names {
				names[value.Name] = true
			}
		}
		return true
	})
}
