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

// Reasons lists every constant of type api.Reason, because the API document uses this list.
func TestReasons_ListEveryConstant(t *testing.T) {
	var listed []string
	for _, one := range Reasons() {
		listed = append(listed, string(one))
	}
	slices.Sort(listed)
	want := constants(t, "../../api/*.go")["Reason"]
	check.That(t, len(want) != 0 && slices.Equal(listed, want), "listed are %q, declared are %q", listed, want)
}

// The values of a text field are those that its documentation lists, in this order. No other
// constants exist.
func TestWords_OfTextFields_AreDocumented(t *testing.T) {
	declared := constants(t, "words.go")[""]
	documented := append(documentedWords(t, "refusal.go", "Refusal", "Remedy"), documentedWords(t, "errors.go", "QuoteError", "Remedy")...)
	if !slices.Equal(documented, Remedies()) {
		t.Errorf("remedies: documented are %q, listed are %q", documented, Remedies())
	}
	states := documentedWords(t, "reserve.go", "Reservation", "State")
	if !slices.Equal(states, ReservationStates()) {
		t.Errorf("states: documented are %q, listed are %q", states, ReservationStates())
	}
	encodings := documentedWords(t, "question.go", "Question", "Encoding")
	if !slices.Equal(encodings, Encodings()) {
		t.Errorf("encodings: documented are %q, listed are %q", encodings, Encodings())
	}
	all := slices.Concat(documented, states, encodings)
	slices.Sort(all)
	check.That(t, len(all) == 17 && slices.Equal(all, declared), "documented are %q, declared are %q", all, declared)
}

// documentedWords returns the words that the comment of a field lists.
func documentedWords(t *testing.T, file, of, field string) (words []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../api/"+file, nil, parser.ParseComments|parser.SkipObjectResolution)
	check.Must(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, is := n.(*ast.TypeSpec); is {
			return spec.Name.Name == of
		}
		if f, is := n.(*ast.Field); is && len(f.Names) == 1 && f.Names[0].Name == field {
			for line := range strings.Lines(f.Doc.Text()) {
				if rest, is := strings.CutPrefix(strings.TrimSpace(line), `- "`); is {
					word, _, _ := strings.Cut(rest, `"`)
					words = append(words, word)
				}
			}
		}
		return true
	})
	return words
}

// constants returns the values of the string constants in some files by type, sorted; those without
// a type under "".
func constants(t *testing.T, pattern string) map[string][]string {
	t.Helper()
	files := check.Value(filepath.Glob(pattern))(t)
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
			of, named := &ast.Ident{}, spec.Type == nil
			if !named {
				of, named = spec.Type.(*ast.Ident)
			}
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
