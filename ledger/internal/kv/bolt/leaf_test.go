package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// leavesFile creates a file of one bucket with many leaves, and returns the leaves in order.
func leavesFile(t testing.TB) (path string, i image, leaves []uint64) {
	t.Helper()
	path = filepath.Join(testenv.TempDir(t), "data.db")
	check.Must(t, Create(path, func(w kv.Writer) (err error) {
		for n := 0; n < 5000 && err == nil; n++ {
			err = w.Put("records", recordKey(2*n), make([]byte, 400))
		}
		return err
	}))
	root, _ := treeOf(t, path, "records")
	i = readImage(t, path)
	leaves = i.leavesBelow(root)
	height := len(i.pathTo(root))
	check.Need(t, height >= 3 && len(leaves) >= 100, "%d levels, %d leaves", height, len(leaves))
	return path, i, leaves
}

func (i image) leavesBelow(id uint64) (leaves []uint64) {
	page := i.page(id)
	if binary.NativeEndian.Uint16(page[8:]) == leafPage {
		return []uint64{id}
	}
	for n := range int(binary.NativeEndian.Uint16(page[10:])) {
		leaves = append(leaves, i.leavesBelow(binary.NativeEndian.Uint64(i.child(id, n)))...)
	}
	return leaves
}

func (i image) keys(id uint64) (keys [][]byte) {
	p := page(i.page(id))
	for n := range p.count() {
		key, _ := p.key(n)
		keys = append(keys, key)
	}
	return keys
}

// forgedLeaves returns functions that damage a leaf.
func forgedLeaves(i image, root uint64) map[string]func(page []byte) {
	put32 := binary.NativeEndian.PutUint32
	return map[string]func(page []byte){
		"a branch page that leads back up": func(page []byte) {
			id := binary.NativeEndian.Uint64(page)
			copy(page, i.page(root))
			binary.NativeEndian.PutUint64(page, id)
		},
		"a branch page that leads to itself": func(page []byte) {
			page[8] = branchPage
			for n := range int(binary.NativeEndian.Uint16(page[10:])) {
				copy(page[headerSize+n*elementSize+8:], page[:8])
			}
		},
		"another page":            func(page []byte) { binary.NativeEndian.PutUint64(page, root) },
		"a free page":             func(page []byte) { page[8] = freePage },
		"a page of no kind":       func(page []byte) { page[8] = 0 },
		"an empty leaf":           func(page []byte) { page[10], page[11] = 0, 0 },
		"too many elements":       func(page []byte) { page[10], page[11] = 0xff, 0xff },
		"pages of others":         func(page []byte) { put32(page[12:], 3) },
		"pages beyond the file":   func(page []byte) { put32(page[12:], 1<<31) },
		"a key of 4 GiB":          func(page []byte) { put32(page[headerSize+elementSize+8:], 1<<32-1) },
		"a value beyond the page": func(page []byte) { put32(page[headerSize+elementSize+12:], 1<<20) },
		"a bucket":                func(page []byte) { put32(page[headerSize+elementSize:], bucketFlag) },
		"another first key":       func(page []byte) { page[headerSize+binary.NativeEndian.Uint32(page[headerSize+4:])]++ },
	}
}

