package memtable

import (
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A layer that the base has is reused after its last reader has ended, and not before.
func TestLayer_Written_IsReusedAfterItsReaders(t *testing.T) {
	s := check.Value(Over(new(kv.Memory), Options{Mark: Mark{Bucket: "m", Key: []byte("mark")}}))(t)
	n := 0
	write := func(value string) {
		n++
		check.Must(t, s.Update(func(w kv.Writer) error {
			for i := range 100 {
				check.Must(t, w.Put("b", fmt.Appendf(nil, "%03d", i*37%100), []byte(value)))
			}
			return w.Put("m", []byte("mark"), []byte(fmt.Sprint(n)))
		}))
	}
	checkpoint := func() {
		check.Must(t, s.Checkpoint())
	}
	first := s.current.Load().active
	write("first")
	check.Must(t, s.View(func(r kv.Reader) error {
		held, err := r.Get("b", []byte("042"))
		for i := range 5 {
			write(fmt.Sprint("later ", i))
			checkpoint()
			if c := s.current.Load(); c.active == first || s.spare == first {
				t.Errorf("after %d checkpoints a layer with a reader is reused", i+1)
			}
		}
		check.Equal(t, string(held), "first", "what was read has become")
		return err
	}))
	check.That(t, s.spare == first, "the layer without readers is not reused")
	pages := len(first.records)
	write("last")
	checkpoint()
	check.That(t, s.current.Load().active == first && len(first.records) == pages && first.size() == 0,
		"the layer has %d pages and %d bytes, want %d pages, all of them free", len(first.records), first.size(), pages)
	check.Must(t, s.View(func(r kv.Reader) error {
		n := 0
		err := r.Scan("b", nil, func(_, value []byte) bool {
			n++
			check.That(t, string(value) == "last", "record %d is %q", n, value)
			return true
		})
		check.Equal(t, n, 100, "records")
		return err
	}))
}

// A reset layer keeps the memory that its last content used, and frees memory that only earlier
// content used.
func TestLayer_Reset_KeepsOnlyMemoryInUse(t *testing.T) {
	l := &layer{}
	fill := func(records int) {
		for i := range records {
			key := fmt.Appendf(nil, "%06d", i*7919%records)
			l.put("b", key, make([]byte, 100), uint64(i), 1)
		}
		l.reset()
	}
	fill(100_000)
	much := len(l.pieces.all)
	fill(100_000)
	check.That(t, len(l.pieces.all) == much && len(l.records) != 0,
		"the same number of records needs %d pieces, before %d", len(l.pieces.all), much)
	fill(10)
	fill(10)
	slots := len(l.buckets[0].index.slots)
	check.That(t, len(l.pieces.all) <= 1 && len(l.records) <= 1 && slots <= 16,
		"for ten records there are %d pieces, %d pages, and an index of %d", len(l.pieces.all), len(l.records), slots)
}
