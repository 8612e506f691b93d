package memtable

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
)

var _ interface {
	kv.Store
	kv.Copier
	kv.Inspector
} = (*Table)(nil)

func tableOver(t testing.TB, base kv.Store, o Options) *Table {
	t.Helper()
	s := check.Value(Over(base, o))(t)
	return s
}

// openBolt opens a file. If it does not exist, openBolt creates it.
func openBolt(t testing.TB, path string) kv.Store {
	t.Helper()
	s, err := bolt.Open(path, false)
	if err != nil {
		check.Must(t, bolt.Create(path, func(kv.Writer) error { return nil }))
		s, err = bolt.Open(path, false)
		check.Need(t, err == nil, "%v", err)
	}
	return s
}
