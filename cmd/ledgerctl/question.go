package main

import (
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
)

func (a *app) questionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "question",
		Short: "Add or list questions",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl question --help"`, "say whether to add or to list questions")
		}),
	}
	cmd.AddCommand(a.questionAddCommand(), a.questionListCommand())
	return cmd
}
