// Tour shows the API of a served ledger: a command in any language sends each kind of request once.
//
//	go run ./examples/tour node examples/served/typescript/build/tour.js
//
// The command gets $LEDGER_ADDR, $LEDGER_TOKEN, and as its last argument a directory. There it
// writes receipt.json, the receipt of a sale. The example verifies the receipt with only the log
// key, and then the ledger.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
)

func main() { kit.Exit(run(context.Background(), os.Args[1:], os.Stdout)) }

// run serves a new ledger while the command runs, and verifies the receipt and the ledger.
func run(ctx context.Context, command []string, out *os.File) error {
	if len(command) == 0 {
		return errors.New("no command is given; give one, such as: node examples/served/typescript/build/tour.js")
	}
	dir, err := os.MkdirTemp("", "tour")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := kit.NewServer(ctx, dir, out) // it is not killed during a tour
	if err != nil {
		return err
	}
	if err := errors.Join(server.Run(ctx, command[0], command[1:]...), server.Close()); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, server.File, ledger.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer l.Close()
	return server.Check(ctx, l)
}
