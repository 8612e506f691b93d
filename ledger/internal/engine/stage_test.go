package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// What a part is made with before its transaction keeps nothing from whoever reads there again.
func TestAStageShowsWhatWasPut(t *testing.T) {
	memory := &kvtest.Memory{}
	must(t, memory.Update(func(w kv.Writer) error {
		return errors.Join(w.Put(state.BucketTallies, []byte("a"), []byte{1}), w.Put(state.BucketObjects, []byte("a"), []byte{1}), w.Put(state.BucketSales, []byte("a"), []byte{1}))
	}))
	must(t, memory.View(func(r kv.Reader) error {
		g := &Stage{}
		g.Begin(r, Leaving{records: map[recordKey][]byte{{state.BucketTallies, "b"}: {2}, {state.BucketTallies, "a"}: nil}}, 2)
		must(t, g.Put(state.BucketStrangers, []byte("c"), []byte{3}))
		for _, one := range []struct {
			bucket, key string
			want        []byte
		}{{state.BucketTallies, "a", nil}, {state.BucketTallies, "b", []byte{2}}, {state.BucketStrangers, "c", []byte{3}}, {state.BucketStrangers, "d", nil}, {state.BucketObjects, "a", []byte{1}}} {
			if got, err := g.Get(one.bucket, []byte(one.key)); err != nil || !slices.Equal(got, one.want) {
				t.Errorf("%s %s is %v (%v), want %v", one.bucket, one.key, got, err, one.want)
			}
		}
		scan := func(bucket string) error {
			return g.Scan(bucket, nil, func(_, _ []byte) bool { return true })
		}
		must(t, scan(state.BucketSales))
		must(t, g.Put(state.BucketObjects, []byte("b"), []byte{3}))
		_, err := g.Get(state.BucketObjects, []byte("a"))
		for _, err := range []error{err, scan(state.BucketObjects), scan(state.BucketTallies), g.Delete(state.BucketSales, []byte("a"))} {
			wantErr(t, err, ErrNotAhead)
		}
		return nil
	}))
}
