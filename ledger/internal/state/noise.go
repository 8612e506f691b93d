package state

import (
	"encoding/binary"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// NoiseKey returns the key of the record of a noise key.
func NoiseKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(KeyNoise), number)
}

// NoiseKeys returns all noise keys that the ledger has recorded, in the order of their numbers.
func (s *State) NoiseKeys() ([]event.NoiseKeySet, error) {
	var all []event.NoiseKeySet // grows as keys are found, because the counter may be wrong
	for number := uint32(1); number <= s.Counters.Noises; number++ {
		k, found, err := Lookup(s, BucketMeta, NoiseKey(number), wire.Decode[event.NoiseKeySet])
		if err != nil || !found || k.Number != number {
			return nil, errs.Corrupt(err, "noise key %d is missing", number)
		}
		all = append(all, k)
	}
	return all, nil
}

// NoiseNames returns the set of the names of all noise keys that the ledger has recorded. The names
// are kept for the next call. A caller that records a key must add its name to the map.
func (s *State) NoiseNames() (map[string]bool, error) {
	// They are read again if their number differs, such as after the counters were restored.
	if uint64(len(s.noiseNames)) == uint64(s.Counters.Noises) && s.noiseNames != nil {
		return s.noiseNames, nil
	}
	all, err := s.NoiseKeys()
	s.noiseNames = make(map[string]bool, len(all))
	for _, k := range all {
		s.noiseNames[k.Name] = true
	}
	return s.noiseNames, err
}

// NoiseKeyName returns the name of a noise key; "" for 0.
func (s *State) NoiseKeyName(number uint32) (string, error) {
	if number == 0 {
		return "", nil
	}
	k, found, err := Lookup(s, BucketMeta, NoiseKey(number), wire.Decode[event.NoiseKeySet])
	if err != nil || !found {
		return "", errs.Corrupt(err, "noise key %d is missing", number)
	}
	return k.Name, nil
}
