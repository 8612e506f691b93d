package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluicedp/sluice/internal/check"
)

const commentColumns = 100

// retired lists words that readers had to read twice, as regular expressions, with what to write instead.
func retired() []struct{ word, write string } {
	return []struct{ word, write string }{
		{`whoever|those who`, "the caller, objects that …"},
		{`whatever`, "any, every"},
		{`somebody|anybody|someone|anyone`, "the caller, an object, a buyer, another process"},
		{`nobody|no one`, "no caller, no object, no process"},
		{`everybody|everyone`, "all objects, every caller"},
		{`tells?|told|telling|teller`, "returns, reports, describes"},
		{`behind`, "after"},
		{`anew`, "again"},
		{`stands?|stood`, "is, is stored"},
		{`lies|lay`, "is, is stored"},
		{`comes? to|came to`, "results in, is"},
		{`carr(?:y|ies|ied) out`, "run, done, executed"},
		{`in the midst`, "during, inside"},
		{`meanwhile`, "concurrently, since then"},
		{`by then`, "since then"},
		{`tak(?:e|es|en|ing) back|took back`, "undone, rolled back"},
		{`a look|look(?:s|ed|ing)? at`, "a read, checked"},
		{`aside`, "staged"},
		{`underway`, "in progress"},
		{`needy`, "needs a true value"},
		{`asker`, "requester"},
		{`roster`, "enrollment"},
		{`outlook`, "forecast"},
		{`inquiry|inquiries`, "panel query"},
		{`prover`, "documents"},
		{`outruns?`, "exceeds the capacity"},
	}
}

// plain lists uses of retired words in their plain meaning, and names that other programs depend on.
func plain() *regexp.Regexp {
	return regexp.MustCompile(`(?i)behind (?:an? |the |its )?(?:\w+ )?(?:proxy|symlink|symbolic link|load balancer|NAT)|lay(?:out|er)` +
		"|`behind`|`told`|now\\(\\) - told|`aside`" + // a kind of problem, a column in PostgreSQL, a bucket of the file
		`|told\s+timestamptz|root, told\)|told = excluded\.told|WHEN told >` + // the same column in statements
		"|[`\"]anew[`\"]|^(?:behind|aside)$") // a key in JSON, and the constants of the kind and the bucket
}

// words finds retired words in a text.
type words struct {
	all   *regexp.Regexp
	plain *regexp.Regexp
	write map[*regexp.Regexp]string
}

func newWords() *words {
	w := &words{plain: plain(), write: map[*regexp.Regexp]string{}}
	var all []string
	for _, r := range retired() {
		all = append(all, r.word)
		w.write[regexp.MustCompile(`(?i)^(?:`+r.word+`)$`)] = r.write
	}
	w.all = regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
	return w
}

// in returns a sentence for each retired word of a text.
func (w *words) in(text string) (faults []string) {
	text = strings.Join(strings.Fields(w.plain.ReplaceAllString(text, "")), " ")
	for _, found := range w.all.FindAllString(text, -1) {
		for is, write := range w.write {
			if is.MatchString(found) {
				faults = append(faults, fmt.Sprintf("%q is retired; write: %s", found, write))
			}
		}
	}
	return faults
}

// ofGo returns what is wrong in a Go file: in comments, and outside tests also in texts and declared names.
func (w *words) ofGo(set *token.FileSet, file *ast.File, isTest bool) (faults []string) {
	report := func(at token.Pos, what string, text string) {
		for _, fault := range w.in(text) {
			faults = append(faults, fmt.Sprintf("%s: %s: %s", set.Position(at), what, fault))
		}
	}
	for _, group := range file.Comments {
		report(group.Pos(), "comment", group.Text())
	}
	if isTest {
		return faults
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				report(n.Pos(), "text", text)
			}
		case *ast.FuncDecl:
			report(n.Pos(), "name "+n.Name.Name, spaced(n.Name.Name))
		case *ast.TypeSpec:
			report(n.Pos(), "name "+n.Name.Name, spaced(n.Name.Name))
		case *ast.Field:
			for _, name := range n.Names {
				report(name.Pos(), "name "+name.Name, spaced(name.Name))
			}
		case *ast.ImportSpec:
			return false
		}
		return true
	})
	return faults
}

