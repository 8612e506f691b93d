package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluicedp/sluice/examples/internal/killed"
	"github.com/sluicedp/sluice/ledger"
)

// live runs a command with the address of a server, which it closes. failed is the command's error, and faults are those that the server has seen.
func live(ctx context.Context, server *killed.Server, dir string, command []string, out io.Writer) (failed, faults error) {
	if len(command) == 0 {
		return errors.New("say which command"), server.Close()
	}
	life := exec.CommandContext(ctx, command[0], append(command[1:], dir)...)
	life.Env = append(os.Environ(), "LEDGER_ADDR="+server.Addr, "LEDGER_TOKEN="+server.Token, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	life.Stdout, life.Stderr = out, os.Stderr
	return life.Run(), server.Close()
}

// tour has a command tour a new ledger, and verifies what it leaves.
func tour(ctx context.Context, dir string, command []string, out *os.File) error {
	server, err := killed.New(ctx, dir, out)
	if err != nil {
		return err
	}
	if err := errors.Join(live(ctx, server, dir, command, out)); err != nil {
		return err
	}
	l, err := ledger.Open(server.File, ledger.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer l.Close()
	return errors.Join(checkReceipt(filepath.Join(dir, "receipt.json"), server.LogKey, out), verify(ctx, l, out))
}
