package memtable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// conform tests a store: every implementation of [kv.Store] must pass. open opens the same data
// each time it is called within one subtest, and new, empty data in each subtest; a store that
// forgets everything on Close passes forgetful.
func conform(t *testing.T, forgetful bool, newData func(t *testing.T) (open func() kv.Store)) {
	tests := map[string]func(*testing.T, kv.Store){
		"serial": testSerial, "invalid": testInvalid, "closed": testClosed, "delete a range": testDeleteRange,
	}
	for name, updates := range scripts {
		tests[name] = func(t *testing.T, s kv.Store) { testScript(t, s, updates) }
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newData(t)()
			defer s.Close()
			test(t, s)
		})
	}
	t.Run("reopened", func(t *testing.T) {
		if forgetful {
			t.Log("this store loses its content on Close")
			return
		}
		testReopened(t, newData(t))
	})
}

// scripts are lists of updates, each a list of changes: "bucket/key=value" puts,
// "bucket/key" deletes, and "fails" ends the update with an error.
var scripts = map[string][][]string{
	"nothing":       {{}, {"fails"}},
	"put":           {{"b/k=one"}, {"b/k=two", "b/l=\x00"}},
	"order":         {{"b/b=2", "b/a\x00=1", "b/a=0", "b/\xff=5", "b/b\x00\x01=3", "b/ba=4"}},
	"own writes":    {{"b/k=old"}, {"b/k=new", "c/x=y"}},
	"failed update": {{"b/k=old"}, {"b/k=new", "c/x=y", "fails"}, {"b/k=newer"}},
	"buckets":       {{"b/k=in b"}, {"c/k=in c"}},
	"delete": {
		{"b/a=1", "b/b=2", "b/c=3"}, {"c/b=other bucket"}, {"b/b"}, {"b/b", "b/none", "b/a\x00"}, {"no bucket/b"},
		{"b/a", "b/c"}, {"b/b=again"},
	},
	"delete own writes": {
		{"b/a=1", "b/b=2", "b/c=3"},
		{"b/b", "b/b=new", "b/d=4", "b/d", "b/d", "new/x=y", "new/x", "b/a"},
	},
	"delete undone": {{"b/a=1", "b/b=2", "b/c=3"}, {"b/b", "b/a=new", "b/a", "fails"}},
}

// testScript makes the updates. A view that began before an update shows the old content. The
// update itself and a later view show the new content.
func testScript(t *testing.T, s kv.Store, updates [][]string) {
	now := map[string]string{}
	for _, changes := range updates {
		before, fails := maps.Clone(now), false
		viewed(t, s, func(r kv.Reader) {
			done := make(chan error)
			go func() {
				done <- s.Update(func(w kv.Writer) error {
					for _, change := range changes {
						if fails = change == "fails"; fails {
							return errUndone
						}
						if err := makeChange(w, now, change); err != nil {
							return err
						}
						wantHeld(t, w, now, "after "+change)
					}
					return nil
				})
			}()
			err := <-done
			check.That(t, errors.Is(err, errUndone) == fails && (err == nil || fails && !errors.Is(err, kv.ErrUncertain)),
				"%q: %v", changes, err)
			wantHeld(t, r, before, "a view that began before")
		})
		if fails {
			now = before
		}
		viewed(t, s, func(r kv.Reader) { wantHeld(t, r, now, "a view that began after") })
	}
}

// makeChange makes a change in a transaction and in the expected content.
func makeChange(w kv.Writer, now map[string]string, change string) error {
	at, value, puts := strings.Cut(change, "=")
	bucket, key, _ := strings.Cut(at, "/")
	if puts {
		now[at] = value
		return w.Put(bucket, []byte(key), []byte(value))
	}
	delete(now, at)
	return w.Delete(bucket, []byte(key))
}