// A leaf that was not checked when the file was opened is checked before it is used, and so are the
// leaves that bbolt may merge with it. A forged one makes the update fail, and the file unchanged.
func TestUpdate_ForgedLeaf_IsCorruptBeforeItIsUsed(t *testing.T) {
	path, sound, leaves := leavesFile(t)
	root, _ := treeOf(t, path, "records")
	middle := len(leaves) / 2
	before, middleKeys, after := sound.keys(leaves[middle-1]), sound.keys(leaves[middle]), sound.keys(leaves[middle+1])
	value := make([]byte, 500)
	all := func(_, _ []byte) bool { return true }
	uses := map[string]func(w kv.Writer) error{
		"get":           func(w kv.Writer) error { _, err := w.Get("records", middleKeys[1]); return err },
		"put":           func(w kv.Writer) error { return w.Put("records", middleKeys[1], value) },
		"put a new one": func(w kv.Writer) error { return w.Put("records", append(bytes.Clone(middleKeys[1]), 0), value) },
		"delete":        func(w kv.Writer) error { return w.Delete("records", middleKeys[1]) },
		"delete before": func(w kv.Writer) error { return w.Delete("records", before[1]) },
		"delete after":  func(w kv.Writer) error { return w.Delete("records", after[1]) },
		"scan":          func(w kv.Writer) error { return w.Scan("records", before[1], all) },
		"seek": func(w kv.Writer) error {
			return w.Scan("records", append(bytes.Clone(before[len(before)-1]), 0), all)
		},
		"empty those before": func(w kv.Writer) (err error) {
			for _, leaf := range leaves[middle-3 : middle] {
				for _, key := range sound.keys(leaf) {
					err = errors.Join(err, w.Delete("records", key))
				}
			}
			return err
		},
	}
	damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
	tried, stride := rand.IntN(6), testenv.Tries(6, 1, 1) // the quick form tries a random sixth of the pairs
	for forgery, forge := range forgedLeaves(sound, root) {
		for use, do := range uses {
			if tried++; tried%stride != 0 {
				continue
			}
			name := forgery + ", " + use
			s := openForged(t, damaged, sound, leaves[middle], forge)
			file := check.Value(os.ReadFile(damaged))(t)
			err := s.Update(do)
			check.That(t, errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrUncertain), "%s: %v", name, err)
			after, err := os.ReadFile(damaged)
			check.That(t, err == nil && bytes.Equal(file, after), "%s: the file changed, %v", name, err)
			if err := s.Update(func(w kv.Writer) error {
				return errors.Join(w.Put("records", before[1], value), w.Delete("records", sound.keys(leaves[middle+3])[0]))
			}); err != nil {
				t.Errorf("%s: elsewhere: %v", name, err)
			}
			check.Must(t, s.Close())
		}
	}
}

// openForged opens a sound file, and then changes a leaf, as if the leaf had not been checked.
func openForged(t testing.TB, path string, sound image, leaf uint64, forge func(page []byte)) *Store {
	t.Helper()
	check.Must(t, os.WriteFile(path, sound.data, 0o600))
	s := check.Value(Open(path, false))(t)
	forged := sound.clone()
	forge(forged.page(leaf))
	file := check.Value(os.OpenFile(path, os.O_WRONLY, 0))(t)
	_, err := file.WriteAt(forged.page(leaf), int64(leaf)*int64(sound.pageSize()))
	check.Must(t, errors.Join(err, file.Close()))
	return s
}

// The last leaf is checked before a record is put after all others, and each leaf before it is
// copied.
func TestUpdate_ForgedLastLeaf_IsCorrupt(t *testing.T) {
	path, sound, leaves := leavesFile(t)
	root, _ := treeOf(t, path, "records")
	damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
	for name, forge := range forgedLeaves(sound, root) {
		s := openForged(t, damaged, sound, leaves[len(leaves)-1], forge)
		check.WantErr(t, s.Update(func(w kv.Writer) error { return w.Put("records", []byte("zzz"), []byte("v")) }), kv.ErrCorrupt, "%s: put", name)
		if name != "another first key" && name != "pages of others" { // a copy does not depend on these
			check.WantErr(t, s.Compact(t.Context(), nil), kv.ErrCorrupt, "%s: Compact", name)
			check.WantErr(t, s.CopyTo(t.Context(), damaged+"-copy", kv.Records, nil, nil), kv.ErrCorrupt, "%s: CopyTo", name)
		}
		check.Must(t, s.Close())
		wantFiles(t, damaged, "damaged.db")
	}
}

// Changes of a transaction are not taken for damage by the same transaction, in any order of puts,
// deletes, reads and scans.
func TestUpdate_OwnChanges_AreNotTakenForDamage(t *testing.T) {
	path, _, _ := leavesFile(t)
	s := mustOpen(t, path)
	random := rand.New(rand.NewPCG(1, 2))
	want := records(t, s)
	for round := range 60 {
		check.Must(t, s.Update(func(w kv.Writer) error { return changeRandomly(random, w, want, round) }))
		wantSound(t, s)
	}
	wantRecords(t, s, want)
}

