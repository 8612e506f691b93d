package mechanism

import (
	"errors"
	"fmt"
)

// ErrInvalid says that an argument is outside the domain of a function; the error that wraps it
// says which and why.
var ErrInvalid = errors.New("invalid argument")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
