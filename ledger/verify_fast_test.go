package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain"
)

func TestRecordSums(t *testing.T) {
	for _, bucket := range []string{state.BucketChains, state.BucketMeta, state.BucketObjects} {
		sums := recordSums{bucket: bucket}
		for round := range 2 {
			for length := range 200 {
				key, payload := bytes.Repeat([]byte{'k'}, length), []byte("payload")
				stored := wire.Seal(bucket, key, bytes.Clone(payload))
				if !sums.isRecord(key, stored, payload) {
					t.Fatalf("%s, round %d: a key of %d bytes, and its checksum is wrong", bucket, round, length)
				}
				for at := range stored {
					stored[at] ^= 1
					if sums.isRecord(key, stored, payload) {
						t.Fatalf("%s: byte %d of a record is changed", bucket, at)
					}
					stored[at] ^= 1
				}
				if length > 0 && sums.isRecord(key[1:], stored, payload) || sums.isRecord(key, stored[:3], nil) {
					t.Fatalf("%s: the record of another key, or of nothing", bucket)
				}
			}
		}
	}
	sums := recordSums{bucket: state.BucketMeta}
	if format := binary.BigEndian.AppendUint16([]byte(formatName), formatVersion); !sums.isRecord([]byte(state.KeyFormat), format, format) || sums.isRecord([]byte(state.KeyFormat), wire.Seal(state.BucketMeta, []byte(state.KeyFormat), format), format) {
		t.Error("the format has a checksum")
	}
}

// An audit finds the same tallies whether it finds them near or not: those with the same place there, and those that were
// written in between.
func TestTalliesAreFoundNear(t *testing.T) {
	near := &state.State{Reader: nobody{}, Writer: nobody{}, Plain: true, Near: make([]state.NearTally, 1<<state.NearBits), Counters: state.Counters{Position: state.Position{Events: 1 << 40}}}
	far := &state.State{Reader: nobody{}, Writer: nobody{}, Plain: true, Counters: near.Counters}
	q := &event.Question{Number: 1, Values: make([]string, rrchain.MaxValues)}
	for i := range 3000 {
		if i == 1500 {
			near.ForgetTallies()
			far.ForgetTallies()
		}
		l := state.NewLevel(nano(t, int64(1+i%7*500_000_000)), event.Value{Index: i * i % 97}, 1)
		must(t, near.Recount(q, l, state.Recount{Recorded: 1}))
		must(t, far.Recount(q, l, state.Recount{Recorded: 1}))
	}
	if len(near.Tallies) != len(far.Tallies) || len(far.Tallies) <= 1<<state.NearBits {
		t.Fatalf("%d tallies, want %d", len(near.Tallies), len(far.Tallies))
	}
	for key, want := range far.Tallies {
		if got := near.Tallies[key]; got == nil || got.Tallied != want.Tallied {
			t.Errorf("the tally %+v is %+v, want %+v", key, got, want)
		}
	}
}

// nobody is an empty store.
type nobody struct{}

func (nobody) Get(string, []byte) ([]byte, error)                      { return nil, nil }
func (nobody) Scan(string, []byte, func(key, value []byte) bool) error { return nil }
func (nobody) Put(bucket string, key, value []byte) error              { return fmt.Errorf("put into %s", bucket) }
func (nobody) Delete(bucket string, key []byte) error                  { return fmt.Errorf("delete in %s", bucket) }
