package main

import (
	"github.com/spf13/cobra"
)

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script by which a shell completes commands and flags",
		Example: `  source <(ledgerctl completion bash)
  ledgerctl completion zsh > "${fpath[1]}/_ledgerctl"
  ledgerctl completion fish > ~/.config/fish/completions/ledgerctl.fish`,
		ValidArgs:             []string{"bash", "zsh", "fish"},
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		DisableFlagsInUseLine: true,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.Stdout)
			default:
				return root.GenFishCompletion(a.Stdout, true)
			}
		}),
	}
}
