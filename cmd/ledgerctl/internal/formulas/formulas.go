// Package formulas holds the commands that need no ledger: what mechanisms and kernels are computed by, and the experiments.
package formulas

import (
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// Host is what the commands have from the program.
type Host struct {
	*output.Printer
	*files.Files
}

// Commands returns the commands.
func (h *Host) Commands() []*cobra.Command {
	return []*cobra.Command{h.kernelCommand(), h.mechanismCommand(), h.simulateCommand()}
}

// require marks flags without which a command makes no sense.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		// It fails only for a flag that was not defined; then the command refuses its own flag in every test.
		_ = cmd.MarkFlagRequired(name)
	}
}
