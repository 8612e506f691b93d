package report

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// SluiceDir returns the directory of the module that is measured. The working directory must be
// inside the lab's module.
func SluiceDir(ctx context.Context) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sluicedp/sluice")
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module of Sluice with %q: %w", command, err)
	}
	return strings.TrimSpace(string(out)), nil
}
