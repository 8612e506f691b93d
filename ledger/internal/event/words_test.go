package event

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// The lists of words have every constant of their type: a word that is missing in a list would be missing in the API document.
func TestWords_ListEveryConstant(t *testing.T) {
	declared := constants(t)
	for name, listed := range map[string][]string{
		"Reason": texts(Reasons()), "Remedy": texts(Remedies()), "Encoding": texts(Encodings()), "ReservationState": texts(ReservationStates()),
	} {
		slices.Sort(listed)
		if want := declared[name]; len(want) == 0 || !slices.Equal(listed, want) {
			t.Errorf("%s: listed are %q, declared are %q", name, listed, want)
		}
	}
}

func texts[T ~string](all []T) (out []string) {
	for _, one := range all {
		out = append(out, string(one))
	}
	return out
}

// constants returns the values of the typed string constants of this package by type, sorted.
func constants(t *testing.T) map[string][]string {
	t.Helper()
	files := check.Value(filepath.Glob("../../api/*.go"))(t)
	out := map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := check.Value(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 {
				return true
			}
			of, named := spec.Type.(*ast.Ident)
			value, literal := spec.Values[0].(*ast.BasicLit)
			if named && literal && value.Kind == token.STRING {
				text := check.Value(strconv.Unquote(value.Value))(t)
				out[of.Name] = append(out[of.Name], text)
			}
			return true
		})
	}
	for _, all := range out {
		slices.Sort(all)
	}
	return out
}
