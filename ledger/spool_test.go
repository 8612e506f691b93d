package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
)

// ready10 are the records of ten batches, made already.
func ready10() []spooled {
	var records []spooled
	for i := range 10 * spoolSize {
		records = append(records, spooled{"b", fmt.Appendf(nil, "%05d", i), []byte{1}})
	}
	return records
}

// Records that come all at once are put between those in front of them and those behind, and stay their owner's.
func TestASpoolPutsManyAtOnce(t *testing.T) {
	memory := &kvtest.Memory{}
	must(t, memory.Update(func(w kv.Writer) error {
		s := &spool{into: w}
		ready := ready10()
		lent := slices.Clone(ready)
		must(t, s.Put("b", []byte("00007"), []byte{7}))
		must(t, s.putAll(lent))
		must(t, s.Put("b", []byte("00008"), []byte{8}))
		must(t, s.putAll(lent[:0]))
		must(t, spooled10(s)) // with memory that is used again
		must(t, s.Put("b", []byte("00009"), []byte{9}))
		must(t, s.settle())
		for i, r := range lent {
			if string(r.key) != string(ready[i].key) || r.bucket != "b" || len(r.value) != 1 {
				t.Fatalf("record %d has become %q in %q", i, r.key, r.bucket)
			}
		}
		for key, want := range map[string]byte{"00007": 1, "00008": 1, "00009": 9} {
			if value, err := s.Get("b", []byte(key)); err != nil || len(value) != 1 || value[0] != want {
				t.Errorf("%s is %x (%v), want %x", key, value, err, want)
			}
		}
		return errors.Join(s.settle(), s.wait())
	}))
}

func TestASpoolThatPutsManyAtOnceTellsOfFailures(t *testing.T) {
	disk := errors.New("disk full")
	for _, at := range []int{0, 5*spoolSize + 3} {
		memory := &kvtest.Memory{}
		err := memory.Update(func(w kv.Writer) error {
			s := spoolTo(w, at, func() error { return disk })
			must(t, s.putAll(ready10()))
			wantErr(t, s.settle(), disk)
			wantErr(t, s.putAll(ready10()), disk)
			return s.wait()
		})
		wantErr(t, err, disk)
	}
	memory := &kvtest.Memory{}
	_ = memory.Update(func(w kv.Writer) error {
		s := spoolTo(w, spoolSize+1, func() error { panic("torn page") })
		must(t, s.putAll(ready10()))
		defer func() {
			if p := recover(); p != "torn page" {
				t.Errorf("recovered %v", p)
			}
		}()
		return s.settle()
	})
}
