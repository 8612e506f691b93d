package ledgerfile

import (
	"errors"
	"fmt"
	"syscall"
)

// ClassifyOpen returns an error of opening a file, wrapped in tooMany as well if the process or the
// system has too many open files. It returns any other error, and nil, unchanged.
func ClassifyOpen(err, tooMany error) error {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || errors.Is(err, tooMany) {
		return err
	}
	return fmt.Errorf("%w: %w", err, tooMany)
}
