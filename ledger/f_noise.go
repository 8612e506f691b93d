package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

func applyNoiseKey(s *state, c *event.NoiseKeySet) error {
	known, err := s.noiseKeys()
	if err != nil {
		return err
	}
	if c.Number != s.counters.noises+1 || names.Check("noise key", c.Name) != nil {
		return errs.Corrupt(nil, "noise key %d, %q, follows on %d", c.Number, c.Name, s.counters.noises)
	}
	for _, k := range known {
		if k.Name == c.Name {
			return errs.Corrupt(nil, "noise key %q is set twice", c.Name)
		}
	}
	s.counters.noises = c.Number
	e := &wire.Encoder{}
	c.Encode(e)
	return s.put(bucketMeta, noiseKey(c.Number), e.Buf)
}
