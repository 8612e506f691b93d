// Package mechanisms holds the commands that compute mechanisms and need no ledger.
package mechanisms

import (
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// Host is what the commands have from the program.
type Host struct {
	*output.Printer
	*input.Files
}

// Commands returns the commands.
func (h *Host) Commands() []*cobra.Command {
	return []*cobra.Command{h.mechanismCommand()}
}

// require marks flags without which a command makes no sense.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		// It fails only for a flag that was not defined; then the command refuses its own flag in
		// every test.
		_ = cmd.MarkFlagRequired(name)
	}
}
