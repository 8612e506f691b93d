package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/rrchain"
)

func (a *app) questionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "question",
		Short: "Add or list questions",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return usageError(`run "ledgerctl question --help"`, "say whether to add or to list questions")
		}),
	}
	cmd.AddCommand(a.questionAddCommand(), a.questionListCommand())
	return cmd
}

func (a *app) questionAddCommand() *cobra.Command {
	var values []string
	var encoding string
	cmd := &cobra.Command{
		Use:   "add NAME --values A,B,… [--encoding direct|unary]",
		Short: "Add a question with its possible values",
		Long: `Add a question with the list of its possible values, which never changes afterwards. Adding the
same question again does nothing.

A response is one of the values (direct encoding, randomized response), or a row with a 0 or 1 for each of
them (unary encoding), which tells more about questions of many values. Unless told, the ledger picks what
estimates better at ε=2: unary encoding from 21 values on.`,
		Example:           "  ledgerctl question add vote --values Y,N,U,A\n  ledgerctl question add name --values @names.txt",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			key, err := uuid.NewRandom()
			if err != nil {
				return err
			}
			q := ledger.Question{Name: args[0], Encoding: ledger.Encoding(encoding)}
			if q.Values, err = readValues(values); err != nil {
				return err
			}
			err = a.with(writing, func(l *ledger.Ledger) error {
				if err := l.DefineQuestion(cmd.Context(), key.String(), q); err != nil {
					return err
				}
				all, err := l.Questions(cmd.Context())
				if at := slices.IndexFunc(all, func(other ledger.Question) bool { return other.Name == q.Name }); at >= 0 {
					q = all[at]
				}
				return err
			})
			if err != nil {
				return err
			}
			return a.print(questionResult{q})
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&values, "values", nil, "the possible `VALUES`, separated by commas; one with a comma in double quotes; or @FILE, with one on each line")
	flags.StringVar(&encoding, "encoding", "", "what a response is: a value (direct) or a bit for each value (unary); picked by the number of values otherwise")
	_ = cmd.RegisterFlagCompletionFunc("encoding", cobra.FixedCompletions([]cobra.Completion{string(ledger.Direct), string(ledger.Unary)}, cobra.ShellCompDirectiveNoFileComp))
	require(cmd, "values")
	return cmd
}

// readValues returns the values that a flag lists, or those in the file that it names. A question has more than
// one value, so that a single one that begins with @ cannot be meant as such.
func readValues(values []string) ([]string, error) {
	if !slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "@") }) {
		return values, nil
	}
	if len(values) > 1 {
		return nil, usageError("a file's name cannot have a comma in it; a value that begins with @ can stand in a file", "--values takes a list of values or one @FILE, not both")
	}
	text, err := readText(values[0][1:], rrchain.MaxValues*(256+2))
	if err != nil {
		return nil, inputError("", "--values: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "\ufeff"), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(lines[i]) != lines[i] {
			return nil, inputError("", "--values: line %d of %s begins or ends with a blank", i+1, values[0][1:])
		}
	}
	return lines, nil
}

// readText reads a regular file of up to so many bytes.
func readText(path string, most int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return "", errors.Join(err, fmt.Errorf("%q is not a file of up to %d bytes", path, most))
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	return string(text), err
}

type questionResult struct{ ledger.Question }

func (r questionResult) table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nvalues\t%s\nencoding\t%s\n", r.Name, listedValues(r.Values), r.Encoding)
}

func (a *app) questionListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the questions",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			out := questionsResult{Questions: []ledger.Question{}}
			err := a.with(reading, func(l *ledger.Ledger) error {
				all, err := l.Questions(cmd.Context())
				out.Questions = append(out.Questions, all...)
				return err
			})
			if err != nil {
				return err
			}
			return a.print(out)
		}),
	}
}

type questionsResult struct {
	Questions []ledger.Question `json:"questions"`
}

func (r questionsResult) table(w io.Writer) {
	fmt.Fprintln(w, "QUESTION\tENCODING\tVALUES")
	for _, q := range r.Questions {
		fmt.Fprintf(w, "%s\t%s\t%s\n", q.Name, q.Encoding, listedValues(q.Values))
	}
}

// listedValues lists a few of many values.
func listedValues(values []string) string {
	const few, most = 5, 20
	if len(values) <= most {
		return listed(values)
	}
	return fmt.Sprintf("%s and %d more", listed(values[:few]), len(values)-few)
}

// brief shortens a response in unary encoding for people.
func brief(response string) string {
	const most = 40
	if len(response) <= most || strings.Trim(response, "01") != "" {
		return response
	}
	return fmt.Sprintf("%d of %d bits set", strings.Count(response, "1"), len(response))
}
