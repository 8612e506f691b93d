package model

import (
	"fmt"
	"go/ast"
	gofmt "go/format"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// A game that fails is made short and simple, and printed as a test.

// shrinkTries is how often a game that fails is played, to find a shorter one.
const shrinkTries = 3000

// shrink returns moves that fail as the given ones do: without those that do not matter, and with the simplest arguments
// that will do. It asks at most so many times whether some fail.
func shrink(moves []move, tries int, fails func([]move) bool) []move {
	try := func(other []move) bool {
		if tries--; tries < 0 || !fails(other) {
			return false
		}
		moves = other
		return true
	}
	for again := true; again && tries > 0; {
		again = false
		for size := (len(moves) + 1) / 2; size > 0; size /= 2 {
			for i := 0; i+size <= len(moves); {
				if try(slices.Delete(slices.Clone(moves), i, i+size)) {
					again = true
				} else {
					i += size
				}
			}
		}
		for i := range moves {
			for simplify := true; simplify; {
				simplify = slices.ContainsFunc(simpler(moves[i]), func(one move) bool {
					other := slices.Clone(moves)
					other[i] = one
					return try(other)
				})
				again = again || simplify
			}
		}
	}
	return moves
}

// simpler returns the moves that are simpler than one in a single argument.
func simpler(one move) (out []move) {
	if restore, ok := one.(moveRestore); ok {
		out = append(out, moveReopen{restore.How})
	}
	vary("", reflect.ValueOf(one), func(other reflect.Value) { out = append(out, other.Interface().(move)) })
	return out
}

// vary yields the simpler forms of an argument.
func vary(field string, v reflect.Value, yield func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		if (field == "How" || field == "Host") && !v.IsZero() {
			yield(reflect.Zero(v.Type()))
		}
		for i := range v.NumField() {
			vary(v.Type().Field(i).Name, v.Field(i), func(simpler reflect.Value) {
				whole := reflect.New(v.Type()).Elem()
				whole.Set(v)
				whole.Field(i).Set(simpler)
				yield(whole)
			})
		}
	case reflect.Slice:
		for i := 0; v.Len() > 1 && i < v.Len(); i++ {
			yield(reflect.AppendSlice(reflect.AppendSlice(reflect.Zero(v.Type()), v.Slice(0, i)), v.Slice(i+1, v.Len())))
		}
	default:
		for _, simple := range simplest(field, v.Type()) {
			if v.Equal(simple) {
				return
			}
			yield(simple)
		}
	}
}

// simplest returns the simplest values of an argument, the very simplest first. Not everything may be nothing.
func simplest(field string, kind reflect.Type) []reflect.Value {
	var values []any
	switch field {
	case "Question":
		values = []any{"vote"}
	case "Object":
		values = []any{"ann"}
	case "Buyer":
		values = []any{"acme"}
	case "Query":
		values = []any{"majority:yes"}
	case "Epsilon":
		values = []any{milli(100), milli(500)}
	case "By", "For":
		values = []any{time.Hour, 24 * time.Hour}
	default:
		return []reflect.Value{reflect.Zero(kind)}
	}
	var out []reflect.Value
	for _, value := range values {
		out = append(out, reflect.ValueOf(value).Convert(kind))
	}
	return out
}

var particulars = regexp.MustCompile(`"[^"]*"|/\S*|[0-9]+(\.[0-9]+)?`)

// wayOf is the way in which a game failed: what is said first of it, without names and numbers. Games that differ in
// that fail for other reasons, it may be, and one is not shrunk into the other.
func wayOf(failure string) string {
	first, _, _ := strings.Cut(failure, "\n")
	return particulars.ReplaceAllString(first, "…")
}

