package scratch

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Where an expected pair stands is noted. It may move since, be deleted, or leave the memory, and another may come to
// stand in its place.
func TestExpectedPairsMayMove(t *testing.T) {
	for _, limit := range []int{2 << 10, 1 << 20} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			s, m := open(t, t.TempDir(), limit), model{"a": {}, "b": {}}
			rnd := rand.New(rand.NewPCG(1, uint64(limit)))
			bucket := func() string { return []string{"a", "b"}[rnd.IntN(2)] }
			noted := 0
			for range 3000 {
				buckets, keys := make([]string, 8), make([]string, 8)
				for i := range keys {
					buckets[i], keys[i] = bucket(), fmt.Sprintf("key %02d", rnd.IntN(60))
					s.Expect(buckets[i], []byte(keys[i]))
				}
				if rnd.IntN(4) > 0 {
					s.Prefetch()
				}
				for i := 0; i < len(keys); i += 1 - rnd.IntN(2) {
					bucket, key := buckets[i], keys[i]
					switch rnd.IntN(6) {
					case 0:
						check(t, s.Delete(bucket, []byte(key)))
						delete(m[bucket], key)
					case 1, 2:
						value := fmt.Sprintf("%*d", 1+rnd.IntN(60), rnd.IntN(10))
						check(t, s.Put(bucket, []byte(key), []byte(value)))
						m[bucket][key] = value
					case 3:
						if rnd.IntN(10) == 0 { // something else, which no key is like
							other := fmt.Sprintf("other %d", rnd.IntN(60))
							check(t, s.Put(bucket, []byte(other), make([]byte, 100)))
							m[bucket][other] = string(make([]byte, 100))
						}
					default:
						got, err := s.Get(bucket, []byte(key))
						check(t, err)
						if want, there := m[bucket][key]; string(got) != want || (got != nil) != there {
							t.Fatalf("%s of %s is %q, want %q", key, bucket, got, want)
						}
					}
					if s.foreseen != nil && s.foreseen.known == certain {
						noted++
					}
				}
			}
			checkAll(t, s, m)
			if noted < 1000 {
				t.Errorf("%d pairs were noted: the test shows little", noted)
			}
			if spilled := len(s.runs) > 0; spilled != (limit < 1<<20) {
				t.Errorf("%d runs", len(s.runs))
			}
		})
	}
}

// Of pairs whose hashes begin alike, the one is not taken for the other.
func TestALikelyPairMayBeAnother(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20)
	for i := range 100 {
		check(t, s.Put("b", fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "value %d", i)))
	}
	for i := range 100 {
		key, other := fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "key %d", (i+1)%100)
		s.Expect("b", key)
		s.Prefetch()
		e := &s.expected.all[0]
		s.expected.complete = true
		s.locate("b", other)
		if p, found := s.table.placeOf(s.key, s.hash); found {
			e.place, e.known = p, likely
		}
		got, err := s.Get("b", key)
		check(t, err)
		if want := fmt.Sprintf("value %d", i); string(got) != want {
			t.Fatalf("%s is %q", key, got)
		}
	}
}

// A pair that is found by the first bits of a hash alone is not taken for one that is not there.
func TestALikelyPairMayNotBeThere(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20)
	check(t, s.Put("b", []byte("key"), []byte("value")))
	s.locate("b", []byte("key"))
	p, _ := s.table.placeOf(s.key, s.hash)
	s.locate("b", []byte("ghost"))
	at, _ := s.table.find(s.key, s.hash)
	s.table.slots[at] = slotOf(p, s.hash) // as if the hash of the one began like that of the other
	s.Expect("b", []byte("ghost"))
	s.Prefetch()
	if e := s.expected.all[0]; e.known == unknown || e.place != p {
		t.Fatalf("%+v: the test shows nothing", e)
	}
	if got, err := s.Get("b", []byte("ghost")); err != nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
}