// wantHeld compares the records that a reader shows, by scans from each key and by Get, with held.
func wantHeld(t *testing.T, r kv.Reader, held map[string]string, when string) {
	t.Helper()
	for _, bucket := range []string{"b", "c", "new", "no bucket"} {
		var keys []string
		for at := range held {
			if in, key, _ := strings.Cut(at, "/"); in == bucket {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		froms := []string{"", "\xff\x00"}
		for _, key := range append(keys, "none") {
			froms = append(froms, key, key+"\x00")
			value, err := r.Get(bucket, []byte(key))
			want, there := held[bucket+"/"+key]
			check.That(t, err == nil && string(value) == want && (value != nil) == there,
				"%s: %s/%q is %q, want %q: %v", when, bucket, key, value, want, err)
		}
		for _, from := range froms {
			var want []string
			for _, key := range keys {
				if key >= from {
					want = append(want, key+"="+held[bucket+"/"+key])
				}
			}
			wantSame(t, keysOf(t, r, bucket, from, 99), want, "%s: a scan of %s from %q", when, bucket, from)
			two := want[:min(2, len(want))]
			wantSame(t, keysOf(t, r, bucket, from, 2), two, "%s: two of %s from %q", when, bucket, from)
		}
	}
}

// testInvalid checks that an empty key or value is an error.
func testInvalid(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "in b")
	for _, change := range []string{"b/=v", "b/k=", "b/", "no bucket/"} {
		err := s.Update(func(w kv.Writer) error { return makeChange(w, map[string]string{}, change) })
		check.That(t, err != nil, "%s is accepted", change)
	}
	size, err := s.Size()
	check.That(t, err == nil && size >= int64(len("kin b")), "Size: %d, %v", size, err)
}

func putPairs(t *testing.T, s kv.Store, bucket string, pairs ...string) {
	t.Helper()
	update(t, s, func(w kv.Writer) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := w.Put(bucket, []byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
}

func getOne(t *testing.T, s kv.Store, bucket, key string) (value string) {
	t.Helper()
	err := s.View(func(r kv.Reader) error {
		v, err := r.Get(bucket, []byte(key))
		value = string(v)
		return err
	})
	check.Need(t, err == nil, "Get(%q, %q): %v", bucket, key, err)
	return value
}

func keysOf(t *testing.T, r kv.Reader, bucket, from string, most int) (found []string) {
	t.Helper()
	err := r.Scan(bucket, []byte(from), func(key, value []byte) bool {
		found = append(found, string(key)+"="+string(value))
		return len(found) < most
	})
	check.Need(t, err == nil, "Scan(%q, %q): %v", bucket, from, err)
	return found
}

func viewed(t *testing.T, s kv.Store, fn func(kv.Reader)) {
	t.Helper()
	err := s.View(func(r kv.Reader) error { fn(r); return nil })
	check.Need(t, err == nil, "View: %v", err)
}

func testSerial(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "n", "x")
	const writers, rounds = 8, 20
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range rounds {
				check.OK(t, s.Update(func(w kv.Writer) error {
					v, err := w.Get("b", []byte("n"))
					if err != nil {
						return err
					}
					return w.Put("b", []byte("n"), append(slices.Clone(v), 'x'))
				}))
			}
		})
	}
	group.Wait()
	got := len(getOne(t, s, "b", "n"))
	check.That(t, got == 1+writers*rounds, "%d increments were kept of %d", got-1, writers*rounds)
}

func testClosed(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "v")
	check.Must(t, s.Close())
	check.That(t, s.View(func(kv.Reader) error { return nil }) != nil, "View works on a closed store")
	check.That(t, s.Update(func(w kv.Writer) error { return w.Put("b", []byte("k"), []byte("w")) }) != nil, "Update works on a closed store")
}

func update(t *testing.T, s kv.Store, fn func(kv.Writer) error) {
	t.Helper()
	err := s.Update(fn)
	check.Need(t, err == nil, "Update: %v", err)
}

// testDeleteRange deletes a range that is larger than any page, so that pages become empty.
func testDeleteRange(t *testing.T, s kv.Store) {
	const pairs, first, last = 3000, 500, 2500
	name := func(i int) string { return fmt.Sprintf("%06d", i) }
	value := make([]byte, 100)
	update(t, s, func(w kv.Writer) error {
		var err error
		for i := range pairs {
			err = errors.Join(err, w.Put("b", []byte(name(i)), value))
		}
		return err
	})
	count := func(r kv.Reader, from int) (n int) {
		before := ""
		check.OK(t, r.Scan("b", []byte(name(from)), func(key, _ []byte) bool {
			if k := string(key); k <= before || k >= name(first) && k < name(last) && k != name(1000) {
				t.Errorf("found %s after %s", k, before)
			}
			before = string(key)
			n++
			return true
		}))
		return n
	}
	expect := func(r kv.Reader, again int) {
		t.Helper()
		for _, c := range []struct{ from, want int }{
			{0, pairs - last + first + again}, {first, pairs - last + again}, {1000, pairs - last + again}, {2000, pairs - last}, {last, pairs - last},
		} {
			check.Equal(t, count(r, c.from), c.want, "a scan from %d", c.from)
		}
	}
	update(t, s, func(w kv.Writer) error {
		var err error
		for i := first; i < last; i++ {
			err = errors.Join(err, w.Delete("b", []byte(name(i))))
		}
		expect(w, 0)
		err = errors.Join(err, w.Put("b", []byte(name(1000)), value))
		expect(w, 1)
		return err
	})
	viewed(t, s, func(r kv.Reader) { expect(r, 1) })
}

func testReopened(t *testing.T, open func() kv.Store) {
	const pairs = 1000
	s := open()
	for i := range pairs {
		putPairs(t, s, "b", fmt.Sprint(i), fmt.Sprint(-i))
	}
	check.Must(t, s.Close())
	s = open()
	defer s.Close()
	for i := range pairs {
		check.Equal(t, getOne(t, s, "b", fmt.Sprint(i)), fmt.Sprint(-i), "after reopening, %d has the value", i)
	}
}
