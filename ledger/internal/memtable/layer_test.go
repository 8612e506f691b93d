package memtable

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// Keys with equal or adjacent hashes are found, and not confused with each other.
func TestLayer_KeysWithEqualHashes_AreDistinguished(t *testing.T) {
	for _, hashes := range []uint64{1, 2, 7} {
		l, random := &layer{}, rand.New(rand.NewPCG(1, hashes))
		hash := func(key []byte) uint64 { return ^uint64(0) - uint64(key[0])%hashes } // the search after the highest hash continues at 0
		want := map[string]string{}
		at := uint64(0)
		for range 2000 {
			at++
			key := fmt.Sprintf("%c%03d", 'a'+random.IntN(9), random.IntN(300))
			if random.IntN(4) == 0 {
				key = "one" // again and again
			}
			before, known := l.get("b", []byte(key), hash([]byte(key)), at)
			if old, is := want[key]; is != known || string(before) != old {
				t.Fatalf("%d hashes: %s is %q, %v; want %q, %v", hashes, key, before, known, old, is)
			}
			value := fmt.Sprint("value ", random.IntN(1e6))
			i, first := l.put("b", []byte(key), []byte(value), hash([]byte(key)), at)
			check.Need(t, first, "%d hashes: %s was not written by update %d", hashes, key, at)
			if random.IntN(3) == 0 {
				_, first := l.put("b", []byte(key), []byte(value+" again"), hash([]byte(key)), at)
				check.Need(t, !first, "%d hashes: the second write of %s by update %d counts as the first", hashes, key, at)
				value += " again"
			}
			if random.IntN(5) == 0 {
				l.undo([]id{i})
				continue
			}
			want[key] = value
		}
		keys := slices.Sorted(maps.Keys(want))
		c := seek([]*layer{l}, "b", nil, at)
		for _, key := range keys {
			check.Need(t, string(c.key) == key && string(c.value) == want[key],
				"%d hashes: the scan is at %q with %q, want %q with %q", hashes, c.key, c.value, key, want[key])
			c.next()
		}
		check.That(t, c.key == nil, "%d hashes: after the last record is %q", hashes, c.key)
	}
}

// If the caller reuses its memory after put, no record changes. Values that a reader has are never
// overwritten.
func TestLayer_CallerReusesMemory_RecordsDoNotChange(t *testing.T) {
	l := &layer{}
	key, value := []byte("key"), []byte("first")
	l.put("b", key, value, 0, 1)
	l.enter(1)
	held, _ := l.get("b", key, 0, 1)
	var later [][]byte
	for at := uint64(2); at < 40; at++ {
		copy(value, fmt.Sprintf("%05d", at))
		l.put("b", key, value, 0, at)
		now, _ := l.get("b", key, 0, at)
		later = append(later, now)
	}
	copy(key, "yek")
	copy(value, "?????")
	wantSame(t, held, []byte("first"), "the value read at the first update")
	for i, one := range later {
		if want := fmt.Sprintf("%05d", i+2); string(one) != want {
			t.Errorf("what was read at update %s is %q now", want, one)
		}
	}
	now, _ := l.get("b", []byte("key"), 0, 100)
	check.That(t, string(now) == "00039", "the record is %q", now)
}

// A record that is written many times keeps only the versions that a reader may need, and size
// counts only these.
func TestLayer_RecordWrittenAgain_SizeCountsKeptVersions(t *testing.T) {
	l := &layer{}
	value := make([]byte, 1000)
	l.put("b", []byte("key"), value, 0, 1)
	l.put("b", []byte("key"), value, 0, 2)
	few := l.size()
	for at := uint64(3); at < 1000; at++ {
		i, _ := l.put("b", []byte("key"), value, 0, at)
		if at%3 == 0 {
			l.undo([]id{i})
		}
	}
	if many := l.size(); many > few+1000+versionBytes || len(l.older) > 3 || len(l.pieces.separate) > 4 {
		t.Errorf("%d bytes are counted after two updates, %d after a thousand, with %d versions and %d values", few, many, len(l.older), len(l.pieces.separate))
	}
}
