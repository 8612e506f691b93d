package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// treesFile creates a file with trees of every size: long keys make them high, long values take
// several pages. Some records are deleted, so that pages become free.
func treesFile(t testing.TB) (path string, content map[string]map[string]string) {
	t.Helper()
	path = filepath.Join(testenv.TempDir(t), "forest.db")
	random := rand.New(rand.NewPCG(1, 2))
	content = map[string]map[string]string{}
	check.Must(t, Create(path, func(kv.Writer) error { return nil }))
	s := check.Value(Open(path, false))(t)
	defer s.Close()
	for round := range 6 {
		check.Must(t, s.Update(func(w kv.Writer) error {
			for bucket, n := range map[string]int{"empty": 1, "small": 3, "leaf": 20, "wide": 1500, "high": 400} {
				if content[bucket] == nil {
					content[bucket] = map[string]string{}
				}
				for i := range n {
					key := fmt.Sprintf("%s %04d", bucket, random.IntN(2*n))
					if bucket == "high" {
						key += strings.Repeat("x", 600)
					}
					value := strings.Repeat("v", 1+random.IntN(60))
					if i == 7 {
						value = strings.Repeat("large", 5000)
					}
					if random.IntN(4) == 0 || bucket == "empty" && round > 0 {
						key = fmt.Sprintf("%s %04d", bucket, 0)
						delete(content[bucket], key)
						check.Must(t, w.Delete(bucket, []byte(key)))
						continue
					}
					content[bucket][key] = value
					check.Must(t, w.Put(bucket, []byte(key), []byte(value)))
				}
			}
			return nil
		}))
	}
	return path, content
}

// inspected opens a file, reads it by Inspect, and returns the faults.
func inspected(t testing.TB, path string, read func(r kv.Reader)) (faults []kv.Fault, err error) {
	t.Helper()
	s, err := Open(path, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	err = s.Inspect(func(f kv.Fault) { faults = append(faults, f) }, func(r kv.Reader) error { read(r); return nil })
	return faults, err
}

func TestInspect_SoundFile_ReadsEveryRecord(t *testing.T) {
	path, content := treesFile(t)
	faults, err := inspected(t, path, func(r kv.Reader) {
		for bucket, want := range content {
			found := map[string]string{}
			last := ""
			err := r.Scan(bucket, nil, func(key, value []byte) bool {
				check.That(t, string(key) > last, "%s: %.20q after %.20q", bucket, key, last)
				last = string(key)
				found[last] = string(value)
				return true
			})
			check.That(t, err == nil && maps.Equal(found, want),
				"%s: %d records, want %d, %v", bucket, len(found), len(want), err)
			checkInspected(t, r, bucket, want)
		}
		value, err := r.Get("nowhere", []byte("x"))
		check.That(t, value == nil && err == nil, "nowhere: %q, %v", value, err)
		check.OK(t, r.Scan("nowhere", nil, func(_, _ []byte) bool { t.Error("found something nowhere"); return true }))
	})
	check.That(t, err == nil && len(faults) == 0, "%v, faults: %+v", err, faults)
}

// checkInspected reads each record, and the keys next to it.
func checkInspected(t *testing.T, r kv.Reader, bucket string, want map[string]string) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	for i, key := range keys {
		if value, err := r.Get(bucket, []byte(key)); err != nil || string(value) != want[key] {
			t.Errorf("%s %.20q is %.20q, %v", bucket, key, value, err)
		}
		if value, err := r.Get(bucket, []byte(key+"!")); err != nil || value != nil {
			t.Errorf("%s %.20q! is %.20q, %v", bucket, key, value, err)
		}
		var following []string
		err := r.Scan(bucket, []byte(key+"!"), func(key, _ []byte) bool {
			following = append(following, string(key))
			return len(following) < 3
		})
		if next := keys[i+1 : min(i+4, len(keys))]; err != nil || !slices.Equal(following, next) {
			t.Errorf("%s: after %.20q there is %.20q, %v", bucket, key, following, err)
		}
	}
}

