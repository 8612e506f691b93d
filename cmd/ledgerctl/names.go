package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
)

// Names of the ledger are completed by the shell: questions, buyers, the numbers of sales and of
// reservations, and ε.

// completer finds what may stand in a place of a command line. Behind a tab there is an
// explanation.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// finder lists the names of one kind.
type finder func(ctx context.Context, cmd *cobra.Command, l book) ([]cobra.Completion, error)

// patience is how long somebody at a shell waits for names, of a ledger behind an address.
const patience = 5 * time.Second

// complete returns a completer. What goes wrong is told nobody: then there is nothing to choose
// from.
func (a *app) complete(find finder) completer {
	return func(cmd *cobra.Command, _ []string, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		a.Quiet = true
		a.place(cmd) // whose flags were not read when the program settled where the ledger is
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		_ = a.with(ctx, reading, func(l book) error {
			all, err := find(ctx, cmd, l)
			for _, one := range all {
				if name, _, _ := strings.Cut(one, "\t"); strings.HasPrefix(name, begun) && output.IsPlain(name) {
					found = append(found, one)
				}
			}
			return err
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames sees to all flags of commands, and those below, that take names.
func (a *app) completeNames(cmd *cobra.Command) {
	for flag, find := range map[string]finder{"question": questionNames, "buyer": buyerNames} {
		if cmd.Flags().Lookup(flag) != nil {
			// It fails only for a flag that has a completer already.
			_ = cmd.RegisterFlagCompletionFunc(flag, a.complete(find))
		}
	}
	for _, below := range cmd.Commands() {
		a.completeNames(below)
	}
}

// completeLevels has --epsilon completed by what was released of the question that is given.
func (a *app) completeLevels(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("epsilon", a.complete(levelNames))
}

func questionNames(ctx context.Context, _ *cobra.Command, l book) (names []cobra.Completion, err error) {
	all, err := l.Questions(ctx)
	for _, q := range all {
		names = append(names, q.Name)
	}
	return names, err
}

func buyerNames(ctx context.Context, _ *cobra.Command, l book) (names []cobra.Completion, err error) {
	all, err := l.Buyers(ctx)
	for _, b := range all {
		names = append(names, b.Buyer)
	}
	return names, err
}

func levelNames(ctx context.Context, cmd *cobra.Command, l book) (names []cobra.Completion, err error) {
	question := cmd.Flags().Lookup("question")
	if question == nil || question.Value.String() == "" {
		return nil, nil
	}
	all, err := l.Levels(ctx, question.Value.String())
	for _, at := range all {
		names = append(names, fmt.Sprintf("%s\t%d responses", at.Epsilon, at.N))
	}
	return names, err
}

// reservationNumbers completes the number of a reservation that holds, where there is none yet.
func (a *app) reservationNumbers(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	return a.complete(func(ctx context.Context, _ *cobra.Command, l book) (all []cobra.Completion, _ error) {
		for r, err := range l.Reservations(ctx, "", ledger.ReservationOpen) {
			if err != nil || len(args) > 0 {
				return all, err
			}
			all = append(all, strconv.FormatUint(r.Number, 10)+"\t"+explained(r.Buyer, r.Question, r.Epsilon.String()))
		}
		return all, nil
	})(cmd, args, begun)
}

// saleNumbers completes the number of a sale, where there is none yet.
func (a *app) saleNumbers(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	return a.complete(func(ctx context.Context, _ *cobra.Command, l book) (all []cobra.Completion, _ error) {
		for s, err := range l.Sales(ctx, "") {
			if err != nil || len(args) > 0 {
				return all, err
			}
			all = append(all, strconv.FormatUint(s.Number, 10)+"\t"+explained(s.Buyer, s.Question, s.Epsilon.String()))
		}
		return all, nil
	})(cmd, args, begun)
}

// explained explains an order, as far as its names are plain.
func explained(buyer, question, epsilon string) string {
	text := "ε=" + epsilon
	if output.IsPlain(question) {
		text = question + " at " + text
	}
	if output.IsPlain(buyer) {
		text = buyer + ": " + text
	}
	return text
}
