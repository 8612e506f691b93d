package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
)

// spoolTo returns a spool into memory, and what it puts there, which fails from a number of records on.
func spoolTo(w kv.Writer, failing int, failure func() error) *Spool {
	return &Spool{Into: &failingWriter{Writer: w, left: failing, failure: failure}}
}

type failingWriter struct {
	kv.Writer
	left    int
	failure func() error
}

func (w *failingWriter) Put(bucket string, key, value []byte) error {
	if w.left--; w.left < 0 {
		return w.failure()
	}
	return w.Writer.Put(bucket, key, value)
}

// spooled10 puts ten batches of records.
func spooled10(s *Spool) error {
	for i := range 10 * spoolSize {
		if err := s.Put("b", fmt.Appendf(nil, "%05d", i), []byte{1}); err != nil {
			return err
		}
	}
	return nil
}

func TestASpoolHidesNothing(t *testing.T) {
	memory := &kvtest.Memory{}
	must(t, memory.Update(func(w kv.Writer) error {
		s := spoolTo(w, 1<<30, nil)
		must(t, spooled10(s))
		must(t, s.Put("b", []byte("last"), []byte{2}))
		if value, err := s.Get("b", []byte("last")); err != nil || len(value) != 1 {
			t.Errorf("read %x (%v)", value, err)
		}
		must(t, spooled10(s))
		must(t, s.Delete("b", []byte("00007")))
		seen := 0
		must(t, s.Scan("b", nil, func(key, _ []byte) bool { seen++; return true }))
		if want := 10*spoolSize + 1 - 1; seen != want {
			t.Errorf("%d records, want %d", seen, want)
		}
		return errors.Join(s.settle(), s.wait())
	}))
}

// What many small requests make is put without anything in the background, but not what a long one makes beside them.
func TestASpoolPutsWhatIsSmallItself(t *testing.T) {
	const small = 3 * spoolSize
	memory := &kvtest.Memory{}
	must(t, memory.Update(func(w kv.Writer) error {
		s := spoolTo(w, 1<<30, nil)
		s.direct = small
		for round := range 2 { // after it has put everything, it begins anew
			for i := range 2 * small {
				must(t, s.Put("b", fmt.Appendf(nil, "%d %05d", round, i), []byte{1}))
				if begun := s.work != nil; begun != (i+1 >= small) {
					t.Fatalf("after %d records something runs in the background: %v", i+1, begun)
				}
			}
			must(t, s.settle())
		}
		seen := 0
		must(t, s.Scan("b", nil, func(_, _ []byte) bool { seen++; return true }))
		if seen != 2*2*small {
			t.Errorf("%d records, want %d", seen, 2*2*small)
		}
		return s.wait()
	}))
	disk := errors.New("disk full")
	wantErr(t, memory.Update(func(w kv.Writer) error {
		s := spoolTo(w, 1, func() error { return disk })
		s.direct = 20 * spoolSize
		must(t, spooled10(s))
		wantErr(t, s.settle(), disk)
		return s.wait()
	}), disk)
}

func TestASpoolTellsOfFailures(t *testing.T) {
	disk := errors.New("disk full")
	for name, read := range map[string]func(*Spool) error{
		"get":    func(s *Spool) error { _, err := s.Get("b", []byte("1")); return err },
		"scan":   func(s *Spool) error { return s.Scan("b", nil, func(_, _ []byte) bool { return true }) },
		"delete": func(s *Spool) error { return s.Delete("b", []byte("1")) },
		"settle": (*Spool).settle,
		"wait":   (*Spool).wait,
	} {
		for _, at := range []int{0, 5*spoolSize + 3} {
			memory := &kvtest.Memory{}
			err := memory.Update(func(w kv.Writer) error {
				s := spoolTo(w, at, func() error { return disk })
				must(t, spooled10(s))
				wantErr(t, read(s), disk)
				return s.wait()
			})
			if !errors.Is(err, disk) {
				t.Errorf("%s: afterwards the error is %v", name, err)
			}
		}
	}
}

func TestASpoolHandsAPanicOn(t *testing.T) {
	memory := &kvtest.Memory{}
	_ = memory.Update(func(w kv.Writer) error {
		s := spoolTo(w, spoolSize+1, func() error { panic("torn page") })
		must(t, spooled10(s))
		defer func() {
			if p := recover(); p != "torn page" {
				t.Errorf("recovered %v", p)
			}
		}()
		return s.settle()
	})
}

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
		s := &Spool{Into: w}
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
