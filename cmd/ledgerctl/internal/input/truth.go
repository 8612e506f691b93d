package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
)

// ReadPanel returns the ids of the people in a file, or nil, which means all people, for path "".
func ReadPanel(ctx context.Context, s *Files, path string, c Columns) (people []string, err error) {
	if path == "" {
		return nil, nil
	}
	err = ReadRows(ctx, s, path, c, func(e Entry) { people = append(people, e.Object) })
	if err == nil && len(people) == 0 {
		err = output.InputError("", "%s: the file has no people", path)
	}
	return people, err
}

// Budgets is a ledger that reports budgets.
type Budgets interface {
	// Budget is that of [ledger.Ledger].
	Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error)
}

// CheckPeople returns an error if no person in a file is enrolled in the question. Then the column
// is probably not that of the ids, and its cells may be true values, so the error contains no cell.
// Commands call it before a request that prints or records the names of refused people.
//
// It reports no other error: such an error also fails the request, or is caused by a token that may
// not request budgets.
func (c IDColumn) CheckPeople(ctx context.Context, l Budgets, path, question string, people []string) error {
	const most = 1000 // objects in a call; usually the first call finds an enrolled object
	if path == "" {
		return nil
	}
	for some := range slices.Chunk(people, most) {
		b, err := l.Budget(ctx, api.BudgetRequest{Question: question, Objects: some})
		allUnknown := func(r api.RefusalSum) bool {
			return r.Reason == api.NotEnrolled &&
				r.Count == uint64(len(some))
		}
		if err != nil || !slices.ContainsFunc(b.Refused, allUnknown) {
			return nil // at least one of these people is enrolled, or nothing can be found out
		}
	}
	what := fmt.Sprintf("the ids in column %q", c.ID)
	if c.ByRow {
		what = "the numbers of its rows"
	}
	return output.InputError(`do --id-column or --id-rows select the ids? "ledgerctl enroll" adds people to a question`,
		"%s: %s: none of them (%d) is enrolled in question %q; they are not shown, because they may be true values",
		path, what, len(people), question)
}

// CheckStdin returns an error if both files are standard input.
func CheckStdin(objects, truth string) error {
	if objects == "-" && truth == "-" {
		return output.UsageError("", "--objects and --truth cannot both be standard input")
	}
	return nil
}

// TruthFlags are the flags for the source of true values.
type TruthFlags struct {
	Truth   string  `flag:"truth,reads"` // the file, or "" for none
	Columns Columns // of the file
}

// Source returns the true values in the file for the questions of a ledger. A partial request
// leaves out people whose value is not one of the question's values. Without partial, such a value
// is an error.
func (f *TruthFlags) Source(s *Files, l Ledger, partial bool) *Truths {
	return &Truths{files: s, ledger: l, path: f.Truth, columns: f.Columns, partial: partial}
}

// Ledger is a ledger that lists its questions.
type Ledger interface {
	// Questions is that of [ledger.Ledger].
	Questions(ctx context.Context) iter.Seq2[api.Question, error]
}

// Truths reads true values from a CSV file when the ledger first requests one. Its method Ask is an
// [api.TruthFunc].
type Truths struct {
	files   *Files
	ledger  Ledger
	path    string // "" if there is no file
	columns Columns
	partial bool
	// Several means that the ledger may request the values of more than one question. Then a column
	// is used only for the question of its name, because a draw from the wrong column is permanent.
	Several  bool
	question string            // the question whose values are loaded
	values   map[string]string // by object; nil if none are loaded
	wrong    map[string]int    // by object: the line of a value that the question does not have
	allowed  []string          // the values of the question
}

