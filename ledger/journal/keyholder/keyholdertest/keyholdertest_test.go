package keyholdertest

import (
	"testing"

	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) func() keyholder.Holder {
		m := NewMemory("memory")
		return func() keyholder.Holder { return m }
	})
}
