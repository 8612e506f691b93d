package memtable

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
)

func TestMemory_PassesTheStoreTests(t *testing.T) {
	conform(t, true, func(*testing.T) func() kv.Store {
		return func() kv.Store { return new(kv.Memory) }
	})
}

func TestBolt_PassesTheStoreTests(t *testing.T) {
	conform(t, false, func(t *testing.T) func() kv.Store {
		path := filepath.Join(testenv.TempDir(t), "data.db")
		return func() kv.Store { return openBolt(t, path) }
	})
}

func TestTemporary_PassesTheStoreTests(t *testing.T) {
	conform(t, true, func(t *testing.T) func() kv.Store {
		dir := t.TempDir()
		return func() kv.Store { return bolt.NewTemporary(dir) }
	})
}

// A memtable over any store passes the tests of a store, with checkpoints after each update or
// none.
func TestMemtable_PassesTheStoreTests(t *testing.T) {
	for name, limit := range map[string]int64{"checkpoint after each update": 1, "no checkpoint": math.MaxInt64} {
		over := func(t *testing.T, base kv.Store) kv.Store {
			t.Helper()
			s := check.Value(Over(base, Options{Limit: limit}))(t)
			return settled{s}
		}
		t.Run("memory, "+name, func(t *testing.T) {
			conform(t, true, func(t *testing.T) func() kv.Store {
				return func() kv.Store { return over(t, new(kv.Memory)) }
			})
		})
		t.Run("bolt, "+name, func(t *testing.T) {
			conform(t, false, func(t *testing.T) func() kv.Store {
				path := filepath.Join(t.TempDir(), "base")
				return func() kv.Store { return over(t, openBolt(t, path)) }
			})
		})
	}
}

// settled is a memtable that makes a checkpoint before it is closed.
type settled struct{ *Table }

func (s settled) Close() error {
	_ = s.Checkpoint()
	return s.Table.Close()
}