// Ask implements [api.TruthFunc]. It returns "" for an object without a value in the file. For a
// value that the question does not have, it returns an error with the line of the file, never the
// value; in a partial request it returns a value that no question has.
func (t *Truths) Ask(ctx context.Context, question string, objects []string) ([]string, error) {
	if t.path == "" {
		return nil, output.UsageError("give --truth FILE", "a draw is needed, and no true values are given")
	}
	if t.values == nil || t.question != question {
		if err := t.load(ctx, question); err != nil {
			return nil, err
		}
	}
	values := make([]string, len(objects))
	var lines []int
	for i, object := range objects {
		values[i] = t.values[object]
		if line, wrong := t.wrong[object]; wrong {
			values[i], lines = invalid, append(lines, line)
		}
	}
	if len(lines) > 0 && !t.partial {
		return nil, wrongValues(t.path, lines, t.allowed, "--partial leaves such people out")
	}
	return values, nil
}

// invalid replaces a value that the question does not have, so that the ledger never sees the cell.
// No value of a question has a control character.
const invalid = "\x00"

// wrongValues returns the error for lines of a file with values that a question does not have. It
// lists the first ten lines, and in its hint the values allowed. It sorts lines.
func wrongValues(path string, lines []int, allowed []string, hint string) error {
	const most = 10
	slices.Sort(lines)
	listed := make([]string, 0, most+1)
	for _, line := range lines[:min(len(lines), most)] {
		listed = append(listed, strconv.Itoa(line))
	}
	if more := len(lines) - len(listed); more > 0 {
		listed = append(listed, fmt.Sprintf("and %d more", more))
	}
	what := "line"
	if len(lines) > 1 {
		what = "lines"
	}
	return output.InputError(hint+"; the values of the question are "+output.ListedQuoted(allowed),
		"%s: %s %s: the true value is not a value of the question", path, what, strings.Join(listed, ", "))
}

// Values are the values of a file, which are checked once the ledger is open.
type Values map[string][]int // value to its lines

// Add adds the value of a row, if it has one.
func (v Values) Add(e Entry) {
	if e.value != "" {
		value := strings.Clone(e.value)
		v[value] = append(v[value], e.line)
	}
}

// Check returns an error that lists the lines with values that a question does not have. It returns
// nil for a question that the ledger does not have.
func (v Values) Check(ctx context.Context, l Ledger, path, question string) error {
	t := Truths{ledger: l}
	known, err := t.known(ctx, question)
	if errors.Is(err, api.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	var lines []int
	for value, its := range v {
		if _, is := known[value]; !is {
			lines = append(lines, its...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return wrongValues(path, lines, t.allowed, "correct them, or leave the cell empty to skip the row")
}

// checkSeveral returns an error if Several is set, and the flags allow only one question.
func (t *Truths) checkSeveral(question string) error {
	switch {
	case !t.Several:
		return nil
	case t.path == "-" && t.values != nil:
		return output.UsageError("give a file, or advance one question at a time with --question "+question,
			"standard input can be read once only, and two questions need true values")
	case t.columns.Value != "" && t.columns.Value != question:
		return output.UsageError(fmt.Sprintf("add --question NAME for the question of column %q, or omit "+
			"--value-column: then each question uses the column of its name", t.columns.Value),
			"question %q needs true values, and --value-column names a column of another name", question)
	}
	return nil
}

// load reads the values for a question from the file. A value that the question does not have is
// no error yet: t.wrong gets its line, and Ask returns the error if the ledger requests the value.
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
	err = ReadRows(ctx, t.files, t.path, c, func(e Entry) {
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

// known returns the values that a file may have: those of the question, and "". Each is mapped to
// itself, so that all people with a value share one string. It sets t.allowed to the values of the
// question.
func (t *Truths) known(ctx context.Context, question string) (map[string]string, error) {
	all, err := api.Collect(t.ledger.Questions(ctx))
	at := slices.IndexFunc(all, func(q api.Question) bool { return q.Name == question })
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return nil, fmt.Errorf("question %q: %w", question, api.ErrUnknown)
	}
	t.allowed = all[at].Values
	known := map[string]string{"": ""}
	for _, value := range t.allowed {
		known[value] = value
	}
	return known, nil
}

// ReadRows calls each for the rows of a CSV file. If ctx ends, it returns its error.
func ReadRows(ctx context.Context, s *Files, path string, c Columns, each func(Entry)) error {
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
