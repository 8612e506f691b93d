package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// unlisted is a file with trees of every size whose last commit left out the list of free pages, as a process leaves it that
// is killed.
func unlisted(t testing.TB) (path string, content map[string]string) {
	t.Helper()
	from, _ := forest(t)
	s, err := Open(from, false)
	must(t, err)
	defer s.Close()
	s.current.longest = 0
	must(t, putOne(s, "first", "k", "v"))
	content = records(t, s)
	path = filepath.Join(pace.Scratch(t), "unlisted.db")
	text, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(path, text, 0o600))
	wantListed(t, path, false)
	return path, content
}

// leavingOut is such a file, opened, whose last commit left out the list, too. Who calls it may close it.
func leavingOut(t *testing.T) (path string, s *Store, content map[string]string) {
	t.Helper()
	path, content = unlisted(t)
	s, err := Open(path, false)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.current.longest = 0
	must(t, putOne(s, "first", "k", "new"))
	content["first/k"] = "new"
	return path, s, content
}

func wantListed(t testing.TB, path string, want bool) {
	t.Helper()
	if listed := readImage(t, path).meta.free != noFreeList; listed != want {
		t.Errorf("a list of free pages: %v", listed)
	}
}

// wantNoFaults reads a file as an audit does.
func wantNoFaults(t testing.TB, s *Store) {
	t.Helper()
	must(t, s.Inspect(func(f kv.Fault) { t.Errorf("%+v", f) }, func(r kv.Reader) error {
		for bucket := range map[string]bool{"first": true, "wide": true, "high": true, "leaf": true} {
			if err := r.Scan(bucket, nil, func(_, _ []byte) bool { return true }); err != nil {
				return err
			}
		}
		return nil
	}))
}

// A list is left out once it is long, and written again when it is not, or when the file is closed.
func TestALongListIsLeftOut(t *testing.T) {
	path, _ := forest(t)
	s, err := Open(path, false)
	must(t, err)
	defer s.Close()
	for i, longest := range []int{LongestList, 0, 0, LongestList, 0} {
		s.current.longest = longest
		must(t, putOne(s, "first", "k", fmt.Sprint(i)))
		wantListed(t, path, longest > 0)
		wantSound(t, s)
	}
	must(t, s.View(func(r kv.Reader) error { wantListed(t, path, false); return nil }))
	must(t, s.Close())
	wantListed(t, path, true)
	before, err := os.ReadFile(path)
	must(t, err)
	s = mustOpen(t, path)
	wantSound(t, s)
	must(t, s.Close())
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("to open and close it changes the file: %v", err)
	}
}

// A file that was not closed has all that was written to it, and lists what is free when it is opened.
func TestAMissingListIsMadeAgain(t *testing.T) {
	path, content := unlisted(t)
	reader, err := Open(path, true)
	must(t, err)
	wantRecords(t, reader, content)
	wantNoFaults(t, reader)
	copied := path + ".copy"
	must(t, reader.CopyTo(t.Context(), copied, kv.Pages, nil, nil))
	must(t, reader.Close())
	wantListed(t, path, false) // who only reads writes nothing
	for _, path := range []string{path, copied} {
		before, err := os.Stat(path)
		must(t, err)
		s := mustOpen(t, path)
		wantListed(t, path, true)
		wantSound(t, s)
		wantRecords(t, s, content)
		wantNoFaults(t, s)
		if size, err := s.Size(); err != nil || size != before.Size() {
			t.Errorf("the file grows from %d to %d bytes: %v", before.Size(), size, err)
		}
		must(t, putOne(s, "wide", "more", "than before"))
		must(t, deleteOne(s, "wide", "more"))
		wantSound(t, s)
		wantRecords(t, s, content)
		must(t, s.Compact(t.Context(), nil))
		wantRecords(t, s, content)
		must(t, s.Close())
	}
}

