package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// root is the directory of the module.
var root = filepath.Join("..", "..")

// declaration is a function, method, type, constant or variable of a package, or a whole file that
// is not Go.
type declaration struct {
	name string // a method is Type.Method
	file string // its path from here
	all  string // the content of the file
	text string // of the declaration, as dense writes it
	at   []int  // the offset in the file of each byte of text
}

// code has the declarations of the directories and files that were read.
type code map[string][]declaration

// dense returns a text without white space, comments, and commas before closing brackets: it stays
// the same when lines are wrapped. It also returns the offset of each byte that is left. comments
// has where each begins and ends.
func dense(text string, comments map[int]int) (string, []int) {
	var kept []byte
	var offsets []int
	for i := 0; i < len(text); i++ {
		c := text[i]
		if end := comments[i]; end > i {
			i = end - 1
			continue
		}
		if strings.IndexByte(" \t\n", c) >= 0 {
			continue
		}
		if n := len(kept) - 1; n >= 0 && kept[n] == ',' && strings.IndexByte(")]}", c) >= 0 {
			kept, offsets = kept[:n], offsets[:n]
		}
		kept, offsets = append(kept, c), append(offsets, i)
	}
	return string(kept), offsets
}

// read returns what is declared in a directory, or a file that is not Go as one declaration without
// a name.
func (c code) read(path string) ([]declaration, error) {
	if all, known := c[path]; known {
		return all, nil
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(path), "*.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		files = []string{filepath.Join(root, filepath.FromSlash(path))}
	}
	var all []declaration
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := parse(filepath.ToSlash(file), string(content))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	c[path] = all
	return all, nil
}

// parse returns what is declared in a file.
func parse(path, content string) (all []declaration, err error) {
	if !strings.HasSuffix(path, ".go") {
		text, offsets := dense(content, nil)
		return []declaration{{"", path, content, text, offsets}}, nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	comments := map[int]int{}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			comments[set.Position(comment.Pos()).Offset] = set.Position(comment.End()).Offset
		}
	}
	text, offsets := dense(content, comments)
	index := func(p token.Pos) int { // the index in text
		n, _ := slices.BinarySearch(offsets, set.Position(p).Offset)
		return n
	}
	for _, d := range file.Decls {
		for name, n := range named(d) {
			from, to := index(n.Pos()), index(n.End())
			all = append(all, declaration{name, path, content, text[from:to], offsets[from:to]})
		}
	}
	return all, nil
}

// named returns the names that a declaration declares, each with its part of the declaration.
func named(d ast.Decl) map[string]ast.Node {
	found := map[string]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		found[methodOf(d)+d.Name.Name] = d
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			var part ast.Node = spec
			if !d.Lparen.IsValid() {
				part = d
			}
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				found[spec.Name.Name] = part
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					found[name.Name] = part
				}
			}
		}
	}
	return found
}

// methodOf returns the name of the type that a method belongs to and a dot; "" for a function.
func methodOf(f *ast.FuncDecl) (name string) {
	if f.Recv == nil {
		return ""
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && name == "" {
			name = id.Name + "."
		}
		return name == ""
	})
	return name
}

// apply returns the file that a mutant changes, and its content with the fault.
func (c code) apply(m mutant) (file, content string, err error) {
	all, err := c.read(m.path)
	if err != nil {
		return "", "", err
	}
	old, _ := dense(m.old, nil)
	var found []declaration
	for _, d := range all {
		if d.name == m.name {
			found = append(found, slices.Repeat([]declaration{d}, strings.Count(d.text, old))...)
		}
	}
	if len(found) != 1 {
		return "", "", fmt.Errorf("apply a mutant: %q is %d times in %s %s, want once; %s", m.old, len(found), m.path, m.name, c.similar(m.name, old))
	}
	if changed, _ := dense(m.new, nil); changed == old {
		return "", "", fmt.Errorf("apply a mutant: %q is replaced by the same code", m.old)
	}
	return found[0].replace(old, m.new)
}

// replace returns the file of a declaration with old replaced by new. A Go file must still parse.
func (d declaration) replace(old, new string) (file, content string, err error) {
	from := strings.Index(d.text, old)
	to := from + len(old) - 1
	content = d.all[:d.at[from]] + new + d.all[d.at[to]+1:]
	if strings.HasSuffix(d.file, ".go") {
		_, err = parser.ParseFile(token.NewFileSet(), d.file, content, parser.SkipObjectResolution)
	}
	return d.file, content, err
}

// similar lists declarations of the module that have a name or a text, to help when code has moved.
func (c code) similar(name, text string) string {
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		path, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		all, _ := c.read(filepath.ToSlash(path)) // a directory without Go has none
		for _, d := range all {
			if d.name == name && name != "" || text != "" && strings.Contains(d.text, text) {
				found[filepath.ToSlash(path)+" "+d.name] = true
			}
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	const most = 5
	names := slices.Sorted(maps.Keys(found))
	return fmt.Sprintf("similar are %q", names[:min(len(names), most)])
}
