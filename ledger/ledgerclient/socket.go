package ledgerclient

import (
	"context"
	"fmt"
	"net"

	"github.com/sluicedp/sluice/ledger/api"
)

// dialSocket connects to the server at the path of a Unix socket. If another user may have placed
// the socket as a trap (see [Dial]), it closes the connection and returns a [*serverError].
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := checkServer(c, path); err != nil {
		_ = c.Close() // nothing was sent
		return nil, &serverError{fmt.Errorf("%w: connect to unix:%s: %w", api.ErrInvalid, path, err)}
	}
	return c, nil
}

// serverError means that another user may have placed a socket as a trap, so nothing was sent to
// its server.
type serverError struct{ error }

// Unwrap returns the error inside.
func (e *serverError) Unwrap() error { return e.error }
