package mechanism

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{privacy.ErrInvalid}, args...)...)
}
