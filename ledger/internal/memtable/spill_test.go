package memtable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
)

// A table with Options.Newest over a temporary file behaves like a map, for any share in memory.
func TestSpilledTable_AnyLimit_BehavesLikeAMap(t *testing.T) {
	for _, c := range []struct {
		limit                         int64
		buckets, keys, longest, steps int
	}{
		{1 << 10, 3, 300, 300, 6_000},
		{4 << 10, 40, 4, 100, 6_000},
		{4 << 10, 2, 50, 20_000, 1_500},
		{64 << 10, 4, 4_000, 300, 20_000},
		{1 << 30, 4, 500, 300, 10_000},
	} {
		t.Run(fmt.Sprintf("limit %d, %d buckets of %d keys", c.limit, c.buckets, c.keys), func(t *testing.T) {
			spilled := bolt.NewTemporary(t.TempDir())
			table := check.Value(Over(spilled, Options{Limit: c.limit, Newest: true}))(t)
			m := map[string]map[string]string{}
			random := rand.New(rand.NewPCG(7, uint64(c.keys)))
			steps := c.steps / testenv.Tries(3, 1, 1)
			for step := 0; step < steps; {
				check.Must(t, table.Update(func(w kv.Writer) error {
					for range 1 + random.IntN(20) {
						step++
						name, key := fmt.Sprintf("bucket %d", random.IntN(c.buckets)), fmt.Sprintf("key %d", random.IntN(c.keys))
						if m[name] == nil {
							m[name] = map[string]string{}
						}
						switch n := random.IntN(100); {
						case n < 20:
							delete(m[name], key)
							check.Must(t, w.Delete(name, []byte(key)))
						case n < 60:
							value := bytes.Repeat([]byte{byte(random.Uint32())}, 1+random.IntN(c.longest))
							m[name][key] = string(value)
							check.Must(t, w.Put(name, []byte(key), value))
						default:
							got, err := w.Get(name, []byte(key))
							if want, there := m[name][key]; err != nil || string(got) != want || (got != nil) != there {
								t.Fatalf("step %d: %s of %s has %d bytes, want %d, or others: %v", step, key, name, len(got), len(want), err)
							}
						}
					}
					return nil
				}))
			}
			for name := range m {
				checkWalk(t, table, name, "", m[name])
				checkWalk(t, table, name, fmt.Sprintf("key %d", c.keys/2), m[name])
			}
			size, err := spilled.Size()
			check.That(t, err == nil && (size > 0) == (c.limit < 1<<30), "the spill file has %d bytes, %v", size, err)
			check.Must(t, table.Close())
		})
	}
}

// Memory is bounded for any amount of records, because updates wait for the file. A frozen layer
// may exceed the limit, and the active one may always reach it.
func TestSpilledTable_FarMoreThanTheLimit_MemoryIsBounded(t *testing.T) {
	const limit, n = 1 << 20, 80_000 // of 9 MB
	table := check.Value(Over(bolt.NewTemporary(t.TempDir()), Options{Limit: limit, Newest: true}))(t)
	key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15) }
	for i := range n {
		check.Must(t, table.Update(func(w kv.Writer) error { return w.Put("b", key(i), bytes.Repeat([]byte{byte(i)}, 100)) }))
		if held := table.Bytes(); held > 3*limit {
			t.Fatalf("after %d records %d bytes are in memory", i+1, held)
		}
	}
	for i := range n {
		check.Must(t, table.View(func(r kv.Reader) error {
			value, err := r.Get("b", key(i))
			check.That(t, err != nil || len(value) == 100 && value[0] == byte(i), "record %d is lost", i)
			return err
		}))
	}
	check.Must(t, table.Close())
}

// checkWalk compares the pairs of a walk through a bucket, from a key on, with want.
func checkWalk(t *testing.T, table *Table, bucket, from string, want map[string]string) {
	t.Helper()
	w := kv.NewWalk([]byte(from), func(from []byte, visit func(key, value []byte) bool) error {
		return table.View(func(r kv.Reader) error { return r.Scan(bucket, from, visit) })
	})
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if key < from {
			continue
		}
		if k, v, err := w.Next(); err != nil || string(k) != key || string(v) != want[key] {
			t.Fatalf("%s: the walk is at %q with %d bytes, want %q with %d, or others: %v", bucket, k, len(v), key, len(want[key]), err)
		}
	}
	for range 2 {
		k, _, err := w.Next()
		check.Need(t, k == nil && err == nil, "%s: after its end the walk has %q, %v", bucket, k, err)
	}
}

// If a scan fails, Next returns its error.
func TestWalk_ScanFails_ReturnsTheError(t *testing.T) {
	broken := errors.New("broken")
	w := kv.NewWalk(nil, func([]byte, func(key, value []byte) bool) error { return broken })
	key, _, err := w.Next()
	check.That(t, key == nil && errors.Is(err, broken), "%q, %v", key, err)
}

// If the directory of the spill file is missing, updates fail once memory is full, and nothing is
// lost. When the directory exists again, updates continue.
func TestSpilledTable_NoDirectory_UpdatesFail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	table, err := Over(bolt.NewTemporary(dir), Options{Limit: 1 << 10, Newest: true, Pause: time.Nanosecond})
	check.Must(t, err)
	m := map[string]string{}
	put := func(i int) error {
		key, value := fmt.Sprint(i), fmt.Sprint("value ", i)
		err := table.Update(func(w kv.Writer) error { return w.Put("b", []byte(key), []byte(value)) })
		if err == nil {
			m[key] = value
		}
		return err
	}
	for i := 0; err == nil && i < 10_000; i++ {
		err = put(i)
	}
	check.WantErr(t, err, fs.ErrNotExist, "without a directory")
	checkWalk(t, table, "b", "", m)
	check.Must(t, os.Mkdir(dir, 0o700))
	for i := range 100 {
		for began := time.Now(); ; time.Sleep(time.Millisecond) { // a checkpoint that failed may still be running
			if err = put(i); err == nil || time.Since(began) > time.Minute {
				break
			}
		}
		check.Must(t, err)
	}
	checkWalk(t, table, "b", "", m)
	check.Must(t, table.Close())
}