// changeRandomly puts and deletes ranges of records, and applies the changes to want.
func changeRandomly(random *rand.Rand, w kv.Writer, want map[string]string, round int) error {
	for range 1 + random.IntN(6) {
		from := random.IntN(10_000)
		for n := from; n < from+random.IntN(400); n++ {
			key, value := recordKey(n), fmt.Sprintf("%0*d", 1+random.IntN(700), n)
			var err error
			if name := "records/" + string(key); round%2 == random.IntN(8)/7 {
				want[name] = value
				err = w.Put("records", key, []byte(value))
			} else {
				delete(want, name)
				err = w.Delete("records", key)
			}
			if err != nil {
				return err
			}
		}
		if err := wantNear(w, recordKey(from-random.IntN(min(from+1, 300))), want); err != nil {
			return err
		}
	}
	return nil
}

// wantNear scans up to 50 records from a key on, and compares them with want.
func wantNear(w kv.Writer, from []byte, want map[string]string) error {
	var wrong error
	left := 50
	err := w.Scan("records", from, func(key, value []byte) bool {
		got, err := w.Get("records", key)
		if all := want["records/"+string(key)]; err != nil || all != string(value) || all != string(got) {
			wrong = fmt.Errorf("%q: %q and %q, want %q; %w", key, value, got, all, err)
		}
		left--
		return wrong == nil && left > 0
	})
	return errors.Join(err, wrong)
}

// FuzzForgedLeaf overwrites some bytes of a leaf in an open file, and changes records around it.
// The process must not end, and the other leaves must lose no records.
func FuzzForgedLeaf(f *testing.F) {
	path, sound, leaves := leavesFile(f)
	root, _ := treeOf(f, path, "records")
	leaf := leaves[len(leaves)/2]
	for _, forge := range forgedLeaves(sound, root) {
		forged := sound.clone()
		forge(forged.page(leaf))
		f.Add(uint16(0), forged.page(leaf)[:300], uint64(1))
	}
	var some []string // all keys; in the quick form every fourth key of each leaf
	for _, id := range leaves {
		for i, key := range sound.keys(id) {
			if i%testenv.Tries(4, 1, 1) == 0 {
				some = append(some, string(key))
			}
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, patch []byte, seed uint64) {
		damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
		s := openForged(t, damaged, sound, leaf, func(page []byte) { copy(page[int(at)%len(page):], patch) })
		defer s.Close()
		before := check.Value(os.ReadFile(damaged))(t)
		first, touched := sound.keys(leaf)[0], map[string]bool{}
		err := s.Update(func(w kv.Writer) error { return changeAround(rand.New(rand.NewPCG(seed, 0)), w, first, touched) })
		after, readErr := os.ReadFile(damaged)
		check.Must(t, readErr)
		check.Need(t, err == nil || errors.Is(err, kv.ErrCorrupt) && bytes.Equal(before, after),
			"the file is the same: %v; %v", bytes.Equal(before, after), err)
		for _, key := range sound.keys(leaf) {
			touched[string(key)] = true
		}
		check.Must(t, s.Inspect(func(kv.Fault) {}, func(r kv.Reader) error {
			for _, key := range some {
				if value, err := r.Get("records", []byte(key)); value == nil && !touched[key] {
					return fmt.Errorf("%q is lost: %w", key, err)
				}
			}
			return nil
		}))
	})
}

// changeAround deletes, puts and scans around a key, and records the changed keys.
func changeAround(random *rand.Rand, w kv.Writer, around []byte, touched map[string]bool) (err error) {
	var number int
	if _, err := fmt.Sscanf(string(around), "record %d", &number); err != nil {
		return err
	}
	for n := number - 60 + random.IntN(60); n < number+60 && err == nil; n++ {
		key := recordKey(n)
		switch random.IntN(4) {
		case 0:
			touched[string(key)] = true
			err = w.Delete("records", key)
		case 1:
			touched[string(key)] = true
			err = w.Put("records", key, make([]byte, 1+random.IntN(900)))
		case 2:
			left := random.IntN(30)
			err = w.Scan("records", key, func(_, _ []byte) bool { left--; return left > 0 })
		default:
			_, err = w.Get("records", key)
		}
	}
	return err
}
