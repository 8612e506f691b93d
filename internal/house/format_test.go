package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// A text with verbs has an argument for each, also where it is passed to one of our own functions:
// go vet does not recognize most of them as wrappers of fmt.
func TestFormats_EachVerb_HasAnArgument(t *testing.T) {
	verb, seen := regexp.MustCompile(`%[-+# 0]*(\*|\d+)?(\.(\*|\d+))?[a-zA-Z%]`), 0
	for _, f := range goFiles(t) {
		if f.isTest {
			continue
		}
		parsed, set := f.parse(t, parser.SkipObjectResolution)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || call.Ellipsis.IsValid() {
				return true
			}
			for i, argument := range call.Args {
				text, isText := constantText(argument)
				if !isText || i == len(call.Args)-1 && !formats(call) {
					continue
				}
				want := 0
				for _, v := range verb.FindAllString(text, -1) {
					if !strings.HasSuffix(v, "%") {
						want += 1 + strings.Count(v, "*")
					}
				}
				if want > 0 && !strings.Contains(text, "%[") {
					seen++
					got := len(call.Args) - i - 1
					check.That(t, got == want, "%s: %d arguments for the %d verbs of %q", set.Position(call.Pos()), got, want, text)
				}
				break
			}
			return true
		})
	}
	check.That(t, seen > 500, "%d texts with verbs were found", seen)
}

// formats returns true if a function is named like one that formats.
func formats(call *ast.CallExpr) bool {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	return strings.HasSuffix(name, "f") || name == "Invalid" || name == "Corrupt" || name == "fault" || name == "invalid"
}

// constantText returns the text of a literal, or of literals that are joined.
func constantText(e ast.Expr) (text string, is bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil && x.Kind == token.STRING
	case *ast.BinaryExpr:
		left, isLeft := constantText(x.X)
		right, isRight := constantText(x.Y)
		return left + right, isLeft && isRight
	}
	return "", false
}
