package scratch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
)

// model is what a Scratch must look like.
type model map[string]map[string]string

type pair struct{ key, value string }

func (m model) scan(bucket, from string, most int) []pair {
	var pairs []pair
	for _, key := range slices.Sorted(maps.Keys(m[bucket])) {
		if key >= from && len(pairs) < most {
			pairs = append(pairs, pair{key, m[bucket][key]})
		}
	}
	return pairs
}

func open(t testing.TB, dir string, limit int) *Scratch {
	t.Helper()
	s, err := New(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func scan(t *testing.T, s *Scratch, bucket, from string, most int) []pair {
	t.Helper()
	var pairs []pair
	err := s.Scan(bucket, []byte(from), func(key, value []byte) bool {
		if len(pairs) < most {
			pairs = append(pairs, pair{string(key), string(value)})
		}
		return len(pairs) < most
	})
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

const all = 1 << 30

func checkAll(t *testing.T, s *Scratch, m model) {
	t.Helper()
	for bucket := range m {
		if got, want := scan(t, s, bucket, "", all), m.scan(bucket, "", all); !slices.Equal(got, want) {
			t.Fatalf("bucket %q has %d pairs, want %d, or others", bucket, len(got), len(want))
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// slack is what a limit may be exceeded by: the few bytes that each run needs at least.
func slack(s *Scratch) int { return 256 * len(s.runs) }

func TestModel(t *testing.T) {
	for _, c := range []struct {
		limit, buckets, keys, large, steps int
		random                             bool // keys of any bytes
	}{
		{limit: 1, buckets: 2, keys: 40, large: 60, steps: 1500},
		{limit: 1 << 10, buckets: 3, keys: 300, large: 300, steps: 10_000},
		{limit: 1 << 10, buckets: 3, keys: 40, large: 30, steps: 10_000, random: true},
		{limit: 4 << 10, buckets: 1, keys: 2000, large: 200, steps: 20_000},
		{limit: 4 << 10, buckets: 700, keys: 4, large: 100, steps: 20_000},
		{limit: 4 << 10, buckets: 2, keys: 50, large: 20_000, steps: 3000},
		{limit: 64 << 10, buckets: 4, keys: 4000, large: 300, steps: 40_000},
		{limit: 1 << 30, buckets: 4, keys: 500, large: 300, steps: 20_000},
	} {
		t.Run(fmt.Sprintf("limit %d, %d buckets of %d keys", c.limit, c.buckets, c.keys), func(t *testing.T) {
			if c.steps /= pace.Tries(3, 1, 1); testing.Short() {
				c.steps /= 10
			}
			dir := t.TempDir()
			s, m := open(t, dir, c.limit), model{}
			rnd := rand.New(rand.NewPCG(7, uint64(c.keys)))
			key := func() string {
				if c.random {
					k := make([]byte, 1+rnd.IntN(3))
					for i := range k {
						k[i] = []byte{0, 1, 'a', 0xff}[rnd.IntN(4)]
					}
					return string(k)
				}
				return fmt.Sprintf("key %d", rnd.IntN(c.keys))
			}
			deletes, most := 15, 0
			for step := range c.steps {
				if step%2000 == 0 {
					deletes = []int{5, 15, 45}[rnd.IntN(3)] // so that the state shrinks too
				}
				bucket, k := fmt.Sprintf("bucket %d", rnd.IntN(c.buckets)), key()
				if s.Expect(bucket, []byte(k)); rnd.IntN(10) == 0 {
					s.Prefetch()
				}
				switch n := rnd.IntN(100); {
				case n < deletes:
					check(t, s.Delete(bucket, []byte(k)))
					delete(m[bucket], k)
				case n < 55:
					value := make([]byte, 1+rnd.IntN(c.large))
					for i := range value {
						value[i] = byte(rnd.Uint32())
					}
					check(t, s.Put(bucket, []byte(k), value))
					if m[bucket] == nil {
						m[bucket] = map[string]string{}
					}
					m[bucket][k] = string(value)
				case n < 98:
					got, err := s.Get(bucket, []byte(k))
					check(t, err)
					if want, there := m[bucket][k]; string(got) != want || (got != nil) != there {
						t.Fatalf("step %d: %s of %s has %d bytes, want %d, or others", step, k, bucket, len(got), len(want))
					}
				default:
					from, many := key(), 1+rnd.IntN(20)
					if rnd.IntN(4) == 0 {
						from, many = "", all
					}
					if got, want := scan(t, s, bucket, from, many), m.scan(bucket, from, many); !slices.Equal(got, want) {
						t.Fatalf("step %d: scan of %s from %q: %d pairs, want %d, or others", step, bucket, from, len(got), len(want))
					}
				}
				if s.table.held > s.room() || s.table.held+heldBy(s.runs) > c.limit+slack(s) {
					t.Fatalf("step %d: %d bytes and %d of %d runs in memory", step, s.table.held, heldBy(s.runs), len(s.runs))
				}
				most = max(most, len(s.runs))
			}
			checkAll(t, s, m)
			if (most > 0) != (c.limit < 1<<30) || most > 16 {
				t.Errorf("there were up to %d runs", most)
			}
			t.Logf("up to %d runs", most)
			check(t, s.Close())
			empty(t, dir)
		})
	}
}

// Pairs of any size find their place, and grow and shrink there or move.
func TestSizes(t *testing.T) {
	s, m := open(t, t.TempDir(), 1<<30), model{"b": {}}
	for _, size := range []int{1, 3 << 20, 8, 9, firstPage, 2 * firstPage, pageSize - 50, pageSize, 1 << offsetBits, 2<<offsetBits + 1} {
		for i := range 3 {
			key := fmt.Sprint(size, i)
			for _, n := range []int{size, 1, size + size/8, 2 * size, size} {
				value := bytes.Repeat([]byte{byte(n), byte(i)}, n)[:n]
				check(t, s.Put("b", []byte(key), value))
				m["b"][key] = string(value)
				if got, err := s.Get("b", []byte(key)); err != nil || !bytes.Equal(got, value) {
					t.Fatalf("a value of %d bytes comes back as one of %d, with the error %v", n, len(got), err)
				}
			}
		}
	}
	if len(s.runs) != 0 {
		t.Errorf("%d runs", len(s.runs))
	}
	checkAll(t, s, m)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	if len(entries) > 0 {
		t.Errorf("%s holds %v", dir, entries)
	}
}

// big puts the same number of bytes under n keys, in an order that is not theirs.
func big(t testing.TB, s *Scratch, n int) {
	t.Helper()
	for i := range n {
		key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15)
		if err := s.Put("b", key, bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const limit, n = 64 << 10, 80_000 // 9 MB
	s := open(t, t.TempDir(), limit)
	for i := range n {
		key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15)
		check(t, s.Put("b", key, bytes.Repeat([]byte{byte(i)}, 100)))
		if held := s.table.held + heldBy(s.runs); held > limit || heldBy(s.runs) > limit/2 {
			t.Fatalf("after %d pairs %d bytes are in memory, %d of them for %d runs", i+1, held, heldBy(s.runs), len(s.runs))
		}
	}
	for i := range n {
		key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15)
		if i%7 == 0 {
			value, err := s.Get("b", key)
			check(t, err)
			if len(value) != 100 || value[0] != byte(i) {
				t.Fatalf("pair %d is lost", i)
			}
		}
	}
	if held := s.table.held + heldBy(s.runs); held > limit {
		t.Errorf("after reads %d bytes are in memory", held)
	}
	if got := len(scan(t, s, "b", "", all)); got != n {
		t.Errorf("%d pairs, want %d", got, n)
	}
	if len(s.runs) > 12 {
		t.Errorf("%d runs", len(s.runs))
	}
}

// With enough memory for the filters, new keys are not looked for on disk.
func TestFilter(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20)
	big(t, s, 55_000)
	var hits int
	for i := range 10_000 {
		s.locate("b", fmt.Appendf(nil, "new %d", i))
		for _, r := range s.runs {
			if r.filter.has(maphash.Bytes(s.table.seed, s.key), false) {
				hits++
			}
		}
	}
	if len(s.runs) < 2 || hits > 500 {
		t.Errorf("%d of 10000 new keys pass the filters of %d runs", hits, len(s.runs))
	}
}

func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1)
	value, err := s.Get("b", []byte("k"))
	if value != nil || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
	if pairs := scan(t, s, "b", "", all); pairs != nil {
		t.Errorf("scanned %v", pairs)
	}
	check(t, s.Delete("b", []byte("k")))
	for _, p := range []pair{{"", "v"}, {"k", ""}} {
		if err := s.Put("b", []byte(p.key), []byte(p.value)); err == nil {
			t.Errorf("put %q", p)
		}
	}
	if err := s.Delete("b", nil); err == nil {
		t.Error("deleted an empty key")
	}
	if len(s.runs) != 0 || s.table.held != 0 {
		t.Error("an empty state is held")
	}
	empty(t, dir)
	if _, err := New(dir, 0); err == nil {
		t.Error("a limit of 0")
	}
}

// What was deleted goes from the disk when it is merged.
func TestDeletedIsForgotten(t *testing.T) {
	s := open(t, t.TempDir(), 4<<10)
	for i := range 1000 {
		check(t, s.Put("b", fmt.Append(nil, i), make([]byte, 50)))
	}
	for i := range 1000 {
		check(t, s.Delete("b", fmt.Append(nil, i)))
	}
	if pairs := scan(t, s, "b", "", all); pairs != nil {
		t.Errorf("%d pairs are left", len(pairs))
	}
	for i := 0; i < 10_000 && (i < 1000 || len(s.runs) > 1); i++ {
		check(t, s.Put("c", fmt.Append(nil, i), make([]byte, 50)))
	}
	if len(s.runs) != 1 {
		t.Fatalf("%d runs", len(s.runs))
	}
	rest, err := newMerger([]*cursor{{run: s.runs[0]}}, nil)
	check(t, err)
	for {
		key, value, err := rest.next()
		check(t, err)
		if key == nil {
			break
		}
		if key[3] == 0 || value == nil {
			t.Fatalf("%q is still there", key)
		}
	}
}

func TestScanMayReadButNotWrite(t *testing.T) {
	s := open(t, t.TempDir(), 8<<10)
	for i := range 500 {
		check(t, s.Put("b", fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, "value %d", i)))
	}
	var seen int
	var kept [][]byte
	check(t, s.Scan("b", nil, func(key, value []byte) bool {
		other := fmt.Appendf(nil, "%03d", (seen*7)%500)
		if got, err := s.Get("b", other); err != nil || string(got) != fmt.Sprintf("value %d", (seen*7)%500) {
			t.Fatalf("got %q, %v", got, err)
		}
		if seen%50 == 0 {
			inner := scan(t, s, "b", string(key), 3)
			if inner[0].key != string(key) {
				t.Fatalf("inner scan began with %q", inner[0].key)
			}
		}
		for _, err := range []error{s.Put("b", key, value), s.Delete("b", key)} {
			if !errors.Is(err, errScanning) {
				t.Fatalf("write in a scan: %v", err)
			}
		}
		seen++
		kept = append(kept, key, value)
		return true
	}))
	if seen != 500 {
		t.Fatalf("saw %d pairs", seen)
	}
	for i := range seen { // what was passed stays as it was
		if string(kept[2*i]) != fmt.Sprintf("%03d", i) || string(kept[2*i+1]) != fmt.Sprintf("value %d", i) {
			t.Fatalf("pair %d became %q, %q", i, kept[2*i], kept[2*i+1])
		}
	}
	check(t, s.Put("b", []byte("k"), []byte("v")))
}

// Scans between writes do not sort everything again.
func TestScansBetweenWrites(t *testing.T) {
	s, m := open(t, t.TempDir(), 1<<30), model{"b": {}}
	for range 3000 {
		key := fmt.Sprint(rand.IntN(100_000))
		check(t, s.Put("b", []byte(key), []byte("v")))
		m["b"][key] = "v"
		if got := scan(t, s, "b", key, 1); !slices.Equal(got, []pair{{key, "v"}}) {
			t.Fatalf("scan from %s: %v", key, got)
		}
	}
	checkAll(t, s, m)
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 32<<10)
	empty(t, dir)
	big(t, s, 2000)
	if len(s.runs) == 0 {
		t.Fatal("nothing was spilled")
	}
	for _, r := range s.runs {
		info, err := r.file.Stat()
		check(t, err)
		if info.Size() != r.size {
			t.Errorf("a run of %d bytes has %d", r.size, info.Size())
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
	}
	if runtime.GOOS != "windows" {
		empty(t, dir)
	}
	check(t, s.Close())
	empty(t, dir)
	check(t, s.Close())
	_, err := s.Get("b", []byte("k"))
	for _, err := range []error{err, s.Put("b", []byte("k"), []byte("v")), s.Delete("b", []byte("k")), s.Scan("b", nil, nil)} {
		if !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// A file that could not be removed while open is removed at the end.
func TestRemovedOnClose(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 32<<10)
	big(t, s, 2000)
	for i, r := range s.runs {
		r.name = filepath.Join(dir, fmt.Sprint("run", i))
		check(t, os.WriteFile(r.name, nil, 0o600))
	}
	check(t, s.Close())
	empty(t, dir)
}

func TestNoDirectory(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "none"), 4<<10)
	m := model{"b": {}}
	var failed int
	for i := range 100 {
		key := fmt.Sprint(i)
		err := s.Put("b", []byte(key), bytes.Repeat([]byte("x"), 50))
		if err != nil {
			failed++
			if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		m["b"][key] = string(bytes.Repeat([]byte("x"), 50))
	}
	if failed == 0 {
		t.Fatal("no error")
	}
	if err := s.Delete("b", []byte("1")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	delete(m["b"], "1")
	checkAll(t, s, m) // nothing is lost
	s.dir = t.TempDir()
	check(t, s.Put("b", []byte("k"), []byte("v")))
	m["b"]["k"] = "v"
	if len(s.runs) != 1 {
		t.Errorf("%d runs", len(s.runs))
	}
	checkAll(t, s, m)
}

// Reads of a damaged, shortened or lost file fail, and so do merges of it.
func TestDamage(t *testing.T) {
	for name, damage := range map[string]func(*run) error{
		"other bytes": func(r *run) error { _, err := r.file.WriteAt([]byte("damage"), r.size/2); return err },
		"cut off":     func(r *run) error { return r.file.Truncate(r.size / 2) },
		"closed":      func(r *run) error { return r.file.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := New(dir, 32<<10)
			check(t, err)
			big(t, s, 1000)
			if len(s.runs) == 0 {
				t.Fatal("nothing was spilled")
			}
			for _, r := range s.runs {
				check(t, damage(r))
			}
			var failed int
			for i := range 1000 {
				key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15)
				if _, err := s.Get("b", key); err != nil {
					failed++
				}
			}
			if failed == 0 {
				t.Error("Get found no damage")
			}
			if err := s.Scan("b", nil, func(_, _ []byte) bool { return true }); err == nil {
				t.Error("Scan found no damage")
			}
			err = nil
			for i := 0; i < 5000 && err == nil; i++ {
				err = s.Put("c", fmt.Append(nil, i), make([]byte, 100))
			}
			if err == nil {
				t.Error("a merge found no damage")
			}
			if err := s.Close(); (err != nil) != (name == "closed") {
				t.Errorf("Close: %v", err)
			}
			empty(t, dir)
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte{1, 2, 'k', 'v'})
	f.Add([]byte{1, 0, 'k'})
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, value, rest, err := cut(b); err == nil && len(key)+len(value)+len(rest) > len(b)-2 {
			t.Errorf("%d, %d and %d bytes of %d", len(key), len(value), len(rest), len(b))
		}
	})
}

