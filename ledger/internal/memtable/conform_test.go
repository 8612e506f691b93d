package memtable

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// conform tests a store: every implementation of [kv.Store] must pass. open opens the same data
// each time it is called within one subtest, and new, empty data in each subtest; a store that
// forgets everything on Close passes forgetful.
func conform(t *testing.T, forgetful bool, newData func(t *testing.T) (open func() kv.Store)) {
	for name, test := range map[string]func(*testing.T, kv.Store){
		"empty": testEmpty, "put and get": testPutGet, "order": testOrder, "snapshot": testSnapshot,
		"own writes": testOwnWrites, "failed update": testFailedUpdate, "serial": testSerial, "buckets": testBuckets, "closed": testClosed,
		"delete": testDelete, "delete own writes": testDeleteOwnWrites, "delete undone": testDeleteUndone,
		"delete a range": testDeleteRange, "delete and snapshot": testDeleteSnapshot,
	} {
		t.Run(name, func(t *testing.T) {
			s := newData(t)()
			defer s.Close()
			test(t, s)
		})
	}
	t.Run("reopened", func(t *testing.T) {
		if forgetful {
			t.Log("this store says that it forgets on Close")
			return
		}
		testReopened(t, newData(t))
	})
}

func putPairs(t *testing.T, s kv.Store, bucket string, pairs ...string) {
	t.Helper()
	err := s.Update(func(w kv.Writer) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := w.Put(bucket, []byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
	check.Need(t, err == nil, "Update: %v", err)
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

func testEmpty(t *testing.T, s kv.Store) {
	viewed(t, s, func(r kv.Reader) {
		v, err := r.Get("none", []byte("k"))
		check.That(t, v == nil && err == nil, "Get from an empty store: %q, %v", v, err)
		found := keysOf(t, r, "none", "", 9)
		check.That(t, found == nil, "Scan of an empty store found %q", found)
	})
	check.WantErr(t, s.Update(func(kv.Writer) error { return nil }), nil, "an update that writes nothing")
}

func testPutGet(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "one")
	putPairs(t, s, "b", "k", "two", "l", "\x00")
	check.That(t, getOne(t, s, "b", "k") == "two" && getOne(t, s, "b", "l") == "\x00" && getOne(t, s, "b", "m") == "",
		"Get does not return what was put")
	for _, pair := range [][2]string{{"", "v"}, {"k", ""}} {
		err := s.Update(func(w kv.Writer) error { return w.Put("b", []byte(pair[0]), []byte(pair[1])) })
		check.That(t, err != nil, "Put accepts key %q with value %q", pair[0], pair[1])
	}
}

func testOrder(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "b", "2", "a\x00", "1", "a", "0", "\xff", "5", "b\x00\x01", "3", "ba", "4")
	viewed(t, s, func(r kv.Reader) {
		for _, c := range []struct {
			from string
			most int
			want []string
		}{
			{"", 99, []string{"a=0", "a\x00=1", "b=2", "b\x00\x01=3", "ba=4", "\xff=5"}},
			{"a", 2, []string{"a=0", "a\x00=1"}},
			{"aa", 1, []string{"b=2"}},
			{"b\x00", 2, []string{"b\x00\x01=3", "ba=4"}},
			{"\xff\x00", 9, nil},
		} {
			wantSame(t, keysOf(t, r, "b", c.from, c.most), c.want, "Scan from %q", c.from)
		}
	})
}

func testSnapshot(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "old")
	viewed(t, s, func(r kv.Reader) {
		done := make(chan struct{})
		go func() { defer close(done); putPairs(t, s, "b", "k", "new", "l", "new") }()
		<-done
		wantSame(t, keysOf(t, r, "b", "", 9), []string{"k=old"}, "a snapshot shows a later commit")
	})
	check.Equal(t, getOne(t, s, "b", "k"), "new", "after the commit")
}

func testOwnWrites(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "old")
	check.Must(t, s.Update(func(w kv.Writer) error {
		if err := errors.Join(w.Put("b", []byte("k"), []byte("new")), w.Put("c", []byte("x"), []byte("y"))); err != nil {
			return err
		}
		wantSame(t, keysOf(t, w, "b", "", 9), []string{"k=new"}, "a transaction does not see its own write")
		v, err := w.Get("c", []byte("x"))
		check.That(t, string(v) == "y" && err == nil, "nor in a new bucket: %q, %v", v, err)
		return nil
	}))
}

func testFailedUpdate(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "old")
	failure := errors.New("no")
	err := s.Update(func(w kv.Writer) error {
		return errors.Join(w.Put("b", []byte("k"), []byte("new")), w.Put("c", []byte("x"), []byte("y")), failure)
	})
	check.That(t, errors.Is(err, failure) && !errors.Is(err, kv.ErrUncertain), "Update returned %v", err)
	check.That(t, getOne(t, s, "b", "k") == "old" && getOne(t, s, "c", "x") == "", "a failed update left something")
	putPairs(t, s, "b", "k", "newer")
	check.Equal(t, getOne(t, s, "b", "k"), "newer", "after a failed update the store is not usable")
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

