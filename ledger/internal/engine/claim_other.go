//go:build !linux

package engine

import "github.com/sluicedp/sluice/ledger/internal/callback"

// Claim is empty on systems other than Linux: two copies of a ledger that are open at the same time
// are not noticed there.
type Claim struct{}

// ClaimLedger claims nothing.
func ClaimLedger([16]byte, string, *callback.Log) (*Claim, error) { return &Claim{}, nil }

// Release has nothing to release.
func (*Claim) Release() error { return nil }
