package fold

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// logOf returns the records of a small ledger, and the log among them. Some of its events are
// erased.
func logOf(t *testing.T) (records []fixture.Record, log []event.Event) {
	t.Helper()
	records = fixture.Records(t, "../../testdata/golden/format-v7.txt")
	for _, r := range records {
		if r.Bucket != state.BucketEvents {
			continue
		}
		n, err := event.DecodeEntry(binary.BigEndian.Uint64(r.Key), r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, n.Event)
	}
	return records, log
}

// folded folds a log into an empty store.
func folded(log []event.Event) (*kv.Memory, error) {
	store := &kv.Memory{}
	return store, store.Update(func(w kv.Writer) error {
		s, err := state.Begin(w, time.Time{})
		if err != nil {
			return err
		}
		for _, ev := range log {
			if err := Append(s, ev); err != nil {
				return err
			}
		}
		if err := s.Counters.CheckWhole(); err != nil {
			return err
		}
		return Flush(s)
	})
}

// The fold of the log equals the ledger byte for byte, including a ledger with forgotten objects.
func TestApply_WholeLog_YieldsTheLedger(t *testing.T) {
	records, log := logOf(t)
	store, err := folded(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.View(func(r kv.Reader) error {
		for _, want := range records {
			if want.Bucket == state.BucketMeta && string(want.Key) == state.KeyFormat {
				continue // is not of the log
			}
			if got, err := r.Get(want.Bucket, want.Key); err != nil || !bytes.Equal(got, want.Value) {
				t.Errorf("%s %x is %x (%v), want %x", want.Bucket, want.Key, got, err, want.Value)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The context of a request ends while its events are recorded: they are recorded whole, since an
// event that is applied in half would be committed with those of other requests.
func TestRecord_CallerHasLeft_IsNotInterrupted(t *testing.T) {
	_, log := logOf(t)
	store, err := folded(log)
	check.Must(t, err)
	check.Must(t, store.Update(func(w kv.Writer) error {
		s := check.Value(state.Begin(w, log[len(log)-1].Time))(t)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		s.Reading = new(state.Reading)
		s.Reading.Begin(ctx)
		for err == nil {
			_, err = s.Get(state.BucketMeta, []byte(state.KeyFormat))
		}
		check.That(t, errors.Is(err, context.Canceled), "reading: %v", err)
		before := s.Counters.Events
		_, last, err := Record(s, []event.Change{&event.BuyerNamed{Number: s.Counters.Buyers + 1, Name: "new"}})
		check.That(t, err == nil && last == before+1, "recorded up to event %d after %d: %v", last, before, err)
		_, err = s.Get(state.BucketMeta, []byte(state.KeyFormat))
		check.That(t, errors.Is(err, context.Canceled), "reading afterwards: %v", err)
		return Flush(s)
	}))
}

// unordered reports whether an event may be before or after its neighbour. The object of an erased
// event is unknown, and a chain is bound anywhere before its response.
func unordered(ev event.Event) bool { return ev.Erased != nil || ev.Change.Kind() == event.KindBound }

// A log with a missing, repeated or swapped event is refused.
func TestApply_EventMissingTwiceOrSwapped_IsCorrupt(t *testing.T) {
	_, log := logOf(t)
	for name, change := range map[string]func(log []event.Event, i int) []event.Event{
		"missing": func(log []event.Event, i int) []event.Event { return slices.Delete(log, i, i+1) },
		"twice":   func(log []event.Event, i int) []event.Event { return slices.Insert(log, i, log[i]) },
		"swapped": func(log []event.Event, i int) []event.Event {
			log[i], log[i+1] = log[i+1], log[i]
			return log
		},
	} {
		for i := range log[:len(log)-1] {
			if name == "swapped" && (unordered(log[i]) || unordered(log[i+1])) {
				continue
			}
			other := change(slices.Clone(log), i)
			for j := range other {
				other[j].Number = uint64(j + 1)
			}
			if _, err := folded(other); !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("event %d, %s, %s: %v", i+1, log[i].Change.Kind(), name, err)
			}
		}
	}
}
