package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// Run runs the command of a host, and waits until it ends. The host gets $LEDGER_ADDR,
// $LEDGER_TOKEN, and as its last argument the directory of the ledger. It prints to the writer of
// [NewServer], concurrently with the server, so the writer should be an *os.File.
func (s *Server) Run(ctx context.Context, name string, args ...string) error {
	host := exec.CommandContext(ctx, name, append(slices.Clip(args), s.folder())...)
	host.Env = append(os.Environ(),
		"LEDGER_ADDR="+s.Addr, "LEDGER_TOKEN="+s.Token, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	host.Stdout, host.Stderr = s.out, os.Stderr
	if err := host.Run(); err != nil {
		return fmt.Errorf("running the host %s: %w", name, err)
	}
	return nil
}

// Check verifies the receipt that a host left in receipt.json, with only the log key, and the whole
// ledger.
func (s *Server) Check(ctx context.Context, l *ledger.Ledger) error {
	return errors.Join(s.checkReceipt(), s.checkLedger(ctx, l))
}

// checkReceipt verifies receipt.json with the log key, and prints the sale.
func (s *Server) checkReceipt() error {
	text, err := os.ReadFile(filepath.Join(s.folder(), "receipt.json"))
	if err != nil {
		return err
	}
	receipt, invalid := evidence.ReadReceipt(text)
	key, err := note.NewVerifier(s.LogKey)
	if err := errors.Join(invalid, err); err != nil {
		return err
	}
	if checked := receipt.Verify(note.VerifierList(key)); !checked.OK() {
		return fmt.Errorf("the receipt does not verify: %v", checked.Faults)
	}
	fmt.Fprintf(s.out, "The receipt of sale %d verifies: %s has paid %d¢.\n", receipt.Sale, receipt.Buyer,
		receipt.Price)
	return nil
}

// checkLedger verifies the ledger, and prints the result.
func (s *Server) checkLedger(ctx context.Context, l *ledger.Ledger) error {
	found, err := l.Verify(ctx, api.VerifyRequest{})
	if err == nil && found.Problems > 0 {
		err = fmt.Errorf("%d problems in the ledger", found.Problems)
	}
	fmt.Fprintf(s.out, "The ledger verifies: %t.\n", err == nil)
	return err
}

func (s *Server) folder() string { return filepath.Dir(s.File) }