// BenchmarkFold folds a million events, each of which reads a hot record and two that may be new, and
// writes these two. There is a new object with every fourth event.
func BenchmarkFold(b *testing.B) {
	b.Run("map", func(b *testing.B) {
		for b.Loop() {
			m := map[string]map[string][]byte{"meta": {}, "objects": {}, "chains": {}}
			fold(b, func(bucket string, key []byte) ([]byte, error) { return m[bucket][string(key)], nil },
				func(bucket string, key, value []byte) error { m[bucket][string(key)] = value; return nil })
		}
	})
	for _, c := range []struct {
		name  string
		limit int
	}{{"memory", math.MaxInt}, {"64MiB", 64 << 20}, {"8MiB", 8 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			var s *Scratch
			for b.Loop() {
				s = open(b, b.TempDir(), c.limit)
				fold(b, s.Get, s.Put)
			}
			var size int64
			for _, r := range s.runs {
				size += r.size
			}
			b.ReportMetric(float64(len(s.runs)), "runs")
			b.ReportMetric(float64(size)/(1<<20), "MiB-spilled")
			b.ReportMetric(float64(s.table.held+heldBy(s.runs))/(1<<20), "MiB-held")
		})
	}
}

func fold(b *testing.B, get func(string, []byte) ([]byte, error), put func(string, []byte, []byte) error) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 1_000_000 {
		object := i/4 - int(rnd.ExpFloat64()*5000) // mostly hot
		if i%50 == 0 {
			object = rnd.IntN(i/4 + 1)
		}
		name := fmt.Appendf(make([]byte, 0, 32), "object-%08d", max(object, 0))
		chain := append(append(make([]byte, 0, 40), 0, 0, 0, byte(i%4)), name...)
		for _, r := range []struct {
			bucket string
			key    []byte
		}{{"meta", []byte("counters")}, {"objects", name}, {"chains", chain}} {
			if _, err := get(r.bucket, r.key); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(put("objects", name, make([]byte, 60)), put("chains", chain, make([]byte, 200))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNew asks for keys that are nowhere, when most of the state is on disk.
func BenchmarkNew(b *testing.B) {
	s := open(b, b.TempDir(), 8<<20)
	big(b, s, 1_000_000)
	i := 0
	for b.Loop() {
		i++
		if value, err := s.Get("b", binary.BigEndian.AppendUint64(nil, uint64(i)*0xD1342543DE82EF95)); value != nil || err != nil {
			b.Fatal(value, err)
		}
	}
	b.ReportMetric(float64(len(s.runs)), "runs")
}

// BenchmarkScan goes through a million pairs on disk.
func BenchmarkScan(b *testing.B) {
	s := open(b, b.TempDir(), 8<<20)
	big(b, s, 1_000_000)
	for b.Loop() {
		n := 0
		if err := s.Scan("b", nil, func(_, _ []byte) bool { n++; return true }); err != nil || n != 1_000_000 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/pair")
}

// The index is made anew as the table grows: from pairs of which some have moved, and some are deleted.
func TestTheIndexGrowsAfterPairsHaveMoved(t *testing.T) {
	s, m := open(t, t.TempDir(), 1<<20), model{"b": {}}
	put := func(i, size int) {
		key, value := fmt.Sprintf("key %d", i), bytes.Repeat([]byte{byte(i)}, size)
		check(t, s.Put("b", []byte(key), value))
		m["b"][key] = string(value)
	}
	for size := 1; size < 200; size *= 4 {
		for i := range 500 {
			put(i, size)
		}
	}
	for i := 0; i < 500; i += 7 {
		key := fmt.Sprintf("key %d", i)
		check(t, s.Delete("b", []byte(key)))
		delete(m["b"], key)
	}
	slots, pages := len(s.table.slots), len(s.table.pages)
	for i := 500; i < 3000; i++ {
		put(i, 10)
		if i%2 == 0 {
			put(i%500, 1+i%300)
		}
	}
	if len(s.table.slots) == slots || len(s.table.pages) == pages || len(s.runs) > 0 {
		t.Fatalf("%d slots, %d pages and %d runs: the test shows little", len(s.table.slots), len(s.table.pages), len(s.runs))
	}
	for key, want := range m["b"] {
		if got, err := s.Get("b", []byte(key)); err != nil || string(got) != want {
			t.Fatalf("%s is %d bytes, want %d, or others, %v", key, len(got), len(want), err)
		}
	}
	checkAll(t, s, m)
}

func TestSpill_FileFails_TheErrorNamesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	file, err := createFile(dir)
	check(t, err)
	check(t, file.File.Close())
	_, written := file.Write([]byte("x"))
	_, read := file.ReadAt(make([]byte, 1), 0)
	gone := filepath.Join(dir, "gone")
	_, created := createFile(gone)
	for doing, err := range map[string]error{
		"write a spill file in " + dir: written, "read a spill file in " + dir: read, "close a spill file in " + dir: file.Close(),
		"open a spill file in " + gone: created,
	} {
		if err == nil || !strings.Contains(err.Error(), doing) || strings.Contains(err.Error(), "sluice-scratch") {
			t.Errorf("%v; want %q", err, doing)
		}
	}
}
