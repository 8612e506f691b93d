package state

import (
	"bytes"
	"errors"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Gathered is how many objects are worth gathering: fewer are looked up one by one.
const Gathered = 32

// Gather brings what there is of the objects with these names, which come in order, to the desk: their budgets and, unless
// question is 0, their chains. That is a walk through the buckets, which is much faster than looking each record up.
// Without a desk it does nothing.
func (s *State) Gather(names []string, question uint32) error {
	if s.Desk == nil || len(names) < Gathered {
		return nil
	}
	var wanted []byte
	var head wire.Sums
	objectAt := func(i int) []byte {
		wanted = AppendObjectKey(wanted[:0], names[i])
		return wanted
	}
	s.Desk.Objects.Room(len(names))
	err := s.walk(BucketObjects, len(names), objectAt, func(i int, value []byte) error {
		o, found, err := decodeSealed(&head, BucketObjects, wanted, value, DecodeObject)
		if err == nil {
			s.Desk.Objects.Note(RecordID{Name: names[i]}, &o, found)
		}
		return err
	})
	if err != nil || question == 0 {
		return err
	}
	s.Desk.Chains.Room(len(names))
	chainAt := func(i int) []byte {
		wanted = AppendChainKey(wanted[:0], question, names[i])
		return wanted
	}
	return s.walk(BucketChains, len(names), chainAt, func(i int, value []byte) error {
		c, found, err := decodeSealed(&head, BucketChains, wanted, value, s.Desk.levels.decodeChain)
		if err == nil {
			s.Desk.Chains.Note(RecordID{question, names[i]}, &c, found)
		}
		return err
	})
}

// walk passes n records to visit, nil for one that is not there. Their keys come in order; each stays valid until the next
// one is asked for.
func (s *State) walk(bucket string, n int, key func(i int) []byte, visit func(i int, value []byte) error) error {
	const far = 8 // after so many other records it is faster to seek
	for i := 0; i < n; {
		var fault error
		passed := 0
		wanted := key(i)
		settle := func(value []byte) bool {
			if fault = visit(i, value); fault != nil {
				return false
			}
			if i++; i < n {
				wanted = key(i)
			}
			return i < n
		}
		err := s.Scan(bucket, wanted, func(at, value []byte) bool {
			order := bytes.Compare(at, wanted)
			for ; order > 0; order = bytes.Compare(at, wanted) {
				if !settle(nil) {
					return false
				}
			}
			if order == 0 {
				passed = 0
				return settle(value)
			}
			passed++
			return passed < far
		})
		for err == nil && fault == nil && i < n && passed < far { // the bucket has ended
			settle(nil)
		}
		if err != nil || fault != nil {
			return errors.Join(err, fault)
		}
	}
	return nil
}
