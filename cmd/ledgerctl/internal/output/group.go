package output

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group returns a command that only has others below it, and asks which one is meant. path is its
// name and those of the commands above it.
func Group(path, ask string, below ...*cobra.Command) *cobra.Command {
	names := strings.Fields(path)
	cmd := &cobra.Command{Use: names[len(names)-1], RunE: func(*cobra.Command, []string) error {
		return UsageError(fmt.Sprintf(`run "ledgerctl %s --help"`, path), "%s", ask)
	}}
	cmd.AddCommand(below...)
	return cmd
}
