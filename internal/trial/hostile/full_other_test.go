//go:build !linux

package hostile

import "errors"

const fillPath = "SLUICE_LIMITS_PATH"

func runFill(string) error { return errors.ErrUnsupported }