// spaced puts a space before each capital letter of a name.
func spaced(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Comments, texts and names are in plain technical English.
func TestWords_InGoFiles_AreNotRetired(t *testing.T) {
	w := newWords()
	for _, f := range goFiles(t) {
		if f.path == "internal/house/words_test.go" {
			continue // it lists the words
		}
		parsed, set := f.parse(t, parser.ParseComments)
		for _, fault := range append(w.ofGo(set, parsed, f.isTest), wideComments(t, f)...) {
			t.Error(fault)
		}
	}
}

// wideComments returns the lines of comments that are too wide.
func wideComments(t *testing.T, f goFile) (faults []string) {
	t.Helper()
	if strings.HasPrefix(filepath.Base(f.path), "example_") {
		return nil // the output of an example is as wide as it is
	}
	text := check.Value(os.ReadFile(filepath.Join(root(), filepath.FromSlash(f.path))))(t)
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "//") && !strings.HasPrefix(strings.TrimSpace(line), "//go:") && width(line) > commentColumns {
			faults = append(faults, fmt.Sprintf("%s:%d: a comment of %d columns", f.path, n, width(line)))
		}
	}
	return faults
}

// Documents and help pages, too.
func TestWords_InDocuments_AreNotRetired(t *testing.T) {
	w, seen := newWords(), 0
	err := filepath.WalkDir(root(), func(at string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && at != root() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		rel := filepath.ToSlash(check.Value(filepath.Rel(root(), at))(t))
		if d.IsDir() || !strings.HasSuffix(rel, ".md") && !strings.HasSuffix(rel, "help.txt") {
			return nil
		}
		seen++
		for i, paragraph := range strings.SplitAfter(string(check.Value(os.ReadFile(at))(t)), "\n\n") {
			for _, fault := range w.in(paragraph) {
				t.Errorf("%s: paragraph %d: %s", rel, i+1, fault)
			}
		}
		return nil
	})
	check.Need(t, err == nil && seen > 30, "%v, %d documents", err, seen)
}

// What the check finds, and what it lets be.
func TestWords_FindsEachRetiredWord(t *testing.T) {
	w := newWords()
	for _, text := range []string{"Tells who", "the file behind\nit", "it is carried\nout", "nobody", "a look", "It lies there"} {
		check.That(t, len(w.in(text)) == 1, "%q: %v", text, w.in(text))
	}
	for _, text := range []string{"a retold story", "a server behind a reverse proxy", "the layout", "a lookup", "standby", "belies", `"anew":"0.5"`} {
		check.That(t, len(w.in(text)) == 0, "%q: %v", text, w.in(text))
	}
	const source = "package p\n\n// F is told.\nfunc tellAll(whoever int) string { return \"meanwhile\" }\n"
	set := token.NewFileSet()
	file := check.Value(parser.ParseFile(set, "p.go", source, parser.ParseComments))(t)
	check.That(t, len(w.ofGo(set, file, false)) == 4, "%v", w.ofGo(set, file, false))
	check.That(t, len(w.ofGo(set, file, true)) == 1, "%v", w.ofGo(set, file, true))
	check.That(t, utf8.RuneCountInString(spaced("tellAll")) == 8, "%q", spaced("tellAll"))
}

// A test is named TestSubject_Condition_Result, without retired words.
func TestTestNames_SayWhatBreaks(t *testing.T) {
	w, seen := newWords(), 0
	for _, f := range goFiles(t) {
		if !f.isTest {
			continue
		}
		parsed, set := f.parse(t, parser.SkipObjectResolution)
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") || fn.Name.Name == "TestMain" {
				continue
			}
			seen++
			name, at := fn.Name.Name, set.Position(fn.Pos())
			check.That(t, strings.Contains(name, "_"), "%s: %s: after the subject, its name has _ and a condition or result", at, name)
			if f.path != "internal/house/words_test.go" {
				check.That(t, len(w.in(spaced(strings.ReplaceAll(name, "_", " ")))) == 0, "%s: %s: %v", at, name, w.in(spaced(name)))
			}
		}
	}
	check.That(t, seen > 1000, "%d tests were found", seen)
}
