package storetest

import (
	"testing"

	"github.com/sluicedp/sluice/ledger/store"
)

func TestMemory(t *testing.T) {
	Run(t, true, func(*testing.T) func() store.Store {
		return func() store.Store { return new(Memory) }
	})
}
