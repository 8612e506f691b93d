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

// The shell completes names of the ledger: questions, buyers, the numbers of sales and of
// reservations, and ε.

// completer returns the candidates for an argument or a flag that begins with prefix. A candidate
// may have an explanation after a tab.
type completer = func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective)

// finder calls add for the names of one kind, each with an explanation.
type finder func(ctx context.Context, cmd *cobra.Command, l backend, add func(name, about string)) error

// completionTimeout is how long a completion waits for a served ledger.
const completionTimeout = 5 * time.Second

// complete returns a completer for the names of a finder. After an error it has no candidates.
func (a *app) complete(find finder) completer {
	return func(cmd *cobra.Command, _ []string, prefix string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		a.Quiet = true
		a.chooseLedger(cmd) // prepare has not seen the flags of the command to be completed
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		_ = a.with(ctx, reading, func(l backend) error {
			return find(ctx, cmd, l, func(name, about string) {
				if strings.HasPrefix(name, prefix) && output.IsPlain(name) {
					found = append(found, strings.TrimSuffix(name+"\t"+about, "\t"))
				}
			})
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames sets the completers of the flags and arguments of a command and of those below it.
// The argument is the second word of cmd.Use, such as SALE in "make SALE". The shell completes
// arguments that are files. A command has at most one argument to complete.
func (a *app) completeNames(cmd *cobra.Command) {
	for flag, find := range map[string]finder{"question": questionNames, "buyer": buyerNames, "epsilon": levelNames} {
		if cmd.Flags().Lookup(flag) != nil {
			// Fails only for a flag that has a completer already.
			_ = cmd.RegisterFlagCompletionFunc(flag, a.complete(find))
		}
	}
	words := append(strings.Fields(cmd.Use), "")
	arguments := map[string]completer{"FILE": shell(cobra.ShellCompDirectiveDefault),
		"DIR":  shell(cobra.ShellCompDirectiveFilterDirs),
		"SALE": a.complete(saleNumbers), "NUMBER": a.complete(reservationNumbers)}
	if find := arguments[words[1]]; cmd.HasParent() && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			if find == nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return find(cmd, args, prefix)
		}
	}
	for _, below := range cmd.Commands() {
		a.completeNames(below)
	}
}

// shell returns a completer that leaves the completion to the shell.
func shell(how cobra.ShellCompDirective) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) { return nil, how }
}

// questionNames finds the names of all questions.
func questionNames(ctx context.Context, _ *cobra.Command, l backend, add func(name, about string)) error {
	all, err := api.Collect(l.Questions(ctx))
	for _, q := range all {
		add(q.Name, "")
	}
	return err
}

// buyerNames finds the names of all buyers.
func buyerNames(ctx context.Context, _ *cobra.Command, l backend, add func(name, about string)) error {
	all, err := api.Collect(l.Buyers(ctx))
	for _, b := range all {
		add(b.Buyer, "")
	}
	return err
}

// levelNames finds the ε of the responses to the question that --question names. Without this flag
// it finds none.
func levelNames(ctx context.Context, cmd *cobra.Command, l backend, add func(name, about string)) error {
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

// reservationNumbers finds the numbers of the open reservations.
func reservationNumbers(ctx context.Context, _ *cobra.Command, l backend, add func(name, about string)) error {
	for r, err := range l.Reservations(ctx, "", "open") {
		if err != nil {
			return err
		}
		add(strconv.FormatUint(r.Number, 10), explained(r.Buyer, r.Question, r.Epsilon.String()))
	}
	return nil
}

// saleNumbers finds the numbers of all sales.
func saleNumbers(ctx context.Context, _ *cobra.Command, l backend, add func(name, about string)) error {
	for s, err := range l.Sales(ctx, "") {
		if err != nil {
			return err
		}
		add(strconv.FormatUint(s.Number, 10), explained(s.Buyer, s.Question, s.Epsilon.String()))
	}
	return nil
}

// explained describes an order, such as "acme: smoker at ε=0.5". It leaves out names with
// characters that a shell might interpret ([output.IsPlain]).
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
