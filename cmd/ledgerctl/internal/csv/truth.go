package csv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

// People are the objects of a file, with the lines of their ids: the file may be a pipe, which cannot be read again.
type People struct {
	Objects []string // nil for all, if no file was named
	path    string
	column  string // with the ids; "" for none
	lines   []int
}

// ReadPeople returns the objects of a file.
func ReadPeople(ctx context.Context, s *files.Files, path string, c Columns) (p People, err error) {
	p = People{path: path, column: c.ID}
	err = Rows(ctx, s, path, c, func(e Entry) { p.Objects, p.lines = append(p.Objects, e.Object), append(p.lines, e.line) })
	return p, err
}

// Panel is ReadPeople of a file with at least one object, or all objects if no file is named.
func Panel(ctx context.Context, s *files.Files, path string, c Columns) (p People, err error) {
	if path == "" {
		return p, nil
	}
	p, err = ReadPeople(ctx, s, path, c)
	if err == nil && len(p.Objects) == 0 {
		err = fault.Input("", "%s has nobody to ask about", path)
	}
	return p, err
}

// PlaceOf says where in the file the id stands that the ledger refuses as a name, and what is wrong with it, instead of the
// name: the column could be the wrong one. Other errors stay what they are.
func (p People) PlaceOf(err error) error {
	var name *ledger.NameError
	if !errors.As(err, &name) || name.What != "object" {
		return err
	}
	at := slices.Index(p.Objects, name.Name)
	if at < 0 {
		return err // it was named elsewhere
	}
	return fault.Input("", "%s: line %d, column %q: the id has %s at byte %d", p.path, p.lines[at], p.column, name.Fault, name.Offset)
}

// CheckStdin refuses to read two files from standard input.
func CheckStdin(objects, truth string) error {
	if objects == "-" && truth == "-" {
		return fault.Usage("", "--objects and --truth cannot both be standard input")
	}
	return nil
}

// TruthHelp explains where true values come from.
const TruthHelp = `The file with the true values is opened only if a draw needs one. They are in the column that
--value-column names; without it, in the column named like the question, or else in the only one that
is left besides that of the ids.`

// TruthFlags are the flags that say where true values come from.
type TruthFlags struct {
	Truth   string  // the file, or "" for none
	Columns Columns // its columns
}

// Flags adds the flags.
func (f *TruthFlags) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Truth, "truth", "", "the CSV `FILE` with the true values")
	f.Columns.Flags(flags, "the `COLUMN` with the true values (default: the one named like the question)")
	files.Mark(flags, files.Reads, files.ByName, "truth")
}

// Source returns the true values that the flags name, for a ledger.
func (f *TruthFlags) Source(s *files.Files, l Ledger) *Truths {
	return &Truths{files: s, ledger: l, path: f.Truth, columns: f.Columns}
}

// Ledger is what has questions.
type Ledger interface {
	// Questions is as [ledger.Ledger] has it.
	Questions(ctx context.Context) ([]ledger.Question, error)
}

// Truths reads true values from a CSV file when the ledger first asks for one. It is a
// [ledger.TruthFunc] by its method Ask.
type Truths struct {
	files   *files.Files
	ledger  Ledger
	path    string // "" if there is no file
	columns Columns
	// Several tells that the ledger may ask about more than one question. Then a column counts only for
	// the question it is named like: another one's values would be drawn from, for good.
	Several  bool
	question string            // whose values are loaded
	values   map[string]string // nil if none are
	wrong    map[string]int    // the lines of people whose value is none of the question's
	allowed  []string          // the question's values
}

// Ask implements [ledger.TruthFunc]. A value that the question does not have is named by its line, never by what it is.
func (t *Truths) Ask(ctx context.Context, question string, objects []string) ([]string, error) {
	if t.path == "" {
		return nil, fault.Usage("give --truth FILE", "a draw is needed, for which no true values are given")
	}
	if t.values == nil || t.question != question {
		if err := t.load(ctx, question); err != nil {
			return nil, err
		}
	}
	values := make([]string, len(objects))
	for i, object := range objects {
		if line, wrong := t.wrong[object]; wrong {
			return nil, fault.Input("the values of the question are "+words.ListedQuoted(t.allowed), "%s: line %d: the true value is none of the question's", t.path, line)
		}
		values[i] = t.values[object]
	}
	return values, nil
}

// checkSeveral refuses what is right for one question only.
func (t *Truths) checkSeveral(question string) error {
	switch {
	case !t.Several:
		return nil
	case t.path == "-" && t.values != nil:
		return fault.Usage("give a file, or advance one question at a time with --question "+question,
			"standard input can be read once only, and two questions need true values")
	case t.columns.value != "" && t.columns.value != question:
		return fault.Usage(fmt.Sprintf("add --question NAME for the question that column %q is about, or leave out --value-column: then each question takes the column named like it", t.columns.value),
			"question %q needs true values, and --value-column names a column of another name", question)
	}
	return nil
}

// load reads the file. Values that the question does not have matter only if somebody's is asked for.
func (t *Truths) load(ctx context.Context, question string) error {
	if err := t.checkSeveral(question); err != nil {
		return err
	}
	known, err := t.known(ctx, question)
	if err != nil {
		return err
	}
	c := t.columns
	c.guess, c.question, c.strict = true, question, t.Several
	values, wrong := map[string]string{}, map[string]int{}
	err = Rows(ctx, t.files, t.path, c, func(e Entry) {
		if value, found := known[e.value]; found {
			values[e.Object] = value
		} else {
			wrong[e.Object] = e.line
		}
	})
	if err == nil {
		t.question, t.values, t.wrong = question, values, wrong
	}
	return err
}

// known returns the values that a file may have, each as the one text that all people with it share: those of the
// question, and nothing.
func (t *Truths) known(ctx context.Context, question string) (map[string]string, error) {
	all, err := t.ledger.Questions(ctx)
	at := slices.IndexFunc(all, func(q ledger.Question) bool { return q.Name == question })
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return nil, fmt.Errorf("question %q: %w", question, ledger.ErrUnknown)
	}
	t.allowed = all[at].Values
	known := map[string]string{"": ""}
	for _, value := range t.allowed {
		known[value] = value
	}
	return known, nil
}

// Rows passes the rows of a CSV file to each. When ctx ends, it returns the reason.
func Rows(ctx context.Context, s *files.Files, path string, c Columns, each func(Entry)) error {
	return s.Stream(ctx, path, func(in io.Reader) error {
		for e, err := range readCSV(path, in, c) {
			if cause := ctx.Err(); cause != nil {
				return cause
			}
			if err != nil {
				return err
			}
			each(e)
		}
		return nil
	})
}
