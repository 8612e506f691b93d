package memtable

import (
	"encoding/binary"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// An index finds exactly the records that were added, even if their hashes are equal or adjacent.
func TestIndex_AnyHashes_FindsWhatWasAdded(t *testing.T) {
	for name, hash := range map[string]func(uint64) uint64{
		"spread":    func(n uint64) uint64 { return n * 0x9E3779B97F4A7C15 },
		"in a row":  func(n uint64) uint64 { return n },
		"all equal": func(uint64) uint64 { return 7 },
		"at the end, so that the search continues at the beginning": func(n uint64) uint64 { return 1<<32 - 1 - n%3 },
	} {
		l, x := &layer{}, &index{}
		key := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
		const most = 500
		for n := range uint64(most) {
			_, found := x.find(l, key(n), hash(n))
			check.Need(t, !found, "%s: record %d is found before it was added", name, n)
			x.add(hash(n), l.newRecord(key(n)))
			for m := range n + 1 {
				if i, found := x.find(l, key(m), hash(m)); !found || i != id(m) {
					t.Fatalf("%s: of %d records record %d is found as %d, %v", name, n+1, m, i, found)
				}
			}
		}
		x.reset()
		check.That(t, x.count == 0, "%s: after a reset there are %d", name, x.count)
		_, found := x.find(l, key(1), hash(1))
		check.That(t, !found, "%s: a record is found after a reset", name)
	}
}