// inGo returns a test that plays a game, to be put into bugs_test.go.
func inGo(seed uint64, moves []move, failure string) string {
	text := fmt.Sprintf("// The game of seed %d, made short: %s\nfunc TestTheGameOfSeed%d(t *testing.T) {\n\tmoves := []move{\n", seed, wayOf(failure), seed)
	for _, one := range moves {
		text += goText(reflect.ValueOf(one)) + ",\n"
	}
	text += fmt.Sprintf("\t}\n\tif failure := newTable().play(t, %d, moves); failure != \"\" {\n\t\tt.Error(failure)\n\t}\n}\n", seed)
	if formatted, err := gofmt.Source([]byte(text)); err == nil {
		return string(formatted)
	}
	return text
}

// goText returns an argument as it stands in a program. What is nothing is left out.
func goText(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		for _, unit := range []struct {
			length time.Duration
			name   string
		}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}} {
			if value%unit.length == 0 {
				return fmt.Sprintf("%d * %s", value/unit.length, unit.name)
			}
		}
		return fmt.Sprint(int64(value))
	case int64:
		if value%milli(1) == 0 {
			return fmt.Sprintf("milli(%d)", value/milli(1))
		}
		return fmt.Sprint(value)
	}
	if v.Kind() != reflect.Struct {
		return fmt.Sprintf("%#v", v.Interface())
	}
	var fields []string
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !v.Field(i).IsZero() {
			fields = append(fields, name+": "+goText(v.Field(i)))
		}
	}
	return v.Type().Name() + "{" + strings.Join(fields, ", ") + "}"
}

// TestFailingGamesAreShrunk plants faults, and looks at what is printed.
func TestFailingGamesAreShrunk(t *testing.T) {
	for name, fault := range map[string]struct {
		plant func(*game, move)
		told  string // how the failure begins that is shrunk: other ways to fail take other moves
		moves int    // that it takes
	}{
		"somebody is charged too little": {func(g *game, one move) {
			if r, ok := one.(moveRelease); ok && r.Epsilon >= milli(500) && g.paper.people[r.Object] != nil && g.paper.chain(r.Question, r.Object).levels[r.Epsilon] != nil {
				g.paper.people[r.Object].spent--
			}
		}, "the object is", 2},
		"what was lost is still owed": {func(g *game, one move) {
			if _, ok := one.(moveRestore); ok && len(g.copies) > 0 && g.paper.people["bob"] != nil {
				g.paper.people["bob"].earned++
			}
		}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantShrunk(t, fault.plant, fault.told, fault.moves)
		})
	}
}

// wantShrunk plays games with a fault until one fails in a certain way, and wants that one shrunk to so many moves.
func wantShrunk(t *testing.T, plant func(*game, move), told string, size int) {
	t.Helper()
	faulty, failure := newTable(), ""
	faulty.flaw = plant
	seed, moves := uint64(0), []move(nil)
	for (failure == "" || !strings.HasPrefix(failure, told)) && seed < 1000 {
		seed++
		moves = newMoves(seed, 50)
		failure = faulty.play(t, seed, moves)
	}
	check.Need(t, failure != "" && strings.HasPrefix(failure, told), "no game fails so")
	short := faulty.shrink(t, seed, moves, wayOf(failure))
	if again := faulty.play(t, seed, short); len(short) != size || wayOf(again) != wayOf(failure) {
		t.Errorf("%d moves are shrunk to %d, want %d; before:\n\t%s\nafter:\n\t%s", len(moves), len(short), size, failure, again)
	}
	if other := newTable().play(t, seed, short); other != "" {
		t.Errorf("it fails without the fault: %s", other)
	}
	text := inGo(seed, short, failure)
	t.Log(text)
	file := check.Value(parser.ParseFile(token.NewFileSet(), "", "package model\n\nimport \"testing\"\n\n"+text, parser.SkipObjectResolution))(t)
	if want := fmt.Sprint("TestTheGameOfSeed", seed); len(file.Decls) != 2 || file.Decls[1].(*ast.FuncDecl).Name.Name != want {
		t.Errorf("what is printed is not a test of the name %s", want)
	}
}
