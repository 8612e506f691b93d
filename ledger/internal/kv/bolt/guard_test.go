package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// image is a file in memory.
type image struct {
	data []byte
	meta meta
}

func readImage(t testing.TB, path string) image {
	t.Helper()
	file := check.Value(os.Open(path))(t)
	defer file.Close()
	m, known, err := newestMeta(file)
	check.Need(t, err == nil && known, "no meta page: %v", err)
	data := check.Value(os.ReadFile(path))(t)
	return image{data, m}
}

func (i image) pageSize() int { return int(i.meta.pageSize()) }

func (i image) clone() image { return image{slices.Clone(i.data), i.meta} }

func (i image) page(id uint64) []byte { return i.data[int(id)*i.pageSize():][:i.pageSize()] }

// child returns the page id field of an element of a branch page.
func (i image) child(id uint64, n int) []byte { return i.page(id)[headerSize+n*elementSize+8:] }

func (i image) link(id uint64, n int, to uint64) { binary.NativeEndian.PutUint64(i.child(id, n), to) }

// setMeta changes a field of both meta pages, and corrects their checksums.
func (i image) setMeta(at int, value uint64, bytes int) {
	for id := range uint64(metaPages) {
		fields := i.page(id)[headerSize:]
		if bytes == 4 {
			binary.NativeEndian.PutUint32(fields[at:], uint32(value))
		} else {
			binary.NativeEndian.PutUint64(fields[at:], value)
		}
		sum := fnv.New64a()
		_, _ = sum.Write(fields[:56])
		binary.NativeEndian.PutUint64(fields[56:], sum.Sum64())
	}
}

// pathTo returns the pages from the root of a bucket to its last leaf.
func (i image) pathTo(root uint64) (ids []uint64) {
	for id := root; ; {
		ids = append(ids, id)
		page := i.page(id)
		if binary.NativeEndian.Uint16(page[8:]) == leafPage {
			return ids
		}
		id = binary.NativeEndian.Uint64(i.child(id, int(binary.NativeEndian.Uint16(page[10:]))-1))
	}
}

// treeOf returns the root page of a bucket, and how full its leaves are.
func treeOf(t testing.TB, path, bucket string) (root uint64, fill float64) {
	t.Helper()
	s := check.Value(Open(path, true))(t)
	defer s.Close()
	check.Must(t, s.snapshot(func(tx *transaction) error {
		b, err := tx.bucket(bucket)
		if err == nil {
			stats := b.Stats()
			root, fill = uint64(b.Root()), float64(stats.LeafInuse)/float64(stats.LeafAlloc)
		}
		return err
	}))
	return root, fill
}

