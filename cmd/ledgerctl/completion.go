package main

import (
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
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

// helpCommand is cobra's, except that a command that does not exist is wrong usage.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: action(func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return fault.Usage(`run "ledgerctl --help" for the commands`, "no help on %q", args)
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		}),
	}
}
