package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A snapshot reads the same as bbolt, in trees of every size, from any key on.
func TestSnapshot_ReadsTheSameAsBbolt(t *testing.T) {
	path, content := treesFile(t)
	s := mustOpen(t, path)
	random := rand.New(rand.NewPCG(3, 4))
	check.Must(t, s.snapshot(func(tx *transaction) error {
		r := &tx.old
		for bucket := range content {
			for range 300 {
				from := fmt.Appendf(nil, "%s %04d", bucket, random.IntN(1600))
				switch random.IntN(4) {
				case 0:
					from = from[:random.IntN(len(from))]
				case 1:
					from = append(from, "xxx"...)
				case 2:
					from = append(from, bytes.Repeat([]byte("x"), 600)...) // as a key of the high tree
				}
				if got, want := threeFrom(r, bucket, from), threeFrom(tx, bucket, from); !slices.Equal(got, want) {
					t.Errorf("%s from %.20q on: %.60q, not %.60q", bucket, from, got, want)
				}
				got, err := r.Get(bucket, from)
				want, err2 := tx.Get(bucket, from)
				check.That(t, bytes.Equal(got, want) && (got == nil) == (want == nil) && err == nil && err2 == nil,
					"%s has %.20q, not %.20q, under %.20q: %v, %v", bucket, got, want, from, err, err2)
			}
			if got, want := allRecords(t, r, bucket), allRecords(t, tx, bucket); !slices.Equal(got, want) {
				t.Errorf("%s: %d records, not %d", bucket, len(got), len(want))
			}
		}
		value, err := r.Get("no such bucket", []byte("k"))
		err = errors.Join(err, r.Scan("no such bucket", nil, nil))
		check.That(t, value == nil && err == nil, "no such bucket: %q, %v", value, err)
		return nil
	}))
}

// threeFrom returns three records from a key on.
func threeFrom(r kv.Reader, bucket string, from []byte) (found []string) {
	err := r.Scan(bucket, from, func(key, value []byte) bool {
		found = append(found, string(key), string(value))
		return len(found) < 6
	})
	return append(found, fmt.Sprint(err))
}

func allRecords(t testing.TB, r kv.Reader, bucket string) (found []string) {
	t.Helper()
	check.Must(t, r.Scan(bucket, nil, func(key, value []byte) bool {
		found = append(found, string(key), string(value))
		return true
	}))
	return found
}

// snapshotOf returns a snapshot of an image in memory, where a read outside of the image panics.
func snapshotOf(i image) *snapshot {
	return &snapshot{in: &database{}, data: i.data, pageSize: uint64(i.pageSize()), root: i.meta.root()}
}

// On damaged pages a scan returns an error. Before that it passes only valid records, and none
// twice, and it ends even if pages form a circle.
func TestSnapshot_DamagedPages_IsCorrupt(t *testing.T) {
	path, content := treesFile(t)
	sound := readImage(t, path)
	root, _ := treeOf(t, path, "high")
	high := sound.pathTo(root)
	top, branch, leaf := high[0], high[len(high)-2], high[len(high)-1]
	put32 := func(page []byte, at int, n uint32) { binary.NativeEndian.PutUint32(page[at:], n) }
	for name, damage := range map[string]func(i image){
		"a branch that leads to itself":   func(i image) { i.link(branch, 1, branch) },
		"a branch that leads to the root": func(i image) { i.link(branch, 0, top) },
		"a branch that leads to its leaf twice": func(i image) {
			copy(i.child(branch, 0)[:8], i.child(branch, 1))
		},
		"a leaf that is the root": func(i image) {
			copy(i.page(leaf), i.page(top))
			binary.NativeEndian.PutUint64(i.page(leaf), leaf)
		},
		"a branch without elements":       func(i image) { binary.NativeEndian.PutUint16(i.page(branch)[10:], 0) },
		"a branch with too many elements": func(i image) { binary.NativeEndian.PutUint16(i.page(branch)[10:], 1<<16-1) },
		"a leaf with too many elements":   func(i image) { binary.NativeEndian.PutUint16(i.page(leaf)[10:], 1<<16-1) },
		"a leaf without elements":         func(i image) { binary.NativeEndian.PutUint16(i.page(leaf)[10:], 0) },
		"a leaf with an element twice": func(i image) { // and another one missing
			elements := i.page(leaf)[headerSize:]
			copy(elements[elementSize:2*elementSize], elements)
			binary.NativeEndian.PutUint32(elements[elementSize+4:], binary.NativeEndian.Uint32(elements[4:])-elementSize)
		},
		"a leaf of another kind":              func(i image) { i.page(leaf)[8] = metaPage },
		"a leaf with another number":          func(i image) { i.page(leaf)[0]++ },
		"a leaf with the pages of others":     func(i image) { put32(i.page(leaf), 12, 1<<32-1) },
		"a leaf with a key of 4 GiB":          func(i image) { put32(i.page(leaf), headerSize+8, 1<<32-1) },
		"a leaf with a value of 4 GiB":        func(i image) { put32(i.page(leaf), headerSize+12, 1<<32-1) },
		"a leaf with a record elsewhere":      func(i image) { put32(i.page(leaf), headerSize+4, 1<<20) },
		"a leaf with a bucket for a record":   func(i image) { put32(i.page(leaf), headerSize, bucketFlag) },
		"a page beyond the file":              func(i image) { i.link(branch, 1, 1<<50) },
		"a page beyond the file, by overflow": func(i image) { i.link(branch, 1, 1<<52) },
		"a meta page":                         func(i image) { i.link(branch, 1, 1) },
	} {
		i := sound.clone()
		damage(i)
		r, visited := snapshotOf(i), map[string]bool{}
		check.WantErr(t, r.Scan("high", nil, func(key, value []byte) bool {
			check.Need(t, !visited[string(key)] && content["high"][string(key)] == string(value),
				"%s: %.20q is %.20q", name, key, value)
			visited[string(key)] = true
			return true
		}), kv.ErrCorrupt, "%s: got the error", name)
	}
}

