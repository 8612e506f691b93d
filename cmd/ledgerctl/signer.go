package main

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/ledger"
)

// withSigner opens the ledger together with the key that signs its log. A ledger behind an address has that itself.
func (a *app) withSigner(ctx context.Context, mode access, signer note.Signer, use func(book) error) error {
	if signer == nil {
		return a.with(ctx, mode, use)
	}
	opened := false
	err := a.withOptions(ctx, ledger.Options{ReadOnly: bool(mode), Signer: signer}, func(l book) error {
		opened = true
		if err := keys.CheckSigner(signer, l.About().LogKey); err != nil {
			return err
		}
		return use(l)
	})
	if !opened && errors.Is(err, ledger.ErrInvalid) {
		return &fault.Fault{Kind: "usage", Code: fault.Misuse, Hint: keys.OtherSigner, Err: err}
	}
	return err
}
