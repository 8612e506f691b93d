package state

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// ReadHashes implements [tlog.HashReader]. It reads the hashes of the tree from the records of the
// events. Each event has the hashes that it completes, so that hashes need no records of their own.
func (s *State) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		leaf, at := merkle.Locate(index)
		if at < 0 {
			return nil, errs.Corrupt(nil, "no Merkle tree has a hash with index %d", index)
		}
		payload, err := s.Payload(BucketEvents, EventKey(leaf+1))
		if err != nil || payload == nil {
			return nil, errs.Corrupt(err, "event %d is missing", leaf+1)
		}
		// The payload ends with the hashes that the leaf completes. The wanted one is at position
		// at.
		start := len(payload) - tlog.HashSize*(merkle.Completes(leaf)-at)
		if start < 0 {
			return nil, errs.Corrupt(nil, "event %d is shorter than its hashes", leaf+1)
		}
		copy(hashes[i][:], payload[start:])
	}
	return hashes, nil
}

// Entry returns the record of an event. It returns [errs.ErrCorrupt] if there is none.
func (s *State) Entry(number uint64) (event.Entry, error) {
	payload, err := s.Payload(BucketEvents, EventKey(number))
	if err != nil {
		return event.Entry{}, err
	}
	if payload == nil {
		return event.Entry{}, fmt.Errorf("%w: event %d is missing", errs.ErrCorrupt, number)
	}
	return event.DecodeEntry(number, payload)
}

// Event returns an event of the log. It returns [errs.ErrCorrupt] if there is none.
func (s *State) Event(number uint64) (event.Event, error) {
	n, err := s.Entry(number)
	return n.Event, err
}

// PutEntry writes the record of an event. It replaces the record that is stored under the same
// number.
func (s *State) PutEntry(n event.Entry) error {
	return s.Put(BucketEvents, EventKey(n.Number), n.Encode())
}

// RefusedBefore returns the refusals that directly precede the event that settles their request.
// number is that event, and count the number of refusals. Those of forgotten objects are included,
// with an empty Object. An event of another kind among them is [errs.ErrCorrupt].
func (s *State) RefusedBefore(number, count uint64) (all []*event.ObjectRefused, err error) {
	if err := CheckRefused(number, count); err != nil {
		return nil, err
	}
	for at := number - count; at < number; at++ {
		ev, err := s.Event(at)
		if err != nil {
			return nil, err
		}
		c, ok := ev.Change.(*event.ObjectRefused)
		if !ok {
			return nil, errs.Corrupt(nil, "event %d is not a refusal", at)
		}
		all = append(all, c)
	}
	return all, nil
}

// CheckRefused returns [errs.ErrCorrupt] if count refusals cannot precede the event with a number,
// because there are too few events before it.
func CheckRefused(number, count uint64) error {
	if count >= number {
		return errs.Corrupt(nil, "event %d settles %d refusals, more than events precede it", number, count)
	}
	return nil
}

// SettledAfter returns the number of the first settled event after the event with a number, or 0 if
// there is none.
func (s *State) SettledAfter(number uint64) (found uint64, err error) {
	err = s.Scan(BucketEvents, EventKey(number+1), func(key, record []byte) bool {
		// A damaged key of another length is skipped.
		if event.KindOf(record) == event.KindSettled && len(key) == len(EventKey(0)) {
			found = binary.BigEndian.Uint64(key)
		}
		return found == 0
	})
	return found, err
}

// Settlement returns the settled event with a number. It returns [errs.ErrCorrupt] for an event of
// another kind.
func (s *State) Settlement(number uint64) (*event.Settled, error) {
	ev, err := s.Event(number)
	if err != nil {
		return nil, err
	}
	part, ok := ev.Change.(*event.Settled)
	if !ok {
		return nil, fmt.Errorf("%w: event %d does not settle a request", errs.ErrCorrupt, number)
	}
	return part, nil
}
