package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is where the module lies.
var root = filepath.Join("..", "..")

// lists are the files that hold the entries.
func lists() []string { return []string{"outside.txt", "ledger.txt"} }

// mutant is a fault, and the test that catches it.
type mutant struct {
	at       string // where the entry stands
	file     string // of the module, with slashes
	fault    string // what is wrong
	old, new string
	pkg      string // of the test, as a folder of the module
	test     string // its name; a subtest follows a slash
	hangs    bool   // the test ends by its time limit only
}

// name names a mutant among all.
func (m mutant) name() string { return m.file + ": " + m.fault }

// parse reads the entries of a list, and what is wrong with their form.
func parse(name, text string) (all []mutant, faults []string) {
	line := 1
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		at := fmt.Sprintf("%s:%d", name, line)
		line += strings.Count(paragraph, "\n") + 2
		m, something, err := parseEntry(paragraph)
		m.at = at
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", at, err))
		} else if something {
			all = append(all, m)
		}
	}
	return all, faults
}

// parseEntry reads a paragraph. There may be nothing in it but comments.
func parseEntry(paragraph string) (m mutant, something bool, err error) {
	marked := map[string][]string{}
	for line := range strings.SplitSeq(paragraph, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || mark == "#":
		case strings.Contains("=-+!", mark):
			marked[mark] = append(marked[mark], rest)
		default:
			return m, true, fmt.Errorf("a line begins with %q", mark)
		}
	}
	if len(marked) == 0 {
		return m, false, nil
	}
	title, test := marked["="], marked["!"]
	if len(title) != 1 || len(test) != 1 || len(marked["-"]) == 0 {
		return m, true, fmt.Errorf("there must be one line with =, one with !, and at least one with -")
	}
	var found bool
	if m.file, m.fault, found = strings.Cut(title[0], ": "); !found || m.fault == "" {
		return m, true, fmt.Errorf("no file, and what is wrong with it, after =")
	}
	words := strings.Fields(test[0])
	m.hangs = len(words) == 3 && words[2] == "hangs"
	if len(words) != 2 && !m.hangs {
		return m, true, fmt.Errorf("no package and test after !")
	}
	m.pkg, m.test = words[0], words[1]
	m.old, m.new = strings.Join(marked["-"], "\n"), strings.Join(marked["+"], "\n")
	return m, true, nil
}

// read returns all entries.
func read(t *testing.T) (all []mutant) {
	t.Helper()
	for _, name := range lists() {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		entries, faults := parse(name, string(text))
		for _, fault := range faults {
			t.Error(fault)
		}
		all = append(all, entries...)
	}
	return all
}

// apply returns a file with a mutant in it.
func apply(m mutant, content string) (string, error) {
	if n := strings.Count(content, m.old); n != 1 {
		return "", fmt.Errorf("the text %q is in %s %d times, not once", m.old, m.file, n)
	}
	if m.old == m.new {
		return "", fmt.Errorf("nothing would change")
	}
	return strings.Replace(content, m.old, m.new, 1), nil
}

// mutated reads the file of a mutant, and returns it with the fault in it.
func mutated(m mutant) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	return apply(m, string(content))
}

// whereabouts tells which files of the module have a text, for whoever moved it: tests, or others.
func whereabouts(text string, tests bool) string {
	var found []string
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(at, ".go") || strings.HasSuffix(at, "_test.go") != tests {
			return err
		}
		content, err := os.ReadFile(at)
		if strings.Contains(string(content), text) {
			found = append(found, filepath.ToSlash(strings.TrimPrefix(at, root+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	if len(found) == 0 {
		return "in no file"
	}
	const most = 5
	return "now in " + strings.Join(found[:min(len(found), most)], ", ")
}

// tests returns the names of the tests of a package.
func tests(pkg string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, at := range files {
		file, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names, nil
}

// Every entry still fits the code: none rots when code moves.
func TestEveryMutantStillApplies(t *testing.T) {
	all := read(t)
	if len(all) < 50 {
		t.Errorf("only %d mutants", len(all))
	}
	known, told := map[string]map[string]bool{}, map[string]bool{}
	for _, m := range all {
		if _, err := mutated(m); err != nil {
			t.Errorf("%s: %v; it is %s", m.at, err, whereabouts(m.old, false))
		}
		if told[m.name()] {
			t.Errorf("%s: a second entry of this name", m.at)
		}
		told[m.name()] = true
		if known[m.pkg] == nil {
			names, err := tests(m.pkg)
			if err != nil {
				t.Fatal(err)
			}
			known[m.pkg] = names
		}
		if test, _, _ := strings.Cut(m.test, "/"); !known[m.pkg][test] || !strings.HasPrefix(test, "Test") {
			t.Errorf("%s: package %s has no test %s; it is %s", m.at, m.pkg, test, whereabouts("func "+test+"(", true))
		}
	}
}

// The form of a list is checked, and so is what an entry changes.
func TestListsAreRead(t *testing.T) {
	all, faults := parse("list", "# A comment.\n\n= a/b.go: wrong\n- if x {\n- \ty\n+ if !x {\n+ \ty\n! a TestX/some_case\n\n= c.go: slow\n- i++\n! c TestY hangs\n")
	want := []mutant{
		{"list:3", "a/b.go", "wrong", "if x {\n\ty", "if !x {\n\ty", "a", "TestX/some_case", false},
		{"list:10", "c.go", "slow", "i++", "", "c", "TestY", true},
	}
	if len(faults) > 0 || len(all) != 2 || all[0] != want[0] || all[1] != want[1] {
		t.Errorf("read as %+v, with faults %q", all, faults)
	}
	for _, text := range []string{
		"= a.go: x\n- y\n? a TestX", "= a.go: x\n- y", "= a.go: x\n! a TestX", "= a.go\n- y\n! a TestX",
		"= a.go: x\n- y\n! TestX", "= a.go: x\n- y\n! a TestX dies", "= a.go: x\n= b.go: x\n- y\n! a TestX",
	} {
		if all, faults := parse("list", text); len(all) != 0 || len(faults) != 1 {
			t.Errorf("%q is read as %+v, with faults %q", text, all, faults)
		}
	}
	for old, new := range map[string]string{"i++": "i--", "j": "k", "x": "x"} {
		if _, err := apply(mutant{old: old, new: new}, "i++; i++; x"); err == nil {
			t.Errorf("%q may become %q", old, new)
		}
	}
	if got, err := apply(mutant{old: "i++; x", new: "y"}, "i++; i++; x"); err != nil || got != "i++; y" {
		t.Errorf("applied: %q, %v", got, err)
	}
}

// Whoever moves what an entry changes is told where it is now.
func TestWhatHasMovedIsFound(t *testing.T) {
	if got := whereabouts("func (e Epsilon) Nano() int64", false); got != "now in privacy/privacy.go" {
		t.Errorf("a function is %s", got)
	}
	if got := whereabouts("func TestWhatHasMoved"+"IsFound(", true); got != "now in internal/mutants/list_test.go" {
		t.Errorf("this test is %s", got)
	}
	if got := whereabouts("func TestThereIs"+"None(", true); got != "in no file" {
		t.Errorf("a test that there is not is %s", got)
	}
}
