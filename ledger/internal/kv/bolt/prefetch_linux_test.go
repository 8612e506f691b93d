//go:build amd64 || arm64

package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// prefetchFile opens a file with a bucket of some records, and a bucket with one record.
func prefetchFile(t *testing.T, records int) (s *Store, keys [][]byte) {
	t.Helper()
	s = mustOpen(t, newFile(t))
	check.Must(t, s.Update(func(w kv.Writer) error {
		for i := range records {
			keys = append(keys, fmt.Appendf(nil, "key %06d", 2*i))
			check.Must(t, w.Put("large", keys[i], make([]byte, 100)))
		}
		return w.Put("small", []byte("k"), []byte("v"))
	}))
	return s, keys
}

// randomKeys returns some of the keys and keys without records, rising.
func randomKeys(random *rand.Rand, keys [][]byte) (found [][]byte) {
	for range random.IntN(60) {
		key := bytes.Clone(keys[random.IntN(len(keys))])
		key[len(key)-1] += byte(random.IntN(2))
		found = append(found, key)
	}
	found = append(found, []byte("a"), []byte("z")) // before and after all keys
	slices.SortFunc(found, bytes.Compare)
	return slices.CompactFunc(found, bytes.Equal)
}

// leavesOf returns the pages of the lowest level that a prefetch reaches, with the keys sought
// there.
func leavesOf(t *testing.T, tx *transaction, keys [][]byte) (requested []pageKeys, onPage func(uint64) [][]byte) {
	t.Helper()
	b := check.Value(tx.bucket("large"))(t)
	for level := []pageKeys{{uint64(b.Root()), keys}}; len(level) > 0; level = tx.old.descend(level) {
		requested = level
	}
	for _, one := range requested {
		check.Equal(t, tx.old.requestPage(one.page), 0, "request of page %d", one.page)
	}
	return requested, func(page uint64) (on [][]byte) {
		p, err := tx.old.page(page)
		check.Need(t, err == nil && p.isLeaf(), "page %d is no leaf, %v", page, err)
		for n := range p.count() {
			key, _ := p.key(n)
			on = append(on, key)
		}
		return on
	}
}

// Prefetch requests exactly the pages on which the records are.
func TestPrefetch_RequestsThePagesOfTheRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, records := range []int{100, 2_000, 30_000} { // trees of two and three levels
		s, all := prefetchFile(t, records)
		for range 20 {
			keys := randomKeys(random, all)
			if err := s.snapshot(func(tx *transaction) error {
				requested, onPage := leavesOf(t, tx, keys)
				pages, found := map[uint64]bool{}, 0
				for _, one := range requested {
					on := onPage(one.page)
					pages[one.page] = true
					for _, key := range one.keys {
						if _, exists := slices.BinarySearchFunc(all, key, bytes.Compare); exists {
							_, here := slices.BinarySearchFunc(on, key, bytes.Compare)
							check.That(t, here, "%s is not on page %d", key, one.page)
						}
						found++
					}
				}
				if found != len(keys) || len(pages) != len(requested) {
					t.Errorf("%d keys of %d, %d pages, requested %d times: %v", found, len(keys), len(pages), len(requested), slices.Sorted(maps.Keys(pages)))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Prefetch with any keys changes no result and reports no error.
func TestPrefetch_AnyKeys_ChangesNoResult(t *testing.T) {
	s, all := prefetchFile(t, 5_000)
	falling := slices.Clone(all)
	slices.Reverse(falling)
	unchanged := func(r kv.Reader) {
		t.Helper()
		for _, bucket := range []string{"large", "small", "none"} {
			for _, keys := range [][][]byte{nil, {nil}, {{}}, {[]byte("k")}, all, falling, {all[7], all[7], all[3]}} {
				r.(kv.Prefetcher).Prefetch(bucket, keys)
			}
		}
		n := 0
		if err := r.Scan("large", nil, func(key, value []byte) bool {
			check.That(t, bytes.Equal(key, all[n]) && len(value) == 100, "record %d is %s", n, key)
			n++
			return true
		}); err != nil || n != len(all) {
			t.Errorf("%d records of %d, %v", n, len(all), err)
		}
	}
	check.Must(t, s.View(func(r kv.Reader) error { unchanged(r); return nil }))
}

// Prefetch ends on damaged pages, also if they form a circle.
func TestPrefetch_DamagedPages_Ends(t *testing.T) {
	s, all := prefetchFile(t, 30_000)
	var root uint64
	check.Must(t, s.snapshot(func(tx *transaction) error {
		b, err := tx.bucket("large")
		root = uint64(b.Root())
		return err
	}))
	whole := check.Value(os.ReadFile(s.path))(t)
	size := os.Getpagesize()
	page := bytes.Clone(whole[int(root)*size:][:size])
	random := rand.New(rand.NewPCG(3, 4))
	descend := func(damaged []byte) (depth int) {
		copy(whole[int(root)*size:], damaged)
		r := snapshot{in: s.current, data: whole, pageSize: uint64(size)}
		for level := []pageKeys{{root, all[:maxPrefetched]}}; len(level) > 0 && depth < maxDepth; depth++ {
			level = r.descend(level)
			check.Need(t, len(level) <= maxPrefetched, "%d pages at a time", len(level))
		}
		return depth
	}
	depth := descend(page)
	check.Need(t, depth == 3, "a tree of %d levels", depth)
	for range 1000 {
		damaged := bytes.Clone(page)
		for range 1 + random.IntN(8) {
			at := random.IntN(200)
			damaged[at] = []byte{0, 1, 0x7f, 0x80, 0xff, byte(random.Uint32())}[random.IntN(6)]
		}
		descend(damaged)
	}
	circle := bytes.Clone(page)
	for n := range int(binary.NativeEndian.Uint16(page[10:])) {
		binary.NativeEndian.PutUint64(circle[headerSize+n*elementSize+8:], root)
	}
	depth = descend(circle)
	check.That(t, depth == maxDepth, "a circle of %d levels", depth)
}
