package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
)

// Names of the ledger are completed by the shell: questions, buyers, the numbers of sales and of
// reservations, and ε.

// completer finds the candidates for a place of a command line. After a tab there is an
// explanation.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// finder adds the names of one kind, each with what is said about it.
type finder func(ctx context.Context, cmd *cobra.Command, l book, add func(name, about string)) error

// patience is how long a completion waits for a served ledger.
const patience = 5 * time.Second

// complete returns a completer. An error is not reported: then there are no candidates.
func (a *app) complete(find finder) completer {
	return func(cmd *cobra.Command, _ []string, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		a.Quiet = true
		a.place(cmd) // whose flags were not read when the program settled where the ledger is
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		_ = a.with(ctx, reading, func(l book) error {
			return find(ctx, cmd, l, func(name, about string) {
				if strings.HasPrefix(name, begun) && output.IsPlain(name) {
					found = append(found, strings.TrimSuffix(name+"\t"+about, "\t"))
				}
			})
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames has the names completed that flags and arguments of a command, and those below,
// take. An argument that is a file is completed by the shell; there is one at most.
func (a *app) completeNames(cmd *cobra.Command) {
	for flag, find := range map[string]finder{"question": questionNames, "buyer": buyerNames, "epsilon": levelNames} {
		if cmd.Flags().Lookup(flag) != nil {
			// It fails only for a flag that has a completer already.
			_ = cmd.RegisterFlagCompletionFunc(flag, a.complete(find))
		}
	}
	words := append(strings.Fields(cmd.Use), "")
	arguments := map[string]completer{"FILE": shell(cobra.ShellCompDirectiveDefault),
		"DIR":  shell(cobra.ShellCompDirectiveFilterDirs),
		"SALE": a.complete(saleNumbers), "NUMBER": a.complete(reservationNumbers)}
	if find := arguments[words[1]]; cmd.HasParent() && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			if find == nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return find(cmd, args, begun)
		}
	}
	for _, below := range cmd.Commands() {
		a.completeNames(below)
	}
}

// shell leaves it to the shell what to complete.
func shell(how cobra.ShellCompDirective) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) { return nil, how }
}

func questionNames(ctx context.Context, _ *cobra.Command, l book, add func(name, about string)) error {
	all, err := api.Collect(l.Questions(ctx))
	for _, q := range all {
		add(q.Name, "")
	}
	return err
}

func buyerNames(ctx context.Context, _ *cobra.Command, l book, add func(name, about string)) error {
	all, err := api.Collect(l.Buyers(ctx))
	for _, b := range all {
		add(b.Buyer, "")
	}
	return err
}

func levelNames(ctx context.Context, cmd *cobra.Command, l book, add func(name, about string)) error {
	question := given(cmd, "question")
	if question == "" {
		return nil
	}
	all, err := api.Collect(l.Levels(ctx, question))
	for _, at := range all {
		add(at.Epsilon.String(), fmt.Sprintf("%d responses", at.N))
	}
	return err
}

// reservationNumbers finds the reservations that hold.
func reservationNumbers(ctx context.Context, _ *cobra.Command, l book, add func(name, about string)) error {
	for r, err := range l.Reservations(ctx, "", "open") {
		if err != nil {
			return err
		}
		add(strconv.FormatUint(r.Number, 10), explained(r.Buyer, r.Question, r.Epsilon.String()))
	}
	return nil
}

func saleNumbers(ctx context.Context, _ *cobra.Command, l book, add func(name, about string)) error {
	for s, err := range l.Sales(ctx, "") {
		if err != nil {
			return err
		}
		add(strconv.FormatUint(s.Number, 10), explained(s.Buyer, s.Question, s.Epsilon.String()))
	}
	return nil
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
