//go:build !linux

package engine

// Claim is nothing on systems other than Linux: there, nobody notices that two copies of a ledger are open.
type Claim struct{}

func ClaimLedger([16]byte) (*Claim, error) { return &Claim{}, nil }

func (*Claim) Release() error { return nil }
