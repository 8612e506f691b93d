package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// FuzzParse reads any bytes as a page. Its elements must be inside of the page.
func FuzzParse(f *testing.F) {
	path, _ := treesFile(f)
	sound := readImage(f, path)
	for id := uint64(2); id < 12; id++ {
		f.Add(sound.page(id))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		const id, size = 7, 4096
		data := append(make([]byte, id*size), b...)
		data = append(data, make([]byte, (size-len(b)%size)%size)...)
		s := snapshot{data: data, pageSize: size}
		p, err := s.page(id)
		if err != nil {
			return
		}
		check.Need(t, p.count()*elementSize <= len(p)-headerSize && (p.isLeaf() || p.count() != 0),
			"%d elements on %d bytes", p.count(), len(p))
		for n := range p.count() {
			key, value, _, ok := p.record(n)
			check.Need(t, !p.isLeaf() || !ok || len(key) != 0 && len(value) != 0 && len(key)+len(value) <= len(p),
				"an element of %d and %d bytes", len(key), len(value))
			_, _ = p.key(n)
			_ = p.child(n)
		}
		_, _, _ = p.search([]byte("k"))
		_, _ = p.inOrder(nil, nil, nil), p.needsOverflow(size)
		check.Need(t, bytes.Equal(data[id*size:][:len(b)], before), "the page has changed")
	})
}

// FuzzPatchedFile overwrites some bytes of a file with branch pages, corrects the checksums of the
// meta pages, and opens the file. Reads must return the records or an error.
func FuzzPatchedFile(f *testing.F) {
	path, content := smallTreesFile(f)
	sound := readImage(f, path)
	branch, _ := treeOf(f, path, "tall")
	size := uint32(sound.pageSize())
	f.Add(uint32(0), []byte{})
	f.Add(size*uint32(branch)+headerSize+8, binary.NativeEndian.AppendUint64(nil, branch))
	f.Add(size*uint32(branch)+8, []byte{2})
	f.Add(size*uint32(sound.meta.free())+10, []byte{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff})
	for field := uint32(0); field < 56; field += 8 {
		f.Add(headerSize+field, []byte{0xff})
		f.Add(size+headerSize+field, []byte{1, 1, 1, 1, 1, 1, 1})
	}
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		i := sound.clone()
		if at %= uint32(len(i.data)); len(patch) > 64 {
			return
		}
		copy(i.data[at:], patch)
		i.setMeta(24, 0, 8) // a field that bbolt does not use
		damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
		check.Must(t, os.WriteFile(damaged, i.data, 0o600))
		examineFile(t, damaged)
		s, err := Open(damaged, true)
		if err == nil {
			faults := readEverything(t, s, content)
			check.Must(t, s.Close())
			s, err = Open(damaged, false)
			if err == nil && faults == 0 {
				writeEverything(t, s, content)
			}
			if err == nil {
				_ = s.Close()
			}
		}
		check.Need(t, err == nil || errors.Is(err, kv.ErrCorrupt), "%v", err)
	})
}

// examineFile examines a file as Open does, but does not recover panics of this package.
func examineFile(t *testing.T, path string) {
	t.Helper()
	file := check.Value(os.Open(path))(t)
	defer file.Close()
	_, _ = examine(file, false)
}

// smallTreesFile creates a file of a few dozen pages. One bucket has branch pages, and some pages
// are free.
func smallTreesFile(t testing.TB) (path string, content map[string]string) {
	t.Helper()
	path, content = filepath.Join(testenv.TempDir(t), "small.db"), map[string]string{}
	check.Must(t, Create(path, func(kv.Writer) error { return nil }))
	s := check.Value(Open(path, false))(t)
	for round := range 3 {
		check.Must(t, s.Update(func(w kv.Writer) error {
			for n := range 30 {
				key, value := fmt.Sprintf("%03d%500d", n, n), fmt.Sprint(round*n)
				if err := errors.Join(w.Put("tall", []byte(key), []byte(value)), w.Put("inline", []byte{byte(n%3 + 1)}, []byte("v"))); err != nil {
					return err
				}
				content[key] = value
			}
			return nil
		}))
	}
	check.Must(t, s.Close())
	copied := filepath.Join(testenv.TempDir(t), "copy.db") // a file without spare space at its end
	s = check.Value(Open(path, true))(t)
	check.Must(t, s.CopyTo(t.Context(), copied, kv.Pages, nil, nil))
	check.Must(t, s.Close())
	return copied, content
}

// readEverything reads by Inspect and by View. If Inspect finds no fault, both must read the same.
func readEverything(t *testing.T, s *Store, content map[string]string) (faults int) {
	t.Helper()
	careful := map[string]string{}
	check.Must(t, s.Inspect(func(kv.Fault) { faults++ }, func(r kv.Reader) error {
		return r.Scan("tall", nil, func(key, value []byte) bool { careful[string(key)] = string(value); return true })
	}))
	usual := map[string]string{}
	err := s.View(func(r kv.Reader) error {
		for key := range content {
			if _, err := r.Get("tall", []byte(key)); err != nil {
				return err
			}
		}
		return r.Scan("tall", nil, func(key, value []byte) bool { usual[string(key)] = string(value); return len(usual) < 1000 })
	})
	if faults > 0 {
		return faults
	}
	check.Need(t, err == nil && fmt.Sprint(usual) == fmt.Sprint(careful),
		"%d records, and %d by Inspect: %v", len(usual), len(careful), err)
	return 0
}

// writeEverything writes to a file in which no fault was found, and reads it again.
func writeEverything(t *testing.T, s *Store, content map[string]string) {
	t.Helper()
	check.Must(t, s.Update(func(w kv.Writer) error {
		for key, value := range content {
			check.Must(t, w.Put("tall", []byte(key), []byte(value+" again")))
		}
		return nil
	}))
	check.Must(t, s.Inspect(func(fault kv.Fault) { t.Fatalf("after writing: %+v", fault) }, func(r kv.Reader) error {
		for key, value := range content {
			if got, err := r.Get("tall", []byte(key)); err != nil || string(got) != value+" again" {
				return fmt.Errorf("%.10q is %q, %w", key, got, err)
			}
		}
		return nil
	}))
}
