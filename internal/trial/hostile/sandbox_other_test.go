//go:build !linux || !(amd64 || arm64)

package hostile

import "errors"

// sandboxed is whether forbidSockets is supported.
const sandboxed = false

func forbidSockets() error { return errors.ErrUnsupported }
