package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// A reader of "go doc" sees every type that a public signature mentions, with its fields: no public
// name is an alias of another type, and no public function, method, field or variable has a type of
// an internal package.
func TestPublicSignatures_NameNoInternalType(t *testing.T) {
	seen := 0
	for _, f := range goFiles(t) {
		if f.isTest || !isPublic(f.pkg) {
			continue
		}
		file, set := f.parse(t, 0)
		for _, fault := range hiddenTypes(file) {
			t.Errorf("%s: %s", set.Position(fault.pos), fault.text)
		}
		seen += len(exported(file))
	}
	check.That(t, seen > 100, "only %d public names were read", seen)
}

// What the check finds, and what it lets be.
func TestHiddenTypes_AliasAndInternal_AreFound(t *testing.T) {
	const text = `package p
import ("a/internal/deep"; named "a/internal/other"; "a/open")
type Alias = open.Type
type Func = func(int) open.Type
type S struct { Field deep.T; hidden deep.T; Fine open.T }
type I interface { Call(*named.T) }
type hidden struct { Field deep.T }
func F() []deep.T { return nil }
func g(deep.T) {}
func (S) M(map[string]deep.T) {}
func (hidden) M(deep.T) {}
var V deep.T
var Value = deep.Value
func Body() { var x deep.T; _ = x }
`
	file := check.Value(parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution))(t)
	var found []string
	for _, fault := range hiddenTypes(file) {
		found = append(found, fault.text)
	}
	got := strings.Join(found, "; ")
	const want = "Alias is an alias; S mentions deep.T; I mentions named.T; F mentions deep.T; M mentions deep.T; V mentions deep.T"
	check.That(t, got == want, "found %s, want %s", got, want)
}

// hiding is what is wrong at a place.
type hiding struct {
	pos  token.Pos
	text string
}

// hiddenTypes returns which public names of a file have types that a reader cannot look up.
func hiddenTypes(file *ast.File) (faults []hiding) {
	internal := map[string]bool{}
	for _, i := range file.Imports {
		if path, _ := strconv.Unquote(i.Path.Value); strings.Contains(path, "/internal/") {
			name := path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			internal[name] = true
		}
	}
	look := func(name *ast.Ident, in ast.Node) {
		ast.Inspect(in, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				return len(n.Names) == 0 || n.Names[0].IsExported() || !isMember(in, n)
			case *ast.SelectorExpr:
				if pkg, is := n.X.(*ast.Ident); is && internal[pkg.Name] {
					faults = append(faults, hiding{n.Pos(), name.Name + " mentions " + pkg.Name + "." + n.Sel.Name})
				}
			}
			return true
		})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || isOfPublicType(d)) {
				look(d.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if _, isFunc := s.Type.(*ast.FuncType); s.Name.IsExported() && s.Assign.IsValid() && !isFunc {
						faults = append(faults, hiding{s.Pos(), s.Name.Name + " is an alias"})
					} else if s.Name.IsExported() {
						look(s.Name, s.Type)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Type != nil {
						look(s.Names[0], s.Type)
					}
				}
			}
		}
	}
	return faults
}

// isMember reports whether a field is one of a struct or an interface, and no parameter or result
// of a function.
func isMember(in ast.Node, field *ast.Field) (is bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		var list *ast.FieldList
		switch n := n.(type) {
		case *ast.StructType:
			list = n.Fields
		case *ast.InterfaceType:
			list = n.Methods
		}
		if list != nil {
			for _, one := range list.List {
				is = is || one == field
			}
		}
		return true
	})
	return is
}

// isOfPublicType reports whether a method is one of an exported type.
func isOfPublicType(d *ast.FuncDecl) bool {
	public := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is {
			public = id.IsExported()
			return false
		}
		return true
	})
	return public
}