// A file that could end the process or let bbolt overwrite records is not opened for writing. It
// may be opened for reading; then damaged parts are reported, and never read through bbolt.
func TestOpen_DamageDangerousForBbolt_IsCorrupt(t *testing.T) {
	path, content := treesFile(t)
	sound := readImage(t, path)
	root, _ := treeOf(t, path, "high")
	high := sound.pathTo(root)
	check.Need(t, len(high) >= 4, "a tree of %d levels", len(high))
	top, branch, leaf := high[0], high[len(high)-2], high[len(high)-1]
	list := sound.page(sound.meta.free())
	n := binary.NativeEndian.Uint16(list[10:])
	check.Need(t, n >= 2, "%d free pages", n)
	count := func(i image, id uint64) int { return int(binary.NativeEndian.Uint16(i.page(id)[10:])) }
	tests := []struct {
		name   string
		damage func(i image)
		closed bool // it cannot be opened for reading either
		whole  bool // every bucket can be read
	}{
		{name: "a branch that leads to itself", damage: func(i image) { i.link(branch, 1, branch) }},
		{name: "a branch that leads to the root", damage: func(i image) { i.link(branch, count(i, branch)-1, top) }},
		{name: "two branches with the same page", damage: func(i image) { i.link(branch, 0, leaf) }},
		{name: "a leaf that is the root with another name", damage: func(i image) {
			copy(i.page(leaf), i.page(top))
			binary.NativeEndian.PutUint64(i.page(leaf), leaf)
		}},
		{name: "a leaf that is a list of free pages", damage: func(i image) { i.page(leaf)[8] = freePage; i.link(leaf, 0, leaf) }},
		{name: "a leaf that is a meta page", damage: func(i image) { i.page(leaf)[8] = metaPage; i.link(leaf, 0, leaf) }},
		{name: "a leaf with pages of others", damage: func(i image) { binary.NativeEndian.PutUint32(i.page(leaf)[12:], 1<<31) }},
		{name: "a leaf with a key of 4 GiB", damage: func(i image) { binary.NativeEndian.PutUint32(i.page(leaf)[headerSize+8:], 1<<32-1) }},
		{name: "a leaf with a value elsewhere", damage: func(i image) { binary.NativeEndian.PutUint32(i.page(leaf)[headerSize+4:], 1<<20) }},
		{name: "a leaf with too many elements", damage: func(i image) { binary.NativeEndian.PutUint16(i.page(leaf)[10:], 1<<16-1) }},
		{name: "a branch with pages of others", damage: func(i image) { binary.NativeEndian.PutUint32(i.page(branch)[12:], 1<<31) }},
		{name: "a branch with wrong keys", damage: func(i image) { i.page(branch)[headerSize+2*elementSize]++ }},
		{name: "a branch with another first key", damage: func(i image) {
			element := i.page(branch)[headerSize:]
			element[binary.NativeEndian.Uint32(element)+binary.NativeEndian.Uint32(element[4:])-1]++
		}},
		{name: "a page beyond the file", damage: func(i image) { i.link(branch, 0, 1<<40) }},
		{name: "a page of the meta pages", damage: func(i image) { i.link(branch, 0, 1) }},
		{name: "free, but in use", whole: true, damage: func(i image) {
			binary.NativeEndian.PutUint64(i.page(i.meta.free())[headerSize:], leaf)
		}},
		{name: "free twice", whole: true, damage: func(i image) {
			copy(i.page(i.meta.free())[headerSize+8:][:8], i.page(i.meta.free())[headerSize:])
		}},
		{name: "more free pages than memory", whole: true, damage: func(i image) {
			binary.NativeEndian.PutUint16(i.page(i.meta.free())[10:], 0xffff)
			binary.NativeEndian.PutUint64(i.page(i.meta.free())[headerSize:], 1<<44)
		}},
		{name: "a list of another kind", whole: true, damage: func(i image) { i.page(i.meta.free())[8] = leafPage }},
		{name: "the list is a leaf", whole: true, damage: func(i image) { i.setMeta(32, leaf, 8) }},
		{name: "the list is beyond the file", whole: true, damage: func(i image) { i.setMeta(32, 1<<40, 8) }},
		{name: "the root is a meta page", closed: true, damage: func(i image) { i.setMeta(16, 1, 8) }},
		{name: "the root is beyond the file", closed: true, damage: func(i image) { i.setMeta(16, 1<<50, 8) }},
		{name: "fewer pages than there are", closed: true, damage: func(i image) { i.setMeta(40, 3, 8) }},
		{name: "more pages than there are", closed: true, damage: func(i image) { i.setMeta(40, 1<<40, 8) }},
		{name: "the last transaction", closed: true, damage: func(i image) { i.setMeta(48, 1<<64-1, 8) }},
		{name: "pages of no bytes", closed: true, damage: func(i image) { i.setMeta(8, 0, 4) }},
		{name: "pages of 7 bytes", closed: true, damage: func(i image) { i.setMeta(8, 7, 4) }},
		{name: "pages of 2 GiB", closed: true, damage: func(i image) { i.setMeta(8, 1<<31, 4) }},
		{name: "larger pages", closed: true, damage: func(i image) { i.setMeta(8, 1<<16, 4) }},
		{name: "another database", closed: true, damage: func(i image) { i.setMeta(0, 0, 4) }},
		{name: "another version", closed: true, damage: func(i image) { i.setMeta(4, 3, 4) }},
	}
	damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
	for _, test := range tests {
		i := sound.clone()
		test.damage(i)
		check.Must(t, os.WriteFile(damaged, i.data, 0o600))
		examineFile(t, damaged)
		s, err := Open(damaged, false)
		check.WantErr(t, err, kv.ErrCorrupt, "%s: got the error", test.name)
		if err == nil {
			check.Must(t, s.Close())
		}
		s, err = Open(damaged, true)
		if test.closed {
			check.WantErr(t, err, kv.ErrCorrupt, "%s: for reading: got the error", test.name)
			continue
		}
		check.Must(t, err)
		wantGuarded(t, test.name, s, content, test.whole)
		check.Must(t, s.Close())
	}
}

// A sparse file may be very long. Lengths that its pages claim must not cost memory.
func TestOpen_LongSparseFile_TakesLittleMemory(t *testing.T) {
	path, _ := treesFile(t)
	sound := readImage(t, path)
	root, _ := treeOf(t, path, "high")
	high := sound.pathTo(root)
	const pages = 1 << 24 // 64 GiB
	for name, damage := range map[string]func(i image){
		"a branch": func(i image) { binary.NativeEndian.PutUint32(i.page(high[1])[12:], pages-1<<20) },
		"a leaf":   func(i image) { binary.NativeEndian.PutUint32(i.page(high[len(high)-1])[12:], pages-1<<20) },
		"the list": func(i image) { binary.NativeEndian.PutUint32(i.page(i.meta.free())[12:], pages-1<<20) },
		"the root": func(i image) { binary.NativeEndian.PutUint32(i.page(i.meta.root())[12:], pages-1<<20) },
	} {
		i := sound.clone()
		i.setMeta(40, pages, 8)
		damage(i)
		long := filepath.Join(testenv.TempDir(t), "long.db")
		check.Must(t, os.WriteFile(long, i.data, 0o600))
		check.Must(t, os.Truncate(long, pages*int64(i.pageSize())))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(long, false)
		runtime.ReadMemStats(&after)
		check.WantErr(t, err, kv.ErrCorrupt, "%s: got the error", name)
		used := after.TotalAlloc - before.TotalAlloc
		check.That(t, used <= 64<<20, "%s: %d MiB", name, used>>20)
	}
}

