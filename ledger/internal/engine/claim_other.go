//go:build !linux

package engine

import "github.com/sluicedp/sluice/ledger/internal/callback"

// Claim is empty on systems other than Linux. There, two copies of a ledger that are open at the
// same time are not detected.
type Claim struct{}

// ClaimLedger returns an empty claim.
func ClaimLedger([16]byte, string, *callback.Log) (*Claim, error) { return &Claim{}, nil }

// Release does nothing.
func (*Claim) Release() error { return nil }
