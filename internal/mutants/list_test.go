package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// mutant is a fault, and the test that catches it.
type mutant struct {
	at       string // the list and line of the entry
	path     string // the directory of the function, or the file that is not Go, in the module
	name     string // of the function or other declaration
	fault    string // what is wrong
	old, new string
	pkg      string // the directory of the test
	test     string // its name; a subtest follows a slash
	hangs    bool   // the test ends only by its time limit
}

// title identifies a mutant.
func (m mutant) title() string { return m.path + " " + m.name + ": " + m.fault }

// entry matches an entry without its comments.
var entry = regexp.MustCompile(`^= (\S+)(?: (\S+))?: (.+)\n((?:- .*\n)+)((?:\+.*\n)*)! (\S+) (\S+)( hangs)?$`)

// comments are lines of a paragraph that begin with #, and empty lines.
var comments = regexp.MustCompile(`(?m)^(#.*)?\n`)

// parseList reads the entries of a list. faults describes paragraphs that are not entries.
func parseList(name, text string) (all []mutant, faults []string) {
	line := 1
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		at := fmt.Sprintf("%s:%d", name, line)
		line += strings.Count(paragraph, "\n") + 2
		text := strings.TrimSpace(comments.ReplaceAllString(paragraph+"\n", ""))
		if found := entry.FindStringSubmatch(text); found != nil {
			old, new := strings.ReplaceAll("\n"+found[4], "\n- ", "\n"), strings.ReplaceAll("\n"+found[5], "\n+", "\n")
			all = append(all, mutant{at, found[1], found[2], found[3], strings.TrimSpace(old), strings.TrimSpace(new), found[6], found[7], found[8] != ""})
		} else if text != "" {
			faults = append(faults, fmt.Sprintf("%s: not an entry of the form of doc.go: %q", at, text))
		}
	}
	return all, faults
}

// mutants returns all entries.
func mutants(t *testing.T) (all []mutant) {
	t.Helper()
	for _, name := range []string{"outside.txt", "ledger.txt"} {
		entries, faults := parseList(name, string(check.Value(os.ReadFile(name))(t)))
		check.That(t, len(faults) == 0, "%s", strings.Join(faults, "\n"))
		all = append(all, entries...)
	}
	return all
}

// testsOf returns the text of all tests of a package.
func testsOf(t *testing.T, pkg string) (text string) {
	t.Helper()
	for _, file := range check.Value(filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go")))(t) {
		text += string(check.Value(os.ReadFile(file))(t))
	}
	return text
}

// Each entry fits the code, and the test that it names exists.
func TestMutants_FitTheCode(t *testing.T) {
	all := mutants(t)
	check.That(t, len(all) >= 600, "only %d mutants", len(all))
	c, titles, tests := code{}, map[string]bool{}, map[string]string{}
	for _, m := range all {
		_, _, err := c.apply(m)
		check.That(t, err == nil, "%s: %v", m.at, err)
		check.That(t, !titles[m.title()], "%s: a second entry with this title", m.at)
		titles[m.title()] = true
		if _, read := tests[m.pkg]; !read {
			tests[m.pkg] = testsOf(t, m.pkg)
		}
		test, _, _ := strings.Cut(m.test, "/")
		check.That(t, strings.Contains(tests[m.pkg], "\nfunc "+test+"(t *testing.T)"), "%s: package %s has no test %s; correct the last line of the entry", m.at, m.pkg, test)
	}
}

func TestParseList_FaultyEntries_AreReported(t *testing.T) {
	all, faults := parseList("list", "# A comment.\n\n= a T.f: wrong\n- if x {\n- \ty\n+ if !x {\n+ \ty\n! a TestX/some_case\n\n"+
		"= c.json: slow\n- i++\n! c TestY hangs\n")
	want := []mutant{
		{"list:3", "a", "T.f", "wrong", "if x {\n\ty", "if !x {\n \ty", "a", "TestX/some_case", false},
		{"list:10", "c.json", "", "slow", "i++", "", "c", "TestY", true},
	}
	check.That(t, len(faults) == 0 && slices.Equal(all, want), "read as %+v, with faults %q", all, faults)
	for _, text := range []string{
		"= a f: x\n- y\n? a TestX", "= a f: x\n- y", "= a f: x\n! a TestX", "= a f\n- y\n! a TestX",
		"= a f: x\n- y\n! TestX", "= a f: x\n- y\n! a TestX dies", "= a f: x\n= b f: x\n- y\n! a TestX",
	} {
		all, faults := parseList("list", text)
		check.That(t, len(all) == 0 && len(faults) == 1, "%q is read as %+v, with faults %q", text, all, faults)
	}
}

// A mutant applies to its function in any file of the package, with lines wrapped in any way and
// any comments.
func TestApply_WrappedLines_CodeIsFoundOnce(t *testing.T) {
	const text = "package p\n\nfunc e() { f(0) }\n\nconst (\n\tx = 1\n\ty = x + 1\n)\n\n" +
		"func (t *T[A]) f(a,\n\tb int,\n) bool { // f\n\treturn a < b && // <\n\t\tf(b)\n}\n"
	all, err := parse("p.go", text)
	check.Need(t, err == nil && len(all) == 4, "%v %v", all, err)
	c := code{"p": all}
	for _, m := range []struct{ name, old, new, want string }{
		{"T.f", "(a, b int) bool", "(a, b, c int) bool", "f(a, b, c int) bool { // f"},
		{"T.f", "a < b && f(b)", "f(b)", "\treturn f(b)\n}"},
		{"T.f", "< b", "<= b", "a <= b && // <"},
		{"e", "f(0)", "", "func e() {  }"},
		{"y", "1", "2", "\ty = x + 2\n"},
		{"T.f", "f(0)", "f(1)", ""}, // in another function
		{"T.f", "b", "c", ""},       // several times
		{"y", "1", "1", ""},         // nothing changes
		{"y", "1", ")", ""},         // no Go
		{"z", "1", "2", ""},         // no such declaration
	} {
		_, got, err := c.apply(mutant{path: "p", name: m.name, old: m.old, new: m.new})
		check.That(t, (m.want != "" || err != nil) && (m.want == "" || err == nil && strings.Contains(got, m.want)),
			"%q for %q in %s: %q, %v", m.new, m.old, m.name, got, err)
	}
}

// The error for an entry whose code has moved names its new place.
func TestApply_MovedCode_ErrorNamesItsPlace(t *testing.T) {
	for _, m := range []mutant{{path: "policy", name: "Epsilon.Nano"}, {path: "policy", old: "func (e Epsilon) Nano() int64"}} {
		_, _, err := (code{}).apply(m)
		check.That(t, err != nil && strings.Contains(err.Error(), `"privacy Epsilon.Nano"`), "%+v: %v", m, err)
	}
}
