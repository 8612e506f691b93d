package ledger

import (
	"encoding/binary"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// noiseKey is where a noise key is kept.
func noiseKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(keyNoise), number)
}

// noiseKeys returns all noise keys that the ledger has seen.
func (s *state) noiseKeys() ([]noiseKeySet, error) {
	var all []noiseKeySet // not as many as are claimed, until they are found
	for number := uint32(1); number <= s.counters.noises; number++ {
		k, found, err := lookup(s, bucketMeta, noiseKey(number), decodeNoise)
		if err != nil || !found || k.number != number {
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
	return k.name, nil
}

func decodeNoise(payload []byte) (noiseKeySet, error) {
	d := &wire.Decoder{Rest: payload}
	k := *decodeNoiseKeySet(d).(*noiseKeySet)
	return k, d.Done()
}
