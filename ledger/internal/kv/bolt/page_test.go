package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// numberedPages is a file of pages that begin with their number. Reads of the page broken fail.
type numberedPages struct {
	pages, size int
	broken      uint64
	reads       []int // pages read at a time
}

var errNoPage = errors.New("a page that cannot be read")

func (f *numberedPages) ReadAt(into []byte, at int64) (int, error) {
	f.reads = append(f.reads, len(into)/f.size)
	for i := 0; i < len(into); i += f.size {
		id := uint64(at+int64(i)) / uint64(f.size)
		if id == f.broken || id >= uint64(f.pages) {
			return i, errNoPage
		}
		binary.NativeEndian.PutUint64(into[i:], id)
	}
	return len(into), nil
}

// Pages in rising order are read several at a time, and a page that cannot be read affects no
// other.
func TestPager_RisingPages_AreReadAhead(t *testing.T) {
	const pages, broken = 203, 50
	rising := make([]uint64, 0, pages)
	for id := uint64(metaPages); id < pages; id++ {
		rising = append(rising, id)
	}
	spread := slices.DeleteFunc(slices.Clone(rising), func(id uint64) bool { return id%3 == 0 })
	for name, c := range map[string]struct {
		ids   []uint64
		reads int // maximum, including reads with the broken page
	}{
		"in order":        {rising, 50},
		"nearly in order": {spread, 50},
		"backwards":       {reversed(rising), pages},
		"at random":       {shuffled(rising), pages},
	} {
		for _, size := range []int{1 << 12, 1 << 14, 1 << 17} {
			t.Run(fmt.Sprintf("%s, pages of %d bytes", name, size), func(t *testing.T) {
				file := &numberedPages{pages: pages, size: size, broken: broken}
				r := &pager{file: file, pageSize: size, pages: pages, readAhead: windowSize / size}
				for _, id := range c.ids {
					page, err := r.readPage(id)
					if wrong := err == nil && (len(page) != size || binary.NativeEndian.Uint64(page) != id); wrong || errors.Is(err, errNoPage) != (id == broken) {
						t.Fatalf("page %d: %d bytes that begin with %.8x, %v", id, len(page), page, err)
					}
				}
				once := len(file.reads)
				for range 2 {
					check.WantErr(t, check.Err(r.readPage(broken)), errNoPage, "page %d again", broken)
				}
				file.reads = file.reads[:once]
				if perRead := windowSize / size; perRead > 1 && len(file.reads) > c.reads*16/perRead {
					t.Errorf("%d reads: %d", len(file.reads), file.reads)
				}
				most := slices.Max(file.reads)
				check.That(t, most <= max(1, windowSize/size), "%d pages in one read", most)
			})
		}
	}
}

func shuffled(ids []uint64) []uint64 {
	ids = slices.Clone(ids)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// A walk reuses the memory of pages. Its position and the buckets must not refer to that memory.
func TestInspect_WindowReused_KeepsPositionAndBuckets(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "file.db")
	const buckets, pairs = 400, 3000
	bucket := func(i int) string { return fmt.Sprintf("bucket %03d", i) }
	check.Must(t, Create(path, func(w kv.Writer) error {
		for i := range buckets {
			if err := w.Put(bucket(i), []byte{1}, fmt.Appendf(nil, "value %d", i)); err != nil {
				return err
			}
		}
		for i := range pairs { // long keys make many branch pages
			if err := w.Put("high", fmt.Appendf(nil, "%0600d", i), []byte{1}); err != nil {
				return err
			}
		}
		return nil
	}))
	faults, err := inspected(t, path, func(r kv.Reader) {
		for i := range buckets {
			value := check.Value(r.Get(bucket(i), []byte{1}))(t)
			if want := fmt.Sprintf("value %d", i); string(value) != want {
				t.Fatalf("%s: %q", bucket(i), value)
			}
		}
		for range 2 {
			var last []byte
			n := 0
			check.Must(t, r.Scan("high", nil, func(key, _ []byte) bool {
				n++
				check.That(t, bytes.Compare(key, last) > 0, "%s after %s", key, last)
				last = append(last[:0], key...)
				return true
			}))
			check.Equal(t, n, pairs, "pairs")
		}
	})
	wantInspected(t, faults, err)
}

// wantInspected checks that an inspection has found no faults.
func wantInspected(t *testing.T, faults []kv.Fault, err error) {
	t.Helper()
	check.Must(t, err)
	if len(faults) > 0 {
		t.Errorf("%+v", faults[0])
	}
}

func reversed(ids []uint64) []uint64 {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

// Nested scans do not share memory, and later scans reuse it.
func TestInspect_NestedScans_DoNotShareMemory(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "file.db")
	const pairs = 3000
	key := func(i int) []byte { return fmt.Appendf(nil, "%05d", i) }
	check.Must(t, Create(path, func(w kv.Writer) error {
		for i := range pairs {
			if err := w.Put("a", key(i), fmt.Appendf(nil, "%0100d", i)); err != nil {
				return err
			}
			if err := w.Put("b", key(i), fmt.Appendf(nil, "%0100d", -i)); err != nil {
				return err
			}
		}
		return nil
	}))
	faults, err := inspected(t, path, func(r kv.Reader) {
		for range 2 {
			n := 0
			check.Must(t, r.Scan("a", nil, func(k, v []byte) bool {
				if n%100 == 0 {
					within := 0
					check.Must(t, r.Scan("b", key(n%7*300), func(_, _ []byte) bool { within++; return within < 500 }))
					check.Must(t, r.Scan("a", key(n%5*300), func(_, _ []byte) bool { within++; return within < 900 }))
				}
				check.Need(t, bytes.Equal(k, key(n)) && string(v) == fmt.Sprintf("%0100d", n),
					"pair %d is %s, %s", n, k, v)
				n++
				return true
			}))
			check.Equal(t, n, pairs, "pairs")
		}
	})
	wantInspected(t, faults, err)
}
