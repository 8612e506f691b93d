//go:build !linux

package ledger

// claim is nothing on systems other than Linux: there, nobody notices that two copies of a ledger are open.
type claim struct{}

func claimLedger([16]byte) (*claim, error) { return &claim{}, nil }

func (*claim) release() error { return nil }