// With no page free, or none where it is wanted, the list goes to the end of the file.
func TestAListHasRoom(t *testing.T) {
	used := pageSet{}
	for id := range uint64(100) {
		used.add(id)
	}
	for _, id := range []uint64{10, 12, 13, 15, 16, 17, 99} {
		used[0][id/64] &^= 1 << (id % 64)
	}
	l := listing{meta: meta{pages: 100}, used: used}
	for length, want := range map[uint64]uint64{1: 10, 2: 12, 3: 15, 4: 100} {
		if at := l.room(length); at != want {
			t.Errorf("%d pages have room at %d", length, at)
		}
	}
	l.meta.pages = 10
	if at := l.room(1); at != 10 {
		t.Errorf("without a free page there is room at %d", at)
	}
}

// The file grows by a list that has no room in it.
func TestAListGoesToTheEndOfTheFile(t *testing.T) {
	path, content := unlisted(t)
	before := readImage(t, path).meta
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	found, err := examine(file, false)
	must(t, errors.Join(err, found.err()))
	for id := range found.listing.free() {
		found.listing.used.add(id)
	}
	must(t, found.listing.write())
	after := readImage(t, path).meta
	if after.free != before.pages || after.pages != before.pages+1 {
		t.Errorf("the list is page %d of %d, after %d", after.free, after.pages, before.pages)
	}
	s := mustOpen(t, path)
	wantRecords(t, s, content)
	must(t, putOne(s, "first", "k", "new"))
	content["first/k"] = "new"
	wantRecords(t, s, content)
	wantNoFaults(t, s)
}

// A list of more pages than fit in 16 bits has its length elsewhere. A file may say that it has any number of pages.
func TestAVeryLongListIsMade(t *testing.T) {
	from, content := unlisted(t)
	sound := readImage(t, from)
	const length = 129 // of the list, in pages
	for _, want := range []int{manyFree - 1, manyFree, manyFree + 1} {
		i := sound.clone()
		pages := i.meta.pages - uint64(countFree(t, from)) + uint64(want) + length
		i.setMeta(40, pages, 8)
		path := filepath.Join(pace.Scratch(t), "long.db")
		must(t, os.WriteFile(path, i.data, 0o600))
		must(t, os.Truncate(path, int64(pages)*int64(i.meta.pageSize)))
		s := mustOpen(t, path)
		if n := s.current.freePages(); n != want {
			t.Errorf("%d free pages, not %d", n, want)
		}
		wantSound(t, s)
		wantRecords(t, s, content)
		must(t, putOne(s, "wide", "more", "than before"))
		must(t, s.Close())
		wantSound(t, mustOpen(t, path))
	}
	n := 0
	for range (&listing{meta: meta{pages: 1 << 50}, used: pageSet{}}).free() {
		n++
	}
	if n != mostListed {
		t.Errorf("%d pages are listed", n)
	}
}

// countFree counts the free pages of a file without a list.
func countFree(t testing.TB, path string) (n int) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	found, err := examine(file, false)
	must(t, errors.Join(err, found.err()))
	for range found.listing.free() {
		n++
	}
	return n
}

// Whatever of the list is on disk when the power goes, all records are there, and the next one makes a list.
func TestAPowerCutWhileAListIsMadeLosesNothing(t *testing.T) {
	path, content := unlisted(t)
	before := readImage(t, path)
	s := mustOpen(t, path)
	must(t, s.Close())
	after := readImage(t, path)
	place := int(after.meta.transaction % metaPages)
	if after.meta.transaction != before.meta.transaction+1 {
		t.Fatalf("transaction %d after %d", after.meta.transaction, before.meta.transaction)
	}
	meta := after.page(uint64(place))
	random := rand.New(rand.NewPCG(7, 8))
	cut := filepath.Join(pace.Scratch(t), "cut.db")
	for round := range 60 {
		i := before.clone()
		// All but the meta page is synced before that is written; until then any part of it may be there.
		list := after.page(after.meta.free)
		if keep := round >= 20; keep || random.IntN(2) == 0 {
			copy(i.page(after.meta.free), list)
		} else {
			copy(i.page(after.meta.free), list[:random.IntN(len(list))])
		}
		if round >= 20 {
			written := 2 * (round - 20)
			copy(i.page(uint64(place))[:written], meta)
		}
		must(t, os.WriteFile(cut, i.data, 0o600))
		s, err := Open(cut, false)
		must(t, err)
		wantRecords(t, s, content)
		wantSound(t, s)
		must(t, s.Close())
		wantListed(t, cut, true)
	}
}

