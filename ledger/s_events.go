package ledger

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

func (s *state) putNumber(bucket string, key []byte, number uint32) error {
	e := &wire.Encoder{}
	e.U32(number)
	return s.put(bucket, key, e.Buf)
}

// ReadHashes implements [tlog.HashReader] over the records of the events, which hold the hashes they
// complete: so a hash costs no record of its own.
func (s *state) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		leaf, at := merkle.Locate(index)
		if at < 0 {
			return nil, errs.Corrupt(nil, "no tree has a hash %d", index)
		}
		payload, err := s.get(bucketEvents, eventKey(leaf+1))
		if err != nil || payload == nil {
			return nil, errs.Corrupt(err, "event %d is missing", leaf+1)
		}
		start := len(payload) - tlog.HashSize*(merkle.Completes(leaf)-at)
		if start < 0 {
			return nil, errs.Corrupt(nil, "event %d is cut off", leaf+1)
		}
		copy(hashes[i][:], payload[start:])
	}
	return hashes, nil
}

// entry returns the record of an event.
func (s *state) entry(number uint64) (event.Logged, error) {
	payload, err := s.get(bucketEvents, eventKey(number))
	if err != nil {
		return event.Logged{}, err
	}
	if payload == nil {
		return event.Logged{}, fmt.Errorf("%w: event %d is missing", ErrCorrupt, number)
	}
	return event.DecodeEntry(number, payload)
}

func (s *state) event(number uint64) (event.Event, error) {
	n, err := s.entry(number)
	return n.Event, err
}

func (s *state) putEntry(n event.Logged) error {
	return s.put(bucketEvents, eventKey(n.Number), n.Encode())
}

func definitionKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("e"), number) }

// putDefinition records that the event being applied defines a question, policy or buyer.
func (s *state) putDefinition(bucket string, number uint32) error {
	e := &wire.Encoder{}
	e.U64(s.counters.events)
	return s.put(bucket, definitionKey(number), e.Buf)
}

// definition returns the event that defined a question, policy or buyer.
func (s *state) definition(bucket string, number uint32) (event uint64, err error) {
	event, found, err := lookup(s, bucket, definitionKey(number), number64)
	if err == nil && !found {
		err = errs.Corrupt(nil, "the event that defined number %d of %s is missing", number, bucket)
	}
	return event, err
}

// refusedBefore returns the refusals, erased ones too, whose events stand before the one that settles
// their request.
func (s *state) refusedBefore(number, count uint64) (all []*event.ObjectRefused, err error) {
	if err := checkRefused(number, count); err != nil {
		return nil, err
	}
	for at := number - count; at < number; at++ {
		ev, err := s.event(at)
		if err != nil {
			return nil, err
		}
		c, ok := ev.Change.(*event.ObjectRefused)
		if !ok {
			return nil, errs.Corrupt(nil, "event %d refuses nobody", at)
		}
		all = append(all, c)
	}
	return all, nil
}

// checkRefused tells whether so many refusals can stand before an event.
func checkRefused(number, count uint64) error {
	if count >= number {
		return errs.Corrupt(nil, "event %d settles %d refusals", number, count)
	}
	return nil
}

// settlement returns the event that settled (a part of) a request.
func (s *state) settlement(number uint64) (*event.Settled, error) {
	ev, err := s.event(number)
	if err != nil {
		return nil, err
	}
	part, ok := ev.Change.(*event.Settled)
	if !ok {
		return nil, fmt.Errorf("%w: event %d does not settle a request", ErrCorrupt, number)
	}
	return part, nil
}
