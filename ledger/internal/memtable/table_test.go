package memtable_test

import (
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
)

var _ interface {
	kv.Store
	kv.Copier
	kv.Inspector
} = (*memtable.Table)(nil)

func tableOver(t testing.TB, base kv.Store, o memtable.Options) *memtable.Table {
	t.Helper()
	s, err := memtable.Over(base, o)
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
