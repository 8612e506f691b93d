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

// ReadPanel returns the people in a file, or nil for everybody if no file is given.
func ReadPanel(ctx context.Context, s *Files, path string, c Columns) (people []string, err error) {
	if path == "" {
		return nil, nil
	}
	err = ReadRows(ctx, s, path, c, func(e Entry) { people = append(people, e.Object) })
	if err == nil && len(people) == 0 {
		err = output.InputError("", "%s has nobody to ask about", path)
	}
	return people, err
}

// Budgets is a ledger that counts the people who take part in a question.
type Budgets interface {
	// Budget is as [ledger.Ledger] has it.
	Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error)
}

// CheckPeople returns an error if none of the people in a file is enrolled in the question: the
// column is probably not that of the ids, and its cells may be true values. The error has none of
// them. To be of use it must come before a request that prints or records whom it refuses. It
// reports no other fault: what hinders the check hinders the request, too, or is a token that may
// not ask.
func (c IDColumn) CheckPeople(ctx context.Context, l Budgets, path, question string, people []string) error {
	const most = 1000 // in a call: mostly an object of the first call is enrolled
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
			return nil
		}
	}
	what := fmt.Sprintf("the ids in column %q", c.ID)
	if c.ByRow {
		what = "the numbers of its rows"
	}
	return output.InputError(`do --id-column or --id-rows mean their ids? "ledgerctl enroll" adds people to a question`,
		"%s: %s: none of them (%d) is enrolled in question %q; they are not shown, because they may be true values",
		path, what, len(people), question)
}

// CheckStdin refuses to read two files from standard input.
func CheckStdin(objects, truth string) error {
	if objects == "-" && truth == "-" {
		return output.UsageError("", "--objects and --truth cannot both be standard input")
	}
	return nil
}

// TruthFlags are the flags that say where true values come from.
type TruthFlags struct {
	Truth   string  `flag:"truth,reads"` // the file, or "" for none
	Columns Columns // its columns
}

// Source returns the true values that the flags name, for a ledger. A partial request leaves out
// people whose value is not one of the question's; for another one, such a value is an error.
func (f *TruthFlags) Source(s *Files, l Ledger, partial bool) *Truths {
	return &Truths{files: s, ledger: l, path: f.Truth, columns: f.Columns, partial: partial}
}

// Ledger is what has questions.
type Ledger interface {
	// Questions is as [ledger.Ledger] has it.
	Questions(ctx context.Context) iter.Seq2[api.Question, error]
}

// Truths reads true values from a CSV file when the ledger first asks for one. It is a
// [api.TruthFunc] by its method Ask.
type Truths struct {
	files   *Files
	ledger  Ledger
	path    string // "" if there is no file
	columns Columns
	partial bool
	// Several means that the ledger may ask about more than one question. Then a column counts only
	// for the question it is named like: another one's values would be drawn from, for good.
	Several  bool
	question string            // whose values are loaded
	values   map[string]string // nil if none are
	wrong    map[string]int    // the lines of people whose value is none of the question's
	allowed  []string          // the question's values
}

// Ask implements [api.TruthFunc]. A value that the question does not have is named by its line,
// never by what it is.
func (t *Truths) Ask(ctx context.Context, question string, objects []string) ([]string, error) {
	if t.path == "" {
		return nil, output.UsageError("give --truth FILE", "a draw is needed, for which no true values are given")
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

// invalid stands for a value that the question does not have: no value of a question has a control
// character. What the cell says is not passed on.
const invalid = "\x00"

// wrongValues is the error of values that a question does not have, in lines of a file.
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
		"%s: %s %s: the true value is none of the question's", path, what, strings.Join(listed, ", "))
}

// Values are the values of a file, for which the question is looked up later.
type Values map[string][]int // the lines of each

// Add adds the value of a row, if there is one.
func (v Values) Add(e Entry) {
	if e.value != "" {
		value := strings.Clone(e.value)
		v[value] = append(v[value], e.line)
	}
}

// Check returns an error that lists the lines of a file with values that a question does not have.
// Of a question that the ledger does not know it says nothing.
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
	for value, of := range v {
		if _, is := known[value]; !is {
			lines = append(lines, of...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return wrongValues(path, lines, t.allowed, "correct them, or leave the cell empty to skip the row")
}

// checkSeveral refuses what is right for one question only.
func (t *Truths) checkSeveral(question string) error {
	switch {
	case !t.Several:
		return nil
	case t.path == "-" && t.values != nil:
		return output.UsageError("give a file, or advance one question at a time with --question "+question,
			"standard input can be read once only, and two questions need true values")
	case t.columns.Value != "" && t.columns.Value != question:
		return output.UsageError(fmt.Sprintf("add --question NAME for the question that column %q is about, or "+
			"leave out --value-column: then each question takes the column named like it", t.columns.Value),
			"question %q needs true values, and --value-column names a column of another name", question)
	}
	return nil
}

// load reads the file. Values that the question does not have matter only if the ledger asks
// for them.
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

// known returns the values that a file may have, each as the one text that all people with it
// share: those of the question, and nothing.
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

// ReadRows passes the rows of a CSV file to each. When ctx ends, it returns the reason.
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
