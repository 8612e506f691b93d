package table_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/kv/memory"
	"github.com/sluicedp/sluice/ledger/internal/table"
)

var _ interface {
	kv.Store
	kv.Copier
	kv.Inspector
} = (*table.Table)(nil)

// A table is a store, whatever it lies over, and whether checkpoints happen after each update or never.
func TestATableIsAStore(t *testing.T) {
	for name, limit := range map[string]int64{"checkpoints all the time": 1, "no checkpoint": math.MaxInt64} {
		over := func(t *testing.T, base kv.Store) kv.Store {
			return tableOver(t, base, table.Options{Limit: limit})
		}
		t.Run("memory, "+name, func(t *testing.T) {
			kvtest.Run(t, true, func(t *testing.T) func() kv.Store {
				return func() kv.Store { return over(t, new(memory.Store)) }
			})
		})
		t.Run("bolt, "+name, func(t *testing.T) {
			kvtest.Run(t, false, func(t *testing.T) func() kv.Store {
				path := filepath.Join(t.TempDir(), "base")
				return func() kv.Store { return settled{over(t, openBolt(t, path))} }
			})
		})
	}
}

// settled is a table that makes a checkpoint before it is closed.
type settled struct{ kv.Store }

func (s settled) Close() error {
	_ = s.Store.(*table.Table).Checkpoint()
	return s.Store.Close()
}

func tableOver(t testing.TB, base kv.Store, o table.Options) *table.Table {
	t.Helper()
	s, err := table.Over(base, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openBolt opens a file, and makes it first if there is none.
func openBolt(t testing.TB, path string) kv.Store {
	t.Helper()
	s, err := bolt.Open(path, false)
	if err != nil {
		if err := bolt.Create(path, func(kv.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if s, err = bolt.Open(path, false); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