func testBuckets(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "in b")
	putPairs(t, s, "c", "k", "in c")
	check.That(t, getOne(t, s, "b", "k") == "in b" && getOne(t, s, "c", "k") == "in c", "buckets share keys")
	size, err := s.Size()
	check.That(t, err == nil && size >= int64(len("kin bkin c")), "Size: %d, %v", size, err)
}

func testClosed(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "k", "v")
	check.Must(t, s.Close())
	check.That(t, s.View(func(kv.Reader) error { return nil }) != nil, "View works on a closed store")
	check.That(t, s.Update(func(w kv.Writer) error { return w.Put("b", []byte("k"), []byte("w")) }) != nil, "Update works on a closed store")
}

func remove(bucket string, keys ...string) func(kv.Writer) error {
	return func(w kv.Writer) error {
		for _, key := range keys {
			if err := w.Delete(bucket, []byte(key)); err != nil {
				return err
			}
		}
		return nil
	}
}

func update(t *testing.T, s kv.Store, fn func(kv.Writer) error) {
	t.Helper()
	err := s.Update(fn)
	check.Need(t, err == nil, "Update: %v", err)
}

func testDelete(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "a", "1", "b", "2", "c", "3")
	putPairs(t, s, "c", "b", "other bucket")
	update(t, s, remove("b", "b"))
	update(t, s, remove("b", "b", "none", "a\x00"))
	update(t, s, remove("no bucket", "b"))
	viewed(t, s, func(r kv.Reader) {
		v, err := r.Get("b", []byte("b"))
		check.That(t, v == nil && err == nil, "Get of what was deleted: %q, %v", v, err)
		wantSame(t, keysOf(t, r, "b", "", 9), []string{"a=1", "c=3"}, "Scan after deleting")
		wantSame(t, keysOf(t, r, "b", "b", 9), []string{"c=3"}, "Scan from what was deleted")
		found := keysOf(t, r, "no bucket", "", 9)
		check.That(t, found == nil, "deleting made %q", found)
	})
	check.Equal(t, getOne(t, s, "c", "b"), "other bucket", "the key of another bucket")
	for _, bucket := range []string{"b", "no bucket"} {
		check.That(t, s.Update(remove(bucket, "")) != nil, "Delete from %s accepts an empty key", bucket)
	}
	update(t, s, remove("b", "a", "c"))
	viewed(t, s, func(r kv.Reader) {
		found := keysOf(t, r, "b", "", 9)
		check.That(t, found == nil, "in a bucket that became empty: %q", found)
	})
	putPairs(t, s, "b", "b", "again")
	check.Equal(t, getOne(t, s, "b", "b"), "again", "put again")
}

func testDeleteOwnWrites(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "a", "1", "b", "2", "c", "3")
	update(t, s, func(w kv.Writer) error {
		expect := func(when string, want ...string) {
			t.Helper()
			wantSame(t, keysOf(t, w, "b", "", 9), want, "%s", when)
		}
		expect("before", "a=1", "b=2", "c=3")
		err := w.Delete("b", []byte("b"))
		expect("deleted", "a=1", "c=3")
		v, missing := w.Get("b", []byte("b"))
		check.That(t, v == nil && missing == nil, "Get of what was deleted: %q, %v", v, missing)
		err = errors.Join(err, w.Put("b", []byte("b"), []byte("new")))
		expect("put again", "a=1", "b=new", "c=3")
		err = errors.Join(err, w.Put("b", []byte("d"), []byte("4")), w.Delete("b", []byte("d")), w.Delete("b", []byte("d")))
		expect("put and deleted", "a=1", "b=new", "c=3")
		return errors.Join(err, w.Put("new", []byte("x"), []byte("y")), w.Delete("new", []byte("x")), w.Delete("b", []byte("a")))
	})
	viewed(t, s, func(r kv.Reader) {
		wantSame(t, keysOf(t, r, "b", "", 9), []string{"b=new", "c=3"}, "after the commit")
		found := keysOf(t, r, "new", "", 9)
		check.That(t, found == nil, "in the new bucket: %q", found)
	})
}

func testDeleteUndone(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "a", "1", "b", "2", "c", "3")
	failure := errors.New("no")
	err := s.Update(func(w kv.Writer) error {
		return errors.Join(w.Delete("b", []byte("b")), w.Put("b", []byte("a"), []byte("new")), w.Delete("b", []byte("a")), failure)
	})
	check.WantErr(t, err, failure, "Update")
	viewed(t, s, func(r kv.Reader) {
		wantSame(t, keysOf(t, r, "b", "", 9), []string{"a=1", "b=2", "c=3"}, "a failed update left")
	})
}

// A range is larger than any unit of storage, so that some become empty within the transaction.
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

func testDeleteSnapshot(t *testing.T, s kv.Store) {
	putPairs(t, s, "b", "a", "1", "b", "2")
	viewed(t, s, func(r kv.Reader) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			check.WantErr(t, s.Update(remove("b", "a", "b")), nil, "Update")
		}()
		<-done
		wantSame(t, keysOf(t, r, "b", "", 9), []string{"a=1", "b=2"}, "a snapshot shows a later delete")
	})
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
