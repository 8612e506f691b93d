package market

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

// servedEnv, in the environment of the backend, has it call its ledger over HTTP, through a Unix socket.
const servedEnv = "SLUICE_SHOP_SERVED"

// served is a ledger that is called over HTTP.
type served struct {
	*ledgerclient.Client
	close func() error
}

// Close ends the server, and closes the ledger.
func (s served) Close() error { return errors.Join(s.Client.Close(), s.close()) }

// overHTTP serves a ledger, and returns it as who calls it has it.
func overHTTP(ctx context.Context, l *ledger.Ledger) (shopLedger, error) {
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Everybody{Name: "shop", Role: ledgerhttp.Operator}})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shop") // a socket's path is short
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	at, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	server := ledgerhttp.Server(h)
	go func() { _ = server.Serve(at) }()
	c, err := ledgerclient.Dial(ctx, "unix:"+socket, ledgerclient.Options{})
	if err != nil {
		return nil, errors.Join(err, server.Close(), os.RemoveAll(dir))
	}
	return served{c, func() error { return errors.Join(server.Close(), l.Close(), os.RemoveAll(dir)) }}, nil
}
