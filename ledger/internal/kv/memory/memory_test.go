package memory_test

import (
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/memory"
)

// A copy has what was there, and goes its own way from there on; so does what was copied.
func TestACopyGoesItsOwnWay(t *testing.T) {
	put := func(s *memory.Store, value string) {
		t.Helper()
		if err := s.Update(func(w kv.Writer) error { return w.Put("b", []byte("k"), []byte(value)) }); err != nil {
			t.Fatal(err)
		}
	}
	want := func(s *memory.Store, value string) {
		t.Helper()
		err := s.View(func(r kv.Reader) error {
			got, err := r.Get("b", []byte("k"))
			if string(got) != value {
				t.Errorf("there is %q, want %q", got, value)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	first := &memory.Store{}
	put(first, "1")
	second := first.Copy()
	want(second, "1")
	put(second, "2")
	want(first, "1")
	put(first, "3")
	want(second, "2")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	want(second, "2")
	want(first.Copy(), "3")
}