// An element outside of its page, or with wrong flags, is an error, not a missing record.
func TestSnapshot_UnreadableElement_IsNotMissing(t *testing.T) {
	path, content := treesFile(t)
	sound := readImage(t, path)
	root, _ := treeOf(t, path, "high")
	high := sound.pathTo(root)
	for _, id := range high {
		for n := range int(binary.NativeEndian.Uint16(sound.page(id)[10:])) {
			i := sound.clone()
			at := headerSize + n*elementSize + 1 // of the position in a branch, of the flags in a leaf
			if i.page(id)[8] == leafPage {
				at += 8 // of the length of the key
			}
			i.page(id)[at] = 0xff
			i.page(id)[at+1] = 0xff
			wantAllOrErrors(t, snapshotOf(i), content["high"])
		}
	}
	i := sound.clone()
	buckets := i.page(sound.meta.root())
	for n := range int(binary.NativeEndian.Uint16(buckets[10:])) {
		buckets[headerSize+n*elementSize] = 0 // without the flag of a bucket
	}
	value, err := snapshotOf(i).Get("high", []byte("k"))
	check.That(t, errors.Is(err, kv.ErrCorrupt), "a bucket without its flag: %q, %v", value, err)
}

func wantAllOrErrors(t *testing.T, r *snapshot, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got, err := r.Get("high", []byte(key)); string(got) != value && !errors.Is(err, kv.ErrCorrupt) {
			t.Fatalf("%.20q is %.20q, and not %.20q: %v", key, got, value, err)
		}
	}
}

// A reader that is used after its transaction returns errors, because its pages may be reused.
func TestSnapshot_UsedAfterItsTransaction_IsCorrupt(t *testing.T) {
	path, _ := treesFile(t)
	s := mustOpen(t, path)
	var kept kv.Reader
	check.Must(t, s.View(func(r kv.Reader) error {
		kept = r
		_, err := r.Get("wide", []byte("k"))
		return err
	}))
	check.WantErr(t, check.Err(kept.Get("wide", []byte("k"))), kv.ErrCorrupt, "get: got the error")
	check.WantErr(t, kept.Scan("high", nil, func(_, _ []byte) bool { return true }), kv.ErrCorrupt, "scan: got the error")
}

// FuzzSnapshot overwrites some bytes of a file, and reads its buckets. Reads must return records or
// kv.ErrCorrupt.
func FuzzSnapshot(f *testing.F) {
	path, _ := smallTreesFile(f)
	sound := readImage(f, path)
	branch, _ := treeOf(f, path, "tall")
	size := uint32(sound.pageSize())
	f.Add(uint32(0), []byte{}, []byte("010"))
	f.Add(size*uint32(branch)+headerSize+8, binary.NativeEndian.AppendUint64(nil, branch), []byte(nil))
	f.Add(size*uint32(sound.meta.root())+headerSize, []byte{0}, []byte{})
	for at := uint32(0); at < 64; at += 4 {
		f.Add(size*uint32(branch)+at, []byte{0xff, 0xff}, []byte("012"))
		f.Add(size*uint32(sound.meta.root())+at, []byte{0xff, 0xff}, []byte("012"))
	}
	f.Fuzz(func(t *testing.T, at uint32, patch, from []byte) {
		i := sound.clone()
		copy(i.data[at%uint32(len(i.data)):], patch)
		for _, bucket := range []string{"tall", "inline"} {
			r, n := snapshotOf(i), 0
			err := r.Scan(bucket, from, func(key, value []byte) bool {
				n += len(key) + len(value)
				return true
			})
			_, err2 := r.Get(bucket, from)
			for _, err := range []error{err, err2} {
				check.Need(t, err == nil || errors.Is(err, kv.ErrCorrupt), "%v", err)
			}
		}
	})
}

// If the file is truncated while it is open, a scan returns an error, and the process does not end.
func TestSnapshot_FileTruncated_IsOverwritten(t *testing.T) {
	path, _ := treesFile(t)
	s := mustOpen(t, path)
	check.Must(t, os.Truncate(path, 8192))
	err := s.View(func(r kv.Reader) error { return r.Scan("wide", nil, func(_, _ []byte) bool { return true }) })
	check.WantErr(t, err, kv.ErrOverwritten, "got the error")
}
