package kvtest

import (
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/memory"
)

func TestMemory(t *testing.T) {
	Run(t, true, func(*testing.T) func() kv.Store {
		return func() kv.Store { return new(memory.Store) }
	})
}
