package state

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Objects are read in parts of any size, each with all its questions, none twice and none left out.
func TestObjectsAfter_PartsOfAnySize_AreAllObjects(t *testing.T) {
	store := new(kv.Memory)
	var want []Listed
	must(t, store.Update(func(w kv.Writer) error {
		s := &State{Reader: w, Writer: w}
		for n := range 9 {
			one := Listed{Name: fmt.Sprintf("person%.*s", n, "-.--.-.-."), Object: Object{Chains: uint64(n + 1)}}
			must(t, s.PutObject(one.Name, one.Object))
			for q := uint32(1); q <= uint32(n%4); q++ {
				one.Questions = append(one.Questions, q<<7)
				must(t, s.WriteMember(one.Name, q<<7))
			}
			want = append(want, one)
		}
		return nil
	}))
	for records := range 30 {
		var got []Listed
		for after, last := "", false; !last; {
			var some []Listed
			must(t, store.View(func(r kv.Reader) (err error) {
				some, last, err = (&State{Reader: r}).ObjectsAfter(after, records)
				return err
			}))
			if len(some) == 0 {
				t.Fatalf("at most %d records: nothing comes after %q", records, after)
			}
			got, after = append(got, some...), some[len(some)-1].Name
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("at most %d records: %+v, want %+v", records, got, want)
		}
	}
}

// A membership without its object, or without a valid question, is damage.
func TestObjectsAfter_RecordThatBelongsToNoObject_IsCorrupt(t *testing.T) {
	for _, key := range []string{"a\x00\x00\x00\x00\x01", "p\x00\x01", "p2\x00\x00\x00\x00\x01", "z\x00\x00\x00\x00\x01"} {
		store := new(kv.Memory)
		must(t, store.Update(func(w kv.Writer) error {
			s := &State{Reader: w, Writer: w}
			must(t, s.PutObject("p", Object{Chains: 1}))
			return w.Put(BucketObjects, []byte(key), []byte("x"))
		}))
		must(t, store.View(func(r kv.Reader) error {
			_, _, err := (&State{Reader: r}).ObjectsAfter("", 10)
			wantErr(t, err, errs.ErrCorrupt)
			return nil
		}))
	}
}
