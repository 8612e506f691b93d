package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/ledger"
)

// open opens a file to read; the name - stands for stdin.
func (a *app) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.stdin), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, inputError("", "%w", err)
	}
	return file, nil
}

// panel returns the people in a file, or nil for everybody if no file is given.
func (a *app) panel(cmd *cobra.Command, path string, c columns) (people []string, err error) {
	if !cmd.Flags().Changed("objects") {
		return nil, nil
	}
	err = a.rows(cmd.Context(), path, c, func(e entry) { people = append(people, e.object) })
	if err == nil && len(people) == 0 {
		err = inputError("", "%s has nobody to ask about", path)
	}
	return people, err
}

// checkStdin refuses to read two files from standard input.
func checkStdin(objects, truth string) error {
	if objects == "-" && truth == "-" {
		return usageError("", "--objects and --truth cannot both be standard input")
	}
	return nil
}

// rows passes the rows of a CSV file to each. When ctx ends, it returns the reason.
func (a *app) rows(ctx context.Context, path string, c columns, each func(entry)) error {
	return a.stream(ctx, path, func(in io.Reader) error {
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

// stream opens a file for as long as use reads it. When ctx ends, it returns the reason.
func (a *app) stream(ctx context.Context, path string, use func(io.Reader) error) error {
	in, err := a.open(path)
	if err != nil {
		return err
	}
	// Closing it also ends a read that waits for the other end of a pipe.
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer func() {
		if stop() {
			_ = in.Close() // it was only read
		}
	}()
	err = use(in)
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// truthHelp explains where true values come from.
const truthHelp = `The file with the true values is opened only if a draw needs one. They are in the column that
--value-column names; without it, in the column named like the question, or else in the only one that
is left besides that of the ids.`

// truthFlags are the flags that say where true values come from.
type truthFlags struct {
	truth   string
	columns columns
}

func (f *truthFlags) flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.truth, "truth", "", "the CSV `FILE` with the true values")
	f.columns.flags(flags, "the `COLUMN` with the true values (default: the one named like the question)")
	marksFiles(flags, reads, byName, "truth")
}

func (f *truthFlags) source(a *app, l *ledger.Ledger) *truths {
	return &truths{app: a, ledger: l, path: f.truth, columns: f.columns}
}

// truths reads true values from a CSV file when the ledger first asks for one. It is a
// [ledger.TruthFunc] by its method ask.
type truths struct {
	app     *app
	ledger  *ledger.Ledger
	path    string // "" if there is no file
	columns columns
	// several tells that the ledger may ask about more than one question. Then a column counts only for
	// the question it is named like: another one's values would be drawn from, for good.
	several  bool
	question string            // whose values are loaded
	values   map[string]string // nil if none are
	wrong    map[string]int    // the lines of people whose value is none of the question's
	allowed  []string          // the question's values
}

func (t *truths) ask(ctx context.Context, question string, objects []string) ([]string, error) {
	if t.path == "" {
		return nil, usageError("give --truth FILE", "a draw is needed, for which no true values are given")
	}
	if t.values == nil || t.question != question {
		if err := t.load(ctx, question); err != nil {
			return nil, err
		}
	}
	values := make([]string, len(objects))
	for i, object := range objects {
		if line, wrong := t.wrong[object]; wrong {
			return nil, inputError("the values of the question are "+listed(t.allowed), "%s: line %d: the true value is none of the question's", t.path, line)
		}
		values[i] = t.values[object]
	}
	return values, nil
}

// checkSeveral refuses what is right for one question only.
func (t *truths) checkSeveral(question string) error {
	switch {
	case !t.several:
		return nil
	case t.path == "-" && t.values != nil:
		return usageError("give a file, or advance one question at a time with --question "+question,
			"standard input can be read once only, and two questions need true values")
	case t.columns.value != "" && t.columns.value != question:
		return usageError(fmt.Sprintf("add --question NAME for the question that column %q is about, or leave out --value-column: then each question takes the column named like it", t.columns.value),
			"question %q needs true values, and --value-column names a column of another name", question)
	}
	return nil
}

// load reads the file. Values that the question does not have matter only if somebody's is asked for.
func (t *truths) load(ctx context.Context, question string) error {
	if err := t.checkSeveral(question); err != nil {
		return err
	}
	known, err := t.known(ctx, question)
	if err != nil {
		return err
	}
	c := t.columns
	c.guess, c.question, c.strict = true, question, t.several
	values, wrong := map[string]string{}, map[string]int{}
	err = t.app.rows(ctx, t.path, c, func(e entry) {
		if value, found := known[e.value]; found {
			values[e.object] = value
		} else {
			wrong[e.object] = e.line
		}
	})
	if err == nil {
		t.question, t.values, t.wrong = question, values, wrong
	}
	return err
}

// known returns the values that a file may have, each as the one text that all people with it share: those of the
// question, and nothing.
func (t *truths) known(ctx context.Context, question string) (map[string]string, error) {
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

// textOrFile returns the text of a flag, or of the file it names behind an @, up to a size.
func (a *app) textOrFile(flag string, most int64) ([]byte, error) {
	path, named := strings.CutPrefix(flag, "@")
	if !named {
		return []byte(flag), nil
	}
	in, err := a.open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, inputError("", "%w", err)
	}
	return text, nil
}