// What is damaged is not written to, as there might be more in it than can be seen.
func TestNoListIsMadeOfADamagedFile(t *testing.T) {
	path, _ := unlisted(t)
	sound := readImage(t, path)
	root, _ := treeOf(t, path, "high")
	high := sound.pathTo(root)
	branch, leaf := high[len(high)-2], high[len(high)-1]
	looking := func(i image, leaves int) *survey {
		s := newSurvey(nil, sound.meta)
		s.in.file, s.whole, s.leaves = bytes.NewReader(i.data), true, leaves
		must(t, s.findBuckets(i.meta.root))
		return s
	}
	usual := looking(sound, mostLeaves)
	must(t, usual.tree(usual.in.buckets["high"].root))
	beside := slices.IndexFunc(usual.below, func(b below) bool { return usual.met.has(b.id + 1) })
	neighbour := usual.below[beside].id
	for name, damage := range map[string]func(i image){
		"a branch that leads to itself":     func(i image) { i.lead(branch, 1, branch) },
		"two branches with the same page":   func(i image) { i.lead(branch, 0, leaf) },
		"a leaf that is a branch page":      func(i image) { i.page(leaf)[8] = branchPage },
		"a leaf that is another page":       func(i image) { i.page(leaf)[0]++ },
		"a leaf that is of no kind":         func(i image) { i.page(leaf)[8] = 0 },
		"a leaf with pages of others":       func(i image) { binary.NativeEndian.PutUint32(i.page(neighbour)[12:], 1) },
		"a leaf with all pages behind it":   func(i image) { binary.NativeEndian.PutUint32(i.page(leaf)[12:], 1<<31) },
		"a leaf with a value elsewhere":     func(i image) { binary.NativeEndian.PutUint32(i.page(leaf)[headerSize+4:], 1<<20) },
		"a record that is another's bucket": func(i image) { i.page(leaf)[headerSize] = bucketFlag },
	} {
		i := sound.clone()
		damage(i)
		damaged := filepath.Join(pace.Scratch(t), "damaged.db")
		must(t, os.WriteFile(damaged, i.data, 0o600))
		if _, err := Open(damaged, false); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got the error %v", name, err)
		}
		after, err := os.ReadFile(damaged)
		if must(t, err); !bytes.Equal(after, i.data) {
			t.Errorf("%s: the file is changed", name)
		}
		// In a bucket of many leaves no less is seen.
		for _, leaves := range []int{0, mostLeaves} {
			s := looking(i, leaves)
			if err := s.tree(s.in.buckets["high"].root); err == nil {
				t.Errorf("%s, with %d leaves looked at: got no error", name, leaves)
			}
		}
	}
}

// After a commit has failed nothing more is written, not even the list.
func TestCloseWritesNothingAfterAFailedCommit(t *testing.T) {
	path, s, content := leavingOut(t)
	before, err := os.ReadFile(path)
	must(t, err)
	s.current.db.MaxSize = len(before)
	if err := putOne(s, "first", "large", strings.Repeat("large", len(before))); !errors.Is(err, kv.ErrUncertain) {
		t.Errorf("got the error %v", err)
	}
	s.current.db.MaxSize = 0
	must(t, s.Close())
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file is changed: %v", err)
	}
	s = mustOpen(t, path)
	wantRecords(t, s, content)
	wantSound(t, s)
}

// What nobody will find is left as it is.
func TestCloseListsNothingInAReplacedFile(t *testing.T) {
	path, s, _ := leavingOut(t)
	other := path + ".other"
	must(t, os.Rename(path, other))
	must(t, s.Close())
	wantListed(t, other, false)
}

// A file that is gone when it is closed costs the process nothing but an error.
func TestCloseOfACutOffFile(t *testing.T) {
	path, s, _ := leavingOut(t)
	must(t, os.Truncate(path, 0))
	if err := s.Close(); !errors.Is(err, kv.ErrOverwritten) {
		t.Errorf("got the error %v", err)
	}
}