// bbolt looks for the second meta page at the offsets of all page sizes, and uses the first valid
// one. Open must check the same page.
func TestOpen_SecondMetaPageAtOtherOffset_IsCorrupt(t *testing.T) {
	path, _ := treesFile(t)
	sound := readImage(t, path)
	for _, place := range []int{1 << 10, 2 << 10, sound.pageSize(), 2 * sound.pageSize(), 1 << 20} {
		i := sound.clone()
		second := slices.Clone(i.page(1)[:headerSize+64])
		i.page(0)[headerSize+20]++ // no longer valid
		i.page(1)[headerSize+20]++
		copy(i.data[place:], second)
		moved := filepath.Join(testenv.TempDir(t), "moved.db")
		check.Must(t, os.WriteFile(moved, i.data, 0o600))
		_, err := Open(moved, false)
		if sound := place == i.pageSize(); !sound && !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("at %d: got the error %v", place, err)
		} else if sound && err != nil {
			t.Errorf("in its place: %v", err)
		}
	}
}

// wantGuarded reads all buckets. Either the bucket "high" or the list of free pages is damaged.
func wantGuarded(t *testing.T, name string, s *Store, content map[string]map[string]string, whole bool) {
	t.Helper()
	for bucket, want := range content {
		n := 0
		err := s.View(func(r kv.Reader) error {
			return r.Scan(bucket, nil, func(_, _ []byte) bool { n++; return true })
		})
		if refused := bucket == "high" && !whole; refused != errors.Is(err, kv.ErrCorrupt) || !refused && n != len(want) {
			t.Errorf("%s: %s has %d records of %d, %v", name, bucket, n, len(want), err)
		}
	}
	faults := 0
	check.Must(t, s.Inspect(func(kv.Fault) { faults++ }, func(r kv.Reader) error { wantRising(t, r, content); return nil }))
	check.That(t, faults != 0, "%s: an audit does not find it", name)
}

// A meta page of another kind or version, which bbolt ignores, is reported although its checksum is
// right.
func TestInspect_MetaPageOfAnotherKind_IsReported(t *testing.T) {
	path, content := treesFile(t)
	for field := range 2 {
		for id := range uint64(metaPages) {
			i := readImage(t, path)
			other := slices.Clone(i.page(1 - id))
			i.setMeta(4*field, 7, 4)
			copy(i.page(1-id), other)
			damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
			check.Must(t, os.WriteFile(damaged, i.data, 0o600))
			faults, err := inspected(t, damaged, func(r kv.Reader) { wantRising(t, r, content) })
			check.That(t, err == nil && len(faults) == 1,
				"field %d of page %d: %v, %d faults", field, id, err, len(faults))
		}
	}
}

// A sound file is never refused, after any sequence of puts and deletes.
func TestOpen_SoundFile_IsNeverRefused(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "sound.db")
	check.Must(t, Create(path, func(kv.Writer) error { return nil }))
	random := rand.New(rand.NewPCG(5, 6))
	for round := range testenv.Tries(30, 60, 60) {
		s, err := Open(path, false)
		check.Need(t, err == nil, "round %d: %v", round, err)
		for range 3 {
			check.Must(t, s.Update(func(w kv.Writer) error { return churn(random, w, round) }))
		}
		check.Must(t, s.Close())
	}
}

// churn writes keys and values of all sizes, and deletes whole ranges.
func churn(random *rand.Rand, w kv.Writer, round int) error {
	bucket := fmt.Sprint("bucket ", random.IntN(4))
	from, n := random.IntN(2000), 1+random.IntN(400)
	for i := range n {
		key := fmt.Appendf(nil, "%05d", from+i)
		key = append(key, make([]byte, random.IntN(2)*random.IntN(900))...)
		var err error
		if size := 1 + random.IntN(100); round%3 == 2 {
			err = deleteFirst(w, bucket, key)
		} else if i == 9 {
			err = w.Put(bucket, key, make([]byte, 1+random.IntN(40_000)))
		} else {
			err = w.Put(bucket, key, make([]byte, size))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteFirst deletes the first record from a key on.
func deleteFirst(w kv.Writer, bucket string, from []byte) error {
	var found []byte
	if err := w.Scan(bucket, from, func(key, _ []byte) bool { found = slices.Clone(key); return false }); err != nil || found == nil {
		return err
	}
	return w.Delete(bucket, found)
}
