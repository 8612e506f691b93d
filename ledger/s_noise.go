package ledger

import (
	"encoding/binary"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// noiseKey is where a noise key is kept.
func noiseKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(keyNoise), number)
}

// noiseKeys returns all noise keys that the ledger has seen.
func (s *state) noiseKeys() ([]event.NoiseKeySet, error) {
	var all []event.NoiseKeySet // not as many as are claimed, until they are found
	for number := uint32(1); number <= s.counters.noises; number++ {
		k, found, err := lookup(s, bucketMeta, noiseKey(number), decodeNoise)
		if err != nil || !found || k.Number != number {
			return nil, errs.Corrupt(err, "noise key %d is missing", number)
		}
		all = append(all, k)
	}
	return all, nil
}

// noiseKeyName returns the name of a noise key; 0 is none.
func (s *state) noiseKeyName(number uint32) (string, error) {
	if number == 0 {
		return "", nil
	}
	k, found, err := lookup(s, bucketMeta, noiseKey(number), decodeNoise)
	if err != nil || !found {
		return "", errs.Corrupt(err, "noise key %d is missing", number)
	}
	return k.Name, nil
}

func decodeNoise(payload []byte) (event.NoiseKeySet, error) {
	d := &wire.Decoder{Rest: payload}
	k := *event.DecodeNoiseKeySet(d).(*event.NoiseKeySet)
	return k, d.Done()
}
