package ledgerfile

import (
	"errors"
	"fmt"
	"syscall"
)

// ClassifyOpen returns an error of opening a file as one that wraps tooMany as well, if the process
// or the system has too many files open. Any other error, and nil, it returns as it is.
func ClassifyOpen(err, tooMany error) error {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || errors.Is(err, tooMany) {
		return err
	}
	return fmt.Errorf("%w: %w", err, tooMany)
}
