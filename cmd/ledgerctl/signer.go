package main

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/ledger"
)

// withSigner opens the ledger together with the key that signs its log.
func (a *app) withSigner(mode access, signer note.Signer, use func(*ledger.Ledger) error) error {
	opened := false
	err := a.withOptions(ledger.Options{ReadOnly: bool(mode), Signer: signer}, func(l *ledger.Ledger) error {
		opened = true
		if err := checkSigner(signer, l.About().LogKey); err != nil {
			return err
		}
		return use(l)
	})
	if !opened && errors.Is(err, ledger.ErrInvalid) {
		return &fault.Fault{Kind: "usage", Code: fault.Misuse, Hint: otherSigner, Err: err}
	}
	return err
}

const otherSigner = `--signer FILE names the key that "ledgerctl init" wrote for this ledger`

// checkSigner refuses a key whose signatures nobody could check who has the ledger's log key.
func checkSigner(signer note.Signer, logKey string) error {
	ours, err := note.NewVerifier(logKey)
	if err != nil {
		return nil // the ledger names no key
	}
	if ours.Name() != signer.Name() || ours.KeyHash() != signer.KeyHash() {
		return fault.Usage(otherSigner, "the signing key %s is not the one of this ledger's log key, %s", keyID(signer.Name(), signer.KeyHash()), keyID(ours.Name(), ours.KeyHash()))
	}
	return nil
}

// keyID is the beginning of a verifier key, by which people know it.
func keyID(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }
