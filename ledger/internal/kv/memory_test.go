package kv_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A copy has the content of the store. Later updates of one do not change the other.
func TestMemoryCopy_UpdatesOfEither_DoNotChangeTheOther(t *testing.T) {
	put := func(s *kv.Memory, value string) {
		t.Helper()
		must(t, s.Update(func(w kv.Writer) error { return w.Put("b", []byte("k"), []byte(value)) }))
	}
	want := func(s *kv.Memory, value string) {
		t.Helper()
		must(t, s.View(func(r kv.Reader) error {
			got, err := r.Get("b", []byte("k"))
			if string(got) != value {
				t.Errorf("the value is %q, want %q", got, value)
			}
			return err
		}))
	}
	first := &kv.Memory{}
	put(first, "1")
	second := first.Copy()
	want(second, "1")
	put(second, "2")
	want(first, "1")
	put(first, "3")
	want(second, "2")
	must(t, first.Close())
	want(second, "2")
	want(first.Copy(), "3")
}

// After random updates, some of which fail, a store has the same content as a map, and each copy
// keeps its content.
func TestMemory_RandomUpdates_AgreesWithAMap(t *testing.T) {
	m, want, random := new(kv.Memory), map[string]string{}, rand.New(rand.NewPCG(1, 2))
	fault := errors.New("no more")
	var copies []*kv.Memory
	var wanted []map[string]string
	for n := range 300 {
		next, fails := maps.Clone(want), n%7 == 3
		err := m.Update(func(w kv.Writer) error {
			for range random.IntN(60) {
				key, value := strconv.Itoa(random.IntN(3000)), strconv.Itoa(random.Int())
				if random.IntN(5) < 2+n/150 {
					delete(next, key)
					if err := w.Delete("b", []byte(key)); err != nil {
						return err
					}
					continue
				}
				next[key] = value
				if err := w.Put("b", []byte(key), []byte(value)); err != nil {
					return err
				}
			}
			wantPairs(t, w, next)
			if fails {
				return fault
			}
			return nil
		})
		if fails != (err != nil) {
			t.Fatal(err)
		}
		if !fails {
			want = next
		}
		copies, wanted = append(copies, m.Copy()), append(wanted, maps.Clone(want))
		if n%5 == 4 { // continue in a copy, and change the original
			before := m
			m = m.Copy()
			must(t, before.Update(func(w kv.Writer) error { return w.Put("b", []byte("1000"), []byte("astray")) }))
		}
	}
	for i, s := range copies {
		must(t, s.View(func(r kv.Reader) error { wantPairs(t, r, wanted[i]); return nil }))
	}
}

// wantPairs fails if a scan or Get returns anything but want.
func wantPairs(t *testing.T, r kv.Reader, want map[string]string) {
	t.Helper()
	order, i := slices.Sorted(maps.Keys(want)), 0
	err := r.Scan("b", nil, func(key, value []byte) bool {
		if i == len(order) || string(key) != order[i] || string(value) != want[order[i]] {
			t.Fatalf("record %d of %d is %s %s", i, len(order), key, value)
		}
		i++
		return true
	})
	if err != nil || i != len(order) {
		t.Fatalf("%d records, want %d (%v)", i, len(order), err)
	}
	for n := range 30 {
		key := strconv.Itoa(100 * n)
		if value, err := r.Get("b", []byte(key)); err != nil || string(value) != want[key] {
			t.Fatalf("%s is %s, want %s (%v)", key, value, want[key], err)
		}
	}
}
