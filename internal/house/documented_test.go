package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluicedp/sluice/internal/check"
)

// elsewhere are methods of interfaces of the standard library, and of pflag, which say what they
// do.
func elsewhere() map[string]bool {
	said := map[string]bool{}
	for name := range strings.FieldsSeq("Error Unwrap Is String Set Type MarshalText UnmarshalText MarshalJSON UnmarshalJSON") {
		said[name] = true
	}
	return said
}

// Every exported name has a comment: of a package, a function, a type, a method or field of an
// exported type, a constant, a variable. A comment on a group speaks for its constants or
// variables, that of a type for its only field. A method needs none if an interface of its package
// says what it does.
func TestExportedNames_HaveComments(t *testing.T) {
	files, hasDoc, said := map[goFile]*ast.File{}, map[string]bool{}, map[string]map[string]bool{}
	for _, f := range goFiles(t) {
		if f.isTest {
			continue
		}
		file, _ := f.parse(t, parser.ParseComments)
		if said[f.pkg] == nil {
			said[f.pkg] = elsewhere()
		}
		maps.Copy(said[f.pkg], contracts(file))
		files[f], hasDoc[f.pkg] = file, hasDoc[f.pkg] || file.Doc != nil
	}
	for f, file := range files {
		if !hasDoc[f.pkg] {
			t.Errorf("%s: package %s has no comment", f.path, file.Name.Name)
		}
		for _, name := range silent(file, said[f.pkg]) {
			t.Errorf("%s: %s has no comment: say what its name does not", f.path, name.Name)
		}
	}
}

// What is found, and what is let be.
func TestUndocumented_NameWithoutComment_IsFound(t *testing.T) {
	const text = `package p
// Named is a comment.
type Named struct {
	Field, Found int
	Said int // a comment
	Inner struct { Deep, Deeper int; Deepest bool }
	One struct { Nothing int } // a comment
	hidden int
	Named2
	Tagged int "json:\"tagged\" doc:\"A sentence that others read.\""
	Found7 int "json:\"doc\""
	Found8 int "json:\"x\" doc:\"\""
	Found9 int "json:\"x\" doc:\"Word.\""
	Found10 int "json:\"x\" doc:\"No end\""
	Found11 int "json:\"x\" doc:\"no beginning.\""
}
type Found2 interface {
	// Do is a comment.
	Do()
	Found3()
}
func (Named) Do() {}
func (Named) Found4() {}
func (*hidden) Nothing() {}
func Found5() {}
type hidden struct { Nothing int }
// A group.
const (
	A = 1
	B = 2
)
var Found6 = 1
type Alone = int // a comment
// Single is a comment.
type Single struct { Nothing int }
`
	file := check.Value(parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments))(t)
	got := map[string]bool{}
	for _, name := range silent(file, contracts(file)) {
		got[name.Name] = true
	}
	want := strings.Fields("Field Found Inner Deep Deeper Deepest Found2 Found3 Found4 Found5 Found6 Found7 Found8 Found9 Found10 Found11")
	for _, name := range want {
		check.That(t, got[name], "%s is not found", name)
	}
	if len(got) != len(want) {
		t.Error(fmt.Sprint("found: ", got))
	}
}

// contracts returns the methods that interfaces of a file explain.
func contracts(file *ast.File) map[string]bool {
	said := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if of, is := n.(*ast.InterfaceType); is {
			for _, method := range of.Methods.List {
				for _, name := range method.Names {
					if method.Doc != nil || method.Comment != nil {
						said[name.Name] = true
					}
				}
			}
		}
		return true
	})
	return said
}

// silent returns the exported names of a file that have no comment, but for methods that were said
// elsewhere.
func silent(file *ast.File, said map[string]bool) (all []*ast.Ident) {
	note := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				all = append(all, name)
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && (d.Recv == nil || receiver(d.Recv.List[0].Type).IsExported() && !said[d.Name.Name]) {
				note(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
						note(spec.Names...)
					}
				case *ast.TypeSpec:
					if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
						note(spec.Name)
					}
					if spec.Name.IsExported() {
						note(members(spec.Type)...)
					}
				}
			}
		}
	}
	return all
}

// receiver is the name of the type whose method it is.
func receiver(of ast.Expr) *ast.Ident {
	for {
		switch at := of.(type) {
		case *ast.StarExpr:
			of = at.X
		case *ast.IndexExpr:
			of = at.X
		case *ast.IndexListExpr:
			of = at.X
		default:
			return at.(*ast.Ident)
		}
	}
}

// tagged reports whether the tag of a field says what it is, for readers of the code and of the
// document of an API alike: in words that begin with a capital letter and end with a full stop.
func tagged(field *ast.Field) bool {
	if field.Tag == nil {
		return false
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	doc := reflect.StructTag(tag).Get("doc")
	first, _ := utf8.DecodeRuneInString(doc)
	return err == nil && strings.HasSuffix(doc, ".") && len(strings.Fields(doc)) > 1 && !unicode.IsLower(first)
}

// members returns the fields and methods in a type that have no comment.
func members(of ast.Expr) (all []*ast.Ident) {
	ast.Inspect(of, func(n ast.Node) bool {
		if of, is := n.(*ast.StructType); is && len(of.Fields.List) == 1 {
			return false
		}
		if field, is := n.(*ast.Field); is && field.Doc == nil && field.Comment == nil && !tagged(field) {
			all = append(all, field.Names...)
		}
		_, is := n.(*ast.FuncType)
		return !is
	})
	return all
}