// An inspection reads one snapshot, and finds no faults, while another goroutine writes.
func TestInspect_DuringUpdates_IsOneSnapshot(t *testing.T) {
	path, content := treesFile(t)
	s := check.Value(Open(path, false))(t)
	defer s.Close()
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			err := s.Update(func(w kv.Writer) error {
				for bucket := range content {
					for j := range 50 {
						key := fmt.Appendf(nil, "%s %04d", bucket, (i*7+j*31)%2000)
						if err := w.Put(bucket, key, bytes.Repeat([]byte{byte(i + 1)}, 1+i%5000)); err != nil {
							return err
						}
					}
				}
				return w.Put("all", []byte("round"), fmt.Append(nil, i+1))
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range testenv.Tries(10, 30, 30) {
		check.OK(t, s.Inspect(func(f kv.Fault) { t.Errorf("%+v", f) }, func(r kv.Reader) error {
			count := func() (n, size int) {
				for bucket := range content {
					err := r.Scan(bucket, nil, func(key, value []byte) bool { n, size = n+1, size+len(key)+len(value); return true })
					check.OK(t, err)
				}
				return n, size
			}
			before, beforeSize := count()
			time.Sleep(time.Millisecond)
			if after, afterSize := count(); after != before || afterSize != beforeSize {
				t.Errorf("%d records of %d bytes, and then %d of %d", before, beforeSize, after, afterSize)
			}
			return nil
		}))
	}
	close(stop)
	writer.Wait()
}

// For random damage, an inspection ends within bounds of time and faults, and passes rising keys.
func TestInspect_RandomDamage_EndsWithRisingKeys(t *testing.T) {
	path, content := treesFile(t)
	original := check.Value(os.ReadFile(path))(t)
	page := os.Getpagesize()
	pages := len(original) / page
	random := rand.New(rand.NewPCG(3, 4))
	damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
	rounds := testenv.Tries(30, 400, 400)
	if testing.Short() {
		rounds = 50
	}
	for round := range rounds {
		data := slices.Clone(original)
		for range 1 + random.IntN(6) {
			at := (2 + random.IntN(pages-2)) * page
			head := data[at : at+page]
			switch random.IntN(5) {
			case 0: // another page
				copy(head, original[(2+random.IntN(pages-2))*page:][:page])
			case 1: // a page number that leads elsewhere, back to itself or above
				if n := min(int(binary.NativeEndian.Uint16(head[10:])), (page-headerSize)/elementSize); head[8] == branchPage && n > 0 {
					binary.NativeEndian.PutUint64(head[16+16*random.IntN(n)+8:], uint64(2+random.IntN(pages-2)))
				}
			case 2: // a number of elements
				binary.NativeEndian.PutUint16(head[10:], uint16(random.IntN(1<<16)))
			case 3: // anything at the head
				head[random.IntN(200)] ^= byte(1 + random.IntN(255))
			default: // anything anywhere
				for range 20 {
					head[random.IntN(page)] ^= byte(1 + random.IntN(255))
				}
			}
		}
		check.Must(t, os.WriteFile(damaged, data, 0o600))
		examineFile(t, damaged)
		began := time.Now()
		faults, err := inspected(t, damaged, func(r kv.Reader) { wantRising(t, r, content) })
		took := time.Since(began)
		check.That(t, took <= 10*time.Second, "round %d took %v", round, took)
		check.That(t, err == nil || errors.Is(err, kv.ErrCorrupt), "round %d: %v", round, err)
		check.That(t, len(faults) <= 100_000, "round %d: %d faults", round, len(faults))
	}
}

func wantRising(t *testing.T, r kv.Reader, content map[string]map[string]string) {
	t.Helper()
	for bucket, want := range content {
		var last []byte
		check.OK(t, r.Scan(bucket, nil, func(key, value []byte) bool {
			check.That(t, (last == nil || bytes.Compare(key, last) > 0) && len(key) != 0 && len(value) != 0,
				"%s: %.20q after %.20q", bucket, key, last)
			last = slices.Clone(key)
			return true
		}))
		for key := range want {
			_, err := r.Get(bucket, []byte(key))
			check.That(t, err == nil || errors.Is(err, kv.ErrCorrupt), "%v", err)
			break
		}
	}
}

// bbolt does not detect a page that leads to itself, or a changed key on a branch page. Inspect
// reports both.
func TestInspect_DamageHiddenFromBbolt_IsReported(t *testing.T) {
	path, content := treesFile(t)
	original := check.Value(os.ReadFile(path))(t)
	page := os.Getpagesize()
	tried, next, step := 0, 0, testenv.Tries(4, 1, 1)
	for at := 2 * page; at+page <= len(original); at += page {
		n := int(binary.NativeEndian.Uint16(original[at+10:]))
		if binary.NativeEndian.Uint16(original[at+8:]) != branchPage || n < 3 || !isReachable(t, path, original, at) {
			continue
		}
		if next++; next%step != 0 {
			continue
		}
		tried++
		for name, damage := range map[string]func(data []byte){
			"itself": func(data []byte) { binary.NativeEndian.PutUint64(data[at+16+16+8:], uint64(at/page)) },
			"a key": func(data []byte) {
				element := at + 16 + 16
				key := element + int(binary.NativeEndian.Uint32(data[element:]))
				data[key+int(binary.NativeEndian.Uint32(data[element+4:]))-1] += 3 // above the keys below it
			},
		} {
			data := slices.Clone(original)
			damage(data)
			damaged := filepath.Join(testenv.TempDir(t), "damaged.db")
			check.Must(t, os.WriteFile(damaged, data, 0o600))
			faults, err := inspected(t, damaged, func(r kv.Reader) { wantRising(t, r, content) })
			if err != nil || len(faults) == 0 {
				t.Errorf("%s on page %d: %v, no fault", name, at/page, err)
			}
		}
	}
	check.That(t, tried >= 3, "%d branch pages", tried)
}

// isReachable reports whether a page is part of the current trees.
func isReachable(t *testing.T, path string, original []byte, at int) bool {
	t.Helper()
	data := slices.Clone(original)
	data[at+8] = 0
	damaged := filepath.Join(testenv.TempDir(t), filepath.Base(path))
	check.Must(t, os.WriteFile(damaged, data, 0o600))
	faults, err := inspected(t, damaged, func(r kv.Reader) {
		for _, bucket := range []string{"empty", "small", "leaf", "wide", "high"} {
			_ = r.Scan(bucket, nil, func(_, _ []byte) bool { return true })
		}
	})
	return err == nil && len(faults) > 0
}

// bbolt copies small buckets to the heap, and would read beyond the end of a damaged one. Such a
// file is not opened.
func TestOpen_SmallBucketBeyondItsEnd_IsCorrupt(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "small.db")
	check.Must(t, Create(path, func(w kv.Writer) error { return w.Put("small", []byte("a key"), []byte("a value")) }))
	original := check.Value(os.ReadFile(path))(t)
	element := bytes.Index(original, []byte("a keya value")) - elementSize
	for name, at := range map[string]int{
		"elements": element - headerSize + 10, "place": element + 5, "key": element + 9, "value": element + 13, "kind": element - headerSize + 8,
	} {
		data := slices.Clone(original)
		data[at] += 9
		check.Must(t, os.WriteFile(path, data, 0o600))
		for _, readOnly := range []bool{false, true} {
			if s, err := Open(path, readOnly); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
				_ = s.Close()
			}
		}
	}
}