// Where a file is looked at only after bbolt has opened it, it always has a list: bbolt would make one by itself, and trust
// what it reads.
func TestAListIsKeptWhereBboltLooksFirst(t *testing.T) {
	path, _ := unlisted(t)
	s := mustOpen(t, path)
	s.current.longest, s.current.late = 0, true
	must(t, putOne(s, "first", "k", "new"))
	wantListed(t, path, true)
}

// The same holds of the file that a new one has replaced.
func TestCompactListsNothingInTheOldFile(t *testing.T) {
	path, s, _ := leavingOut(t)
	other := path + ".other"
	must(t, os.Link(path, other))
	must(t, s.Compact(t.Context(), nil))
	wantListed(t, other, false)
	wantListed(t, path, true)
}

// FuzzUnlisted overwrites some bytes of a file without a list of free pages, and opens it. Whatever was not overwritten is
// still there.
func FuzzUnlisted(f *testing.F) {
	from, content := smallForest(f)
	sound := readImage(f, from)
	sound.setMeta(32, noFreeList, 8)
	branch, _ := treeOf(f, from, "tall")
	size := uint32(sound.meta.pageSize)
	f.Add(uint32(0), []byte{})
	f.Add(size*uint32(branch)+headerSize+8, binary.NativeEndian.AppendUint64(nil, branch))
	for page := uint32(2); page < uint32(sound.meta.pages); page++ {
		f.Add(size*page+8, []byte{branchPage})
		f.Add(size*page+12, []byte{1})
	}
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		i := sound.clone()
		if at %= uint32(len(i.data)); len(patch) > 64 {
			return
		}
		copy(i.data[at:], patch)
		i.setMeta(24, 0, 8)
		damaged := filepath.Join(pace.Scratch(t), "damaged.db")
		must(t, os.WriteFile(damaged, i.data, 0o600))
		s, err := Open(damaged, false)
		if err == nil {
			if readEverything(t, s, content) == 0 {
				writeEverything(t, s, content)
			}
			err = s.Close()
		}
		if err != nil && !errors.Is(err, kv.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// numbers is a file of so many records, in so many transactions, in the order of their keys or not.
func numbers(t testing.TB, records, transactions int, ordered bool) (path string) {
	t.Helper()
	path = filepath.Join(pace.Scratch(t), "numbers.db")
	must(t, Create(path, func(kv.Writer) error { return nil }))
	s, err := Open(path, false)
	must(t, err)
	random := rand.New(rand.NewPCG(3, 4))
	number := uint64(0)
	for range transactions {
		must(t, s.Update(func(w kv.Writer) error {
			for range records / transactions {
				number++
				key := number
				if !ordered {
					key = random.Uint64()
				}
				if err := w.Put("numbers", binary.BigEndian.AppendUint64(nil, key), make([]byte, 200)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	must(t, s.Close())
	return path
}

// Pages that nothing will be added to are full.
func TestALogFillsItsPages(t *testing.T) {
	for _, transactions := range []int{1, 10, 300} {
		if _, fill := treeOf(t, numbers(t, 3000, transactions, true), "numbers"); fill < 0.85 {
			t.Errorf("in %d transactions: pages are %.2f full", transactions, fill)
		}
	}
	if _, fill := treeOf(t, numbers(t, 3000, 300, false), "numbers"); fill < 0.5 || fill > 0.85 {
		t.Errorf("in no order: pages are %.2f full", fill)
	}
}

func TestIsNext(t *testing.T) {
	for _, test := range []struct {
		last, key string
		want      bool
	}{
		{"\x00\x01", "\x00\x02", true},
		{"\x00\xff", "\x01\x00", true},
		{"\x00\xff\xff", "\x01\x00\x00", true},
		{"a", "b", true},
		{"\x00\x01", "\x00\x03", false},
		{"\x00\x01", "\x01\x02", false},
		{"\x00\xff", "\x02\x00", false},
		{"\x00\xff", "\x00\x00", false},
		{"\xff", "\x00", false},
		{"\xff\xff", "\x00\x00", false},
		{"a", "ab", false},
		{"ab", "b", false},
		{"", "b", true},
	} {
		last := []byte(test.last)
		if test.last == "" {
			last = nil
		}
		if got := isNext(last, []byte(test.key)); got != test.want {
			t.Errorf("%q after %q: %v", test.key, test.last, got)
		}
	}
}
