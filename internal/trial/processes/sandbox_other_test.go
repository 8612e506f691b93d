//go:build !linux || !(amd64 || arm64)

package processes

import "errors"

func forbidSockets() error { return errors.ErrUnsupported }
