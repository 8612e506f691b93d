//go:build !linux || !(amd64 || arm64)

package hostile

import "errors"

// sandboxed tells whether forbidSockets can do it.
const sandboxed = false

func forbidSockets() error { return errors.ErrUnsupported }
