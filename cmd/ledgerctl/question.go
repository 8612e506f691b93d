package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/mechanisms"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// questionFlags are the flags of question add.
type questionFlags struct {
	Values    []string `flag:"values,required,reads@"`
	Encoding  string   `flag:"encoding" values:"direct unary finite"`
	Mechanism string   `flag:"mechanism,reads" ext:"json"`
}

// addQuestion runs the command question add, which defines a question.
func (a *app) addQuestion(cmd *cobra.Command, args []string, f *questionFlags) (err error) {
	q := api.Question{Name: args[0], Encoding: f.Encoding}
	if q.Values, err = mechanisms.ReadValues(f.Values); err != nil {
		return err
	}
	if f.Mechanism != "" {
		source := &mechanisms.Host{Printer: a.Printer, Files: a.Files}
		if q.Mechanism, err = source.ReadMechanism(cmd.Context(), f.Mechanism, q.Values); err != nil {
			return err
		}
	}
	var out output.Fields
	err = a.with(cmd.Context(), writing, func(l backend) error {
		if err := l.DefineQuestion(cmd.Context(), a.key, q); err != nil {
			return err
		}
		q, err := questionNamed(cmd.Context(), l, args[0])
		out.Inline(q, "question")
		out.Add("", "values", output.ListedValues(q.Values))
		out.Add("", "encoding", q.Encoding)
		if q.Mechanism != nil {
			out.Add("", "mechanism", outline(q.Mechanism))
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(out)
}

// listQuestions runs the command question list.
func (a *app) listQuestions(cmd *cobra.Command, _ []string, _ *input.None) error {
	return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		all, err := api.Collect(l.Questions(ctx))
		var out output.Fields
		out.Add("questions", "", all)
		out.Section(func(t *output.Table) {
			t.Row("QUESTION", "ENCODING", "VALUES")
			for _, q := range all {
				values := output.ListedValues(q.Values)
				if q.Mechanism != nil {
					values += " (" + outline(q.Mechanism) + ")"
				}
				t.Row(q.Name, q.Encoding, values)
			}
		})
		return out, err
	})
}

// outline describes the ε and outputs of a mechanism, without its probabilities.
func outline(m *api.Mechanism) string {
	var outputs []string
	for _, names := range m.Outputs {
		outputs = append(outputs, strconv.Itoa(len(names)))
	}
	return fmt.Sprintf("ε = %s; %s outputs", output.Listed(output.LevelsOf(m)), output.Listed(outputs))
}

// atLevels returns the error of a request at an ε. If the error is an [api.ErrInvalid], and the
// question has a mechanism of its own without this ε, it adds a hint with the nearest ε.
func atLevels(ctx context.Context, l backend, question string, epsilon privacy.Epsilon, err error) error {
	if !errors.Is(err, api.ErrInvalid) {
		return err
	}
	q, failed := questionNamed(ctx, l, question)
	if failed != nil || q.Mechanism == nil {
		return err
	}
	hint := nearestLevels(q.Mechanism.Family.Epsilons(), epsilon)
	if hint == "" {
		return err
	}
	return output.WithHint(err, api.ErrInvalid, hint)
}

// nearestLevels describes the levels next to an ε. It returns "" if the ε is one of the levels,
// which are in ascending order.
func nearestLevels(levels []privacy.Epsilon, epsilon privacy.Epsilon) string {
	above, found := slices.BinarySearchFunc(levels, epsilon, privacy.Epsilon.Compare)
	if found {
		return ""
	}
	switch {
	case above == 0:
		return fmt.Sprintf("the lowest is ε=%s", levels[0])
	case above == len(levels):
		return fmt.Sprintf("the highest is ε=%s", levels[above-1])
	}
	return fmt.Sprintf("the next below is ε=%s, and the next above ε=%s", levels[above-1], levels[above])
}
