// Package descriptor recognizes the errors of a full table of file descriptors.
package descriptor

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Classify returns an error of opening a file as one that wraps [errs.ErrTooManyFiles] as well, if the process or the system has too
// many files open. Any other error, and nil, it returns as it is.
func Classify(err error) error {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || errors.Is(err, errs.ErrTooManyFiles) {
		return err
	}
	return fmt.Errorf("%w: %w", err, errs.ErrTooManyFiles)
}
